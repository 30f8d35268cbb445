//! Several jobs in one run: what happens between the first file and the commit of a group.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use hexfloe_commit::{Environment, SharedEnvironment};
use hexfloe_ingest::{BatchEnd, ErrorKind, Fate, Ingest, JobRun, Status};
use uuid::Uuid;

use crate::faults::{Fault, FaultyWrites};
use crate::lake::{Lake, job, job_of};

type Event = Box<dyn FnMut(usize, &AtomicI64) + Send>;

/// An environment in which something may happen whenever an id is taken: each attempt at writing a batch takes one after its
/// look at the table and before its first row. Ids are counted from 1.
struct Eventful {
    inner: SharedEnvironment,
    ids: AtomicUsize,
    later_ms: AtomicI64,
    event: Mutex<Event>,
}

impl fmt::Debug for Eventful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Eventful").finish_non_exhaustive()
    }
}

#[async_trait]
impl Environment for Eventful {
    fn now_ms(&self) -> i64 {
        self.inner.now_ms() + self.later_ms.load(Ordering::SeqCst)
    }

    fn uuid(&self) -> Uuid {
        let number = self.ids.fetch_add(1, Ordering::SeqCst) + 1;
        (self.event.lock().unwrap())(number, &self.later_ms);
        self.inner.uuid()
    }

    fn jitter(&self) -> f64 {
        self.inner.jitter()
    }

    async fn sleep(&self, time: Duration) {
        self.inner.sleep(time).await;
    }
}

const HOUR_MS: i64 = 3_600_000;

fn eventful(lake: &Lake, event: impl FnMut(usize, &AtomicI64) + Send + 'static) -> Ingest {
    let environment = Eventful {
        inner: Arc::clone(&lake.environment),
        ids: AtomicUsize::new(0),
        later_ms: AtomicI64::new(0),
        event: Mutex::new(Box::new(event)),
    };
    Ingest::new(lake.catalog.clone(), Arc::new(environment))
}

/// A lake with three files of one row each.
async fn lake() -> Lake {
    with_files(Lake::new().await)
}

fn with_files(lake: Lake) -> Lake {
    for (id, name) in ["a", "b", "c"].into_iter().enumerate() {
        lake.write(&format!("{name}.csv"), format!("id\n{id}\n"));
    }
    lake
}

fn runs(lake: &Lake, jobs: &[String]) -> Vec<JobRun> {
    jobs.iter().map(|job| JobRun { job: job_of(job, &[]), options: lake.options() }).collect()
}

fn jobs(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| job("csv", &format!("{name}.csv"), "")).collect()
}

/// Runs the jobs, up to `group` in a commit.
async fn run_all(ingest: &Ingest, runs: &[JobRun], group: usize) -> Vec<BatchEnd> {
    let mut ends = Vec::new();
    ingest.run_all(runs, NonZeroUsize::new(group).unwrap(), &mut |end| ends.push(end)).await;
    ends
}

#[track_caller]
fn committed(end: &BatchEnd) -> i64 {
    match &end.fate {
        Fate::Settled(report) if report.status == Status::Committed => report.snapshot_id.unwrap(),
        other => panic!("not committed: {other:?}"),
    }
}

#[track_caller]
fn failed(end: &BatchEnd) -> ErrorKind {
    match &end.fate {
        Fate::Failed(error) => error.kind(),
        other => panic!("did not fail: {other:?}"),
    }
}

/// Cleanup may have taken the files of the group: all are written anew, and the new ones are young.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_took_too_long_starts_over_and_lands_together() {
    let lake = lake().await;
    lake.run(&jobs(&["c"])[0]).await.unwrap();
    // The second batch takes half a day to write.
    let ingest = eventful(&lake, |id, later_ms| {
        if id == 2 {
            later_ms.fetch_add(13 * HOUR_MS, Ordering::SeqCst);
        }
    });
    let ends = run_all(&ingest, &runs(&lake, &jobs(&["a", "b"])), 2).await;
    assert_eq!(committed(&ends[0]), committed(&ends[1]));
    assert_eq!((lake.snapshots().await, lake.on_disk(".parquet").len()), (2, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_always_takes_too_long_is_given_up_and_leaves_no_table() {
    let lake = lake().await;
    let ingest = eventful(&lake, |_, later_ms| {
        later_ms.fetch_add(13 * HOUR_MS, Ordering::SeqCst);
    });
    let ends = run_all(&ingest, &runs(&lake, &jobs(&["a", "b"])), 2).await;
    assert_eq!(ends.iter().map(failed).collect::<Vec<_>>(), [ErrorKind::Conflict, ErrorKind::Conflict]);
    assert!(lake.table().await.is_none());
    assert_eq!(lake.on_disk(""), [""; 0]);
}

/// A commit lands whole or not at all, and which of its batches it fails for is not always told.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_fails_for_one_of_its_batches_is_taken_apart() {
    let lake = Arc::new(lake().await);
    let offsets = |name: &str, first: u32| {
        let offsets = format!("granularity = \"offsets\"\npartition = \"0\"\noffsets = [{first}, {}]", first + 1);
        jobs(&[name])[0].replace("granularity = \"files\"", &offsets)
    };
    lake.run(&offsets("c", 0)).await.unwrap();
    // While the second batch is written somebody commits another input under its id.
    let (rival, other) = (Arc::clone(&lake), offsets("c", 2));
    let ingest = eventful(&lake, move |id, _| {
        if id == 2 {
            let commit = rival.run(&other);
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(commit)).unwrap();
        }
    });
    let runs = runs(&lake, &[offsets("a", 1), offsets("b", 2)]);
    let ends = run_all(&ingest, &runs, 2).await;
    assert_eq!(ends.iter().map(|end| end.job).collect::<Vec<_>>(), [0, 1]);
    committed(&ends[0]);
    assert_eq!(failed(&ends[1]), ErrorKind::Input);
    assert_eq!((lake.snapshots().await, lake.on_disk(".parquet").len()), (3, 3));
}

/// Nothing more is begun when the store fails, and what was prepared before is committed.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_ends_the_run_after_what_is_prepared() {
    let lake = with_files(Lake::over(|store| FaultyWrites::new(store, Fault::Fail, 1)).await);
    let ends = run_all(&lake.ingest(), &runs(&lake, &jobs(&["a", "b", "c"])), 3).await;
    let of = |job: usize| ends.iter().find(|end| end.job == job).unwrap();
    committed(of(0));
    assert_eq!(failed(of(1)), ErrorKind::Unavailable);
    assert!(matches!(of(2).fate, Fate::NotRun), "{ends:?}");
    assert_eq!((lake.snapshots().await, lake.on_disk(".parquet").len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_does_not_wait_for_others_longer_than_an_hour() {
    let lake = lake().await;
    let ingest = eventful(&lake, |id, later_ms| {
        // Making the table takes the second.
        if id == 3 {
            later_ms.fetch_add(HOUR_MS, Ordering::SeqCst);
        }
    });
    let ends = run_all(&ingest, &runs(&lake, &jobs(&["a", "b", "c"])), 3).await;
    assert_eq!(committed(&ends[0]), committed(&ends[1]));
    assert_ne!(committed(&ends[1]), committed(&ends[2]));
}

/// The first batch makes the table; when it cannot be used the next one makes it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_made_by_the_first_batch_that_can_be_used() {
    let lake = lake().await;
    lake.write("a.csv", "id,lat,lon\n1,91,1\n");
    let of = |name: &str| {
        job("csv", &format!("{name}.csv"), "[geometry]\nlat = \"lat\"\nlon = \"lon\"\n[h3]\nresolution = 5")
    };
    lake.write("b.csv", "id,lat,lon\n1,9,1\n");
    let ends = run_all(&lake.ingest(), &runs(&lake, &[of("a"), of("b")]), 2).await;
    assert_eq!(failed(&ends[0]), ErrorKind::Input);
    committed(&ends[1]);
    assert_eq!((lake.snapshots().await, lake.on_disk(".parquet").len()), (1, 1));
}
