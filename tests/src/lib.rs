//! Whole-system tests: the `hexfloe` binary as a person or a scheduler runs it, judged by engines that did not write its tables.
//!
//! A test has three parts, and this crate is what they are said with:
//!
//! * a [`Lake`]: a scratch folder with input, a job file and the lake that Hexfloe makes in it;
//! * a [`Run`]: one finished `hexfloe` process, with its exit code, its report and what it told the person;
//! * [`Lake::ask`]: what PyIceberg, DuckDB and PyArrow see in the table (`tests/judge.py`).
//!
//! Tables need not be in the lake's folder: [`Lake::on`] takes a [`Backend`], whose servers are real ([`SeaweedFs`], [`Postgres`]) and
//! started by the first test that asks for them. A [`Proxy`] before one of them does what networks do to requests.
//!
//! Refusals are proved by [`Lake::state`]: every byte under the warehouse and every row of the catalog, before and after.
//!
//! ```no_run
//! use hexfloe_tests::{Lake, POINTS, json};
//!
//! let lake = Lake::new();
//! lake.write("job.toml", POINTS);
//! lake.write("points.csv", "id,lat,lon\n1,48.2,16.4\n");
//! lake.ingest(&["job.toml"]).committed();
//! assert_eq!(lake.ask("count", json!({ "table": "ns.points" }))["rows"], 1);
//! ```
//!
//! `tests/run` builds the binary and the judges' Python, then runs the tests; what is missing says so. Nothing here is linked into
//! what people run, and a step that fails is a test that fails: that is why this crate, alone in the workspace, panics.

#![expect(clippy::panic, reason = "only tests use this crate: a step that fails is a test that fails")]

mod catalog_file;
mod data;
mod judge;
mod lake;
mod place;
mod run;
mod servers;
mod state;
mod tls;

pub use catalog_file::CatalogFile;
pub use data::{data, single_line_geojson};
pub use hexfloe_replay_verify::proxy::{Answer, Exchange, Fault, Proxy, Reply, Request, Rule, Server, Side};
pub use judge::judge;
pub use lake::{Backend, Lake, POINTS};
pub use place::{example, hexfloe, repository};
pub use run::{Exit, Run, Running, pause};
pub use serde_json::{Value, json};
pub use servers::{Postgres, SeaweedFs};
pub use state::State;
pub use tls::Tls;
