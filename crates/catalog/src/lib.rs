//! Iceberg catalogs: opening one, and committing to it with outcomes that can be acted on.
//!
//! A catalog holds, for each table, one pointer to its current metadata file; a commit swaps that pointer. Reading,
//! listing and creating go through the `iceberg` crate's [`Catalog`](iceberg::Catalog). Committing does not: that
//! crate's transaction reloads the table and re-bases silently, which turns "commit only if my batch is not there yet"
//! into "commit". Commits go through the [`CommitPort`] instead, which sends exactly what it is given and answers one
//! of three things:
//!
//! * [`CommitOutcome::Committed`]: the table is now as asked;
//! * [`CommitOutcome::Conflict`]: somebody else moved the table first, and nothing of ours was applied;
//! * [`CommitOutcome::Unknown`]: the request may or may not have been applied. Nothing may be deleted until a reload
//!   has told.
//!
//! [`OpenCatalog`] bundles the three parts a job needs: the catalog, the port, and the [`Store`](hexfloe_store::Store)
//! both write through. [`CatalogSettings`] is what people write in a catalog file.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use hexfloe_catalog::{Access, CatalogSettings, OpenCatalog};
//! use iceberg::TableIdent;
//!
//! let folder = tempfile::tempdir()?;
//! let catalog = OpenCatalog::open(&CatalogSettings::embedded(), folder.path(), Access::Create).await?;
//! assert!(catalog.load(&TableIdent::from_strs(["places", "cities"])?).await?.is_none());
//! # Ok(())
//! # }
//! ```
//!
//! # What it does not do
//!
//! It decides nothing about batches, ledgers or retries: that is the `commit` crate's. The port never retries a request
//! that may have been applied. There are SQL catalogs (SQLite and PostgreSQL), whose tables PyIceberg and Java's JDBC
//! catalog share, and catalogs behind Iceberg's REST protocol.
//!
//! Whoever writes another port runs the tests of the module `conformance` (cargo feature of that name) over it.

mod check;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod keys;
mod metadata;
mod open;
mod pointed;
mod port;
mod rest;
mod settings;
mod sql;
mod stage;

pub use check::{CheckReport, Finding, SelfTest, Verdict};
pub use error::{Error, ErrorKind};
pub use keys::catalog_schema;
pub use open::{Access, Created, OpenCatalog};
pub use port::{CommitOutcome, CommitPort, CommitRequest};
pub use rest::{RestCatalog, RestPort, ServerFacts};
pub use settings::{CatalogKind, CatalogSettings};
pub use sql::SqlPort;
pub use stage::TableDefinition;
