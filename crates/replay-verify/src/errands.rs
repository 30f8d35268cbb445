//! What a process of a scenario does in the simulation, from its beginning to its end.

use hexfloe_commit::{BatchCommit, BatchOutcome, RollBackTo};

use crate::process::Process;
use crate::real::engine::Engine;
use crate::roles::{self, Prepared};
use crate::scheduler::HOUR_MS;
use crate::table::{self, Trouble};

/// How often an ingest whose attempt took too long begins again. Then it hurries: the scenario waits for its end.
const ATTEMPTS: u32 = 3;

/// For how long a process that hurries is stalled at most, all in all: much less than the twelve hours of an attempt.
pub(crate) const HURRIED_MS: i64 = 2 * HOUR_MS;

/// One of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    /// Lands batches, in one commit or one after the other.
    Land { batches: Vec<u64>, force: bool, together: bool },
    /// Takes main back to before a batch.
    RollBack(u64),
    /// Removes orphans, with the smallest margin.
    CleanUp,
    /// Another engine rewrites all files into one.
    Compact,
    /// Another engine appends all rows once more.
    AppendAgain,
    /// Another engine lets all snapshots but the heads expire.
    ForgetSnapshots,
    /// The ledger comes to hold other batches.
    ForgetLedger,
    /// Somebody sets a property.
    Touch,
}

impl Errand {
    /// Whether it is another engine's, which takes no precautions against cleanup.
    pub(crate) fn is_foreign(&self) -> bool {
        !matches!(self, Self::Land { .. } | Self::RollBack(_) | Self::CleanUp)
    }

    /// Does it; gives what became of each batch, in their order.
    pub(crate) async fn run(&self, process: &mut Process) -> Result<Vec<BatchOutcome>, Trouble> {
        let catalog = process.catalog.clone();
        let engine = Engine { catalog: &catalog, table: &process.lake.table, environment: &process.environment };
        match self {
            Self::Land { batches, force, together: true } => return land(process, batches, *force).await,
            Self::Land { batches, force, together: false } => {
                let mut outcomes = Vec::new();
                for number in batches {
                    outcomes.extend(land(process, &[*number], *force).await?);
                }
                return Ok(outcomes);
            }
            Self::RollBack(number) => {
                let before = RollBackTo::BeforeBatch(table::batch_id(*number)?.to_string());
                process.committer.roll_back(&process.lake.table, &before).await?;
            }
            Self::CleanUp => roles::clean(process, 24).await?,
            Self::Compact => engine.compact().await?,
            Self::AppendAgain => engine.append_again().await?,
            Self::ForgetSnapshots => engine.forget_snapshots().await?,
            Self::ForgetLedger => engine.forget_ledger().await?,
            Self::Touch => engine.touch().await?,
        }
        Ok(Vec::new())
    }
}

/// Brings batches into the table in one commit, as an ingest does: again from the start when it took too long.
async fn land(process: &mut Process, numbers: &[u64], force: bool) -> Result<Vec<BatchOutcome>, Trouble> {
    for attempt in 0..ATTEMPTS {
        let _limit = (attempt > 0).then(|| process.gate.limit_stalls(HURRIED_MS));
        let mut prepared = Vec::new();
        for number in numbers {
            prepared.push(roles::prepare(process, BatchCommit::MAIN, *number, force).await?);
        }
        let (mut batches, mut committed) = (Vec::new(), Vec::new());
        for (prepared, number) in prepared.iter().zip(numbers) {
            if let Prepared::Files(batch) = prepared {
                batches.push(batch.as_ref().clone());
                committed.push(*number);
            }
        }
        let Some(outcomes) = roles::commit(process, &batches, &committed).await? else { continue };
        let mut outcomes = outcomes.into_iter();
        let outcome = |prepared| match prepared {
            Prepared::There(outcome) => Some(outcome),
            Prepared::Files(_) => outcomes.next(),
        };
        return Ok(prepared.into_iter().filter_map(outcome).collect());
    }
    Err("it took too long each time".into())
}
