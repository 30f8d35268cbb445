//! The derivation of a column with all cells that cover a geometry: a sorted list of cells, null where there is no geometry.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewArray, Int64Builder, ListBuilder};
use arrow::datatypes::{DataType, Field};
use serde_json::json;

use crate::{BATCH_ID_COLUMN, Error, Reject, RejectReason, Resolution, fingerprint, json};
use crate::{Containment, cover_cells};

/// The derivation of a column of covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoverDerivation {
    column: String,
    resolution: Resolution,
    containment: Containment,
    max_cells: usize,
}

impl CoverDerivation {
    /// Covers of `resolution` in `column`; a geometry that takes more than `max_cells` has none.
    ///
    /// # Errors
    ///
    /// If the column has no name or that of the batch id.
    pub fn new(
        column: String,
        resolution: Resolution,
        containment: Containment,
        max_cells: usize,
    ) -> Result<Self, Error> {
        if column.is_empty() {
            return Err(Error::CellColumn { column, cause: "it is empty" });
        }
        if column == BATCH_ID_COLUMN {
            return Err(Error::CellColumn { column, cause: "the batch id has that name" });
        }
        Ok(Self { column, resolution, containment, max_cells })
    }

    /// The name of the column.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// The column: a nullable list of cells, none of which is null.
    pub fn field(&self) -> Field {
        Field::new(&self.column, DataType::List(Arc::new(element())), true)
    }

    /// The covers of geometries in longitude and latitude, as [`geometries`](crate::geometries) gives them; and the rows whose geometry has
    /// none. The cover of an empty geometry is an empty list.
    ///
    /// # Errors
    ///
    /// If the column cannot hold so many cells.
    pub fn derive(&self, geometries: &BinaryViewArray) -> Result<(ArrayRef, Vec<Reject>), Error> {
        let mut builder = ListBuilder::new(Int64Builder::new()).with_field(element());
        let mut rejects = Vec::new();
        for (row, wkb) in geometries.iter().enumerate() {
            let cover = wkb.map(|wkb| cover_cells(wkb, self.resolution, self.containment, self.max_cells)).transpose();
            match cover {
                Ok(Some(cells)) => builder.append_value(cells.iter().map(|cell| Some(cell.cast_signed()))),
                Ok(None) => builder.append_null(),
                Err(problem) => {
                    rejects.push(Reject { row, reason: RejectReason::NoCover { cause: problem.to_string() } });
                    builder.append_null();
                }
            }
        }
        Ok((Arc::new(builder.finish()), rejects))
    }

    /// What a table remembers of it: everything that decides which cells there are, as one line of JSON.
    pub fn record(&self) -> String {
        let record = json!({
            "library": "h3o",
            "resolution": self.resolution.get(),
            "rule": "cover-1",
            "containment": self.containment,
            "max_cells": self.max_cells,
            "fingerprint": fingerprint().to_string(),
        });
        json::text(&record)
    }
}

fn element() -> Field {
    Field::new("element", DataType::Int64, false)
}
