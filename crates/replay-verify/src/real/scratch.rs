//! The namespace that a verification works in: made by it, noted where the next one finds it, and taken away again.
//!
//! A verification may be killed, so what it makes is noted first: in a file below the folder for temporary files, which is locked while
//! the verification runs. The system takes the lock away with the process, however that ends, and the next verification of the same
//! catalog removes what a file without a lock names. Nothing is ever removed that is not named with the id of a verification.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use futures::TryStreamExt;
use hexfloe_batch::Sha256Hex;
use hexfloe_catalog::{CatalogSettings, OpenCatalog};
use hexfloe_store::Location;
use iceberg::{NamespaceIdent, TableIdent};
use serde::{Deserialize, Serialize};

use crate::table::Trouble;

/// What the names of namespaces that verifications make begin with.
pub const PREFIX: &str = "scratch_hexfloe_";

/// What is noted of a verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// Its id: in the names of everything it makes.
    pub(crate) id: String,
    /// The catalog's name, for people.
    pub(crate) catalog: String,
    /// Which catalog it is: a digest of its kind, address and warehouse.
    pub(crate) identity: String,
    /// The namespace.
    pub(crate) namespace: Vec<String>,
    /// Whether the verification made it.
    pub(crate) made: bool,
    /// Places that tables of it are in, as far as they are known.
    pub(crate) places: BTreeSet<String>,
}

impl Note {
    pub(crate) fn new(id: String, settings: &CatalogSettings, namespace: Option<&NamespaceIdent>) -> Self {
        let made = namespace.is_none();
        let namespace = namespace.map_or_else(|| vec![format!("{PREFIX}{id}")], |given| given.clone().inner());
        let identity = identity(settings);
        Self { id, catalog: settings.name.clone(), identity, namespace, made, places: BTreeSet::new() }
    }

    pub(crate) fn namespace(&self) -> Result<NamespaceIdent, Trouble> {
        Ok(NamespaceIdent::from_vec(self.namespace.clone())?)
    }

    /// The table of a scenario.
    pub(crate) fn table(&self, scenario: &str) -> Result<TableIdent, Trouble> {
        Ok(TableIdent::new(self.namespace()?, format!("{}{}", self.tables(), scenario.replace('-', "_"))))
    }

    /// What the names of its tables begin with.
    fn tables(&self) -> String {
        format!("v{}_", self.id)
    }
}

/// Which catalog it is, without its secrets.
pub(crate) fn identity(settings: &CatalogSettings) -> String {
    let uri = hexfloe_store::secrets::conceal(&settings.uri);
    let whole = format!("{:?}\n{}\n{uri}\n{}", settings.kind, settings.name, settings.warehouse);
    Sha256Hex::of(whole).to_string()
}

/// The note of a verification that is running.
pub(crate) struct Journal {
    path: PathBuf,
    // Locked.
    file: File,
}

impl Journal {
    /// Notes what is going to be made.
    pub(crate) fn begin(folder: &Path, note: &Note) -> Result<Self, Trouble> {
        fs::create_dir_all(folder)?;
        let path = folder.join(format!("{}.json", note.id));
        let file = OpenOptions::new().create_new(true).write(true).open(&path)?;
        file.lock()?;
        let mut journal = Self { path, file };
        journal.keep(note)?;
        Ok(journal)
    }

    /// Notes what is known by now.
    pub(crate) fn keep(&mut self, note: &Note) -> Result<(), Trouble> {
        use std::io::{Seek, SeekFrom};
        let text = serde_json::to_vec(note)?;
        // A shorter text is never written: places are only added.
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&text)?;
        Ok(self.file.sync_data()?)
    }

    /// Nothing is left.
    pub(crate) fn end(self) -> Result<(), Trouble> {
        Ok(fs::remove_file(&self.path)?)
    }
}

/// The notes of verifications that have ended without taking away what they made.
pub(crate) fn abandoned(folder: &Path) -> Vec<(Journal, Note)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(file) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
        if file.try_lock().is_err() {
            continue;
        }
        let note = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Note>(&text).ok());
        match note {
            Some(note) => found.push((Journal { path, file }, note)),
            // It was killed before it had noted anything, and so before it made anything.
            None => drop(fs::remove_file(&path)),
        }
    }
    found.sort_by(|(_, one), (_, other)| one.id.cmp(&other.id));
    found
}

/// The namespaces of verifications that are running on this machine, or have been killed.
pub(crate) fn noted(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let notes = entries.filter_map(|entry| serde_json::from_slice::<Note>(&fs::read(entry.path()).ok()?).ok());
    notes.map(|note| note.namespace.join(".")).collect()
}

/// Namespaces of verifications that no note here is about.
pub(crate) async fn unknown(catalog: &OpenCatalog, known: &[String]) -> Result<Vec<String>, Trouble> {
    let namespaces = catalog.catalog().list_namespaces(None).await?;
    let names = namespaces.into_iter().map(|namespace| namespace.as_ref().join("."));
    Ok(names.filter(|name| name.starts_with(PREFIX) && !known.contains(name)).collect())
}

/// Takes away all that a verification made; gives what is left, and why.
pub(crate) async fn remove(catalog: &OpenCatalog, note: &Note) -> Vec<String> {
    let mut left = Vec::new();
    let Ok(namespace) = note.namespace() else { return left };
    let name = namespace.as_ref().join(".");
    match catalog.catalog().namespace_exists(&namespace).await {
        Ok(true) => {}
        Ok(false) => return remove_files(catalog, note, &note.places).await,
        Err(error) => return vec![format!("namespace {name}: {error}")],
    }
    let mut places = note.places.clone();
    match catalog.catalog().list_tables(&namespace).await {
        Ok(tables) => {
            for table in tables.iter().filter(|table| note.made || table.name().starts_with(&note.tables())) {
                if let Ok(Some(loaded)) = catalog.load(table).await {
                    places.insert(loaded.metadata().location().to_owned());
                }
                if let Err(error) = catalog.catalog().drop_table(table).await {
                    left.push(format!("table {table}: {error}"));
                }
            }
        }
        Err(error) => left.push(format!("the tables of namespace {name}: {error}")),
    }
    left.extend(remove_files(catalog, note, &places).await);
    if note.made
        && left.is_empty()
        && let Err(error) = catalog.catalog().drop_namespace(&namespace).await
    {
        left.push(format!("namespace {name}: {error}"));
    }
    left
}

/// Removes what is in the places of its tables, and beside them in those of tables that never came to be.
async fn remove_files(catalog: &OpenCatalog, note: &Note, places: &BTreeSet<String>) -> Vec<String> {
    let mut left = Vec::new();
    let mut all: BTreeSet<String> = places.clone();
    let parents: BTreeSet<&str> =
        places.iter().filter_map(|place| place.rsplit_once('/')).map(|(parent, _)| parent).collect();
    for parent in &parents {
        match beside(catalog, note, parent).await {
            Ok(beside) => all.extend(beside),
            Err(error) => left.push(format!("{parent}: {error}")),
        }
    }
    for place in all.iter().filter(|place| place.contains(&note.id)) {
        if let Err(error) = empty(catalog, place).await {
            left.push(format!("{place}: {error}"));
        }
    }
    // The folder of the namespace, where that is the verification's own.
    for parent in parents.iter().filter(|parent| parent.contains(&note.id)) {
        if let Ok(location) = Location::parse(parent) {
            remove_empty(&location);
        }
    }
    left
}

async fn beside(catalog: &OpenCatalog, note: &Note, parent: &str) -> Result<Vec<String>, Trouble> {
    let location = Location::parse(parent)?;
    let folders = catalog.store().folder(&location).await?.folders;
    let names = folders.iter().filter_map(|key| key.trim_end_matches('/').rsplit('/').next());
    Ok(names.filter(|name| name.starts_with(&note.tables())).map(|name| format!("{parent}/{name}")).collect())
}

async fn empty(catalog: &OpenCatalog, place: &str) -> Result<(), Trouble> {
    let location = Location::parse(place)?;
    let store = catalog.store();
    let files: Vec<String> = store.list(&location).map_ok(|listed| listed.location.to_string()).try_collect().await?;
    for (_, result) in store.delete_all(files).await {
        result?;
    }
    remove_empty(&location);
    Ok(())
}

/// Stores have no folders, disks do.
fn remove_empty(location: &Location) {
    if location.family() == "file" {
        remove_empty_folders(Path::new(&format!("/{}", location.key().trim_start_matches('/'))));
    }
}

/// Removes a folder and those in it, as far as there are no files.
fn remove_empty_folders(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty_folders(&entry.path());
        }
    }
    // One that is not empty stays.
    drop(fs::remove_dir(folder));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(id: &str) -> Note {
        Note::new(id.to_owned(), &CatalogSettings::embedded(), None)
    }

    #[test]
    fn what_runs_is_left_alone_and_what_was_killed_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (running, killed) = (note("aa"), note("bb"));
        let journal = Journal::begin(folder.path(), &running).unwrap();
        drop(Journal::begin(folder.path(), &killed).unwrap());
        let found = abandoned(folder.path());
        assert_eq!(found.iter().map(|(_, note)| note.clone()).collect::<Vec<_>>(), [killed]);
        // Who found it works on it, and nobody else does.
        assert!(abandoned(folder.path()).is_empty());
        found.into_iter().for_each(|(journal, _)| journal.end().unwrap());
        journal.end().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn another_catalog_has_another_identity_and_a_password_is_no_part_of_it() {
        let embedded = CatalogSettings::embedded();
        let other = CatalogSettings { warehouse: "file:elsewhere".to_owned(), ..embedded.clone() };
        assert_ne!(identity(&embedded), identity(&other));
        assert_eq!(identity(&embedded), identity(&embedded.clone()));
    }
}
