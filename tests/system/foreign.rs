//! Tables that others have compacted, evolved and deleted from: the fixtures of `tests/fixtures`.
//!
//! A fixture is made anew for each test, by Hexfloe and by PyIceberg in turns, together with a model of what the table must hold. Then
//! every batch of it is replayed by force, one after the other, and after each replay the whole table is compared with the model, row
//! by row, as read by engines that wrote none of it.

mod catalogue;
mod headers;
mod interop;
mod replays;
mod version_3;

use hexfloe_tests::{Lake, Run, Value, json};

const TABLE: &str = "ns.points";

/// A fixture table, and how far its batches were replayed.
struct Fixture {
    lake: Lake,
    batches: Vec<Batch>,
    /// Whether the number of rows that a replay replaces is known.
    counted: bool,
    snapshots: usize,
    replayed: Vec<String>,
}

#[derive(Clone)]
struct Batch {
    name: String,
    /// What `hexfloe ingest` is told, as the table is now.
    arguments: Vec<String>,
    /// Its rows in the table before it is replayed.
    rows: u64,
}

impl Fixture {
    /// Makes a fixture, and checks that the engines read in it what its maker meant.
    #[track_caller]
    fn new(name: &str) -> Self {
        let lake = Lake::new();
        let made = lake.ask("do_make_fixture", json!({ "name": name, "hexfloe": hexfloe_tests::hexfloe() }));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let batch = |batch: &Value| Batch {
            name: text(&batch["name"]),
            arguments: batch["arguments"].as_array().unwrap().iter().map(text).collect(),
            rows: batch["rows"].as_u64().unwrap(),
        };
        let fixture = Self {
            batches: made["batches"].as_array().unwrap().iter().map(batch).collect(),
            counted: made["counted"].as_bool().unwrap(),
            snapshots: usize::try_from(made["snapshots"].as_u64().unwrap()).unwrap(),
            replayed: Vec::new(),
            lake,
        };
        fixture.is_exact();
        fixture
    }

    fn batch(&self, name: &str) -> Batch {
        self.batches.iter().find(|batch| batch.name == name).unwrap().clone()
    }

    /// Runs `hexfloe ingest --force` on a batch.
    #[track_caller]
    fn force(&self, batch: &Batch) -> Run {
        let arguments: Vec<&str> = batch.arguments.iter().map(String::as_str).chain(["--force"]).collect();
        self.lake.ingest(&arguments)
    }

    /// Replays a batch, and checks all that can be checked.
    #[track_caller]
    fn replay(&mut self, name: &str) -> Value {
        let batch = self.batch(name);
        let report = self.force(&batch).committed();
        if self.counted {
            assert_eq!(report["replaced_rows"], batch.rows, "rows of batch {name} that were replaced");
        }
        self.snapshots += 1;
        self.replayed.push(batch.name);
        self.is_exact();
        report
    }

    /// Replays every batch, each the once.
    #[track_caller]
    fn replay_all(&mut self) {
        for batch in self.batches.clone() {
            self.replay(&batch.name);
        }
    }

    /// All rows are those of the model, in one more snapshot for each replay; files, counts and totals are right, and no position
    /// delete file is left of which no data file is live.
    #[track_caller]
    fn is_exact(&self) {
        let expected = json!({ "table": TABLE, "replayed": self.replayed, "snapshots": self.snapshots });
        let wrong = self.lake.ask("wrong_replay", expected);
        assert_eq!(wrong, json!([]), "after replays of {:?}: {wrong:#}", self.replayed);
    }

    /// The files that are live, by what is asked of them.
    #[track_caller]
    fn file_paths(&self) -> Vec<String> {
        self.lake.files(TABLE).iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
    }
}
