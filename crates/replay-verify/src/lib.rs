//! Proof of the guarantee, at three distances.
//!
//! * **On a real catalog and store**: [`Verification`] is `hexfloe verify`. [Scenarios](scenario) are values, played with processes that are
//!   killed, a network that fails ([`proxy`]), and another engine; a [`Verdict`] says which promise is broken, if one is.
//! * **In a simulation**: the real code of writers and cleaners on a catalog and a store in memory, with time and the order of everything
//!   drawn from a seed. It is what the rest of this page is about.
//! * **In a model** (`tests/model`): the protocol alone, and every state that it can come to.
//!
//! Real processes and the simulation have the same [`faults`]: decorators around the two seams, the object store and the catalog with its commit
//! port. What lands data knows nothing of them.
//!
//! # The simulation
//!
//! Writers, other engines and cleaners work at one table, on a clock that only the simulation moves.
//!
//! What goes wrong with tables goes wrong between processes: one stalls for two days in the middle of a commit, another cleans up
//! meanwhile, a third takes the table back. No test with real processes waits for two days, and none comes back to the one
//! order of a hundred calls in which a promise breaks. Here both are a number: a run is a function of its seed.
//!
//! ```
//! use hexfloe_replay_verify::Simulation;
//!
//! // On a failure: the seed, the promise that was broken, and what everybody did, line by line.
//! let timeline = Simulation::default().run(7)?;
//! assert_eq!(timeline.digest(), Simulation::default().run(7)?.digest());
//! # Ok::<(), Box<hexfloe_replay_verify::Failure>>(())
//! ```
//!
//! # Concepts
//!
//! * An **actor** is a future that does what a process would: write a batch, commit it, run again; compact; go back; expire; clean
//!   up. It is the real code of `hexfloe-commit` and `hexfloe-orphan-cleanup`; other engines are played with the `iceberg`
//!   crate's own parts.
//! * Between an actor and the world are two seams, the object store and the catalog. Behind them are [`store::MemoryStore`] and
//!   [`catalog::MemoryCatalog`], which keep the promises that every store and every catalog keep (the conformance suites say
//!   so). In front of them are [`gated`] decorators: before and after every call the actor stops at a **gate**.
//! * Between the gates and the world may be [`faults`]: in about half of the runs some actors lose replies, get errors and conflicts
//!   for what was done, are delivered twice, late or not at all, load a table as it was before, list slowly and without dates, and
//!   end or stop in the middle of a call. The same faults are for real processes too.
//! * The [`Scheduler`] opens one gate at a time, drawn from the seed. At a gate an actor may be stalled, for minutes or days, or
//!   be dropped as by `kill -9`; it may then begin again as a new process.
//! * Time is virtual. A step takes milliseconds; when everybody waits, the clock jumps. Each actor's clock is off by some minutes,
//!   and so is the store's, which dates the files.
//!
//! # Scenarios
//!
//! [`Simulation::play`] plays a [`scenario`] of `hexfloe verify` that [is of commits](scenario::Scenario::is_of_commits). Its
//! steps, and how each of its runs has to end, are as with real processes. What it leaves open is drawn from the seed: the order of those
//! that run at once, clocks, stalls, files to a batch, properties of the table, and how much time goes by between the steps. In some
//! plays a process stalls for so long that its attempt is late and begins again; the end is the same. What is promised is checked
//! wherever the scenario looks at the table, and, when it is over, as after each run. A batch has the rows of its number here, not as many
//! as the scenario says: how they are made from input is not simulated. The two limits below hold in scenarios too.
//!
//! # What is promised, and checked after each run
//!
//! 1. Every snapshot in the metadata reads fully: manifest list, manifests, each live data file with its recorded size.
//! 2. Every snapshot holds exactly the rows that its history says: those of its parent, and the batch that its summary names,
//!    each row once. Branches only move on to descendants, or back to ancestors.
//! 3. Who was told that a batch is in the table was told the truth: at some time during the call it was there.
//! 4. Nothing fails that nobody's doing explains: somebody else's, its own lateness, or a fault that struck during the call.
//! 5. When everybody is done and a day has gone by, one cleaner leaves no file that nothing refers to.
//!
//! # What is taken for granted
//!
//! Two limits, without which no table could be cleaned while it is written to. Between a writer's last look at its own age and the
//! swap of the pointer lie at most eleven hours: with the twelve that an attempt may be old by then it stays below the
//! twenty-four of the smallest margin. And an operation of another engine takes at most eleven hours, as such an engine does
//! not look at its age at all.
//!
//! Who deletes takes the catalog at its word. A load that gives the table as it was before is no danger to what is committed,
//! because the requirements of a commit name what it was decided on. But a cleaner, an expiry and a writer that gives files to the
//! table which may be in it already remove what the table, as loaded last, does not refer to. These get no stale loads here; on
//! a catalog whose reads are not linearizable they can remove what is live. Who loads stale may also be told
//! of a batch that was taken back meanwhile: then the third promise is about the time since its process began.
//!
//! # Same seed, same run
//!
//! Everything runs on one thread. Actors are polled by the scheduler alone; what libraries give to tokio runs on the same thread
//! when an actor waits for it and is at no gate. Nothing runs on a thread for blocking work: readers of the `iceberg` crate do
//! not use any, and a cleaner with one thread does not. Clock, ids and jitter come from the environment; where the `iceberg`
//! crate reads the machine's clock, while it builds metadata, the catalog puts the virtual time in its place.
//!
//! One thing is not a function of the seed: the libraries walk through hash maps, whose order differs from process to process.
//! It decides which of several files is read or removed first. The scheduler draws the actor before the gate, so that this
//! changes nothing for the others; see [`Timeline::digest`].
//!
//! # When a promise is broken
//!
//! [`Simulation::shrink`] leaves out of the plan what is not needed to break it: actors, faults, stalls, batches, properties. What
//! remains is printed with its [`Timeline`]. An actor's draws depend on its name alone, so that leaving one out does not change what the
//! others do by themselves.
//!
//! # What it does not do
//!
//! No object is torn under its own name, and no bytes are changed: no store that is supported does that, and uploads that are not
//! completed show only under the names that the local disk gives them. It has one table without partitions, batches that
//! replace themselves, and Parquet files of a few rows, which are never written in parts.
//!
//! It runs the code, and draws schedules. The model has the protocol alone, and all schedules. A test there keeps the two in step.

pub mod catalog;
mod errands;
pub mod faults;
mod foreign;
pub mod gated;
mod judge;
mod plan;
mod process;
pub mod proxy;
mod random;
pub mod real;
mod report;
mod roles;
pub mod scenario;
mod scheduler;
mod shrink;
mod simulation;
mod staged;
pub mod store;
mod table;
mod timeline;
mod verdict;

pub use judge::Violation;
pub use plan::Plan;
pub use process::{Lens, PortView, View};
pub use random::Random;
pub use real::{Error, Progress, Verification};
pub use report::{html, junit};
pub use scheduler::{ActorEnvironment, Gate, HOUR_MS, Life, Scheduler, Stuck, Temper};
pub use simulation::{Failure, Simulation};
pub use timeline::{Event, Tally, Timeline};
pub use verdict::{Fate, Moment, Played, Verdict};
