//! Where a row of the input is: its file, and its number there.
//!
//! Places are ordered as the input is, whatever pieces and batches its rows come in and however many threads read it. The
//! same row has the same place each time the input is read.

use std::collections::HashMap;
use std::sync::Arc;

use hexfloe_source::Source;

/// Bits for the number of a row: a file may have a million million of them, and there may be 16 million files.
const ROW_BITS: u32 = 40;

/// What rows of a `select` say they come from.
const SELECT: &str = "select";

/// The place of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u64);

/// The files of an input, by which places are made and read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    files: Vec<Arc<str>>,
    by_name: HashMap<Arc<str>, u64>,
}

impl Places {
    pub(crate) fn of(source: &Source) -> Self {
        // The rows of a `select` are those of one result.
        let selected = source.settings().select.is_some();
        let files =
            if selected { vec![SELECT.into()] } else { source.files().iter().map(|file| file.path().into()).collect() };
        Self::new(files)
    }

    fn new(files: Vec<Arc<str>>) -> Self {
        let by_name = files.iter().cloned().zip(0..).collect();
        Self { files, by_name }
    }

    /// The place of the row with this number.
    pub(crate) fn at(&self, file: &str, row: u64) -> Place {
        Place(self.by_name.get(file).copied().unwrap_or(0) << ROW_BITS | row)
    }

    /// A place for people.
    pub(crate) fn show(&self, place: Place) -> String {
        let row = place.0 & ((1 << ROW_BITS) - 1);
        let file = usize::try_from(place.0 >> ROW_BITS).ok().and_then(|file| self.files.get(file));
        file.map_or_else(|| format!("row {row}"), |file| format!("{file}, row {row}"))
    }
}

/// The places of the rows of one batch, those that were taken out left out.
#[derive(Clone, Debug)]
pub(crate) struct RowPlaces {
    first: Place,
    /// The rows that are left; all when `None`.
    kept: Option<Vec<u32>>,
}

impl RowPlaces {
    /// Of a batch whose first row has the place `first`.
    pub(crate) fn new(first: Place, kept: Option<Vec<u32>>) -> Self {
        Self { first, kept }
    }

    /// The place of a row that is left.
    pub(crate) fn of(&self, row: usize) -> Place {
        let row = self.kept.as_ref().map_or(row as u64, |kept| kept.get(row).map_or(0, |row| u64::from(*row)));
        Place(self.first.0 + row)
    }
}

/// Rows that are left out, ascending.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftOut(Vec<Place>);

impl LeftOut {
    pub(crate) fn new(mut places: Vec<Place>) -> Self {
        places.sort_unstable();
        Self(places)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Which of `rows` rows from `first` on are left out.
    pub(crate) fn within(&self, first: Place, rows: usize) -> impl Iterator<Item = usize> {
        let end = Place(first.0 + rows as u64);
        let from = self.0.partition_point(|place| *place < first);
        let to = self.0.partition_point(|place| *place < end);
        self.0[from..to].iter().filter_map(move |place| usize::try_from(place.0 - first.0).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_the_order_of_files_and_rows_and_can_be_read() {
        let places = Places::new(vec!["b.csv".into(), "a.csv".into()]);
        let rows = [("b.csv", 1), ("b.csv", 2), ("b.csv", 1 << 39), ("a.csv", 1), ("a.csv", 7)];
        let all: Vec<Place> = rows.iter().map(|(file, row)| places.at(file, *row)).collect();
        assert!(all.is_sorted());
        assert_eq!(places.show(all[4]), "a.csv, row 7");
    }

    #[test]
    fn what_is_left_out_is_found_batch_by_batch() {
        let places = Places::new(vec!["a".into(), "b".into()]);
        let out = LeftOut::new([("b", 1), ("a", 10), ("a", 3)].map(|(file, row)| places.at(file, row)).to_vec());
        let within = |file, first, rows| out.within(places.at(file, first), rows).collect::<Vec<_>>();
        assert_eq!(within("a", 1, 9), [2]);
        assert_eq!(within("a", 10, 5), [0]);
        assert_eq!(within("b", 1, 1), [0]);
        assert_eq!(within("b", 2, 100), [0_usize; 0]);
    }

    #[test]
    fn rows_that_are_left_keep_their_places() {
        let first = Places::new(vec!["a".into()]).at("a", 100);
        assert_eq!(RowPlaces::new(first, None).of(2).0 - first.0, 2);
        assert_eq!(RowPlaces::new(first, Some(vec![0, 4, 9])).of(2).0 - first.0, 9);
    }
}
