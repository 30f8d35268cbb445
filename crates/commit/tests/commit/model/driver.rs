//! Takes the steps of a history, on the table and on the model, and compares the two after each.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use futures::TryStreamExt;
use hexfloe_catalog::{CommitOutcome, CommitPort, CommitRequest};
use hexfloe_commit::{BatchOutcome, Ledger, OnChangedInput, WrittenFor};
use iceberg::spec::{DataContentType, ManifestContentType};
use iceberg::table::Table;

use super::engine::{Act, Engine, Totals};
use super::expectation::{Contents, Effect, Model};
use super::files::{self, Row};
use super::steps::{Batch, Cells, Deed, Luck, Step};
use crate::faults::{self, Fault, FaultyPort, Rival, rival};
use crate::world::World;

/// Sixteen characters that two batches each begin with.
const STARTS: usize = 16;

pub(crate) struct Driver {
    engine: Engine,
    /// The table as our commits see it: through a port that has its luck.
    ours: World,
    port: Arc<Lucky>,
    model: Model,
    /// The rows of every batch so far, as it was last given to us.
    batches: Vec<Vec<Row>>,
    /// Files of requests that may still arrive: they stay.
    open: BTreeSet<String>,
    /// The head whose rows were compared last.
    checked: Option<i64>,
}

/// A commit port with the luck of the moment: one committer goes through a whole history and remembers what it does
/// between its commits.
#[derive(Debug)]
struct Lucky {
    inner: Arc<dyn CommitPort>,
    now: Mutex<Arc<FaultyPort>>,
}

fn good(inner: &Arc<dyn CommitPort>) -> Arc<FaultyPort> {
    faults::script([])(Arc::clone(inner))
}

#[async_trait]
impl CommitPort for Lucky {
    async fn commit(&self, request: &CommitRequest) -> Result<CommitOutcome, hexfloe_catalog::Error> {
        let now = Arc::clone(&self.now.lock().unwrap());
        now.commit(request).await
    }
}

impl Driver {
    pub(crate) async fn new(world: World) -> Self {
        let layout = WrittenFor::of(world.load().await.metadata());
        let (ours, port) = world.through(|inner| Arc::new(Lucky { now: Mutex::new(good(&inner)), inner }));
        let engine = Engine::new(world);
        Self {
            engine,
            ours,
            port,
            model: Model::new(layout),
            batches: Vec::new(),
            open: BTreeSet::new(),
            checked: None,
        }
    }

    pub(crate) async fn take(&mut self, step: &Step, is_last: bool) {
        match step {
            Step::Ours(batch, luck) => self.commit(batch, luck).await,
            Step::Theirs(deed) => {
                let act = self.resolve(deed);
                let effect = self.engine.act(&act).await;
                self.model.apply(effect);
            }
        }
        self.check(is_last).await;
    }

    fn resolve(&mut self, deed: &Deed) -> Act {
        match deed {
            Deed::Batch(batch) => Act::Batch(self.contents(batch)),
            Deed::Append { cells, batch, bounds } => {
                let mut rows = rows(cells, batch.map(id).as_deref());
                rows.iter_mut().skip(1).step_by(2).for_each(|row| row.batch = None);
                Act::Append { rows, bounds: *bounds }
            }
            other => Act::Other(other.clone()),
        }
    }

    fn contents(&mut self, batch: &Batch) -> Contents {
        let known = self.batches.len();
        let (number, cells, files, force, other_rows) = match batch {
            Batch::New { cells, files } => (known, Some(cells), *files, false, OnChangedInput::Refuse),
            Batch::Replay { which } => (which % known.max(1), None, 1, false, OnChangedInput::Refuse),
            Batch::Forced { which, cells, allowed, files } => {
                let other_rows = if *allowed { OnChangedInput::Replace } else { OnChangedInput::Refuse };
                (which % known.max(1), cells.as_ref(), *files, true, other_rows)
            }
        };
        let id = id(number);
        if number == known {
            self.batches.push(Vec::new());
        }
        let rows = match cells {
            Some(cells) => rows(cells, Some(&id)),
            // As the table has it, or else as it was the last time.
            None => self.model.state().completed.get(&id).unwrap_or(&self.batches[number]).clone(),
        };
        self.batches[number].clone_from(&rows);
        Contents { id, rows, files, force, other_rows }
    }

    /// Commits a batch of ours, with this luck.
    async fn commit(&mut self, batch: &Batch, luck: &Luck) {
        let contents = self.contents(batch);
        let theirs = match luck {
            Luck::After(deed) | Luck::AnswerLostAfter(deed) | Luck::SentTwiceAround(deed) => Some(self.resolve(deed)),
            _ => None,
        };
        let happened: Arc<Mutex<Option<Effect>>> = Arc::default();
        let meanwhile = theirs.map(|act| self.meanwhile(act, &happened));
        let script = match (luck, meanwhile) {
            (Luck::AnswerLost, _) => vec![Fault::LoseAnswer],
            (Luck::SentTwice, _) => vec![Fault::Resend],
            (Luck::AnsweredWithError, _) => vec![Fault::ApplyAndFail],
            (Luck::Vanished, _) => vec![Fault::Vanish],
            (Luck::Late, _) => vec![Fault::Delay, Fault::ThenDelayed],
            (Luck::TooLate, _) => vec![Fault::Delay],
            (Luck::Refused, _) => vec![Fault::Conflict],
            (Luck::After(_), Some(act)) => vec![Fault::After(act)],
            (Luck::AnswerLostAfter(_), Some(act)) => vec![Fault::LoseAnswerThen(act)],
            (Luck::SentTwiceAround(_), Some(act)) => vec![Fault::ResendThen(act)],
            _ => Vec::new(),
        };
        let batch = self.engine.batch(&contents).await;
        let port = faults::script(script)(Arc::clone(&self.port.inner));
        *self.port.now.lock().unwrap() = Arc::clone(&port);
        let result = self.ours.commit(&batch).await;
        if matches!(luck, Luck::TooLate) {
            assert_eq!(port.deliver().await, 0, "a request arrived that had been given up");
        }
        let requests = port.requests().len();
        match &result {
            Ok(BatchOutcome::Committed { attempts, .. }) => {
                assert_eq!(usize::try_from(*attempts).unwrap(), requests);
                let most = match luck {
                    Luck::Vanished | Luck::Late | Luck::TooLate | Luck::Refused | Luck::After(_) => 2,
                    _ => 1,
                };
                assert!(requests <= most, "{requests} requests");
            }
            Ok(BatchOutcome::Skipped { .. }) | Err(_) => assert!(requests <= 1, "{requests} requests"),
        }
        if matches!(luck, Luck::Vanished | Luck::TooLate) && requests > 0 {
            self.keep_open_files().await;
        }
        let theirs = happened.lock().unwrap().take();
        let ours = Effect::Commit { contents, written_for: batch.written_for, result };
        let in_order = match (luck, theirs) {
            (Luck::After(_), Some(theirs)) => vec![theirs, ours],
            (_, Some(theirs)) => vec![ours, theirs],
            (_, None) => vec![ours],
        };
        in_order.into_iter().for_each(|effect| self.model.apply(effect));
    }

    /// An act for the moment in which our request is on its way.
    fn meanwhile(&self, act: Act, happened: &Arc<Mutex<Option<Effect>>>) -> Rival {
        let (engine, happened) = (self.engine.clone(), Arc::clone(happened));
        rival(move || {
            let (engine, act, happened) = (engine.clone(), act.clone(), Arc::clone(&happened));
            async move {
                // What our request did, if it was applied, may be gone when we look the next time.
                engine.look().await;
                let effect = engine.act(&act).await;
                engine.look().await;
                *happened.lock().unwrap() = Some(effect);
            }
        })
    }

    /// Manifests, their list and rewritten files of a request that may still arrive are nobody's, and stay.
    async fn keep_open_files(&mut self) {
        self.engine.look().await;
        let referenced = self.engine.ever_referenced();
        let left = self.engine.world.files().await.into_iter().filter(|file| !referenced.contains(file));
        let left: Vec<String> = left.collect();
        assert!(
            left.iter().all(|file| file.ends_with(".avro")
                || file.ends_with("-rewritten.parquet")
                || file.ends_with("-deletes.parquet")),
            "{left:?}"
        );
        self.open.extend(left);
    }

    async fn check(&mut self, scan: bool) {
        let table = self.engine.world.load().await;
        let metadata = table.metadata();
        assert_eq!(metadata.current_snapshot_id(), self.model.head, "the head");
        let retained: BTreeSet<i64> = metadata.snapshots().map(|snapshot| snapshot.snapshot_id()).collect();
        assert_eq!(retained, self.model.retained, "the snapshots");
        // Rows, manifests and summary are those of the head, and none of them ever changes.
        if self.model.head != self.checked || scan {
            self.check_rows(&table, scan).await;
            self.check_manifests(&table).await;
            self.checked = self.model.head;
        }
        self.check_files(&table).await;
        let ledger: BTreeSet<String> = Ledger::of(metadata).ids().iter().cloned().collect();
        let completed: BTreeSet<String> = self.model.state().completed.keys().cloned().collect();
        assert!(ledger.is_subset(&completed), "the ledger names a batch that is not complete: {ledger:?}");
        assert!(self.model.surely_known().is_subset(&ledger), "the ledger misses a batch: {ledger:?}");
    }

    /// The rows are those of the model: read file by file, and at last by the `iceberg` crate as well, which takes longer
    /// than all the rest.
    async fn check_rows(&self, table: &Table, scan: bool) {
        let Some(snapshot) = table.metadata().current_snapshot() else { return };
        let schema = snapshot.schema(table.metadata()).unwrap();
        let fields: Vec<i32> = schema.as_struct().fields().iter().map(|field| field.id).collect();
        let seen = |rows: Vec<Row>| {
            let mut rows: Vec<Row> = rows.iter().map(|row| row.seen_with(&fields)).collect();
            rows.sort();
            rows
        };
        let expected = seen(self.model.state().rows.clone());
        assert_eq!(seen(self.engine.live_rows(table).await), expected, "the rows of the files");
        if scan {
            let scan = table.scan().select_all().build().unwrap();
            let batches: Vec<RecordBatch> = scan.to_arrow().await.unwrap().try_collect().await.unwrap();
            assert_eq!(seen(batches.iter().flat_map(files::rows_of).collect()), expected, "the rows of a scan");
        }
    }

    /// Manifests tell the truth about files, and the summary about manifests.
    async fn check_manifests(&self, table: &Table) {
        let metadata = table.metadata();
        let Some(snapshot) = metadata.current_snapshot() else { return };
        let mut live = BTreeSet::new();
        let mut totals = Totals::default();
        for manifest in self.engine.manifests(table, snapshot).await {
            let spec = metadata.partition_spec_by_id(manifest.file.partition_spec_id).unwrap();
            for entry in manifest.live() {
                assert!(live.insert(entry.file_path().to_owned()), "{} is live twice", entry.file_path());
                let is_data = entry.content_type() == DataContentType::Data;
                assert_eq!(is_data, manifest.file.content == ManifestContentType::Data, "one kind in a manifest");
                totals.count(entry.data_file());
                if is_data {
                    let (rows, new) = self.engine.rows(entry.data_file()).await;
                    if new {
                        files::assert_truly_described(entry.data_file(), spec, &rows);
                    }
                }
            }
        }
        for (name, value) in totals.summary() {
            assert_eq!(snapshot.summary().additional_properties[&name], value, "{name}");
        }
    }

    /// What the table refers to is there, and nothing is there that it never referred to.
    async fn check_files(&self, table: &Table) {
        let files = self.engine.world.files_below(table.metadata().location()).await;
        let referenced = self.engine.referenced(table).await;
        let missing: Vec<&String> = referenced.difference(&files).collect();
        assert!(missing.is_empty(), "missing: {missing:?}");
        let ever = self.engine.ever_referenced();
        let left: Vec<&String> =
            files.iter().filter(|file| !ever.contains(*file) && !self.open.contains(*file)).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

/// Ids come in pairs that share their first sixteen characters.
fn id(number: usize) -> String {
    let start = format!("{:x}", (number / 2 * 5 + 1) % STARTS).repeat(16);
    let end = if number.is_multiple_of(2) { "3" } else { "c" }.repeat(16);
    start + &end
}

fn rows(cells: &Cells, batch: Option<&str>) -> Vec<Row> {
    let row = |(number, category): &(i64, Option<char>)| Row {
        number: *number,
        category: *category,
        batch: batch.map(str::to_owned),
        note: None,
    };
    cells.iter().map(row).collect()
}
