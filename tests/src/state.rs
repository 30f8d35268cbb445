//! Every byte of a warehouse and every row of its catalog, so that "nothing changed" is a comparison.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// What a lake holds. Two are equal if no file and no table differ.
#[derive(Debug, PartialEq, Eq)]
pub struct State {
    /// Path, or key, under the warehouse -> length and SHA-256; a folder has neither.
    pub files: BTreeMap<String, Option<(usize, String)>>,
    /// The catalog's rows.
    pub tables: Value,
}

impl State {
    /// A lake in which no ingest has left anything.
    pub fn is_empty(&self) -> bool {
        self.files.values().all(Option::is_none) && self.tables.as_array().is_some_and(Vec::is_empty)
    }

    /// The judge's list of objects, as files.
    #[track_caller]
    pub(crate) fn of_objects(objects: &Value) -> BTreeMap<String, Option<(usize, String)>> {
        serde_json::from_value(objects.clone())
            .unwrap_or_else(|error| panic!("{objects} is no list of objects: {error}"))
    }

    pub(crate) fn files_under(folder: &Path) -> BTreeMap<String, Option<(usize, String)>> {
        let mut files = BTreeMap::new();
        if folder.exists() {
            collect(folder, folder, &mut files)
                .unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
        }
        files
    }
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<String, Option<(usize, String)>>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        if path.is_dir() {
            files.insert(name, None);
            collect(root, &path, files)?;
        } else {
            let content = fs::read(&path)?;
            files.insert(name, Some((content.len(), format!("{:x}", Sha256::digest(&content)))));
        }
    }
    Ok(())
}
