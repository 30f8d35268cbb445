//! The namespace that a verification works in: made by it, noted where the next one finds it, and taken away again.
//!
//! A verification may be killed, so what it makes is noted first: in a file of the user's, which is locked while the verification
//! runs. The system takes the lock away with the process, however that ends, and the next verification of the same catalog removes
//! what a file without a lock names. Nothing is ever removed that is not named with the id of a verification, whatever a note says:
//! not a namespace, not a table, not a folder.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use futures::TryStreamExt;
use hexfloe_batch::Sha256Hex;
use hexfloe_catalog::{CatalogKind, CatalogSettings, OpenCatalog};
use hexfloe_store::Location;
use iceberg::{NamespaceIdent, TableIdent};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::table::Trouble;

/// What the names of namespaces that verifications make begin with.
pub const PREFIX: &str = "scratch_hexfloe_";

/// What is noted of a verification.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
    pub(crate) fn new(id: String, settings: &CatalogSettings, base: &Path, namespace: Option<&NamespaceIdent>) -> Self {
        let made = namespace.is_none();
        let namespace = namespace.map_or_else(|| vec![format!("{PREFIX}{id}")], |given| given.clone().inner());
        let identity = identity(settings, base);
        Self { id, catalog: settings.name.clone(), identity, namespace, made, places: BTreeSet::new() }
    }

    pub(crate) fn namespace(&self) -> Result<NamespaceIdent, Trouble> {
        Ok(NamespaceIdent::from_vec(self.namespace.clone())?)
    }

    /// The table of a scenario.
    pub(crate) fn table(&self, scenario: &str) -> Result<TableIdent, Trouble> {
        Ok(TableIdent::new(self.namespace()?, format!("{}{}", self.tables(), scenario.replace('-', "_"))))
    }

    /// The id of its self-test, which is in the name of the table of that.
    pub(crate) fn self_test(&self, random: Uuid) -> Uuid {
        let id = u128::from_str_radix(&self.id, 16).unwrap_or_default();
        Uuid::from_u128(id << 96 | random.as_u128() & (u128::MAX >> 32))
    }

    /// What the names of its tables begin with.
    fn tables(&self) -> String {
        format!("v{}_", self.id)
    }

    /// Whether a table, or the folder of one, is named as those of this verification are.
    fn is_own(&self, name: &str) -> bool {
        name.starts_with(&self.tables()) || name.starts_with(&format!("hexfloe_check_{}", self.id))
    }

    /// Whether a place is that of a table of this verification, by its name.
    pub(crate) fn is_own_place(&self, place: &str) -> bool {
        place.trim_end_matches('/').rsplit('/').next().is_some_and(|name| self.is_own(name))
    }

    /// Whether it says nothing that no verification notes.
    fn is_sound(&self) -> bool {
        let own = !self.made || self.namespace == [format!("{PREFIX}{}", self.id)];
        is_id(&self.id) && own && self.places.iter().all(|place| self.is_own_place(place))
    }
}

/// Whether a text is the id of a verification.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Which catalog it is, without its secrets. A SQL catalog may be named relative to a folder.
pub(crate) fn identity(settings: &CatalogSettings, base: &Path) -> String {
    let uri = hexfloe_store::secrets::conceal(&settings.uri);
    let base = if settings.kind == CatalogKind::Sql { base.display().to_string() } else { String::new() };
    let whole = format!("{:?}\n{}\n{uri}\n{}\n{base}", settings.kind, settings.name, settings.warehouse);
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
        // It is locked and whole before anybody can find it.
        let hidden = folder.join(format!(".{}", note.id));
        let file = OpenOptions::new().create_new(true).write(true).open(&hidden)?;
        file.lock()?;
        let mut journal = Self { path, file };
        journal.keep(note)?;
        fs::rename(&hidden, &journal.path)?;
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

/// The notes in a folder.
fn notes(folder: &Path) -> Vec<(PathBuf, Note)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let id = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        let is_note = is_id(&id) && path.extension().is_some_and(|extension| extension == "json");
        if !is_note || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let note = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Note>(&text).ok());
        found.extend(note.filter(|note| note.id == id && note.is_sound()).map(|note| (path, note)));
    }
    found.sort();
    found
}

/// The notes of verifications that have ended without taking away what they made.
pub(crate) fn abandoned(folder: &Path) -> Vec<(Journal, Note)> {
    let mut found = Vec::new();
    for (path, note) in notes(folder) {
        let Ok(file) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
        if file.try_lock().is_ok() {
            found.push((Journal { path, file }, note));
        }
    }
    found
}

/// The namespaces of verifications that are running on this machine, or have been killed.
pub(crate) fn noted(folder: &Path) -> Vec<String> {
    notes(folder).into_iter().map(|(_, note)| note.namespace.join(".")).collect()
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
            for table in tables.iter().filter(|table| note.is_own(table.name())) {
                match catalog.load(table).await {
                    Ok(Some(loaded)) => drop(places.insert(loaded.metadata().location().to_owned())),
                    Ok(None) => continue,
                    // Where its files are only the table knows.
                    Err(error) => {
                        left.push(format!("table {table}, which cannot be read: {error}"));
                        continue;
                    }
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
    for place in &all {
        if let Err(error) = empty(catalog, place).await {
            left.push(format!("{place}: {error}"));
        }
    }
    // The folder of the namespace, where that is the verification's own.
    let own = format!("/{PREFIX}{}", note.id);
    for parent in parents.iter().filter(|parent| parent.ends_with(&own)) {
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
    Ok(names.filter(|name| note.is_own(name)).map(|name| format!("{parent}/{name}")).collect())
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
        Note::new(id.to_owned(), &CatalogSettings::embedded(), Path::new("/lakes"), None)
    }

    #[test]
    fn what_runs_is_left_alone_and_what_was_killed_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (running, killed) = (note("aaaaaaaa"), note("bbbbbbbb"));
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
        let here = Path::new("/here");
        assert_ne!(identity(&embedded, here), identity(&other, here));
        assert_ne!(identity(&embedded, here), identity(&embedded, Path::new("/there")), "relative to a folder");
        let secret = |secret: &str| CatalogSettings { uri: format!("postgresql://u:{secret}@h/d"), ..embedded.clone() };
        hexfloe_store::secrets::remember("first");
        hexfloe_store::secrets::remember("second");
        assert_eq!(identity(&secret("first"), here), identity(&secret("second"), here));
    }

    #[test]
    fn a_note_that_no_verification_writes_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, note: &Note| {
            fs::write(folder.path().join(name), serde_json::to_vec(note).unwrap()).unwrap();
        };
        let id = "0a1b2c3d";
        let sound = note(id);
        let place = |place: &str| BTreeSet::from([place.to_owned()]);
        write(
            "00000001.json",
            &Note { id: "00000001".to_owned(), namespace: vec!["prod".to_owned()], ..sound.clone() },
        );
        write("00000002.json", &Note { places: place("/lake/archive/2024"), ..note("00000002") });
        write("00000003.json", &Note { places: place("/lake/v00000003_x/archive"), ..note("00000003") });
        write("00000004.json", &Note { id: "z/../../victim".to_owned(), ..sound.clone() });
        write("notes.json", &sound);
        fs::write(folder.path().join("id_rsa"), "mine").unwrap();
        fs::write(folder.path().join("00000005.json"), "not a note").unwrap();
        write(&format!("{id}.json"), &Note { places: place("/lake/v0a1b2c3d_replay-0"), ..sound });
        let found: Vec<String> = abandoned(folder.path()).into_iter().map(|(_, note)| note.id).collect();
        assert_eq!(found, [id]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 8, "nothing is removed by looking");
    }

    #[test]
    fn the_table_of_the_self_test_is_named_after_the_verification() {
        let note = note("0a1b2c3d");
        let id = note.self_test(Uuid::from_u128(u128::MAX));
        assert!(note.is_own(&format!("hexfloe_check_{}", id.simple())), "{id}");
        assert!(!note.is_own("v0a1b2c3_x") && !note.is_own("hexfloe_check_00000000") && !note.is_own("orders"));
    }
}
