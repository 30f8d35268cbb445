//! Cleaning up Iceberg tables: files that nothing refers to, and snapshots that nobody needs.
//!
//! Retries leave files behind by design: an attempt that is killed, or whose outcome is unknown, must not delete what may
//! be live. Removing them later is the most dangerous job in a lake, because a mistake is found when the table is read. This
//! crate works on any Iceberg table, whoever wrote it, and does nothing when it is in doubt.
//!
//! # Concepts
//!
//! * An **orphan** is a file in a table's place that no snapshot of its metadata refers to, whichever ref leads to it or
//!   none, nor its metadata log, nor its statistics.
//! * The **margin** is how old a file must be before it may go, by the store's clock. A file of a write that is under way
//!   looks like an orphan; the margin is what tells them apart. Attempts of `hexfloe-commit` give up at half of [`FLOOR`].
//! * A [`Refusal`] says why nothing is done, and names the file, property or table that is the cause.
//! * Everything is a **dry run** unless it is told to apply.
//!
//! # The order
//!
//! [`Cleaner::orphans`] loads the table, refuses what it cannot clean, finds everything the table refers to, and only then
//! lists its place. From the listing it takes what is referenced, what is young or of unknown age, and what no table
//! writer names so. Then it loads the table again, and takes out what it refers to by now. Deleting goes chunk by chunk,
//! with one more look at the table before each. In the end it lists once more, to see that what was deleted is gone.
//!
//! [`Cleaner::expire`] lets snapshots go in one commit and then removes the files that only they referred to.
//! [`Cleaner::dropped`] removes what a dropped table left, if no table of the catalog claims it. [`Cleaner::restore`]
//! brings back what was put into quarantine instead of being deleted.
//!
//! ```
//! # use std::{sync::Arc, time::Duration};
//! # use hexfloe_catalog::{Access, CatalogSettings, OpenCatalog};
//! # use hexfloe_commit::Environment;
//! # #[derive(Debug)]
//! # struct Fixed;
//! # #[async_trait::async_trait]
//! # impl Environment for Fixed {
//! #     fn now_ms(&self) -> i64 { 1_786_406_400_000 }
//! #     fn uuid(&self) -> uuid::Uuid { uuid::Uuid::from_u128(7) }
//! #     fn jitter(&self) -> f64 { 0.5 }
//! #     async fn sleep(&self, time: Duration) {}
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let catalog = OpenCatalog::open(&CatalogSettings::embedded(), folder.path(), Access::Create).await?;
//! # let environment = Arc::new(Fixed);
//! use hexfloe_orphan_cleanup::{Cleaner, ErrorKind, NoSink, OrphanOptions};
//! use iceberg::TableIdent;
//!
//! let cleaner = Cleaner::new(catalog, environment);
//! let table = TableIdent::from_strs(["places", "cities"])?;
//! match cleaner.orphans(&table, &OrphanOptions::default(), &mut NoSink).await {
//!     Ok(report) => println!("{} of {} bytes may go", report.orphans.bytes, report.listed.bytes),
//!     Err(error) if error.kind() == ErrorKind::Refused => println!("left alone: {error}"),
//!     Err(error) => println!("not looked at: {error}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Scale
//!
//! Listings are streams; nothing is kept of them but the orphans found. What the table refers to is held as 128-bit hashes,
//! 17 to 34 bytes a file. Each manifest is read once, and only the paths are taken out of it.
//!
//! # What it does not do
//!
//! It does not compact, and it does not repair: a table that refers to files that are missing stays as it is. It takes no
//! lock; two cleaners may work on one table, and a writer need not know of either. It cannot know of tables in other
//! catalogs, except by the metadata files that they have in the same place.

mod candidates;
mod dropped;
mod error;
mod foreign;
mod listing;
mod manifests;
mod names;
mod orphans;
mod paths;
mod reachable;
mod reading;
mod removal;
mod report;
mod restore;
mod snapshots;

pub use dropped::{DroppedOptions, DroppedReport};
pub use error::{Error, ErrorKind, Refusal};
pub use names::Attribution;
pub use orphans::{Cleaner, DEFAULT_MARGIN, FLOOR, OrphanOptions};
pub use paths::EqualSchemes;
pub use removal::Disposal;
pub use report::{ClockUsed, Count, Fate, FileRecord, Left, NoSink, OrphanReport, Sink};
pub use restore::RestoreReport;
pub use snapshots::{ExpireOptions, ExpireReport, Expired};
