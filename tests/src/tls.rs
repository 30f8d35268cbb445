//! TLS before a plain server: `tests/tls.py`.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::place;

/// A listener that speaks TLS; gone with this value, or with this process.
#[derive(Debug)]
pub struct Tls {
    process: Child,
    facts: Value,
}

impl Tls {
    /// TLS before the server at `127.0.0.1:PORT`.
    #[track_caller]
    pub fn before(server: &str) -> Self {
        let spawned = Command::new(place::python())
            .arg(place::repository().join("tests/tls.py"))
            .arg(server)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = spawned.unwrap_or_else(|error| panic!("cannot run tests/tls.py: {error}"));
        let mut line = String::new();
        let heard = process.stdout.take().map(|said| BufReader::new(said).read_line(&mut line));
        assert!(matches!(heard, Some(Ok(1..))), "tests/tls.py says nothing");
        let facts = serde_json::from_str(&line).unwrap_or_else(|error| panic!("tests/tls.py said {line:?}: {error}"));
        Self { process, facts }
    }

    /// `https://127.0.0.1:PORT`.
    pub fn uri(&self) -> String {
        format!("https://127.0.0.1:{}", self.facts["port"])
    }

    /// The PEM file of its certificate authority.
    pub fn authority(&self) -> &str {
        self.facts["authority"].as_str().unwrap_or_default()
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.process.stdin.take());
        drop(self.process.wait());
    }
}
