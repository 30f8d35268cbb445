//! Bad input: a clear line, the right exit code, and nothing changed, on a fresh lake and on one with a table.

use std::fs;

use hexfloe_tests::{Exit, Lake, POINTS, data, json, judge};
use rstest::rstest;

const GOOD: &str = "id,lat,lon\n1,48.2,16.4\n2,-33.9,151.2\n";

/// What is wrong with a job whose table may exist.
#[derive(Clone, Copy, Debug)]
enum Bad {
    BrokenRow,
    UnclosedQuote,
    NotUtf8,
    WrongColumn,
    LatitudeOf91,
    NotANumber,
    NoLatitude,
    EmptyFile,
    MissingFile,
    NoMatch,
    Directory,
    UnknownKey,
    UnknownSection,
    WrongType,
    NotToml,
    NoJob,
    UnknownOverride,
    TruncatedParquet,
    HeadlessParquet,
    NotParquet,
}

impl Bad {
    /// Makes it so.
    fn prepare(self, lake: &Lake) {
        let csv = |content: &[u8]| drop(lake.write("points.csv", content));
        let job = |from: &str, to: &str| {
            assert!(POINTS.contains(from), "{from}");
            drop(lake.write("job.toml", POINTS.replace(from, to)));
        };
        let parquet = |whole: bool, keep: usize| {
            job("\"csv\"", "\"parquet\"");
            let (from, to) = (data("few.parquet"), lake.path("points.csv"));
            let content = fs::read(from).unwrap();
            let kept = if whole { &content[..content.len() - keep] } else { &content[keep..] };
            fs::write(to, kept).unwrap();
        };
        match self {
            Self::BrokenRow => csv(b"id,lat,lon\n1,48.2,16.4\n2,48.2\n3,48.2,16.4\n"),
            Self::UnclosedQuote => csv(b"id,lat,lon\n1,48.2,16.4\n\"2,48.2,16.4\n"),
            Self::NotUtf8 => csv(b"id,lat,lon\n1,48.2,16.4\n\xff\xfe,48.2,16.4\n"),
            Self::WrongColumn => job("lat = \"lat\"", "lat = \"latt\""),
            Self::LatitudeOf91 => csv(b"id,lat,lon\n1,48.2,16.4\n2,91,16.4\n"),
            Self::NotANumber => {
                csv(b"id,lat,lon\n1,48.2,16.4\n2,NaN,16.4\n");
                job("[geometry]", "[source.schema]\nlat = \"double\"\n\n[geometry]");
            }
            Self::NoLatitude => csv(b"id,lat,lon\n1,48.2,16.4\n2,,16.4\n"),
            Self::EmptyFile => csv(b""),
            Self::MissingFile => fs::remove_file(lake.path("points.csv")).unwrap(),
            Self::NoMatch => job("\"points.csv\"", "\"points-*.csv\""),
            Self::Directory => {
                fs::remove_file(lake.path("points.csv")).unwrap();
                fs::create_dir(lake.path("points.csv")).unwrap();
            }
            Self::UnknownKey => job("resolution = 9", "resolution = 9\nresolutoin = 8"),
            Self::UnknownSection => job("[geometry]", "[geometri]"),
            Self::WrongType => job("resolution = 9", "resolution = \"fine\""),
            Self::NotToml => drop(lake.write("job.toml", "[source\nname = ")),
            Self::NoJob => fs::remove_file(lake.path("job.toml")).unwrap(),
            Self::UnknownOverride => {}
            Self::TruncatedParquet => parquet(true, 1_000),
            Self::HeadlessParquet => parquet(false, 1_000),
            Self::NotParquet => {
                job("\"csv\"", "\"parquet\"");
                csv(b"id,lat,lon\n5,35.7,139.7\n");
            }
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::UnknownOverride => &["job.toml", "--set", "table.nmae=\"ns.other\""],
            _ => &["job.toml"],
        }
    }
}

#[rstest]
#[case(Bad::BrokenRow, Exit::Input, &["points.csv", "3"])]
#[case(Bad::UnclosedQuote, Exit::Input, &["points.csv"])]
#[case(Bad::NotUtf8, Exit::Input, &["points.csv", "UTF-8"])]
#[case(Bad::WrongColumn, Exit::Usage, &["latt", "lat"])]
#[case(Bad::LatitudeOf91, Exit::Input, &["points.csv", "2", "91"])]
#[case(Bad::NotANumber, Exit::Input, &["points.csv", "2"])]
#[case(Bad::NoLatitude, Exit::Input, &["points.csv", "2", "latitude"])]
#[case(Bad::EmptyFile, Exit::Input, &["points.csv"])]
#[case(Bad::MissingFile, Exit::Input, &["points.csv"])]
#[case(Bad::NoMatch, Exit::Input, &["points-*.csv"])]
#[case(Bad::Directory, Exit::Input, &["points.csv", "folder"])]
#[case(Bad::UnknownKey, Exit::Usage, &["resolutoin", "resolution"])]
#[case(Bad::UnknownSection, Exit::Usage, &["geometri", "geometry"])]
#[case(Bad::WrongType, Exit::Usage, &["line 12", "fine"])]
#[case(Bad::NotToml, Exit::Usage, &["job.toml"])]
#[case(Bad::NoJob, Exit::Usage, &["job.toml"])]
#[case(Bad::UnknownOverride, Exit::Usage, &["nmae", "name"])]
#[case(Bad::TruncatedParquet, Exit::Input, &["points.csv"])]
#[case(Bad::HeadlessParquet, Exit::Input, &["points.csv"])]
#[case(Bad::NotParquet, Exit::Input, &["points.csv"])]
fn bad_input_is_named_and_changes_nothing(
    #[case] bad: Bad,
    #[case] exit: Exit,
    #[case] says: &[&str],
    #[values(false, true)] table_exists: bool,
) {
    let lake = Lake::with_points(GOOD);
    if table_exists {
        lake.ingest(&["job.toml"]).committed();
    }
    let before = lake.state();
    lake.write("points.csv", "id,lat,lon\n4,35.7,139.7\n");
    bad.prepare(&lake);
    lake.ingest(bad.arguments()).refuses(exit, says);
    assert_eq!(lake.state(), before);
    assert!(table_exists || before.is_empty());
}

#[test]
fn parquet_cut_at_any_length_is_refused() {
    let whole = data("few.parquet");
    let length = fs::metadata(&whole).unwrap().len();
    let lake = Lake::new();
    lake.write("job.toml", POINTS.replace("\"csv\"", "\"parquet\"").replace("points.csv", "cut.parquet"));
    for part in 0..12 {
        let cut = json!({ "path": whole, "to": lake.path("cut.parquet"), "length": length * part / 12 });
        judge("truncate", cut);
        lake.ingest(&["job.toml"]).refuses(Exit::Input, &["cut.parquet"]);
        assert!(lake.state().is_empty(), "cut after {part} twelfths");
    }
}

#[test]
fn a_broken_row_at_the_end_of_a_large_file_leaves_no_data_file() {
    let rows = (0..300_000).fold("id,lat,lon\n".to_owned(), |csv, id| csv + &format!("{id},{}.5,1\n", id % 80));
    let lake = Lake::with_points(&(rows + "300000,95,1\n"));
    lake.ingest(&["job.toml"]).refuses(Exit::Input, &["points.csv", "300001", "95"]);
    assert!(lake.state().is_empty(), "{:#?}", lake.state());
}

#[rstest]
#[case::no_command(&[])]
#[case::no_job(&["ingest"])]
#[case::unknown_flag(&["ingest", "job.toml", "--forse"])]
#[case::unknown_command(&["injest", "job.toml"])]
#[case::a_run_date_that_is_none(&["ingest", "job.toml", "--run-date", "yesterday"])]
#[case::a_catalog_file_that_is_missing(&["ingest", "job.toml", "--catalog", "nowhere.toml"])]
#[case::a_table_without_a_namespace(&["ingest", "job.toml", "--set", "table.name=\"points\""])]
fn a_wrong_command_line_is_a_usage_error(#[case] arguments: &[&str]) {
    let lake = Lake::with_points(GOOD);
    lake.hexfloe(arguments).ends(Exit::Usage);
    assert!(lake.state().is_empty());
}

#[test]
fn a_catalog_that_cannot_be_opened_is_unavailable() {
    let lake = Lake::with_points(GOOD);
    lake.write("in-the-way", "a file where the catalog's folder would be");
    lake.write(
        "catalog.toml",
        "name = \"lake\"\ntype = \"sql\"\nuri = \"sqlite:in-the-way/catalog.db\"\nwarehouse = \"file:in-the-way/warehouse\"\n",
    );
    let run = lake.hexfloe(&["ingest", "job.toml", "--catalog", "catalog.toml"]).ends(Exit::Unavailable);
    assert!(run.stderr.contains("in-the-way"), "{}", run.stderr);
}

#[test]
fn a_warehouse_that_there_is_no_store_for_is_a_usage_error_in_one_sentence() {
    let lake = Lake::with_points(GOOD);
    lake.write(
        "catalog.toml",
        "name = \"lake\"\ntype = \"sql\"\nuri = \"sqlite:c.db\"\nwarehouse = \"hdfs://cluster/w\"\n",
    );
    let run = lake.hexfloe(&["ingest", "job.toml", "--catalog", "catalog.toml"]);
    let run = run.refuses(Exit::Usage, &["hdfs://cluster/w", "is not usable", "file, memory, s3"]);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert!(!lake.path("c.db").exists());
}

/// Advice is only what can be followed.
#[rstest]
#[case::another_delimiter("id;lat;lon\n1;48.2;16.4\n", &[], &["`id;lat;lon`", "source.csv.delimiter = \";\""])]
#[case::a_tab("id\tlat\tlon\n1\t48.2\t16.4\n", &[], &["source.csv.delimiter = \"\\t\""])]
#[case::the_batch_column("id,lat,lon,ingest_batch_id\n1,48.2,16.4,x\n", &[], &["`ingest_batch_id`", "the id of the batch"])]
#[case::the_cell_column("id,lat,lon,h3_cell\n1,48.2,16.4,x\n", &[], &["`h3_cell`", "h3.column"])]
#[case::a_misspelt_date("id,lat,lon\n1,48.2,16.4\n", &["table.mode=slice", "table.slice.d=$run-date"], &["table.slice.d", "$run-date", "did you mean $run_date?"])]
fn what_can_be_done_is_said(#[case] csv: &str, #[case] set: &[&str], #[case] says: &[&str]) {
    let lake = Lake::with_points(csv);
    let set = set.iter().flat_map(|set| ["--set", *set]);
    let run = lake.ingest(&std::iter::once("job.toml").chain(set).collect::<Vec<_>>());
    run.refuses(Exit::Usage, says);
    assert!(!lake.path("lake/warehouse").exists() || lake.state().files.is_empty());
}

#[test]
fn a_type_that_differs_is_told_in_the_words_of_the_job() {
    let lake = Lake::with_points(GOOD);
    lake.ingest(&["job.toml"]).committed();
    let run = lake.ingest(&["job.toml", "--set", "source.schema.id=string", "--force"]);
    let run = run.refuses(Exit::Usage, &["column `id` is string in the source and long in the table", "source.schema"]);
    assert!(!run.stderr.contains("Utf8") && !run.stderr.contains("Int64"), "{}", run.stderr);
}

#[test]
fn an_unknown_key_of_a_catalog_file_is_named() {
    let lake = Lake::with_points(GOOD);
    lake.write("catalog.toml", "nmae = \"lake\"\ntype = \"sql\"\nuri = \"sqlite:c.db\"\nwarehouse = \"file:w\"\n");
    let run = lake.hexfloe(&["ingest", "job.toml", "--catalog", "catalog.toml"]);
    run.refuses(Exit::Usage, &["catalog.toml", "nmae", "name"]);
}

#[test]
fn a_column_that_the_table_does_not_have_is_named() {
    let lake = Lake::with_points(GOOD);
    lake.ingest(&["job.toml"]).committed();
    lake.write("points.csv", "id,lat,lon,altitude\n3,48.2,16.4,171\n");
    let before = lake.state();
    let run = lake.ingest(&["job.toml"]);
    assert!(matches!(run.code, Some(2 | 3)), "{run:?}");
    assert!(run.stderr.contains("altitude"), "{}", run.stderr);
    assert_eq!(lake.state(), before);
}
