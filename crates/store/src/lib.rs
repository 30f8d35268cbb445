//! Object stores behind Iceberg's storage traits.
//!
//! Iceberg metadata names files by *location*: a string such as `s3://lake/db/t/data/a.parquet` or
//! `file:///lake/db/t/data/a.parquet`. Stores name objects by *path*. This crate is the one place where the two meet:
//!
//! * [`Location`] parses every spelling people use for one place (`/lake`, `file:/lake`, `file:///lake/`) into one
//!   canonical form. Comparing strings that were not canonicalised is how live files come to look unreferenced.
//! * [`Store`] maps locations to [`object_store::ObjectStore`]s by scheme and authority, and hands out a
//!   [`FileIO`](iceberg::io::FileIO) so that the `iceberg` crate reads and writes through the very same stores.
//! * [`Upload`] writes one new object: streaming, never over an existing one, and checked under its recorded location
//!   after it is finished.
//!
//! Fault injection, latency and accounting are decorators around `ObjectStore`, mounted with [`Store::mount`]; there
//! are no hooks for them here.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), hexfloe_store::Error> {
//! use hexfloe_store::{Location, Store};
//!
//! assert_eq!(Location::parse("file:/lake//places/")?, Location::parse("/lake/places")?);
//!
//! let store = Store::memory();
//! let mut upload = store.create("memory:///lake/a.txt").await?;
//! upload.write("hello".into()).await?;
//! assert_eq!(upload.finish().await?, 5);
//! assert_eq!(store.read("memory:/lake/a.txt").await?, "hello");
//! # Ok(())
//! # }
//! ```
//!
//! # What it does not do
//!
//! It is not a file system: there is no rename, no append and no directory. It does not retry (the object stores do)
//! and it does not cache. Which remote stores there are is chosen by the cargo features `aws` (S3 and what speaks it),
//! `gcp` and `azure`. Files on the local disk survive the death of the process; like `object_store`
//! itself this crate does not call `fsync`, so what survives a power cut is up to the file system.

#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod iceberg_storage;
mod local;
mod location;
mod mounts;
mod remote;
pub mod secrets;
#[cfg(feature = "aws")]
mod tagging;
mod upload;
mod vended;

pub use error::Error;
pub use iceberg_storage::{MountedStorage, MountedStorageFactory};
pub use location::Location;
pub use mounts::{Folder, Listed, Store, StoreObject};
pub use upload::Upload;
pub use vended::{Properties, VendedProperties, Vendor, is_secret};
