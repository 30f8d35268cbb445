//! What others do between the first look and the commit.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::Array;
use async_trait::async_trait;
use hexfloe_commit::{Environment, SharedEnvironment};
use hexfloe_ingest::{ErrorKind, Ingest, RunOptions, Status};
use iceberg::spec::PrimitiveType;
use rstest::rstest;
use uuid::Uuid;

use crate::existing_tables::make;
use crate::lake::{Lake, column, job, job_of, longs};

/// An environment in which something happens when an attempt takes its id: after the look at the table, before the first
/// row.
struct Meanwhile {
    inner: SharedEnvironment,
    event: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    hours_later: AtomicUsize,
}

impl fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meanwhile").finish_non_exhaustive()
    }
}

#[async_trait]
impl Environment for Meanwhile {
    fn now_ms(&self) -> i64 {
        let hours = i64::try_from(self.hours_later.load(Ordering::SeqCst)).unwrap();
        self.inner.now_ms() + hours * 3_600_000
    }

    fn uuid(&self) -> Uuid {
        if let Some(event) = self.event.lock().unwrap().take() {
            event();
        }
        self.inner.uuid()
    }

    fn jitter(&self) -> f64 {
        self.inner.jitter()
    }

    async fn sleep(&self, time: Duration) {
        self.inner.sleep(time).await;
    }
}

fn meanwhile(lake: &Lake, event: impl FnOnce() + Send + 'static) -> (Ingest, Arc<Meanwhile>) {
    let environment = Arc::new(Meanwhile {
        inner: Arc::clone(&lake.environment),
        event: Mutex::new(Some(Box::new(event))),
        hours_later: AtomicUsize::new(0),
    });
    (Ingest::new(lake.catalog.clone(), Arc::<Meanwhile>::clone(&environment)), environment)
}

fn blocking<T>(future: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(future))
}

#[rstest]
#[case::the_same_columns(
    &[("id", PrimitiveType::Long), ("name", PrimitiveType::String), ("ingest_batch_id!", PrimitiveType::String)]
)]
#[case::one_more_column(
    &[("extra", PrimitiveType::Date), ("id", PrimitiveType::Long), ("name", PrimitiveType::String), ("ingest_batch_id!", PrimitiveType::String)]
)]
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_somebody_else_makes_meanwhile_is_used(#[case] columns: &'static [(&str, PrimitiveType)]) {
    let lake = Arc::new(Lake::new().await);
    lake.write("in.csv", "id,name\n1,a\n2,b\n");
    let other = Arc::clone(&lake);
    let (ingest, _) = meanwhile(&lake, move || blocking(make(&other, columns)));
    let report = ingest.run(&job_of(&job("csv", "in.csv", ""), &[]), &lake.options()).await.unwrap();
    assert_eq!((report.status, report.rows, lake.snapshots().await), (Status::Committed, 2, 1));
    let files = lake.files().await;
    assert_eq!((files.len(), lake.on_disk(".parquet").len()), (1, 1));
    assert_eq!(longs(&column(&files[0], "id")), [Some(1), Some(2)]);
    if columns.len() == 4 {
        assert_eq!(column(&files[0], "extra").null_count(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_somebody_else_makes_meanwhile_may_be_unfit() {
    let lake = Arc::new(Lake::new().await);
    lake.write("in.csv", "id,name\n1,a\n");
    let other = Arc::clone(&lake);
    let (ingest, _) = meanwhile(&lake, move || {
        blocking(make(&other, &[("id", PrimitiveType::Long), ("ingest_batch_id!", PrimitiveType::String)]));
    });
    let error = ingest.run(&job_of(&job("csv", "in.csv", ""), &[]), &lake.options()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("column `name`"), "{error}");
    assert_eq!((lake.snapshots().await, lake.on_disk(".parquet")), (0, vec![]));
    assert!(lake.table().await.is_some(), "the table of the other stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_somebody_else_commits_meanwhile_is_skipped() {
    let lake = Arc::new(Lake::new().await);
    lake.write("in.csv", "id,name\n1,a\n2,b\n");
    let other = Arc::clone(&lake);
    let (ingest, _) = meanwhile(&lake, move || {
        blocking(other.run(&job("csv", "in.csv", ""))).unwrap();
    });
    let report = ingest.run(&job_of(&job("csv", "in.csv", ""), &[]), &lake.options()).await.unwrap();
    assert_eq!((report.status, report.rows, report.data_files), (Status::Skipped, 0, 0));
    assert_eq!((lake.snapshots().await, lake.on_disk(".parquet").len()), (1, 1));
}

#[rstest]
#[case::another_file(true)]
#[case::the_same_bytes_in_another_file(false)]
#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_is_replaced_while_it_is_read_is_refused(#[case] other_bytes: bool) {
    let lake = Arc::new(Lake::new().await);
    lake.write("in.csv", "id,name\n1,a\n2,b\n");
    let other = Arc::clone(&lake);
    let (ingest, _) = meanwhile(&lake, move || {
        other.write("new.csv", if other_bytes { "id,name\n3,c\n" } else { "id,name\n1,a\n2,b\n" });
        std::fs::rename(other.path("new.csv"), other.path("in.csv")).unwrap();
    });
    let error = ingest.run(&job_of(&job("csv", "in.csv", ""), &[]), &lake.options()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    assert!(error.to_string().contains("in.csv"), "{error}");
    assert_eq!((lake.snapshots().await, lake.on_disk(".parquet")), (0, vec![]));
}

/// Cleanup may have taken its files: they are written anew, and the new ones are young.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_took_too_long_starts_over_and_lands() {
    let lake = Lake::new().await;
    lake.write("in.csv", "id\n1\n");
    let later = Arc::new(Mutex::new(None::<Arc<Meanwhile>>));
    let clock = Arc::clone(&later);
    let (ingest, environment) = meanwhile(&lake, move || {
        clock.lock().unwrap().as_ref().unwrap().hours_later.store(13, Ordering::SeqCst);
    });
    *later.lock().unwrap() = Some(environment);
    let options = RunOptions { force: true, ..lake.options() };
    let report = ingest.run(&job_of(&job("csv", "in.csv", ""), &[]), &options).await.unwrap();
    assert_eq!((report.status, report.rows), (Status::Committed, 1));
    assert_eq!((lake.snapshots().await, lake.on_disk(".parquet").len()), (1, 1));
}
