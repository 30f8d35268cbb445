//! What a batch replaces: its slice, the rows with its keys, or nothing.

use arrow::util::display::array_value_to_string;
use hexfloe_ingest::{Error, ErrorKind, Report, RunOptions, Status};
use rstest::rstest;

use crate::lake::{Lake, job, rows};

/// The table's properties of completed batches.
pub(crate) const LEDGER: &str = "ingest.completed_batches";
pub(crate) const LEDGER_SNAPSHOT: &str = "ingest.ledger_snapshot_id";

/// The rows of the table as text, sorted: the columns joined by `|`.
pub(crate) async fn table_rows(lake: &Lake, columns: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for file in lake.files().await {
        let batch = rows(&file);
        for row in 0..batch.num_rows() {
            let value = |column: &&str| array_value_to_string(batch.column_by_name(column).unwrap(), row).unwrap();
            all.push(columns.iter().map(value).collect::<Vec<_>>().join("|"));
        }
    }
    all.sort();
    all
}

fn slice(paths: &str, day: &str) -> String {
    job("csv", paths, &format!("mode = \"slice\"\nslice = {{ day = {day} }}"))
        .replace("granularity = \"files\"", "granularity = \"slice\"")
}

fn counted(report: &Report) -> (Status, u64, u64) {
    (report.status, report.rows, report.replaced_rows)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_replaces_its_rows_and_no_others_and_is_skipped_when_nothing_changed() {
    let lake = Lake::new().await;
    lake.write("in.csv", "id,day\n1,2026-08-10\n2,2026-08-10\n");
    assert_eq!(counted(&lake.run(&slice("in.csv", "2026-08-10")).await.unwrap()), (Status::Committed, 2, 0));
    lake.write("in.csv", "id,day\n3,2026-08-11\n4,2026-08-11\n5,2026-08-11\n");
    let job = slice("in.csv", "\"2026-08-11\"");
    assert_eq!(counted(&lake.run(&job).await.unwrap()), (Status::Committed, 3, 0));
    // The same files under other names are the same content.
    std::fs::rename(lake.path("in.csv"), lake.path("again.csv")).unwrap();
    assert_eq!(lake.run(&job.replace("in.csv", "again.csv")).await.unwrap().status, Status::Skipped);
    lake.write("in.csv", "id,day\n5,2026-08-11\n6,2026-08-11\n");
    assert_eq!(counted(&lake.run(&job).await.unwrap()), (Status::Committed, 2, 3));
    assert_eq!(
        table_rows(&lake, &["day", "id"]).await,
        ["2026-08-10|1", "2026-08-10|2", "2026-08-11|5", "2026-08-11|6"]
    );
    // What came before the last change is another content again.
    lake.write("in.csv", "id,day\n3,2026-08-11\n4,2026-08-11\n5,2026-08-11\n");
    assert_eq!(counted(&lake.run(&job).await.unwrap()), (Status::Committed, 3, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_without_rows_is_emptied() {
    let lake = Lake::new().await;
    for (date, csv) in [("2026-08-10", "id,day\n1,2026-08-10\n"), ("2026-08-11", "id,day\n1,2026-08-11\n")] {
        lake.write("in.csv", csv);
        lake.run(&slice("in.csv", date)).await.unwrap();
    }
    lake.write("in.csv", "id,day\n");
    assert_eq!(counted(&lake.run(&slice("in.csv", "2026-08-11")).await.unwrap()), (Status::Committed, 0, 1));
    assert_eq!(table_rows(&lake, &["day", "id"]).await, ["2026-08-10|1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_that_the_input_lacks_is_filled_in_with_the_slices_value() {
    let lake = Lake::new().await;
    lake.write("in.csv", "id\n1\n2\n");
    let job = job(
        "csv",
        "in.csv",
        "mode = \"slice\"\nslice = { day = \"$run_date\", zone = 7, country = \"AT\", final = true }",
    )
    .replace("granularity = \"files\"", "granularity = \"slice\"");
    let at = |date: &str| RunOptions { run_date: Some(date.to_owned()), ..lake.options() };
    for date in ["2026-08-11", "2026-08-12"] {
        let report = lake.run_with(&job, &[], at(date)).await.unwrap();
        assert_eq!(counted(&report), (Status::Committed, 2, 0));
    }
    assert_eq!(lake.run_with(&job, &[], at("2026-08-11")).await.unwrap().status, Status::Skipped);
    assert_eq!(
        table_rows(&lake, &["day", "zone", "country", "final", "id"]).await,
        ["2026-08-11|7|AT|true|1", "2026-08-11|7|AT|true|2", "2026-08-12|7|AT|true|1", "2026-08-12|7|AT|true|2"]
    );
    let types: Vec<String> = {
        let table = lake.table().await.unwrap();
        let fields = table.metadata().current_schema().as_struct().fields().to_vec();
        fields.iter().map(|field| format!("{} {}", field.name, field.field_type)).collect()
    };
    assert_eq!(
        types,
        ["id long", "country string", "day date", "final boolean", "zone long", "ingest_batch_id string"]
    );
    let error = lake.run(&job).await.unwrap_err();
    assert!(error.to_string().contains("--run-date"), "{error}");
}

/// By its files it would be the same batch every day, and all days but the first would be skipped.
#[tokio::test(flavor = "multi_thread")]
async fn a_column_is_filled_in_only_where_the_batch_id_is_made_of_the_slice() {
    let lake = Lake::new().await;
    lake.write("in.csv", "id\n1\n");
    let by_files = slice("in.csv", "2026-08-11").replace("granularity = \"slice\"", "granularity = \"files\"");
    let error = lake.run(&by_files).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("has no column `day`"), "{error}");
    assert!(lake.table().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_outside_of_the_slice_or_null_there_is_rejected_by_the_columns_name() {
    let lake = Lake::new().await;
    lake.write("in.csv", "id,day\n1,2026-08-11\n2,2026-08-12\n3,\n");
    let job = slice("in.csv", "2026-08-11");
    let error = lake.run(&job).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    let message = error.to_string();
    assert!(message.contains("in.csv, row 2: column day: \"2026-08-12\" is outside of the slice"), "{message}");
    assert!(message.contains("in.csv, row 3: column day is required, and is null"), "{message}");
    assert!(lake.table().await.is_none());
    let report = lake.run_with(&job, &["quality.on_reject=quarantine"], lake.options()).await.unwrap();
    assert_eq!((report.rows, report.rejected), (1, 2));
    assert_eq!(table_rows(&lake, &["id", "day"]).await, ["1|2026-08-11"]);
    let aside = std::fs::read_to_string(report.reject_file.unwrap()).unwrap();
    assert!(aside.contains("\"code\":\"outside-slice\""), "{aside}");
}

#[rstest]
#[case::an_extra_column("id,day,colour\n9,2026-08-11,red\n", ErrorKind::Configuration, "column `colour`")]
#[case::a_value_that_does_not_fit("id,day\n9,2026-08-11\nnine,2026-08-11\n", ErrorKind::Input, "nine")]
#[case::a_file_that_breaks_off("id,day\n9,2026-08-11\n\"10,2026-08-11\n", ErrorKind::Input, "in.csv")]
#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_fails_leaves_the_slice_as_it_was(
    #[case] text: &str,
    #[case] kind: ErrorKind,
    #[case] message: &str,
) {
    let lake = Lake::new().await;
    lake.write("in.csv", "id,day\n1,2026-08-11\n2,2026-08-11\n");
    let job = slice("in.csv", "2026-08-11");
    lake.run(&job).await.unwrap();
    let before = (lake.on_disk(""), table_rows(&lake, &["id", "day", "ingest_batch_id"]).await);
    lake.write("in.csv", text);
    let error = lake.run(&job).await.unwrap_err();
    assert!(error.kind() == kind && error.to_string().contains(message), "{error}");
    assert_eq!((lake.on_disk(""), table_rows(&lake, &["id", "day", "ingest_batch_id"]).await), before);
}

/// Batches of a slice by their files: which of them came last decides what the slice holds, and a batch that was is not again.
#[tokio::test(flavor = "multi_thread")]
async fn replays_out_of_order_change_nothing() {
    let lake = Lake::new().await;
    let run = async |number: i64, mode: &str| {
        lake.write("in.csv", format!("id,day,version\n1,2026-08-11,{number}\n"));
        lake.run(&job("csv", "in.csv", mode)).await.unwrap().status
    };
    let mode = "mode = \"slice\"\nslice = { day = 2026-08-11 }";
    let mut statuses = Vec::new();
    for number in [3, 1, 2, 1] {
        statuses.push(run(number, mode).await);
    }
    use Status::{Committed, Skipped};
    assert_eq!(statuses, [Committed, Committed, Committed, Skipped]);
    assert_eq!(table_rows(&lake, &["version"]).await, ["2"]);
}

const UPSERT: &str = "mode = \"upsert\"\nkey = [\"day\", \"id\"]\npartition = [\"day\"]";

#[tokio::test(flavor = "multi_thread")]
async fn an_upsert_replaces_the_rows_with_its_keys_wherever_they_are() {
    let lake = Lake::new().await;
    let upsert = job("csv", "in.csv", UPSERT);
    lake.write("in.csv", "id,day,value\n1,2026-08-10,a\n2,2026-08-10,a\n1,2026-08-11,a\n");
    assert_eq!(counted(&lake.run(&upsert).await.unwrap()), (Status::Committed, 3, 0));
    // Two keys that are there, in two partitions; one that is new; one whose columns are there, but not together.
    lake.write("in.csv", "id,day,value\n2,2026-08-10,b\n1,2026-08-11,b\n3,2026-08-12,b\n2,2026-08-11,b\n");
    assert_eq!(counted(&lake.run(&upsert).await.unwrap()), (Status::Committed, 4, 2));
    let columns = ["day", "id", "value"];
    let expected = ["2026-08-10|1|a", "2026-08-10|2|b", "2026-08-11|1|b", "2026-08-11|2|b", "2026-08-12|3|b"];
    assert_eq!(table_rows(&lake, &columns).await, expected);
    assert_eq!(lake.run(&upsert).await.unwrap().status, Status::Skipped);
    assert_eq!(counted(&lake.force(&upsert, &[]).await.unwrap()), (Status::Committed, 4, 4));
    assert_eq!(table_rows(&lake, &columns).await, expected);
    assert_eq!(lake.snapshots().await, 3);
}

/// Rows of the batch whose keys are gone from the input go too: the batch is one thing.
#[tokio::test(flavor = "multi_thread")]
async fn an_upsert_that_comes_again_with_other_keys_takes_its_earlier_rows_away() {
    let lake = Lake::new().await;
    let upsert = job("csv", "in.csv", UPSERT)
        .replace("granularity = \"files\"", "granularity = \"offsets\"\npartition = \"0\"\noffsets = [0, 10]");
    lake.write("in.csv", "id,day\n1,2026-08-10\n2,2026-08-10\n");
    lake.run(&upsert).await.unwrap();
    lake.write("in.csv", "id,day\n2,2026-08-10\n");
    let replace = ["batch.on_changed_input=replace"];
    assert_eq!(counted(&lake.run_with(&upsert, &replace, lake.options()).await.unwrap()), (Status::Committed, 1, 2));
    assert_eq!(table_rows(&lake, &["day", "id"]).await, ["2026-08-10|2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_null_is_a_rejected_row() {
    let lake = Lake::new().await;
    lake.write("in.csv", "id,day\n1,2026-08-10\n,2026-08-10\n3,\n");
    let upsert = job("csv", "in.csv", UPSERT);
    let message = lake.run(&upsert).await.unwrap_err().to_string();
    assert!(message.contains("row 2: column id is required") && message.contains("row 3: column day"), "{message}");
    let report = lake.run_with(&upsert, &["quality.on_reject=quarantine"], lake.options()).await.unwrap();
    assert_eq!((report.rows, report.rejected), (1, 2));
}

#[rstest]
#[case(1)]
#[case(4)]
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_comes_twice_in_a_batch_is_an_error_that_names_it_and_its_rows(#[case] threads: usize) {
    let lake = Lake::new().await;
    let ids = |ids: std::ops::Range<u64>| ids.map(|id| format!("{id},2026-08-10\n")).collect::<String>();
    lake.write("a.csv", format!("id,day\n{}", ids(0..20_000)));
    lake.write("b.csv", format!("id,day\n{}{}", ids(20_000..40_000), ids(77..99)));
    let threads = format!("limits.threads={threads}");
    let upsert = job("csv", "*.csv", UPSERT);
    let error = lake.run_with(&upsert, &[&threads], lake.options()).await.unwrap_err();
    assert!(matches!(error, Error::DuplicateKey { .. }) && error.kind() == ErrorKind::Input, "{error}");
    let message = error.to_string();
    assert!(message.contains("day = 2026-08-10, id = 77: a.csv, row 78; and b.csv, row 20001"), "{message}");
    assert_eq!((lake.snapshots().await, lake.on_disk(".parquet")), (0, vec![]));
    // One of the two is kept when the job says which.
    let dedupe = ["quality.dedupe={ key = [\"id\", \"day\"], keep = \"first\" }", &threads];
    let report = lake.run_with(&upsert, &dedupe, lake.options()).await.unwrap();
    assert_eq!((report.rows, report.deduplicated), (40_000, 22));
}

#[rstest]
#[case::not_a_column("key = [\"nothing\"]", "table.key: the table has no column `nothing`")]
#[case::twice("key = [\"id\", \"id\"]", "twice")]
#[case::a_float("key = [\"x\"]", "cannot be compared for equality safely")]
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_cannot_be_is_refused_before_anything_is_written(#[case] key: &str, #[case] message: &str) {
    let lake = Lake::new().await;
    lake.write("in.csv", "id,x\n1,1.5\n");
    let error = lake.run(&job("csv", "in.csv", &format!("mode = \"upsert\"\n{key}"))).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Configuration && error.to_string().contains(message), "{error}");
    assert!(lake.table().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_do_not_fit_into_the_jobs_memory_are_refused() {
    let lake = Lake::new().await;
    let rows: String = (0..50_000).map(|id| format!("{id},2026-08-10\n")).collect();
    lake.write("in.csv", format!("id,day\n{rows}"));
    let error =
        lake.run_with(&job("csv", "in.csv", UPSERT), &["limits.memory=1MiB"], lake.options()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Configuration && error.to_string().contains("limits.memory is 1MiB"), "{error}");
    assert_eq!(lake.on_disk(".parquet"), [""; 0]);
}

const APPEND: &str = "mode = \"append-once\"";

#[tokio::test(flavor = "multi_thread")]
async fn append_once_adds_a_batch_once_and_cannot_be_forced() {
    let lake = Lake::new().await;
    lake.write("in.csv", "id\n1\n2\n");
    let append = job("csv", "in.csv", APPEND);
    assert_eq!(counted(&lake.run(&append).await.unwrap()), (Status::Committed, 2, 0));
    assert_eq!(lake.run(&append).await.unwrap().status, Status::Skipped);
    let error = lake.force(&append, &[]).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Configuration && error.to_string().contains("--force"), "{error}");
    lake.write("in.csv", "id\n1\n");
    assert_eq!(counted(&lake.run(&append).await.unwrap()), (Status::Committed, 1, 0));
    assert_eq!(table_rows(&lake, &["id"]).await, ["1", "1", "2"]);
    let table = lake.table().await.unwrap();
    let operations: Vec<&str> =
        table.metadata().snapshots().map(|snapshot| snapshot.summary().operation.as_str()).collect();
    assert_eq!(operations, ["append", "append"]);
}

/// Somebody drops the ledger and leaves a snapshot that says nothing: the rows themselves tell.
#[tokio::test(flavor = "multi_thread")]
async fn append_once_finds_a_batch_by_its_rows_when_ledger_and_summaries_are_lost() {
    let lake = Lake::new().await;
    lake.write("in.csv", "id\n1\n2\n");
    let append = job("csv", "in.csv", APPEND);
    lake.run(&append).await.unwrap();
    lake.replace_head(false, &[(LEDGER, None), (LEDGER_SNAPSHOT, None)]).await;
    let report = lake.run(&append).await.unwrap();
    assert_eq!((report.status, report.snapshot_id), (Status::Skipped, None));
    assert_eq!(table_rows(&lake, &["id"]).await, ["1", "2"]);
    assert_eq!(lake.on_disk(".parquet").len(), 1, "the files of the batch that is skipped are gone");
}
