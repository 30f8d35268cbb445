//! Every batch of every fixture is replayed by force, and the table stays what it was but for the rows of that batch.

use hexfloe_tests::{Exit, json};
use rstest::rstest;

use super::{Fixture, TABLE};

/// The rows of the batch are replaced by the whole batch: those that somebody deleted come back. The rows of other batches stay as they
/// are, deleted ones deleted, also where they were in one file with the batch.
#[rstest]
fn a_forced_replay_changes_the_rows_of_its_batch_and_no_others(
    #[values(
        "compacted",
        "compacted_twice",
        "compacted_by_partition",
        "small_row_groups",
        "compressed_by_gzip",
        "bounds_cut",
        "bounds_cut_and_mixed",
        "no_metrics",
        "counts_only",
        "rows_deleted",
        "ids_missing",
        "position_deletes",
        "position_deletes_of_one_file",
        "position_deletes_in_partitions",
        "equality_deletes",
        "equality_deletes_of_nulls",
        "equality_deletes_everywhere",
        "equality_deletes_in_a_partition",
        "equality_deletes_by_a_dropped_column",
        "position_deletes_in_small_row_groups",
        "batch_deleted",
        "equality_deletes_by_changed_columns",
        "deletes_outlived",
        "specs_changed",
        "specs_changed_and_deleted_from",
        "partition_column_dropped",
        "partitioned_by_batch",
        "column_renamed",
        "column_swapped",
        "odd_names",
        "foreign_columns",
        "column_added",
        "column_dropped",
        "column_dropped_and_added_again",
        "column_promoted",
        "partition_column_promoted",
        "everything_at_once",
        "merge_on_read_in_partitions",
        "merge_on_read_over_everything",
        "kinds",
        "registered",
        "registered_and_renamed"
    )]
    name: &str,
) {
    Fixture::new(name).replay_all();
}

/// A replay finds its own work of before as well as that of others.
#[rstest]
fn replaying_twice_is_replaying_once(
    #[values("bounds_cut", "position_deletes", "everything_at_once", "merge_on_read")] name: &str,
) {
    let mut fixture = Fixture::new(name);
    fixture.replay_all();
    fixture.counted = false;
    fixture.replay_all();
}

/// Rows that are deleted, but still in a file, are none that a replay replaces.
#[rstest]
fn the_report_counts_the_rows_that_were_in_the_table(
    #[values("position_deletes", "equality_deletes", "batch_deleted", "merge_on_read")] name: &str,
) {
    let mut fixture = Fixture::new(name);
    fixture.counted = true;
    fixture.replay_all();
}

/// Fields within columns are told apart neither when they changed nor when the file has no field ids.
#[rstest]
#[case("nested_evolved", "`address`")]
#[case("registered_nested", "`address`")]
#[case("registered_kinds", "`numbers`")]
fn a_mixed_file_with_nested_columns_that_cannot_be_read_is_refused_before_anything_is_written(
    #[case] name: &str,
    #[case] column: &str,
) {
    let fixture = Fixture::new(name);
    let files = fixture.file_paths();
    let [mixed] = &files[..] else { panic!("not one file: {files:?}") };
    let before = fixture.lake.state();
    for batch in &fixture.batches {
        fixture.force(batch).refuses(Exit::Unexpected, &[mixed, column]);
    }
    assert_eq!(fixture.lake.state(), before);
}

#[test]
fn what_others_keep_with_the_table_stays() {
    let mut fixture = Fixture::new("annotated");
    let before = fixture.lake.ask("annotations", json!({ "table": TABLE }));
    fixture.replay_all();
    assert_eq!(fixture.lake.ask("annotations", json!({ "table": TABLE })), before);
    assert_eq!(before["refs"].as_object().unwrap().len(), 3, "main, a tag and a branch");
}

#[test]
fn a_table_that_asks_for_it_gets_deletes_instead_of_rewritten_files() {
    let mut fixture = Fixture::new("merge_on_read");
    let mixed = fixture.lake.files(TABLE);
    let mixed = mixed.iter().find(|file| file["rows"] == 10).unwrap()["path"].as_str().unwrap();
    fixture.replay("b");
    assert!(fixture.file_paths().iter().any(|path| path == mixed), "{mixed} was rewritten");
    fixture.replay("a");
    fixture.replay("c");
    fixture.replay("d");
}

#[test]
fn new_files_lie_where_the_table_asks() {
    let mut fixture = Fixture::new("other_data_path");
    fixture.replay_all();
    let elsewhere = fixture.lake.path("lake/elsewhere");
    for path in fixture.file_paths() {
        assert!(path.starts_with(elsewhere.to_str().unwrap()), "{path} is not in {}", elsewhere.display());
    }
}

/// Four folders of four, four, four and eight binary digits, as every engine lays out such tables.
#[test]
fn new_files_are_spread_over_hashed_folders_when_the_table_asks() {
    let mut fixture = Fixture::new("object_storage_layout");
    fixture.replay_all();
    for path in fixture.file_paths() {
        let (_, below) = path.split_once("/data/").unwrap();
        let folders: Vec<&str> = below.split('/').take(4).collect();
        let lengths: Vec<usize> = folders.iter().map(|folder| folder.len()).collect();
        assert_eq!(lengths, [4, 4, 4, 8], "{path}");
        assert!(folders.iter().all(|folder| folder.chars().all(|c| matches!(c, '0' | '1'))), "{path}");
    }
}

#[test]
fn new_metadata_is_compressed_when_the_table_asks() {
    let mut fixture = Fixture::new("metadata_compressed");
    fixture.replay_all();
    let table = fixture.lake.ask("table", json!({ "table": TABLE }));
    let metadata = table["metadata_location"].as_str().unwrap();
    assert!(metadata.ends_with(".gz.metadata.json"), "{metadata}");
}
