//! A scratch folder with input, jobs and a lake.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::run::{Exit, Run, Running};
use crate::state::State;
use crate::{judge, place};

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

/// A folder in which `hexfloe` runs, and which is gone with this value.
#[derive(Debug)]
pub struct Lake {
    folder: TempDir,
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
        Self { folder: made.unwrap_or_else(|error| panic!("cannot make a folder in {}: {error}", scratch.display())) }
    }

    /// A lake with one job, `job.toml`, over `points.csv`.
    pub fn with_points(csv: &str) -> Self {
        let lake = Self::new();
        lake.write("job.toml", POINTS);
        lake.write("points.csv", csv);
        lake
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
        command.args(["-c", MEASURE]).arg(place::hexfloe()).args(arguments).current_dir(self.folder.path());
        let run = Running::start(command).end().ends(Exit::Done);
        let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
        match run.stdout.trim().parse::<u64>() {
            Ok(peak) => peak * unit,
            Err(error) => panic!("{:?} is not a size: {error}", run.stdout),
        }
    }

    #[track_caller]
    fn start(&self, arguments: &[&str]) -> Running {
        let mut command = Command::new(place::hexfloe());
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        Running::start(command)
    }

    /// What is in the warehouse and the catalog.
    #[track_caller]
    pub fn state(&self) -> State {
        State { files: State::files_under(&self.path("lake/warehouse")), tables: self.ask("catalog", json!({})) }
    }

    /// Asks the engines about this lake; see the functions of `tests/judge.py`.
    #[track_caller]
    pub fn ask(&self, question: &str, mut request: Value) -> Value {
        request["lake"] = self.path("lake").display().to_string().into();
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
