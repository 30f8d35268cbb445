//! Types that are declared rather than inferred: by the job, which wins, and by the table.

use std::collections::{BTreeMap, HashMap};

use arrow::datatypes::{DataType, Field};

use crate::error::Error;
use crate::{names, types};

/// The declared types, by column name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declared {
    by_job: BTreeMap<String, DataType>,
    by_table: HashMap<String, DataType>,
}

impl Declared {
    /// Reads the names of types in a job's `source.schema`.
    pub(crate) fn by_job(schema: &BTreeMap<String, String>) -> Result<Self, Error> {
        let mut by_job = BTreeMap::new();
        for (column, name) in schema {
            let data_type =
                types::from_name(name).map_err(|problem| Error::setting(format!("source.schema.{column}"), problem))?;
            by_job.insert(column.clone(), data_type);
        }
        Ok(Self { by_job, by_table: HashMap::new() })
    }

    /// Adds the types of a table, which are weaker than those of the job.
    pub(crate) fn with_table(&self, fields: &[Field]) -> Self {
        let by_table =
            fields.iter().map(|field| (field.name().clone(), types::normalised(field.data_type()))).collect();
        Self { by_job: self.by_job.clone(), by_table }
    }

    /// The same, with nothing said of one column.
    pub(crate) fn without(&self, column: &str) -> Self {
        let mut rest = self.clone();
        rest.by_job.remove(column);
        rest.by_table.remove(column);
        rest
    }

    pub(crate) fn type_of(&self, column: &str) -> Option<&DataType> {
        self.of_job(column).or_else(|| self.of_table(column))
    }

    pub(crate) fn of_job(&self, column: &str) -> Option<&DataType> {
        self.by_job.get(column)
    }

    pub(crate) fn of_table(&self, column: &str) -> Option<&DataType> {
        self.by_table.get(column)
    }

    /// What the job declares, in the order of the names.
    pub(crate) fn job_columns(&self) -> impl Iterator<Item = (&str, &DataType)> {
        self.by_job.iter().map(|(column, data_type)| (column.as_str(), data_type))
    }

    /// Refuses a declaration of a column that is not there: the job means another name.
    pub(crate) fn check_columns<'a>(&self, existing: impl Iterator<Item = &'a str>, file: &str) -> Result<(), Error> {
        let existing: Vec<&str> = existing.collect();
        self.by_job.keys().try_for_each(|column| require(column, existing.iter().copied(), file))
    }
}

/// Refuses a column that is not there, with the nearest that are.
pub(crate) fn require<'a>(
    column: &str,
    existing: impl Iterator<Item = &'a str> + Clone,
    file: &str,
) -> Result<(), Error> {
    if existing.clone().any(|name| name == column) {
        return Ok(());
    }
    let near = names::nearest(column, existing);
    Err(Error::NoColumn { column: column.to_owned(), file: file.to_owned(), near })
}
