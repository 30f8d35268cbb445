//! The derivation record: what a table remembers of how its cells were made, as JSON in the table property
//! `ingest.derivation.<column>`. Before a batch is written, the record of the table is compared with that of the
//! running program; if they do not agree, nothing is written, for a column with the cells of two derivations answers
//! queries wrongly and no later check can tell.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::fingerprint::fingerprint;
use crate::{CellDerivation, CellType, Error, Resolution, Sha256Hex, json};

/// The library that computes the cells.
const LIBRARY: &str = "h3o";

/// Its version, which the workspace pins with `=`.
const LIBRARY_VERSION: &str = "0.11.1";

/// How a column of cells was made.
///
/// Keys that this version does not know are ignored, so that a later version may add some.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DerivationRecord {
    /// The library that computes the cells.
    pub library: String,
    /// Its version.
    pub version: String,
    /// The resolution of the cells.
    pub resolution: Resolution,
    /// How a cell is stored.
    pub cell_type: CellType,
    /// Which point of a geometry decides its cell.
    pub rule: String,
    /// The resolutions of the parent columns.
    #[serde(default)]
    pub parents: Vec<Resolution>,
    /// The machine the program was built for, as a target triple.
    pub target: String,
    /// What the derivation *does*: the digest of the cells of a fixed set of points.
    pub fingerprint: Sha256Hex,
}

impl DerivationRecord {
    /// The record of `derivation` as this program computes it.
    pub(crate) fn running(derivation: &CellDerivation) -> Self {
        Self {
            library: LIBRARY.to_owned(),
            version: LIBRARY_VERSION.to_owned(),
            resolution: derivation.resolution(),
            cell_type: derivation.cell_type(),
            rule: derivation.rule().to_string(),
            parents: derivation.parents().to_vec(),
            target: env!("HEXFLOE_TARGET").to_owned(),
            fingerprint: fingerprint(),
        }
    }

    /// One line of JSON; the same record always gives the same bytes.
    pub fn to_json(&self) -> String {
        json::text(self)
    }

    /// Reads what [`to_json`](Self::to_json) wrote, here or in another version.
    ///
    /// # Errors
    ///
    /// [`Error::Record`] with the text and what is wrong with it.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        serde_json::from_str(text).map_err(|cause| Error::Record { cause, json: text.to_owned() })
    }

    /// Whether cells made as `self` says (the table) and as `running` says (the program) may stand in one column.
    ///
    /// Library, resolution, cell type, rule and fingerprint decide. Version and target do not: they are reasons to
    /// *suspect* that the cells differ, and the fingerprint is the observation. While it agrees, an update of the
    /// library or a move to another machine needs no ceremony; when it does not, they are named, because one of them
    /// is the likely cause. The parents do not decide either: each is a column of its own, and follows from the cell.
    ///
    /// # Errors
    ///
    /// Everything that differs, and how to proceed.
    pub fn compatible_with(&self, running: &Self) -> Result<(), DerivationMismatch> {
        let mut differences: Vec<Difference> = [
            difference("library", &self.library, &running.library),
            difference("resolution", &self.resolution, &running.resolution),
            difference("cell type", &self.cell_type, &running.cell_type),
            difference("geometry rule", &self.rule, &running.rule),
            difference("fingerprint", &self.fingerprint, &running.fingerprint),
        ]
        .into_iter()
        .flatten()
        .collect();
        if differences.is_empty() {
            return Ok(());
        }
        if self.library != running.library || self.fingerprint != running.fingerprint {
            differences.extend(difference("version", &self.version, &running.version));
            differences.extend(difference("target", &self.target, &running.target));
        }
        Err(DerivationMismatch { differences })
    }
}

fn difference(field: &'static str, table: &impl ToString, running: &impl ToString) -> Option<Difference> {
    let (table, running) = (table.to_string(), running.to_string());
    (table != running).then_some(Difference { field, table, running })
}

/// One thing in which two derivations differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What it is.
    pub field: &'static str,
    /// As the table has it.
    pub table: String,
    /// As the running program has it.
    pub running: String,
}

/// The cells of the table and those of the running program may not stand in one column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[must_use]
pub struct DerivationMismatch {
    /// Everything that differs; never empty.
    pub differences: Vec<Difference>,
}

impl fmt::Display for DerivationMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cells of the table were derived otherwise")?;
        for (index, Difference { field, table, running }) in self.differences.iter().enumerate() {
            let separator = if index == 0 { ": " } else { "; " };
            write!(f, "{separator}{field}: table has {table}, running has {running}")?;
        }
        let differs = |field| self.differences.iter().any(|difference| difference.field == field);
        f.write_str("; to proceed, ")?;
        if differs("library") || differs("fingerprint") {
            f.write_str("run a build with the library, version and target of the table")?;
        } else {
            f.write_str("give the job the settings of the table")?;
        }
        f.write_str(", or write to another column or table, or derive the whole column again")
    }
}
