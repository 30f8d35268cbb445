//! Batch identity: 32 hexadecimal digits that are a function of the input alone, never of a clock, a host, a process
//! or an attempt. Two runs over the same input therefore name the same batch, which is all that idempotency needs.
//!
//! `batch_id = lowercase_hex(sha256(key))[..32]`, where `key` is UTF-8 text:
//!
//! | constructor | key |
//! |---|---|
//! | [`BatchId::offsets`] | `{source}:{partition}:{start}-{end}` |
//! | [`BatchId::files`] | `{source}:files:{lines}`, the lines as in [`FileFact`] |
//! | [`BatchId::content`] | `{source}:content:{digest}` |
//! | [`BatchId::slice`] | `{source}:slice:{column}={value}`, several columns sorted by name and joined by `,` |
//!
//! The first is bit for bit what `hashlib.sha256(f"{source}:{partition}:{start}-{end}".encode()).hexdigest()[:32]`
//! gives, so a table that was filled by that formula can be continued. Compatibility has a price: the parts of a key
//! are joined without escaping, so source `a:b` with partition `c` and source `a` with partition `b:c` are the *same*
//! key. Keep `:` out of source names, `=` out of slice columns and `,` out of slice values, where two such names could
//! meet in one table.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::digest::is_lower_hex;
use crate::{Error, Sha256Hex};

/// How many digits a batch id has.
const DIGITS: usize = 32;

/// The identity of a batch: 32 lower-case hexadecimal digits, made from the input alone.
///
/// ```
/// use hexfloe_batch::BatchId;
///
/// let id = BatchId::offsets("vessels", "7", 1000, 2000)?;
/// assert_eq!(id.as_str(), "eb5307eab8fc4f5c56c88566d7d764e1");
/// # Ok::<(), hexfloe_batch::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BatchId(String);

impl BatchId {
    /// The batch of the offsets from `start` to `end` of one partition of a stream or log.
    ///
    /// Whether `end` belongs to the batch is the source's convention; it must only be the same in every run.
    ///
    /// # Errors
    ///
    /// [`Error::Offsets`] if `start` lies after `end`.
    pub fn offsets(source: &str, partition: &str, start: u64, end: u64) -> Result<Self, Error> {
        if start > end {
            return Err(Error::Offsets { start, end });
        }
        Ok(Self::of_key(&format!("{source}:{partition}:{start}-{end}")))
    }

    /// The batch of a set of files; the order of `facts` does not matter.
    pub fn files(source: &str, facts: &[FileFact]) -> Self {
        Self::of_key(&format!("{source}:files:{}", lines(facts)))
    }

    /// The batch with this content, for sources that have no offsets: `digest` is the one of the canonical rows
    /// ([`ContentHasher`](crate::ContentHasher)).
    pub fn content(source: &str, digest: &Sha256Hex) -> Self {
        Self::of_key(&format!("{source}:content:{digest}"))
    }

    /// The batch that owns every row in which `column` is `value`, for instance one run date.
    pub fn slice(source: &str, column: &str, value: &str) -> Self {
        Self::slice_of(source, [(column, value)])
    }

    /// The batch that owns every row in which each column has its value; the order of the columns does not matter. With several
    /// columns, a comma, an equals sign or a backslash in a name or value has a backslash before it, so that no two slices
    /// read the same.
    pub fn slice_of<'a>(source: &str, values: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let values = BTreeMap::from_iter(values);
        let several = values.len() > 1;
        let plain = |text: &str| match several {
            true => text.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\="),
            false => text.to_owned(),
        };
        let values = values.into_iter().map(|(column, value)| format!("{}={}", plain(column), plain(value)));
        Self::of_key(&format!("{source}:slice:{}", values.collect::<Vec<_>>().join(",")))
    }

    /// The 32 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn of_key(key: &str) -> Self {
        let mut digits = Sha256Hex::of(key).to_string();
        digits.truncate(DIGITS);
        Self(digits)
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchId({})", self.0)
    }
}

impl AsRef<str> for BatchId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for BatchId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        if is_lower_hex(&text, DIGITS) { Ok(Self(text)) } else { Err(Error::BatchId { value: text }) }
    }
}

impl TryFrom<&str> for BatchId {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self, Error> {
        Self::try_from(text.to_owned())
    }
}

impl FromStr for BatchId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::try_from(text)
    }
}

impl From<BatchId> for String {
    fn from(id: BatchId) -> Self {
        id.0
    }
}

/// What is known of one input file, and all that goes into the identity of a set of files.
///
/// Modification times are left out on purpose: a file that was touched or unpacked again is the same file.
///
/// In a key, a file is the line `path<TAB>size<TAB>sha256`; the lines are sorted by their bytes and joined by a line
/// feed, with none at the end. A path is written as it is, but for four characters that could forge a column or a line:
/// backslash, tab, line feed and carriage return are written `\\`, `\t`, `\n` and `\r`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileFact {
    /// Where the file lies, relative to the job, with `/` between the parts on every platform.
    pub path: String,
    /// Its length in bytes.
    pub size: u64,
    /// The digest of its bytes.
    pub sha256: Sha256Hex,
}

impl FileFact {
    fn line(&self) -> String {
        let mut line = String::with_capacity(self.path.len() + 88);
        for character in self.path.chars() {
            match character {
                '\\' => line.push_str(r"\\"),
                '\t' => line.push_str(r"\t"),
                '\n' => line.push_str(r"\n"),
                '\r' => line.push_str(r"\r"),
                other => line.push(other),
            }
        }
        line.push_str(&format!("\t{}\t{}", self.size, self.sha256));
        line
    }
}

/// One digest for a set of files, independent of their order: SHA-256 of the lines described at [`FileFact`].
pub fn files_digest(facts: &[FileFact]) -> Sha256Hex {
    Sha256Hex::of(lines(facts))
}

fn lines(facts: &[FileFact]) -> String {
    let mut lines: Vec<String> = facts.iter().map(FileFact::line).collect();
    lines.sort_unstable();
    lines.join("\n")
}
