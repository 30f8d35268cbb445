//! Rows that cannot be used: shown, or set aside, and always counted.

use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, UInt64Array};
use hexfloe_batch::{Reject, RejectReason};
use hexfloe_source::SourceBatch;

use crate::Error;

/// How many rejected rows an error shows.
const SHOWN: usize = 20;

/// A rejected row, by its place in the input.
#[derive(Clone, Debug, PartialEq)]
pub struct RejectedRow {
    /// The file, as the job names it.
    pub file: Arc<str>,
    /// The layer of the file, where it has layers.
    pub layer: Option<Arc<str>>,
    /// Its number in the file (or layer), from 1, without the header.
    pub row: u64,
    /// What the file calls it: the `id` of a feature, the `fid` of a GeoPackage.
    pub feature: Option<String>,
    /// Why.
    pub reason: RejectReason,
}

impl fmt::Display for RejectedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(layer) = &self.layer {
            write!(f, ", layer {layer}")?;
        }
        write!(f, ", row {}", self.row)?;
        if let Some(feature) = &self.feature {
            write!(f, " (feature {feature})")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// The rejected rows of one batch of input, rendered where that is wanted.
#[derive(Debug, Default)]
pub(crate) struct RejectedRows {
    pub(crate) rows: Vec<RejectedRow>,
    /// With quarantine: one line of JSON each.
    pub(crate) lines: Vec<u8>,
}

impl RejectedRows {
    pub(crate) fn new(input: &SourceBatch, rejects: Vec<Reject>, render: bool) -> Result<Self, Error> {
        let feature = |row: usize| {
            let ids = input.feature_ids.as_ref().filter(|ids| ids.is_valid(row))?;
            arrow::util::display::array_value_to_string(ids, row).ok()
        };
        let rows = rejects
            .into_iter()
            .map(|Reject { row, reason }| RejectedRow {
                file: Arc::clone(&input.file),
                layer: input.layer.clone(),
                row: input.first_row + row as u64,
                feature: feature(row),
                reason,
            })
            .collect();
        let mut rejected = Self { rows, lines: Vec::new() };
        if render {
            rejected.lines = render_lines(&rejected.rows, input)?;
        }
        Ok(rejected)
    }
}

/// `{"file":…,"row":…,"code":…,"reason":…,"values":{…}}`, one line for each reject; with `layer` and `feature` where there are any.
fn render_lines(rejects: &[RejectedRow], input: &SourceBatch) -> Result<Vec<u8>, Error> {
    let failed = Error::arrow("write rejected rows");
    let indices: UInt64Array = rejects.iter().map(|reject| reject.row - input.first_row).collect();
    let input = &input.batch;
    let rows = arrow::compute::take_record_batch(input, &indices).map_err(&failed)?;
    let mut values = arrow::json::LineDelimitedWriter::new(Vec::new());
    values.write(&rows).map_err(&failed)?;
    values.finish().map_err(&failed)?;
    let values = values.into_inner();
    let mut lines = Vec::new();
    for (reject, values) in rejects.iter().zip(values.split(|byte| *byte == b'\n')) {
        let mut head = serde_json::json!({
            "file": reject.file.as_ref(),
            "row": reject.row,
            "code": reject.reason.code(),
            "reason": reject.reason.to_string(),
        });
        if let Some(layer) = &reject.layer {
            head["layer"] = layer.as_ref().into();
        }
        if let Some(feature) = &reject.feature {
            head["feature"] = feature.as_str().into();
        }
        let mut head = head.to_string();
        head.pop();
        lines.extend_from_slice(head.as_bytes());
        lines.extend_from_slice(b",\"values\":");
        lines.extend_from_slice(values);
        lines.extend_from_slice(b"}\n");
    }
    Ok(lines)
}

/// Takes rejected rows in input order.
#[derive(Debug)]
pub(crate) enum RejectSink {
    /// Counts them and keeps the first.
    Refuse { count: u64, first: Vec<RejectedRow> },
    /// Writes them to a file that gets its name when the batch is about to be committed.
    Quarantine { count: u64, file: QuarantineFile },
}

#[derive(Debug)]
pub(crate) struct QuarantineFile {
    path: PathBuf,
    partial: PathBuf,
    writer: Option<BufWriter<File>>,
    published: bool,
}

impl QuarantineFile {
    /// Nothing is made before the first rejected row.
    pub(crate) fn new(path: PathBuf, attempt: &str) -> Self {
        let partial = path.with_extension(format!("{attempt}.partial"));
        Self { path, partial, writer: None, published: false }
    }

    fn write(&mut self, lines: &[u8]) -> Result<(), Error> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let folder = self.path.parent().unwrap_or(Path::new("."));
                std::fs::create_dir_all(folder).map_err(Error::io("make the folder", folder))?;
                let file = File::create(&self.partial).map_err(Error::io("create", &self.partial))?;
                none.insert(BufWriter::new(file))
            }
        };
        writer.write_all(lines).map_err(Error::io("write", &self.partial))
    }

    /// Gives the file its name: before the commit, for a run that dies after the commit is not repeated, and its rejected rows
    /// would be lost. The same batch gives the same file, so one that is there already is replaced; when the batch has no
    /// rejected rows any more it is removed.
    fn publish(&mut self) -> Result<Option<PathBuf>, Error> {
        match &mut self.writer {
            Some(writer) => {
                let synced = writer.flush().and_then(|()| writer.get_ref().sync_all());
                synced.map_err(Error::io("write", &self.partial))?;
                std::fs::rename(&self.partial, &self.path).map_err(Error::io("rename", &self.partial))?;
                self.published = true;
                Ok(Some(self.path.clone()))
            }
            None => match std::fs::remove_file(&self.path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(Error::io("remove", &self.path)(error))
                }
                _ => Ok(None),
            },
        }
    }
}

impl Drop for QuarantineFile {
    fn drop(&mut self) {
        if self.writer.is_some() && !self.published {
            // The batch was not committed.
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}

impl RejectSink {
    pub(crate) fn refuse() -> Self {
        Self::Refuse { count: 0, first: Vec::new() }
    }

    pub(crate) fn take(&mut self, rejected: RejectedRows) -> Result<(), Error> {
        match self {
            Self::Refuse { count, first } => {
                *count += rejected.rows.len() as u64;
                let room = SHOWN.saturating_sub(first.len());
                first.extend(rejected.rows.into_iter().take(room));
            }
            Self::Quarantine { count, file } => {
                *count += rejected.rows.len() as u64;
                if !rejected.lines.is_empty() {
                    file.write(&rejected.lines)?;
                }
            }
        }
        Ok(())
    }

    /// Whether the batch is refused already.
    pub(crate) fn is_doomed(&self) -> bool {
        matches!(self, Self::Refuse { count, .. } if *count > 0)
    }

    /// The number of rejected rows, for a run that writes nothing; an error when the job refuses them.
    pub(crate) fn count_or_refuse(self) -> Result<u64, Error> {
        match self {
            Self::Refuse { count: 0, .. } => Ok(0),
            Self::Refuse { count, first } => Err(Error::Rejected { count, first }),
            Self::Quarantine { count, .. } => Ok(count),
        }
    }

    /// The number of rejected rows, and the file with them; an error when the job refuses them.
    pub(crate) fn finish(self) -> Result<(u64, Option<PathBuf>), Error> {
        match self {
            Self::Refuse { count: 0, .. } => Ok((0, None)),
            Self::Refuse { count, first } => Err(Error::Rejected { count, first }),
            Self::Quarantine { count, mut file } => Ok((count, file.publish()?)),
        }
    }
}
