//! Of rows with the same key, one.
//!
//! The input is read twice. The first time every usable row's key is hashed and the best row of each key is found; the second
//! time the others are left out. What is held between is the places of those others. The input cannot change meanwhile: a
//! file that is not the one that was found is an error wherever it is opened, and once more before the commit.
//!
//! Which row is best depends on the place of rows in the input and their value in `order_by`, and on nothing else. So it
//! does not matter which thread sees which row first.
//!
//! Keys are held as 128 bits of their SHA-256. Two keys of a batch with the same 128 bits do not happen: with a thousand
//! million keys the chance is below 10^-20, and nobody knows how to make it happen.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::Schema;
use arrow::row::{RowConverter, Rows};
use hexfloe_batch::Sha256Hex;
use hexfloe_source::{Decoded, Scan};

use crate::Error;
use crate::job::{DedupeSettings, Keep};
use crate::keys::{self, KeyColumns};
use crate::place::{LeftOut, Place, RowPlaces};
use crate::progress::Progress;
use crate::shape::Shape;

/// Which rows are the same, and which of them is kept.
#[derive(Debug)]
pub(crate) struct Dedupe {
    key: KeyColumns,
    order: Option<(usize, RowConverter)>,
    keep: Keep,
}

impl Dedupe {
    /// For batches of `columns`.
    pub(crate) fn new(settings: &DedupeSettings, columns: &Schema) -> Result<Self, Error> {
        let key = KeyColumns::new("quality.dedupe.key", &settings.key, columns)?;
        let order = match &settings.order_by {
            None => None,
            Some(column) => {
                const SETTING: &str = "quality.dedupe.order_by";
                let index = keys::indices(SETTING, std::slice::from_ref(column), columns)?.pop().unwrap_or_default();
                Some((index, keys::converter(SETTING, &[columns.field(index).clone()])?))
            }
        };
        Ok(Self { key, order, keep: settings.keep })
    }

    /// Reads the input and finds the rows that are to be left out.
    ///
    /// # Errors
    ///
    /// The first failure of the input, in its order; [`Error::Job`] when the keys take more than `memory` bytes.
    pub(crate) fn find(
        &self,
        scan: Scan,
        shape: &Shape,
        threads: usize,
        memory: usize,
        progress: &Progress,
    ) -> Result<LeftOut, Error> {
        let search = Search {
            dedupe: self,
            shape,
            memory,
            progress,
            serial: scan.is_serial(),
            input: Mutex::new(Input { scan, next: 0, stopped: false }),
            best: Mutex::new(Best::default()),
        };
        let mut failures = Vec::new();
        std::thread::scope(|scope| {
            let workers: Vec<_> = (1..threads).map(|_| scope.spawn(|| search.work())).collect();
            failures.extend(search.work());
            for worker in workers {
                failures.extend(worker.join().unwrap_or(Some((u64::MAX, Error::Panicked))));
            }
        });
        match failures.into_iter().min_by_key(|(piece, _)| *piece) {
            Some((_, error)) => Err(error),
            None => {
                let best = search.best.into_inner().unwrap_or_else(PoisonError::into_inner);
                Ok(LeftOut::new(best.left_out))
            }
        }
    }

    /// What a batch adds to the search.
    fn found(&self, rows: &RecordBatch, at: RowPlaces) -> Result<Found, Error> {
        let keys = self.key.of(rows)?;
        let ranks = match &self.order {
            None => None,
            Some((index, converter)) => {
                let column: ArrayRef = Arc::clone(rows.column(*index));
                Some(converter.convert_columns(&[column]).map_err(Error::arrow("put rows in order"))?)
            }
        };
        Ok(Found { keys: keys.iter().map(|key| hash(key.as_ref())).collect(), ranks, at })
    }
}

/// 128 bits of the SHA-256.
fn hash(key: &[u8]) -> [u8; 16] {
    let mut hash = [0; 16];
    hash.copy_from_slice(&Sha256Hex::of(key).as_bytes()[..16]);
    hash
}

/// The keys of a batch.
struct Found {
    keys: Vec<[u8; 16]>,
    ranks: Option<Rows>,
    at: RowPlaces,
}

/// The best row of each key so far, and the rows that are not.
#[derive(Default)]
struct Best {
    rows: HashMap<[u8; 16], Candidate>,
    ranks_bytes: usize,
    left_out: Vec<Place>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// The value to order by, in bytes that are ordered as it is; then the place decides.
    rank: Option<Box<[u8]>>,
    place: Place,
}

impl Best {
    fn add(&mut self, found: &Found, keep: Keep) {
        for (row, key) in found.keys.iter().enumerate() {
            let rank = found.ranks.as_ref().map(|ranks| Box::from(ranks.row(row).as_ref()));
            let rank_bytes = |candidate: &Candidate| candidate.rank.as_ref().map_or(0, |rank| rank.len());
            let new = Candidate { rank, place: found.at.of(row) };
            match self.rows.entry(*key) {
                Entry::Vacant(entry) => {
                    self.ranks_bytes += rank_bytes(&new);
                    entry.insert(new);
                }
                Entry::Occupied(mut entry) => {
                    let better = match keep {
                        Keep::Last => new > *entry.get(),
                        Keep::First => new < *entry.get(),
                    };
                    if better {
                        self.ranks_bytes += rank_bytes(&new);
                        let old = entry.insert(new);
                        self.ranks_bytes -= rank_bytes(&old);
                        self.left_out.push(old.place);
                    } else {
                        self.left_out.push(new.place);
                    }
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        self.rows.capacity() * (size_of::<([u8; 16], Candidate)>() + 1)
            + self.ranks_bytes
            + self.left_out.capacity() * size_of::<Place>()
    }
}

struct Input {
    scan: Scan,
    /// The index of the piece that comes next.
    next: u64,
    stopped: bool,
}

struct Search<'a> {
    dedupe: &'a Dedupe,
    shape: &'a Shape,
    memory: usize,
    progress: &'a Progress,
    serial: bool,
    input: Mutex<Input>,
    best: Mutex<Best>,
}

impl Search<'_> {
    /// Works until there is no more input; the failure that ended it, with its piece. Pieces are taken in order and each is
    /// finished, so that the failure of the first piece that has one is always found.
    fn work(&self) -> Option<(u64, Error)> {
        loop {
            let mut piece = 0;
            let done = catch_unwind(AssertUnwindSafe(|| self.piece(&mut piece))).unwrap_or(Err(Error::Panicked));
            match done {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.input.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
                    return Some((piece, error));
                }
            }
        }
    }

    /// One piece of the input; `false` when there is none.
    fn piece(&self, index: &mut u64) -> Result<bool, Error> {
        let Some(decoded) = self.decode(index)? else { return Ok(false) };
        for source in decoded.batches {
            let (rows, at) = self.shape.usable(source)?;
            let found = self.dedupe.found(&rows, at)?;
            let mut best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
            best.add(&found, self.dedupe.keep);
            let held = best.rows.len() + best.left_out.len();
            keys::refuse_excess("the keys of quality.dedupe", held, best.bytes(), self.memory)?;
        }
        self.progress.add(0, decoded.bytes);
        Ok(true)
    }

    /// Pieces of a serial scan are decoded one after the other, and so under the lock.
    fn decode(&self, index: &mut u64) -> Result<Option<Decoded>, Error> {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        *index = input.next;
        if input.stopped {
            return Ok(None);
        }
        let Some(piece) = input.scan.next_piece()? else { return Ok(None) };
        *index = piece.index();
        input.next = piece.index() + 1;
        if !self.serial {
            drop(input);
            return Ok(Some(piece.decode()?));
        }
        Ok(Some(piece.decode()?))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use rstest::rstest;

    use super::*;
    use crate::place::Places;

    /// Rows of key, order and place; `None` is null.
    type Row = (Option<i64>, Option<&'static str>);

    fn kept(rows: &[Row], keep: Keep, order_by: bool, backwards: bool) -> Vec<usize> {
        let keys: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>());
        let order: ArrayRef = Arc::new(rows.iter().map(|row| row.1).collect::<StringArray>());
        let all = RecordBatch::try_from_iter([("k", keys), ("o", order)]).unwrap();
        let order_by = order_by.then(|| "o".to_owned());
        let settings = DedupeSettings { key: vec!["k".to_owned()], keep, order_by };
        let dedupe = Dedupe::new(&settings, &all.schema()).unwrap();
        let place = |row: usize| Places::default().at("", row as u64);
        let mut best = Best::default();
        // One row at a time, in either direction: threads may come in any order.
        let mut order: Vec<usize> = (0..rows.len()).collect();
        if backwards {
            order.reverse();
        }
        for row in order {
            let at = RowPlaces::new(place(row), None);
            best.add(&dedupe.found(&all.slice(row, 1), at).unwrap(), keep);
        }
        let out = LeftOut::new(best.left_out);
        let out: Vec<usize> = out.within(place(0), rows.len()).collect();
        (0..rows.len()).filter(|row| !out.contains(row)).collect()
    }

    #[rstest]
    #[case::last(Keep::Last, false, &[2, 4])]
    #[case::first(Keep::First, false, &[0, 3])]
    #[case::highest(Keep::Last, true, &[1, 4])]
    #[case::lowest(Keep::First, true, &[2, 3])]
    fn one_row_of_each_key_is_kept_whatever_the_order_they_are_seen_in(
        #[case] keep: Keep,
        #[case] order_by: bool,
        #[case] expected: &[usize],
        #[values(false, true)] backwards: bool,
    ) {
        // The second key is null; its rows are equal in the order too.
        let rows =
            [(Some(1), Some("b")), (Some(1), Some("c")), (Some(1), Some("a")), (None, Some("x")), (None, Some("x"))];
        assert_eq!(kept(&rows, keep, order_by, backwards), expected);
    }

    #[test]
    fn null_is_the_lowest_of_the_order() {
        let rows = [(Some(1), Some("")), (Some(1), None)];
        assert_eq!(kept(&rows, Keep::Last, true, false), [0]);
        assert_eq!(kept(&rows, Keep::First, true, false), [1]);
    }
}
