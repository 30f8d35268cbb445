//! The same batch with another input: an id that claims to be a function of the input is held to it.

use hexfloe_ingest::{ErrorKind, Status};
use rstest::rstest;

use crate::lake::{Lake, job};
use crate::modes::{LEDGER, LEDGER_SNAPSHOT, table_rows};

const OFFSETS: &str = "granularity = \"offsets\"\npartition = \"0\"\noffsets = [0, 2]";
const SLICE: &str = "granularity = \"slice\"";

fn of(batch: &str) -> String {
    let mode = if batch == SLICE { "mode = \"slice\"\nslice = { zone = 1 }" } else { "" };
    job("csv", "in.csv", mode).replace("granularity = \"files\"", batch)
}

#[rstest]
#[case::offsets(OFFSETS, &[], false)]
#[case::offsets_that_may_change(OFFSETS, &["batch.on_changed_input=replace"], true)]
#[case::a_slice(SLICE, &[], true)]
#[case::a_slice_that_may_not_change(SLICE, &["batch.on_changed_input=refuse"], false)]
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_input_is_refused_or_replaces(
    #[case] batch: &str,
    #[case] overrides: &[&str],
    #[case] replaces: bool,
    #[values(false, true)] force: bool,
) {
    let lake = Lake::new().await;
    let options = || hexfloe_ingest::RunOptions { force, ..lake.options() };
    lake.write("in.csv", "id,zone\n1,1\n2,1\n");
    let first = lake.run_with(&of(batch), overrides, lake.options()).await.unwrap();
    lake.write("in.csv", "id,zone\n1,1\n3,1\n");
    let second = lake.run_with(&of(batch), overrides, options()).await;
    if replaces {
        let second = second.unwrap();
        assert_eq!((second.status, second.replaced_rows, &second.batch_id), (Status::Committed, 2, &first.batch_id));
        assert_eq!(table_rows(&lake, &["id"]).await, ["1", "3"]);
        assert_eq!(lake.run_with(&of(batch), overrides, lake.options()).await.unwrap().status, Status::Skipped);
    } else {
        let error = second.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.to_string().contains(&first.batch_id), "{error}");
        assert_eq!(table_rows(&lake, &["id"]).await, ["1", "2"]);
        assert_eq!(lake.on_disk(".parquet").len(), 1);
    }
}

/// Only the bytes are read again: that they are the same is all there is to know.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_offsets_with_the_same_content_are_skipped_whatever_the_file_is_called() {
    let lake = Lake::new().await;
    lake.write("in.csv", "id,zone\n1,1\n2,1\n");
    let first = lake.run(&of(OFFSETS)).await.unwrap();
    std::fs::rename(lake.path("in.csv"), lake.path("moved.csv")).unwrap();
    let second = lake.run(&of(OFFSETS).replace("in.csv", "moved.csv")).await.unwrap();
    assert_eq!((second.status, second.snapshot_id), (Status::Skipped, first.snapshot_id));
}

/// The ledger knows the batch, and nothing tells its digest any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_which_only_the_ledger_tells_is_skipped() {
    let lake = Lake::new().await;
    lake.write("in.csv", "id,zone\n1,1\n2,1\n");
    let first = lake.run(&of(OFFSETS)).await.unwrap();
    let ledger = format!("[\"{}\"]", first.batch_id);
    let head = lake.replace_head(false, &[(LEDGER, Some(&ledger))]).await;
    lake.set_properties(&[(LEDGER_SNAPSHOT, Some(&head.to_string()))]).await;
    lake.write("in.csv", "id,zone\n1,1\n3,1\n");
    let second = lake.run(&of(OFFSETS)).await.unwrap();
    assert_eq!((second.status, second.batch_id), (Status::Skipped, first.batch_id));
    assert_eq!(table_rows(&lake, &["id"]).await, ["1", "2"]);
}
