//! What goes wrong between a process and the world, said in advance: which call, and what becomes of it.
//!
//! Faults are decorators around the two seams, the store and the catalog with its commit port. They count calls, and strike at
//! those that an [`Injection`] names; everything else passes. What they need of the process they happen in (to end it, to
//! stop it, to let time go by) is a [`Host`], so that the same faults strike in a simulation and in a real process.
//!
//! Several injections may strike one call, and decorators may be put around each other. A process that a fault has ended does
//! nothing any more, through any decorator of the same [`Faults`]: neither do its destructors tidy up.
//!
//! | fault | load | commit | put, upload | read | list | delete | copy |
//! |---|---|---|---|---|---|---|---|
//! | crash, hold (before, after) | × | × | × | × | × | × | × |
//! | not delivered, lost reply, error after success, delayed | × | × | × | × | × | × | × |
//! | conflict after success | | × | × | | | | × |
//! | twice | | × | × | | | × | × |
//! | stale | × | | | | | | |
//! | partial | | | × | | | | |
//! | undated | | | | × | × | | |
//! | slow | | | | | × | | |
//!
//! An injection that is in no row of its column never strikes.

mod clock;
mod port;
mod store;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hexfloe_catalog::CommitPort;
use iceberg::table::Table;
use iceberg::{Catalog, TableIdent};
use object_store::ObjectStore;
use serde::{Deserialize, Serialize};

pub use clock::SkewedClock;

/// Which calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Loading a table; the path is its name, `namespace.table`.
    Load,
    /// Sending a commit, of one table or of several together; the path is their names.
    Commit,
    /// Writing an object in one request.
    Put,
    /// Writing one in parts: begin, parts and completion count as one call, at the completion.
    Upload,
    /// Reading an object or a part of it, or asking for its size and date.
    Read,
    /// Listing what lies below a prefix, which is the path.
    List,
    /// Deleting an object: in bulk, each counts.
    Delete,
    /// Copying one; the path is where to.
    Copy,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The process ends before the call takes effect.
    CrashBefore,
    /// The process ends after the call took effect, before its answer is seen.
    CrashAfter,
    /// The process stops before the call, until it is released.
    HoldBefore,
    /// The process stops after the call took effect, until it is released.
    HoldAfter,
    /// The call has no effect, and fails as a broken connection does.
    NotDelivered,
    /// The call takes effect, and fails as a broken connection does.
    LostReply,
    /// The call takes effect, and is answered with a server's error (a status of 500).
    ErrorAfterSuccess,
    /// The call takes effect, and is answered with a conflict: of a commit, or that the object is there already or is another
    /// one. This is what the answer to the second of two deliveries looks like.
    ConflictAfterSuccess,
    /// The answer comes late.
    Delayed {
        /// By so many milliseconds.
        ms: u64,
    },
    /// The call is delivered twice, and the second answer is given.
    Twice,
    /// The table is given as it was one load before; the first time as it is.
    Stale,
    /// The process ends in the middle of writing an object: half of the bytes, or all the parts of an upload that is not
    /// completed, are left as the store keeps what is unfinished. On the local disk that is a file named with `#` and a
    /// number, in S3 it does not show. No store that is supported has half of an object under its own name.
    Partial,
    /// No time of last modification is given (it is 1970).
    Undated,
    /// The listing takes long.
    Slow {
        /// So many milliseconds before each page of eight objects.
        ms: u64,
    },
}

impl Fault {
    /// Whether the fault can happen to such a call.
    pub const fn concerns(self, call: Call) -> bool {
        match self {
            Self::CrashBefore | Self::CrashAfter | Self::HoldBefore | Self::HoldAfter => true,
            Self::NotDelivered | Self::LostReply | Self::ErrorAfterSuccess | Self::Delayed { .. } => true,
            Self::ConflictAfterSuccess => matches!(call, Call::Commit | Call::Put | Call::Upload | Call::Copy),
            Self::Twice => matches!(call, Call::Commit | Call::Put | Call::Upload | Call::Delete | Call::Copy),
            Self::Stale => matches!(call, Call::Load),
            Self::Partial => matches!(call, Call::Put | Call::Upload),
            Self::Undated => matches!(call, Call::List | Call::Read),
            Self::Slow { .. } => matches!(call, Call::List),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Load => "load",
            Self::Commit => "commit",
            Self::Put => "put",
            Self::Upload => "upload",
            Self::Read => "read",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Copy => "copy",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CrashBefore => f.write_str("crash before"),
            Self::CrashAfter => f.write_str("crash after"),
            Self::HoldBefore => f.write_str("hold before"),
            Self::HoldAfter => f.write_str("hold after"),
            Self::NotDelivered => f.write_str("not delivered"),
            Self::LostReply => f.write_str("lost reply"),
            Self::ErrorAfterSuccess => f.write_str("error after success"),
            Self::ConflictAfterSuccess => f.write_str("conflict after success"),
            Self::Delayed { ms } => write!(f, "delayed by {ms} ms"),
            Self::Twice => f.write_str("delivered twice"),
            Self::Stale => f.write_str("stale"),
            Self::Partial => f.write_str("partial"),
            Self::Undated => f.write_str("undated"),
            Self::Slow { ms } => write!(f, "slow by {ms} ms"),
        }
    }
}

const fn one() -> u32 {
    1
}

/// One thing that is to go wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Injection {
    /// To which calls.
    pub call: Call,
    /// Part of the path; any when empty. Folders are best named with their slashes: `data` is in `metadata` too.
    #[serde(default)]
    pub path: String,
    /// Which of the calls that match: the first is 1.
    pub nth: u32,
    /// How many calls in a row, from it.
    #[serde(default = "one")]
    pub times: u32,
    /// What.
    pub fault: Fault,
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, path, nth, times, fault } = self;
        write!(f, "{call} {nth}")?;
        if *times > 1 {
            write!(f, " to {}", nth.saturating_add(times - 1))?;
        }
        if !path.is_empty() {
            write!(f, " of {path}")?;
        }
        write!(f, ": {fault}")
    }
}

impl Injection {
    fn concerns(&self, call: Call, path: &str) -> bool {
        self.call == call && self.fault.concerns(call) && path.contains(&self.path)
    }

    /// Whether it strikes at the call of this number, the first being 1.
    fn strikes_at(&self, number: u32) -> bool {
        number.checked_sub(self.nth.max(1)).is_some_and(|after| after < self.times)
    }
}

/// What faults need of the process they happen in.
#[async_trait]
pub trait Host: Send + Sync + fmt::Debug {
    /// Ends the process: does not return.
    async fn crash(&self);

    /// Stops until somebody lets it go on. `at` says where.
    async fn hold(&self, at: &str);

    /// Lets time go by.
    async fn wait(&self, time: Duration);

    /// For the timeline.
    fn note(&self, what: &str);
}

/// The faults of one process. Cheap to clone: all clones, and the decorators they make, count the same calls.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    host: Arc<dyn Host>,
    counted: Vec<Counted>,
    /// The process has ended.
    ended: AtomicBool,
    /// Each table as it was loaded last, where somebody wants it stale.
    loaded: Mutex<HashMap<TableIdent, Table>>,
}

#[derive(Debug)]
struct Counted {
    injection: Injection,
    seen: AtomicU32,
    struck: AtomicU32,
}

impl Faults {
    /// Faults of a process.
    pub fn new(injections: Vec<Injection>, host: Arc<dyn Host>) -> Self {
        let counted = injections.into_iter();
        let counted =
            counted.map(|injection| Counted { injection, seen: AtomicU32::new(0), struck: AtomicU32::new(0) });
        Self(Arc::new(Shared {
            host,
            counted: counted.collect(),
            ended: AtomicBool::new(false),
            loaded: Mutex::default(),
        }))
    }

    /// `inner`, as the process sees it.
    pub fn store(&self, inner: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        Arc::new(store::FaultyStore::new(inner, self.clone()))
    }

    /// `inner`, as the process sees it.
    ///
    /// It is not certain of what it denies where it may deny what has happened: where a commit is delivered twice, or is
    /// answered with a conflict after its success.
    pub fn port(&self, inner: Arc<dyn CommitPort>) -> Arc<dyn CommitPort> {
        Arc::new(port::FaultyPort::new(inner, self.clone()))
    }

    /// `inner`, as the process sees it. Loading of tables can fail, and give them stale; everything else passes.
    pub fn catalog(&self, inner: Arc<dyn Catalog>) -> Arc<dyn Catalog> {
        Arc::new(port::FaultyCatalog::new(inner, self.clone()))
    }

    /// What has happened so far: each injection, and how often it struck.
    pub fn struck(&self) -> Vec<(Injection, u32)> {
        let told = |counted: &Counted| (counted.injection.clone(), counted.struck.load(Ordering::Relaxed));
        self.0.counted.iter().map(told).collect()
    }

    /// A call on its way: counts it, and finds what strikes it.
    fn call(&self, call: Call, path: &str) -> Struck {
        let mut by = Vec::new();
        for (index, counted) in self.0.counted.iter().enumerate() {
            if counted.injection.concerns(call, path)
                && counted.injection.strikes_at(counted.seen.fetch_add(1, Ordering::Relaxed).saturating_add(1))
            {
                by.push(index);
            }
        }
        let path = if by.is_empty() { String::new() } else { path.to_owned() };
        Struck { faults: self.clone(), call, path, by }
    }

    fn injects(&self, is: impl Fn(&Injection) -> bool) -> bool {
        self.0.counted.iter().any(|counted| is(&counted.injection))
    }

    fn has_ended(&self) -> bool {
        self.0.ended.load(Ordering::Relaxed)
    }

    /// Whoever belongs to a process that has ended goes no further.
    async fn unless_ended(&self) {
        if self.has_ended() {
            std::future::pending::<()>().await;
        }
    }
}

/// What is given in place of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// As a broken connection does.
    NoAnswer,
    /// The server fails.
    Failure,
    /// It says that something else is there.
    Conflict,
}

impl Wrong {
    /// The cause, as it comes from below.
    fn cause(self) -> io::Error {
        match self {
            Self::NoAnswer => io::Error::new(io::ErrorKind::ConnectionReset, "the connection broke"),
            Self::Failure => io::Error::other("the server answered with 500 Internal Server Error"),
            Self::Conflict => io::Error::other("the server says that something else is there"),
        }
    }
}

/// A call, and the injections that strike it.
#[derive(Clone, Debug)]
struct Struck {
    faults: Faults,
    call: Call,
    path: String,
    by: Vec<usize>,
}

impl Struck {
    fn each(&self) -> impl Iterator<Item = (usize, Fault)> {
        self.by.iter().filter_map(|index| Some((*index, self.faults.0.counted.get(*index)?.injection.fault)))
    }

    fn find(&self, is: impl Fn(Fault) -> bool) -> Option<usize> {
        self.each().find(|(_, fault)| is(*fault)).map(|(index, _)| index)
    }

    /// It happens.
    fn strike(&self, index: usize, fault: Fault) {
        if let Some(counted) = self.faults.0.counted.get(index) {
            counted.struck.fetch_add(1, Ordering::Relaxed);
        }
        self.faults.0.host.note(&format!("{fault}: {} {}", self.call, self.path));
    }

    async fn crash(&self, index: usize, fault: Fault) {
        self.strike(index, fault);
        self.faults.0.ended.store(true, Ordering::Relaxed);
        self.faults.0.host.crash().await;
        self.faults.unless_ended().await;
    }

    async fn hold(&self, index: usize, fault: Fault, when: &str) {
        self.strike(index, fault);
        self.faults.0.host.hold(&format!("{when} {} {}", self.call, self.path)).await;
    }

    async fn wait(&self, ms: u64) {
        self.faults.0.host.wait(Duration::from_millis(ms)).await;
    }

    /// Before the call: what is given in its place, if it does not get there.
    async fn before(&self) -> Option<Wrong> {
        self.faults.unless_ended().await;
        let mut wrong = None;
        for (index, fault) in self.each() {
            match fault {
                Fault::CrashBefore => self.crash(index, fault).await,
                Fault::HoldBefore => self.hold(index, fault, "before").await,
                Fault::NotDelivered => {
                    self.strike(index, fault);
                    wrong = Some(Wrong::NoAnswer);
                }
                _ => {}
            }
        }
        self.faults.unless_ended().await;
        wrong
    }

    /// Whether it is delivered once more.
    fn twice(&self) -> bool {
        let twice = self.find(|fault| fault == Fault::Twice);
        twice.inspect(|index| self.strike(*index, Fault::Twice)).is_some()
    }

    /// After the call: what is given in place of its answer. `landed` says whether it took effect.
    async fn after(&self, landed: bool) -> Option<Wrong> {
        self.faults.unless_ended().await;
        for (index, fault) in self.each() {
            match fault {
                Fault::CrashAfter => self.crash(index, fault).await,
                Fault::HoldAfter => self.hold(index, fault, "after").await,
                Fault::Delayed { ms } => {
                    self.strike(index, fault);
                    self.wait(ms).await;
                }
                _ => {}
            }
        }
        self.faults.unless_ended().await;
        self.each().find_map(|(index, fault)| {
            let wrong = match fault {
                Fault::LostReply => Wrong::NoAnswer,
                Fault::ErrorAfterSuccess if landed => Wrong::Failure,
                Fault::ConflictAfterSuccess if landed => Wrong::Conflict,
                _ => return None,
            };
            self.strike(index, fault);
            Some(wrong)
        })
    }

    /// The table to give for one that was loaded.
    fn seen(&self, loaded: Table) -> Table {
        if !self.faults.injects(|injection| injection.fault == Fault::Stale) {
            return loaded;
        }
        let mut known = self.faults.0.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.insert(loaded.identifier().clone(), loaded.clone());
        drop(known);
        match (self.find(|fault| fault == Fault::Stale), before) {
            (Some(index), Some(before)) => {
                self.strike(index, Fault::Stale);
                before
            }
            _ => loaded,
        }
    }
}
