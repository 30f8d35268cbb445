//! The ingest job: source, batch, data files, commit.
//!
//! A [`Job`] says where rows come from, where each of them is, what makes them a batch and which table they go to. [`Ingest::run`]
//! lands that batch exactly once:
//!
//! 1. The batch id is found from facts of the input. If the table's ledger has it, that is all.
//! 2. The pipeline reads, derives, routes, encodes and uploads, on as many threads as there are, into data files that
//!    nothing refers to yet. Their bytes depend on the input and the job alone. A new table is made when the first of them is
//!    begun.
//! 3. If a row cannot be used, the job is refused and the files are removed; or the row is set aside, with its reason.
//! 4. `hexfloe-commit` puts the files and the ledger into one snapshot.
//! 5. When that is certain, and nobody was told of it yet, the job's `notify.command` is run, and the table is told that it was.
//!
//! ```
//! use hexfloe_ingest::Job;
//!
//! let job = Job::from_toml(
//!     r#"
//!     [source]
//!     name = "geonames"
//!     format = "csv"
//!     paths = ["cities.csv"]
//!
//!     [geometry]
//!     lat = "lat"
//!     lon = "lon"
//!
//!     [h3]
//!     resolution = 9
//!
//!     [batch]
//!     granularity = "files"
//!
//!     [table]
//!     name = "places.cities"
//!     "#,
//!     &["limits.threads=2".to_owned()],
//! )?;
//! assert_eq!(job.limits.threads, Some(2));
//! # Ok::<(), hexfloe_ingest::Error>(())
//! ```
//!
//! What a batch replaces is its table's [`Mode`]: the rows of the same batch, those of a slice that it owns, those with its
//! keys, or nothing. Whatever it is, the batch has an id, and comes once.
//!
//! # What it does not do
//!
//! It holds no query engine: `source.select` and `table.sort` need the feature `sql`. It does not evolve the schema of a
//! table: input with other columns is refused. It knows no message queue: telling others of a commit is up to a command of the
//! job, which it runs once, and again under the same key if it may have failed.

mod dedupe;
mod destination;
mod encoding;
mod error;
mod files;
mod groups;
mod inspect;
mod job;
mod keys;
mod mode;
mod notify;
mod partition;
mod pipeline;
mod place;
mod positions;
mod progress;
mod rejects;
mod report;
mod run;
mod shape;
mod slice;
mod spatial;
mod together;
mod types;

pub use error::{Error, ErrorKind};
pub use groups::{BatchEnd, Fate, JobRun};
pub use inspect::{Column, InspectOptions, Inspection, Layer, Place, Sample, inspect, toml_text};
pub use job::{
    BatchSettings, ByteSize, CatalogReference, CoverContainment, CoverSettings, DedupeSettings, Encodings,
    GeometryRepair, GeometrySettings, GeometryStore, Granularity, H3Settings, Job, Keep, LimitSettings, Mode,
    NoGeometry, NotifySettings, OnChangedInput, OnReject, QualitySettings, SliceValue, TableSettings, TimeSpan,
    Timeout,
};
pub use notify::Notification;
pub use progress::{Phase, Progress};
pub use rejects::RejectedRow;
pub use report::{Report, Status};
pub use run::{Ingest, RunOptions, check};
