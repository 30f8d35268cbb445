//! The ledger: which batches are in the table, as a bounded list in a table property.
//!
//! It is a shortcut and nothing more. A batch it holds is skipped without reading a manifest; a batch it does not hold
//! goes through the overwrite, which finds the batch's rows by their column. So it may be short, lost or old, but it
//! must never name a batch whose rows are not in the table: it counts only while the snapshot that wrote it is the head
//! of the branch or an ancestor of the head. After a rollback it is rebuilt from the summaries of the snapshots that
//! are left.

use std::collections::HashSet;

use iceberg::spec::{MAIN_BRANCH, SnapshotRef, TableMetadata};

use crate::history::batches_of;
use crate::names;

/// How large the ledger may get: some catalogs refuse long property values, all of them copy the value on each commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerBounds {
    /// At most so many ids.
    pub max_ids: usize,
    /// At most so many bytes of JSON.
    pub max_bytes: usize,
}

impl Default for LedgerBounds {
    /// 500 ids and 32 KiB.
    fn default() -> Self {
        Self { max_ids: 500, max_bytes: 32 << 10 }
    }
}

/// The ids of completed batches, oldest first, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    ids: Vec<String>,
    /// How many of them count, from the oldest.
    counting: usize,
}

impl Ledger {
    /// The ledger that holds for the current snapshot of the main branch.
    pub fn of(metadata: &TableMetadata) -> Self {
        Self::of_branch(metadata, MAIN_BRANCH)
    }

    /// The ledger that holds for the head of a branch. A branch that has none of its own has that of the main branch, as long
    /// as the snapshot that wrote it is an ancestor; a branch that does not exist yet is about to be made from the main one.
    pub fn of_branch(metadata: &TableMetadata, branch: &str) -> Self {
        let counted = Self::counted(metadata, branch, branch);
        let counted = counted.or_else(|| Self::counted(metadata, MAIN_BRANCH, branch));
        counted.unwrap_or_else(|| Self::from_summaries(metadata, branch))
    }

    /// The ledger that the properties of branch `written_for` hold, if it counts for the head of `branch`.
    ///
    /// The commit that wrote it put its own batches last. What comes after them was added by somebody who does not say for
    /// which snapshot: it counts as long as the branch has never gone back, as far as its log tells.
    fn counted(metadata: &TableMetadata, written_for: &str, branch: &str) -> Option<Self> {
        let properties = metadata.properties();
        let written_by = properties.get(&names::ledger_snapshot_id(written_for)).map(|id| id.parse::<i64>());
        let own = match written_by {
            Some(Err(_)) => return None,
            // Written by somebody who keeps the list without saying which snapshot it belongs to.
            None if branch == MAIN_BRANCH || metadata.snapshot_for_ref(branch).is_none() => Some(Vec::new()),
            None => return None,
            Some(Ok(id)) => match ancestry(metadata, branch).find(|snapshot| snapshot.snapshot_id() == id) {
                Some(snapshot) => Some(batches_of(snapshot)),
                // The parent of the oldest retained snapshot has expired, and is an ancestor all the same.
                None if ancestry(metadata, branch).any(|snapshot| snapshot.parent_snapshot_id() == Some(id)) => None,
                None => return None,
            },
        };
        let mut ledger = Self::parse(properties.get(&names::completed_batches(written_for))?)?;
        if let Some(own) = own
            && !(own.is_empty() && written_by.is_some())
            && !is_straight(metadata, branch)
        {
            let last = ledger.ids.iter().rposition(|id| own.iter().any(|batch| batch.batch_id == *id));
            ledger.counting = last.map_or(0, |last| last + 1);
        }
        Some(ledger)
    }

    /// What the summaries of the retained ancestors say.
    fn from_summaries(metadata: &TableMetadata, branch: &str) -> Self {
        // Newest first, and so each snapshot's batches too.
        let ids: Vec<String> = ancestry(metadata, branch)
            .flat_map(|snapshot| batches_of(snapshot).into_iter().rev())
            .map(|batch| batch.batch_id)
            .collect();
        Self::from_ids(ids.into_iter().rev().collect())
    }

    /// Reads the property; `None` when it is not a JSON array of strings.
    pub fn parse(json: &str) -> Option<Self> {
        serde_json::from_str::<Vec<String>>(json).ok().map(Self::from_ids)
    }

    /// Each id once, at the last place it has.
    fn from_ids(ids: Vec<String>) -> Self {
        let mut seen: HashSet<&str> = HashSet::with_capacity(ids.len());
        let mut is_last: Vec<bool> = ids.iter().rev().map(|id| seen.insert(id)).collect();
        let mut ids = ids;
        ids.retain(|_| is_last.pop().unwrap_or(true));
        Self { counting: ids.len(), ids }
    }

    /// Whether the batch is in the list, and that counts.
    pub fn contains(&self, id: &str) -> bool {
        self.ids.iter().take(self.counting).any(|known| known == id)
    }

    /// Adds a batch as the newest; a batch that is there already moves to the end. All of the list counts then: the commit
    /// that adds the batch vouches for it.
    pub fn push(&mut self, id: String) {
        self.ids.retain(|known| *known != id);
        self.ids.push(id);
        self.counting = self.ids.len();
    }

    /// The ledger of an older snapshot: without the batches that were `undone` since, and without those of which nothing says
    /// that they were there by then. `left` are the batches of its snapshots; what is listed before one of them is older.
    pub(crate) fn gone_back(mut self, undone: &[String], left: &HashSet<String>) -> Self {
        let last = self.ids.iter().rposition(|id| left.contains(id));
        self.ids.truncate(last.map_or(0, |last| last + 1));
        self.ids.retain(|id| left.contains(id) || !undone.contains(id));
        self.counting = self.ids.len();
        self
    }

    /// The ids that count, oldest first.
    pub(crate) fn counted_ids(&self) -> &[String] {
        self.ids.get(..self.counting).unwrap_or(&self.ids)
    }

    /// A ledger of these ids, all of which count.
    pub(crate) fn counting(ids: &[String]) -> Self {
        Self::from_ids(ids.to_vec())
    }

    /// The ids, oldest first.
    pub fn ids(&self) -> &[String] {
        &self.ids
    }

    /// The property's value: the newest ids that fit the bounds, and the newest one in any case.
    pub fn to_json(&self, bounds: LedgerBounds) -> String {
        let mut first = self.ids.len().saturating_sub(bounds.max_ids.max(1));
        // Brackets, and for each id its own JSON and a comma.
        let mut bytes = 1 + self.ids.iter().skip(first).map(|id| quoted(id).len() + 1).sum::<usize>();
        while bytes > bounds.max_bytes && first + 1 < self.ids.len() {
            bytes -= quoted(&self.ids[first]).len() + 1;
            first += 1;
        }
        let ids: Vec<String> = self.ids.iter().skip(first).map(|id| quoted(id)).collect();
        format!("[{}]", ids.join(","))
    }
}

/// Whether the branch has never gone back: every snapshot of the table's log is its head or an ancestor of that.
fn is_straight(metadata: &TableMetadata, branch: &str) -> bool {
    let lineage = || ancestry(metadata, branch).map(|snapshot| snapshot.snapshot_id());
    // Mostly the log is the lineage the other way round, and one pass over both will do.
    let mut newest_first = lineage();
    let in_step = metadata.history().iter().rev().all(|entry| newest_first.any(|id| id == entry.snapshot_id));
    in_step || {
        let lineage: HashSet<i64> = lineage().collect();
        metadata.history().iter().all(|entry| lineage.contains(&entry.snapshot_id))
    }
}

fn quoted(id: &str) -> String {
    serde_json::Value::from(id).to_string()
}

/// The snapshot that a branch is at; the main branch's where there is no branch of the name.
pub(crate) fn head<'a>(metadata: &'a TableMetadata, branch: &str) -> Option<&'a SnapshotRef> {
    metadata.snapshot_for_ref(branch).or_else(|| metadata.current_snapshot())
}

/// The snapshots from the head of a branch back to the oldest one that is retained.
pub(crate) fn ancestry<'a>(metadata: &'a TableMetadata, branch: &str) -> impl Iterator<Item = &'a SnapshotRef> {
    // Metadata is input like any other: a cycle must end.
    let mut left = metadata.snapshots().len();
    std::iter::successors(head(metadata, branch), move |snapshot| {
        left = left.checked_sub(1)?;
        metadata.snapshot_by_id(snapshot.parent_snapshot_id()?)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ledger(ids: impl IntoIterator<Item = u32>) -> Ledger {
        Ledger::from_ids(ids.into_iter().map(|id| format!("{id:032x}")).collect())
    }

    #[test]
    fn six_hundred_batches_leave_the_five_hundred_newest() {
        let kept = Ledger::parse(&ledger(0..600).to_json(LedgerBounds::default())).unwrap();
        assert_eq!(kept, ledger(100..600));
    }

    #[test]
    fn a_byte_bound_drops_the_oldest_and_keeps_valid_json() {
        let bounds = LedgerBounds { max_ids: 500, max_bytes: 3_900 };
        let long = Ledger::from_ids((0..500).map(|id| format!("{id:064x}")).collect());
        let json = long.to_json(bounds);
        assert!(json.len() <= 3_900, "{}", json.len());
        let kept = Ledger::parse(&json).unwrap();
        assert_eq!(kept.ids().len(), 58);
        assert_eq!(kept.ids(), &long.ids()[442..]);
    }

    #[test]
    fn the_newest_batch_is_kept_whatever_the_bounds() {
        let json = ledger(0..3).to_json(LedgerBounds { max_ids: 0, max_bytes: 0 });
        assert_eq!(Ledger::parse(&json).unwrap(), ledger(2..3));
    }

    #[test]
    fn a_batch_is_listed_once_at_its_newest_place() {
        let mut ledger = ledger([1, 2, 3]);
        ledger.push(format!("{:032x}", 1));
        assert_eq!(ledger, self::ledger([2, 3, 1]));
    }

    #[test]
    fn what_is_not_a_list_of_strings_is_no_ledger() {
        for json in ["", "{}", "null", "[1]", "[\"a\"", "\"a\""] {
            assert_eq!(Ledger::parse(json), None, "{json}");
        }
    }

    proptest! {
        #[test]
        fn the_property_reads_back_and_obeys_its_bounds(
            ids in proptest::collection::vec("\\PC{0,40}", 0..60),
            max_ids in 1_usize..50,
            max_bytes in 100_usize..2_000,
        ) {
            let ledger = Ledger::from_ids(ids);
            let json = ledger.to_json(LedgerBounds { max_ids, max_bytes });
            let kept = Ledger::parse(&json).unwrap();
            prop_assert!(kept.ids().len() <= max_ids);
            prop_assert!(json.len() <= max_bytes || kept.ids().len() == 1);
            prop_assert!(ledger.ids().ends_with(kept.ids()));
            prop_assert_eq!(kept.ids().last(), ledger.ids().last());
        }
    }
}
