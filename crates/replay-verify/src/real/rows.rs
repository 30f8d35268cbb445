//! What is given to an ingest, and the rows that have to come of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chrono::{Days, NaiveDate};
use h3o::{LatLng, Resolution};

use crate::scenario::{Batch, Input, Run, Setting};
use crate::table::Trouble;

/// The source's name, which is part of every batch id.
pub(crate) const SOURCE: &str = "verify";

/// The partition of the source.
pub(crate) const PARTITION: &str = "0";

/// Offsets to a batch.
const OFFSETS: u64 = 1_000_000;

/// The resolution of the cells, and another one.
const RESOLUTION: Resolution = Resolution::Nine;
const OTHER_RESOLUTION: Resolution = Resolution::Seven;

/// The file with a message for each that was sent.
pub(crate) const MESSAGES: &str = "messages";

/// A row as it has to be in the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) n: i64,
    pub(crate) lat: f64,
    pub(crate) lon: f64,
    pub(crate) label: String,
    /// Days since 1970.
    pub(crate) day: i32,
    pub(crate) cell: i64,
    pub(crate) batch: u64,
}

/// The offsets of a batch: its id is a function of them.
pub(crate) fn offsets(batch: Batch) -> (u64, u64) {
    (batch.number * OFFSETS, (batch.number + 1) * OFFSETS)
}

/// The rows of a batch.
pub(crate) fn rows(batch: Batch) -> Result<Vec<Row>, Trouble> {
    let epoch = NaiveDate::from_ymd_opt(1970, 1, 1).ok_or("there is no 1970")?;
    let day = i32::try_from((day(batch)? - epoch).num_days())?;
    let row = |index: u64| -> Result<Row, Trouble> {
        let n = offsets(batch).0 + index;
        let (lat, lon) = place(n);
        let (lat, lon): (f64, f64) = (lat.parse()?, lon.parse()?);
        let cell = u64::from(LatLng::new(lat, lon)?.to_cell(RESOLUTION)).cast_signed();
        Ok(Row { n: n.cast_signed(), lat, lon, label: label(batch, index), day, cell, batch: batch.number })
    };
    (0..batch.rows).map(row).collect()
}

/// Everything that a table with these batches holds, by `n`.
pub(crate) fn rows_of_all(batches: &[Batch]) -> Result<BTreeMap<i64, Row>, Trouble> {
    let mut all = BTreeMap::new();
    for batch in batches {
        all.extend(rows(*batch)?.into_iter().map(|row| (row.n, row)));
    }
    Ok(all)
}

/// A position as it is written, all over the world.
fn place(n: u64) -> (String, String) {
    let hundredths = |value: u64, from: i64| {
        let value = value.cast_signed() + from;
        format!("{}{}.{:02}", if value < 0 { "-" } else { "" }, value.abs() / 100, value.abs() % 100)
    };
    (hundredths(n * 7_919 % 16_000, -8_000), hundredths(n * 104_729 % 35_990, -17_995))
}

fn label(batch: Batch, index: u64) -> String {
    format!("batch {} version {} row {index}", batch.number, batch.content)
}

/// Each batch has a day, which is its slice.
fn day(batch: Batch) -> Result<NaiveDate, Trouble> {
    let first = NaiveDate::from_ymd_opt(2026, 1, 1).ok_or("there is no 2026")?;
    Ok(first.checked_add_days(Days::new(batch.number % 1_000)).ok_or("there is no such day")?)
}

/// A CSV file with a batch.
pub(crate) fn csv(batch: Batch, input: Input) -> Result<String, Trouble> {
    let day = day(batch)?;
    let mut text = "n,lat,lon,label,day\n".to_owned();
    for index in 0..batch.rows {
        let n = offsets(batch).0 + index;
        let (lat, lon) = place(n);
        writeln!(text, "{n},{lat},{lon},{},{day}", label(batch, index))?;
    }
    let last = offsets(batch).1 - 1;
    match input {
        Input::Sound => {}
        Input::WithABadRow => writeln!(text, "{last},95.00,0.00,beyond the pole,{day}")?,
        Input::Truncated => write!(text, "{last},50.00,0.00,\"torn in the mid")?,
    }
    Ok(text)
}

/// A job file for a batch of a run. `reject_folder` is absolute, as it would be relative to where the process runs.
pub(crate) fn job(run: &Run, batch: Batch, file: &str, table: &str, reject_folder: &str) -> Result<String, Trouble> {
    let has = |setting| run.settings.contains(&setting);
    let resolution = u8::from(if has(Setting::OtherCells) { OTHER_RESOLUTION } else { RESOLUTION });
    // A JSON string is a TOML string.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let (start, end) = offsets(batch);
    let (identity, mode) = if has(Setting::OwnsSlice) {
        let slice = format!("mode = \"slice\"\nslice = {{ day = \"{}\" }}", day(batch)?);
        ("granularity = \"slice\"\non_changed_input = \"replace\"".to_owned(), slice)
    } else {
        let identity = format!("granularity = \"offsets\"\npartition = \"{PARTITION}\"\noffsets = [{start}, {end}]");
        (identity, "mode = \"batch\"".to_owned())
    };
    let on_reject = if has(Setting::Quarantine) { "quarantine" } else { "refuse" };
    let notify = if has(Setting::Notify) {
        format!("\n[notify]\ncommand = [\"sh\", \"-c\", \"echo $HEXFLOE_IDEMPOTENCY_KEY >> {MESSAGES}\"]\n")
    } else {
        String::new()
    };
    Ok(format!(
        "[source]\nname = \"{SOURCE}\"\nformat = \"csv\"\npaths = [{file}]\n\n\
         [source.schema]\nn = \"long\"\nlat = \"double\"\nlon = \"double\"\nlabel = \"string\"\nday = \"date\"\n\n\
         [geometry]\nlat = \"lat\"\nlon = \"lon\"\n\n\
         [h3]\nresolution = {resolution}\n\n\
         [batch]\n{identity}\n\n\
         [quality]\non_reject = \"{on_reject}\"\nreject_folder = {rejects}\n\n\
         [table]\nname = {table}\n{mode}\n{notify}",
        file = quoted(file),
        rejects = quoted(reject_folder),
        table = quoted(table),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_are_those_of_the_file_and_lie_on_the_earth() {
        for batch in [Batch::number(0), Batch::number(7).changed(), Batch::number(3).emptied()] {
            let (rows, text) = (rows(batch).unwrap(), csv(batch, Input::Sound).unwrap());
            let lines: Vec<&str> = text.lines().skip(1).collect();
            assert_eq!(lines.len(), rows.len());
            for (row, line) in std::iter::zip(&rows, lines) {
                let fields: Vec<&str> = line.split(',').collect();
                assert_eq!(fields[0].parse(), Ok(row.n));
                assert_eq!((fields[1].parse(), fields[2].parse()), (Ok(row.lat), Ok(row.lon)));
                assert_eq!(fields[3], row.label);
                assert!(row.lat.abs() <= 80.0 && row.lon.abs() < 180.0, "{line}");
            }
        }
    }

    #[test]
    fn batches_share_no_row() {
        let batches: Vec<Batch> = (0..10).map(Batch::number).collect();
        let rows = rows_of_all(&batches).unwrap();
        assert_eq!(rows.len() as u64, batches.iter().map(|batch| batch.rows).sum::<u64>());
    }
}
