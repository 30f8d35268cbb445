//! What people write in a catalog file.

use std::path::{Component, Path, PathBuf};

use hexfloe_store::Location;
use serde::{Deserialize, Serialize};

use crate::Error;

/// A catalog file, with keys as PyIceberg spells them.
///
/// ```toml
/// name      = "lake"
/// type      = "sql"
/// uri       = "sqlite:lake/catalog.db"
/// warehouse = "file:lake/warehouse"
/// ```
///
/// Relative paths are relative to the folder of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogSettings {
    /// The catalog's name; in a SQL catalog it is part of every table's key.
    pub name: String,
    /// The kind of catalog.
    #[serde(rename = "type")]
    pub kind: CatalogKind,
    /// Where the catalog is: `sqlite:FILE`, or SQLAlchemy's `sqlite:///FILE` (four slashes for an absolute path).
    pub uri: String,
    /// Where new tables go: `file:FOLDER` or an absolute location.
    pub warehouse: String,
}

/// The kinds of catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CatalogKind {
    /// Tables in a SQL database, as in Java's JDBC catalog and PyIceberg's `SqlCatalog`.
    Sql,
}

impl CatalogSettings {
    /// The catalog that needs nothing: SQLite and a warehouse below `lake/`.
    pub fn embedded() -> Self {
        Self {
            name: "lake".to_owned(),
            kind: CatalogKind::Sql,
            uri: "sqlite:lake/catalog.db".to_owned(),
            warehouse: "file:lake/warehouse".to_owned(),
        }
    }

    /// Parses a catalog file.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`] with the line and the parser's message: unknown keys, missing keys, wrong types.
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let message = error.message();
            Error::Settings(line.map_or_else(|| message.to_owned(), |line| format!("line {line}: {message}")))
        })
    }

    /// The database file, absolute.
    pub(crate) fn database(&self, base: &Path) -> Result<PathBuf, Error> {
        let Some(rest) = self.uri.strip_prefix("sqlite:") else {
            return Err(Error::Settings(format!("uri {:?} is not supported; write `sqlite:FILE`", self.uri)));
        };
        // SQLAlchemy: three slashes and a relative path, four for an absolute one.
        let path = rest.strip_prefix("///").unwrap_or(rest);
        if path.is_empty() || path.starts_with("//") || path.contains('?') {
            return Err(Error::Settings(format!("uri {:?} names no database file; write `sqlite:FILE`", self.uri)));
        }
        absolute(base, path)
    }

    /// The warehouse, absolute and canonical.
    pub(crate) fn warehouse(&self, base: &Path) -> Result<Location, Error> {
        let local = match self.warehouse.split_once(':') {
            Some(("file", path)) if !path.starts_with("//") => Some(path),
            Some(_) => None,
            None => Some(self.warehouse.as_str()),
        };
        match local {
            Some(path) => Ok(Location::from_path(&absolute(base, path)?)?),
            None => Ok(Location::parse(&self.warehouse)?),
        }
    }
}

/// `path` as seen from `base`, absolute and without `..`, which is taken off as written, whatever links there are:
/// a location is a name, and must be the same in every run.
fn absolute(base: &Path, path: &str) -> Result<PathBuf, Error> {
    let joined = std::path::absolute(base.join(path))
        .map_err(|error| Error::Settings(format!("path {path:?} cannot be made absolute: {error}")))?;
    let mut plain = PathBuf::new();
    for component in joined.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("sqlite:lake/catalog.db", "/base/lake/catalog.db")]
    #[case("sqlite:/lake/catalog.db", "/lake/catalog.db")]
    #[case("sqlite:///lake/catalog.db", "/base/lake/catalog.db")]
    #[case("sqlite:////lake/catalog.db", "/lake/catalog.db")]
    #[case("sqlite:../lake/catalog.db", "/lake/catalog.db")]
    #[case("sqlite:./lake/../catalog.db", "/base/catalog.db")]
    fn database_paths_read_as_sqlalchemy_reads_them(#[case] uri: &str, #[case] path: &str) {
        let settings = CatalogSettings { uri: uri.to_owned(), ..CatalogSettings::embedded() };
        assert_eq!(settings.database(Path::new("/base")).unwrap(), Path::new(path));
    }

    #[rstest]
    #[case("postgresql://localhost/lake")]
    #[case("sqlite:")]
    #[case("sqlite://lake.db")]
    #[case("sqlite:lake.db?mode=ro")]
    fn other_databases_are_refused(#[case] uri: &str) {
        let settings = CatalogSettings { uri: uri.to_owned(), ..CatalogSettings::embedded() };
        assert!(matches!(settings.database(Path::new("/base")), Err(Error::Settings(_))));
    }

    #[rstest]
    #[case("file:lake/warehouse", "file:///base/lake/warehouse")]
    #[case("lake/warehouse/", "file:///base/lake/warehouse")]
    #[case("file:/lake", "file:///lake")]
    #[case("../lake", "file:///lake")]
    #[case("file:./lake", "file:///base/lake")]
    #[case("file:///lake/", "file:///lake")]
    fn warehouses_are_written_in_one_form(#[case] warehouse: &str, #[case] location: &str) {
        let settings = CatalogSettings { warehouse: warehouse.to_owned(), ..CatalogSettings::embedded() };
        assert_eq!(settings.warehouse(Path::new("/base")).unwrap().to_string(), location);
    }

    #[test]
    fn a_relative_base_is_taken_from_the_current_folder() {
        let here = std::env::current_dir().unwrap();
        let settings = CatalogSettings::embedded();
        assert_eq!(settings.database(Path::new("jobs")).unwrap(), here.join("jobs/lake/catalog.db"));
        assert_eq!(
            settings.warehouse(Path::new("")).unwrap(),
            Location::from_path(&here.join("lake/warehouse")).unwrap()
        );
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_it() {
        let error = CatalogSettings::from_toml("name='a'\ntype='sql'\nuri='sqlite:a'\nwarehouse='b'\nwarehous='c'");
        let error = error.unwrap_err().to_string();
        assert!(error.contains("line 5: unknown field `warehous`") && !error.contains('|'), "{error}");
    }
}
