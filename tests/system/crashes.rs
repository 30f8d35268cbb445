//! `kill -9` at moments spread over the whole of an ingest.

use std::time::{Duration, Instant};

use hexfloe_tests::{Exit, Lake, data, json};

const TABLE: &str = "ns.points";
const ROWS: u64 = 1_000_000;
const ROUNDS: u32 = 50;

/// A lake with a job over a million points, by day.
fn lake() -> Lake {
    let lake = Lake::new();
    let job = format!(
        r#"
            [source]
            name = "feed"
            format = "parquet"
            paths = ["{}"]

            [geometry]
            lat = "lat"
            lon = "lon"

            [h3]
            resolution = 9

            [batch]
            granularity = "files"

            [table]
            name = "{TABLE}"
            mode = "batch"
            partition = ["day(event_ts)"]
        "#,
        data("points_1m.parquet").display()
    );
    lake.write("job.toml", job);
    lake
}

/// A number in [0, 1) that depends on the round alone (splitmix64).
fn draw(round: u32) -> f64 {
    let mut z = u64::from(round).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    f64::from((z >> 32) as u32) / f64::from(u32::MAX)
}

/// The moment of a round: one in each of as many equal parts as there are rounds, so that no phase is left out.
fn moment(round: u32, rounds: u32, whole: Duration) -> Duration {
    whole.mul_f64((f64::from(round) + draw(round)) / f64::from(rounds))
}

fn how_long(run: impl FnOnce()) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "how long an ingest takes here says when to kill one")]
    let start = Instant::now();
    run();
    start.elapsed()
}

fn exact(lake: &Lake) {
    let counted = lake.ask("count", json!({ "table": TABLE, "key": "event_id" }));
    assert_eq!(counted, json!({ "rows": ROWS, "distinct": ROWS }));
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

#[test]
fn an_ingest_killed_anywhere_and_run_again_leaves_no_gap_no_duplicate_and_no_torn_file() {
    let first = lake();
    let mut whole = how_long(|| drop(first.ingest(&["job.toml"]).committed()));
    exact(&first);

    // The first ingest of a table: what a crash leaves is either nothing or everything.
    for round in 0..ROUNDS / 2 {
        let mut at = moment(round, ROUNDS / 2, whole);
        let lake = loop {
            let lake = lake();
            if lake.start_ingest(&["job.toml"]).kill(at) {
                break lake;
            }
            // It was faster than the one before it; a killed one was asked for.
            at = at.mul_f64(0.8);
        };
        let between = lake.ask("count", json!({ "table": TABLE, "key": "event_id" }));
        let whole_or_nothing = between.is_null()
            || between == json!({ "rows": 0, "distinct": 0 })
            || between == json!({ "rows": ROWS, "distinct": ROWS });
        assert!(whole_or_nothing, "killed after {at:?}, and the table holds {between}");
        lake.nothing_wrong("unsound", json!({ "table": TABLE }));

        whole = how_long(|| drop(lake.ingest(&["job.toml"]).ends(Exit::Done))).max(at);
        exact(&lake);
        let table = lake.ask("table", json!({ "table": TABLE }));
        assert_eq!(table["snapshots"].as_array().unwrap().len(), 1, "killed after {at:?}");
    }

    // A replacement of a batch that is there: readers never see it missing.
    let digests = first.digests(TABLE);
    for round in 0..ROUNDS / 2 {
        let mut at = moment(round, ROUNDS / 2, whole);
        while !first.start_ingest(&["job.toml", "--force"]).kill(at) {
            at = at.mul_f64(0.8);
        }
        exact(&first);
        whole = how_long(|| drop(first.ingest(&["job.toml", "--force"]).committed()));
        exact(&first);
    }
    assert_eq!(first.digests(TABLE), digests);
}
