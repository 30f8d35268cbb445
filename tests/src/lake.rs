//! A scratch folder with input, jobs and a lake.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::run::{Exit, Run, Running};
use crate::servers::{Postgres, SeaweedFs};
use crate::state::State;
use crate::{CatalogFile, judge, place};

/// The least a job says: points from a CSV file into an unpartitioned table.
pub const POINTS: &str = r#"
[source]
name = "feed"
format = "csv"
paths = ["points.csv"]

[geometry]
lat = "lat"
lon = "lon"

[h3]
resolution = 9

[batch]
granularity = "files"

[table]
name = "ns.points"
mode = "batch"
"#;

/// Where a lake keeps its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A SQLite catalog and a warehouse in the lake's own folder.
    Sqlite,
    /// PostgreSQL, and a bucket on S3.
    PostgresS3,
    /// An Iceberg REST catalog, and S3.
    RestS3,
}

/// A folder in which `hexfloe` runs, and which is gone with this value.
#[derive(Debug)]
pub struct Lake {
    folder: TempDir,
    /// The catalog that is not below the folder: the judges go there directly, `hexfloe` as `catalog.toml` says.
    catalog: Option<CatalogFile>,
}

impl Default for Lake {
    fn default() -> Self {
        Self::new()
    }
}

impl Lake {
    /// An empty folder: the first ingest makes the lake.
    pub fn new() -> Self {
        let scratch = place::target().join("tmp");
        let made = fs::create_dir_all(&scratch).and_then(|()| {
            // Engines answer with canonical paths, so ask with one.
            tempfile::Builder::new().prefix("lake-").tempdir_in(fs::canonicalize(&scratch)?)
        });
        let folder = made.unwrap_or_else(|error| panic!("cannot make a folder in {}: {error}", scratch.display()));
        Self { folder, catalog: None }
    }

    /// An empty lake on this backend, whose servers are shared by the tests of this process.
    #[track_caller]
    pub fn on(backend: Backend) -> Self {
        match backend {
            Backend::Sqlite => Self::new(),
            Backend::PostgresS3 => Self::on_postgres(Postgres::shared(), SeaweedFs::shared()),
            Backend::RestS3 => Self::on_rest(SeaweedFs::shared()),
        }
    }

    /// An empty lake in a new table bucket of a REST catalog.
    #[track_caller]
    pub fn on_rest(server: &SeaweedFs) -> Self {
        Self::in_catalog(server.rest(&server.table_bucket()))
    }

    /// An empty lake in a new database of PostgreSQL and a new bucket.
    #[track_caller]
    pub fn on_postgres(postgres: &Postgres, store: &SeaweedFs) -> Self {
        Self::in_catalog(postgres.catalog(&format!("s3://{}/warehouse", store.bucket()), store.s3()))
    }

    /// A lake in this catalog, written to `catalog.toml`; each command is given it as `--catalog`.
    pub fn in_catalog(catalog: CatalogFile) -> Self {
        let lake = Self { catalog: Some(catalog), ..Self::new() };
        lake.write_catalog(lake.catalog());
        lake
    }

    /// What `catalog.toml` says, as the judges use it.
    ///
    /// # Panics
    ///
    /// If the catalog is the one in the lake's own folder.
    #[track_caller]
    pub fn catalog(&self) -> &CatalogFile {
        match &self.catalog {
            Some(catalog) => catalog,
            None => panic!("the lake has no catalog file"),
        }
    }

    /// Whether its files are on S3.
    pub fn is_remote(&self) -> bool {
        self.catalog.is_some()
    }

    /// Has `hexfloe` go another way to the catalog, through a proxy for one. Secrets stay those of [`Self::catalog`].
    pub fn write_catalog(&self, catalog: &CatalogFile) {
        self.write("catalog.toml", catalog.toml());
    }

    /// The lake with one job, `job.toml`, over `points.csv`.
    #[must_use]
    pub fn and_points(self, csv: &str) -> Self {
        self.write("job.toml", POINTS);
        self.write("points.csv", csv);
        self
    }

    /// A lake with one job, `job.toml`, over `points.csv`.
    pub fn with_points(csv: &str) -> Self {
        Self::new().and_points(csv)
    }

    /// The path of something in the folder.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(relative)
    }

    /// Writes a file, and the folders above it.
    pub fn write(&self, relative: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, content));
        written.unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        path
    }

    /// Runs `hexfloe` in the folder, to its end.
    #[track_caller]
    pub fn hexfloe(&self, arguments: &[&str]) -> Run {
        self.start(arguments).end()
    }

    /// Runs `hexfloe ingest … --json` in the folder, to its end.
    #[track_caller]
    pub fn ingest(&self, arguments: &[&str]) -> Run {
        self.start_ingest(arguments).end()
    }

    /// Starts `hexfloe ingest … --json` in the folder.
    #[track_caller]
    pub fn start_ingest(&self, arguments: &[&str]) -> Running {
        self.start(&[&["ingest"], arguments, &["--json"]].concat())
    }

    /// Runs `hexfloe` in the folder, to its end, and tells the bytes of memory it held at its peak.
    #[track_caller]
    pub fn peak_memory(&self, arguments: &[&str]) -> u64 {
        // What a process inherits counts as its own, so a small one has to start it.
        const MEASURE: &str = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); \
            print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
        let mut command = Command::new(place::python());
        command.args(["-c", MEASURE]).arg(place::hexfloe());
        self.complete(&mut command, arguments);
        let run = Running::start(command).end().ends(Exit::Done);
        let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
        match run.stdout.trim().parse::<u64>() {
            Ok(peak) => peak * unit,
            Err(error) => panic!("{:?} is not a size: {error}", run.stdout),
        }
    }

    /// Starts `hexfloe` in the folder.
    #[track_caller]
    pub fn start(&self, arguments: &[&str]) -> Running {
        let mut command = Command::new(place::hexfloe());
        self.complete(&mut command, arguments);
        Running::start(command)
    }

    /// Arguments, folder, and what the catalog file refers to.
    fn complete(&self, command: &mut Command, arguments: &[&str]) {
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        // Attempts say there that they are running: those of other tests have nothing to say to this lake.
        command.env("TMPDIR", self.folder.path());
        // And so do verifications, with the state of their user.
        command.env("XDG_STATE_HOME", self.folder.path());
        if let Some(catalog) = &self.catalog {
            if arguments.first() != Some(&"batch-id") {
                command.args(["--catalog", "catalog.toml"]);
            }
            command.envs(catalog.environment().iter().map(|(name, value)| (name, value)));
        }
    }

    /// What is in the warehouse and the catalog.
    #[track_caller]
    pub fn state(&self) -> State {
        let files = match &self.catalog {
            None => State::files_under(&self.path("lake/warehouse")),
            Some(_) => State::of_objects(&self.ask("objects", json!({}))),
        };
        State { files, tables: self.ask("catalog", json!({})) }
    }

    /// Asks the engines about this lake; see the functions of `tests/judge.py`.
    #[track_caller]
    pub fn ask(&self, question: &str, mut request: Value) -> Value {
        match &self.catalog {
            None => request["lake"] = self.path("lake").display().to_string().into(),
            Some(catalog) => request["catalog"] = catalog.properties(),
        }
        judge(question, request)
    }

    /// Asks for what is wrong, and fails if anything is.
    #[track_caller]
    pub fn nothing_wrong(&self, question: &str, request: Value) {
        let wrong = self.ask(question, request);
        assert_eq!(wrong, json!([]), "{question}: {wrong:#}");
    }

    /// Rows and columns as an engine reads them; the engines must agree.
    #[track_caller]
    pub fn columns(&self, table: &str) -> Value {
        let [ice, duck] =
            ["pyiceberg", "duckdb"].map(|engine| self.ask("columns", json!({ "table": table, "engine": engine })));
        assert_eq!(ice, duck, "PyIceberg and DuckDB read {table} differently");
        ice
    }

    /// The SHA-256 of each live data file, sorted.
    #[track_caller]
    pub fn digests(&self, table: &str) -> Vec<String> {
        let mut digests: Vec<_> = self.files(table).iter().map(|file| text(&file["sha256"])).collect();
        digests.sort();
        digests
    }

    /// The live data files of a table.
    #[track_caller]
    pub fn files(&self, table: &str) -> Vec<Value> {
        match self.ask("files", json!({ "table": table })) {
            Value::Array(files) => files,
            other => panic!("not a list of files: {other}"),
        }
    }

    /// The completed batches of a table, oldest first.
    #[track_caller]
    pub fn ledger(&self, table: &str) -> Vec<String> {
        match self.ask("ledger", json!({ "table": table }))["batches"].take() {
            Value::Array(batches) => batches.iter().map(text).collect(),
            other => panic!("not a list of batches: {other}"),
        }
    }
}

#[track_caller]
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not text")).to_owned()
}
