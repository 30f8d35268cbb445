//! Real servers: SeaweedFS (S3 and an Iceberg REST catalog) and PostgreSQL, each behind a `tests/serve.py` that guards it.
//!
//! `shared()` is one server for all tests of a process, started by the first that asks. Tests do not meet on it: each lake has a bucket
//! or a database of its own. `start()` is one that a test may kill. A server is gone with its last user: the guard kills it when its
//! standard input ends, however this process ends.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{self, Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::Value;

use crate::CatalogFile;
use crate::place;

/// A name that nothing else in any test process has: `kind-…`.
fn fresh(kind: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{kind}-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A running `tests/serve.py`.
#[derive(Debug)]
struct Guard {
    process: Child,
    /// Commands and answers; none once the guard was told to end.
    talk: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
    facts: Value,
}

impl Guard {
    #[track_caller]
    fn start(server: &str) -> Self {
        let spawned = Command::new(place::python())
            .arg(place::repository().join("tests/serve.py"))
            .arg(server)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = spawned.unwrap_or_else(|error| panic!("cannot run tests/serve.py: {error}"));
        let (Some(commands), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            panic!("tests/serve.py has no input or output");
        };
        let mut answers = BufReader::new(answers);
        let facts = heard(&mut answers);
        Self { process, talk: Mutex::new(Some((commands, answers))), facts }
    }

    #[track_caller]
    fn tell(&self, command: &str) {
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((commands, answers)) = talk.as_mut() else { panic!("the server has been stopped") };
        writeln!(commands, "{command}").unwrap_or_else(|error| panic!("cannot tell tests/serve.py {command}: {error}"));
        heard(answers);
    }

    #[track_caller]
    fn fact(&self, pointer: &str) -> String {
        match self.facts.pointer(pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => panic!("tests/serve.py does not say {pointer}"),
        }
    }
}

#[track_caller]
fn heard(answers: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    answers.read_line(&mut line).unwrap_or_else(|error| panic!("cannot hear tests/serve.py: {error}"));
    let answer: Value =
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("tests/serve.py said {line:?}: {error}"));
    assert!(answer.get("error").is_none(), "{}", answer["error"].as_str().unwrap_or(&line));
    answer
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.talk.lock().unwrap_or_else(PoisonError::into_inner).take());
        drop(self.process.wait());
    }
}

/// SeaweedFS: S3, and the Iceberg REST catalog over its table buckets.
#[derive(Debug)]
pub struct SeaweedFs {
    guard: Guard,
}

impl SeaweedFs {
    /// The server of this process.
    #[track_caller]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<SeaweedFs> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// A server of its own.
    #[track_caller]
    pub fn start() -> Self {
        Self { guard: Guard::start("seaweedfs") }
    }

    /// `kill -9`.
    #[track_caller]
    pub fn kill(&self) {
        self.guard.tell("kill");
    }

    /// Starts it again, with the same ports and data, and waits until it answers.
    #[track_caller]
    pub fn start_again(&self) {
        self.guard.tell("start");
    }

    /// `127.0.0.1:PORT` of S3.
    pub fn s3_address(&self) -> String {
        format!("127.0.0.1:{}", self.guard.fact("/s3"))
    }

    /// `127.0.0.1:PORT` of the REST catalog.
    pub fn rest_address(&self) -> String {
        format!("127.0.0.1:{}", self.guard.fact("/rest"))
    }

    /// The id and the secret of one of its two identities; both may do everything.
    pub fn key(&self, identity: usize) -> (String, String) {
        (self.guard.fact(&format!("/keys/{identity}/id")), self.guard.fact(&format!("/keys/{identity}/secret")))
    }

    /// A new bucket for anything: its name.
    #[track_caller]
    pub fn bucket(&self) -> String {
        let name = fresh("plain");
        self.guard.tell(&format!("bucket {name}"));
        name
    }

    /// A new bucket for tables, which is a warehouse of the REST catalog: its name.
    #[track_caller]
    pub fn table_bucket(&self) -> String {
        let name = fresh("lake");
        self.guard.tell(&format!("table-bucket {name}"));
        name
    }

    /// The `s3.…` keys.
    pub fn s3(&self) -> CatalogFile {
        let (id, secret) = self.key(0);
        CatalogFile::of(&[
            ("s3.endpoint", &format!("http://{}", self.s3_address())),
            ("s3.region", &self.guard.fact("/region")),
            ("s3.access-key-id", "${S3_KEY_ID}"),
            ("s3.secret-access-key", "${S3_SECRET}"),
            ("s3.path-style-access", "true"),
        ])
        .with_secret("S3_KEY_ID", &id)
        .with_secret("S3_SECRET", &secret)
    }

    /// A catalog file of the REST catalog over this table bucket, with all keys for its store.
    pub fn rest(&self, table_bucket: &str) -> CatalogFile {
        let (id, secret) = self.key(0);
        let uri = format!("http://{}", self.rest_address());
        self.s3()
            .with("name", "lake")
            .with("type", "rest")
            .with("uri", &uri)
            .with("warehouse", &format!("s3://{table_bucket}"))
            .with("credential", "${REST_CREDENTIAL}")
            .with("oauth2-server-uri", &format!("{uri}/v1/oauth/tokens"))
            .with_secret("REST_CREDENTIAL", &format!("{id}:{secret}"))
    }

    /// The text of [`Self::rest`].
    pub fn rest_toml(&self, table_bucket: &str) -> String {
        self.rest(table_bucket).toml()
    }
}

/// PostgreSQL.
#[derive(Debug)]
pub struct Postgres {
    guard: Guard,
}

impl Postgres {
    /// The server of this process.
    #[track_caller]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// A server of its own.
    #[track_caller]
    pub fn start() -> Self {
        Self { guard: Guard::start("postgres") }
    }

    /// `kill -9`, and waits until its children have noticed.
    #[track_caller]
    pub fn kill(&self) {
        self.guard.tell("kill");
    }

    /// Starts it again, with the same port and data, and waits until it answers.
    #[track_caller]
    pub fn start_again(&self) {
        self.guard.tell("start");
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.guard.fact("/port"))
    }

    /// The password of its only user.
    pub fn password(&self) -> String {
        self.guard.fact("/password")
    }

    /// A new database: its name.
    #[track_caller]
    pub fn database(&self) -> String {
        let name = fresh("lake");
        self.guard.tell(&format!("database {name}"));
        name
    }

    /// The address of a database, with the password as it is or as `${PGPASSWORD}`.
    pub fn uri(&self, database: &str, password: &str) -> String {
        format!("postgresql://{}:{password}@{}/{database}", self.guard.fact("/user"), self.address())
    }

    /// A catalog file of a new database, with this warehouse; what its store needs comes from `store`.
    pub fn catalog(&self, warehouse: &str, store: CatalogFile) -> CatalogFile {
        store
            .with("name", "lake")
            .with("type", "sql")
            .with("uri", &self.uri(&self.database(), "${PGPASSWORD}"))
            .with("warehouse", warehouse)
            .with_secret("PGPASSWORD", &self.password())
    }
}
