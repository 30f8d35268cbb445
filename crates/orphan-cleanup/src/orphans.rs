//! Removing the files that nothing refers to.
//!
//! The order is what makes it safe. The table is loaded and everything it refers to is found; then its place is listed;
//! what is referenced, young, undated or oddly named is taken out; then the table is loaded again, and what it refers to
//! by now is taken out too. Only then is something removed, a chunk at a time, with one more look at the table before each.

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use hexfloe_catalog::OpenCatalog;
use hexfloe_commit::{Locations, RunningAttempt, SharedEnvironment};
use hexfloe_store::{Location, Store, StoreObject};
use iceberg::TableIdent;
use iceberg::table::Table;
use tokio::sync::OnceCell;

use crate::candidates::{Candidate, Candidates};
use crate::error::{Error, Refusal, causes};
use crate::foreign;
use crate::listing;
use crate::names::{self, Attribution, Kind};
use crate::paths::{EqualSchemes, Found};
use crate::reachable::{Reachable, State, Which};
use crate::reading::Reading;
use crate::removal::{CHUNK, Disposal, Removal};
use crate::report::{ClockUsed, Count, Fate, FileRecord, Left, OrphanReport, Sink};

/// Files younger than this are removed by nobody who has not said that he understands it: an attempt of ours gives up
/// at half of it.
pub const FLOOR: Duration = Duration::from_secs(24 * 3600);

/// The age from which on files are removed, when nothing else is said: as Iceberg's own `remove_orphan_files` has it.
pub const DEFAULT_MARGIN: Duration = Duration::from_secs(3 * 24 * 3600);

/// How far a commit may be dated before the one that it follows, as the clocks of writers differ: Iceberg allows a minute.
const CLOCK_TOLERANCE_MS: i64 = 60_000;

/// How many failures a report tells of; the list of files has them all.
pub(crate) const SHOWN: usize = 10;

/// How many tables are loaded at once.
const CONCURRENT_LOADS: usize = 16;

/// What to remove, and how.
#[derive(Clone, Debug)]
pub struct OrphanOptions {
    /// How old a file has to be, by the store's clock. At least [`FLOOR`], unless `below_floor`.
    pub older_than: Duration,
    /// Remove, and not only say what would be removed.
    pub apply: bool,
    /// Allow a margin below [`FLOOR`]: for when no writer can be at work.
    pub below_floor: bool,
    /// The largest part of the listed bytes that may go, from 0 to 1.
    pub max_fraction: f64,
    /// Places outside the table's location that its properties name, and that hold nothing but its files.
    pub owned: Vec<String>,
    /// Schemes that are the same.
    pub equal_schemes: EqualSchemes,
    /// What is done with orphans.
    pub disposal: Disposal,
}

impl Default for OrphanOptions {
    /// A dry run with a margin of three days.
    fn default() -> Self {
        Self {
            older_than: DEFAULT_MARGIN,
            apply: false,
            below_floor: false,
            max_fraction: 0.5,
            owned: Vec::new(),
            equal_schemes: EqualSchemes::default(),
            disposal: Disposal::Delete,
        }
    }
}

/// Cleans up tables of one catalog. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cleaner {
    pub(crate) catalog: OpenCatalog,
    pub(crate) environment: SharedEnvironment,
    pub(crate) threads: NonZeroUsize,
    /// Asked once: where they are does not change.
    neighbours: Arc<OnceCell<Neighbours>>,
}

/// The tables of a catalog.
#[derive(Debug, Default)]
struct Neighbours {
    places: Vec<(TableIdent, Vec<Location>)>,
    /// Those with a place that cannot be compared.
    incomparable: Vec<(TableIdent, String)>,
    not_asked: Vec<String>,
}

impl Cleaner {
    /// A cleaner that works on one thread.
    pub fn new(catalog: OpenCatalog, environment: SharedEnvironment) -> Self {
        Self { catalog, environment, threads: NonZeroUsize::MIN, neighbours: Arc::default() }
    }

    /// The same, taking manifests apart on as many threads as tokio has for it, if `threads` is more than one.
    #[must_use]
    pub fn with_threads(self, threads: NonZeroUsize) -> Self {
        Self { threads, ..self }
    }

    pub(crate) fn store(&self) -> &Store {
        self.catalog.store()
    }

    pub(crate) async fn load(&self, table: &TableIdent) -> Result<Table, Error> {
        let loaded = self.catalog.load(table).await;
        let loaded = loaded.map_err(|error| unreadable_metadata(table, error))?;
        loaded.ok_or_else(|| Error::NoTable { table: table.to_string() })
    }

    pub(crate) fn reading(&self, table: &TableIdent) -> Reading {
        Reading::new(self.store().clone(), self.threads, table.to_string())
    }

    /// Finds the orphans of a table, and with `apply` removes them. `sink` gets every file that is not referenced and
    /// not young: those to go in the order of their keys, the others as they are listed.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] when it is not certain that only orphans would go; then nothing is removed, dry run or not.
    pub async fn orphans(
        &self,
        table: &TableIdent,
        options: &OrphanOptions,
        sink: &mut dyn Sink,
    ) -> Result<OrphanReport, Error> {
        self.refuse_early(table, options)?;
        let removal = Removal::new(self.store().clone(), self.environment.clone(), &options.disposal)?;
        let loaded = self.load(table).await?;
        refuse_without_gc(&loaded)?;
        refuse_nowhere(&loaded)?;
        let roots = Roots::of(&loaded, &options.owned, self.store())?;
        removal.check(&table.to_string(), &roots.places)?;
        let not_asked = self.refuse_neighbours(table, &roots, &removal).await?;
        let (now, clock) = self.now(&roots, options.apply).await?;
        let cutoff = now.checked_sub(options.older_than).unwrap_or(UNIX_EPOCH);

        let reading = self.reading(table);
        let mut reachable = Reachable::new(self.store().clone(), options.equal_schemes.clone(), Which::All);
        reachable.add(State::of(&loaded), &reading).await?;
        let mut sorting = Sorting::new(&loaded, &roots, &mut reachable, cutoff, sink);
        for place in 0..roots.places.len() {
            sorting.list(self.store(), place).await?;
        }
        let Sorted { mut candidates, mut report, strange } = sorting.end()?;
        let below_floor = options.older_than < FLOOR;
        let mut watch = Watch { cleaner: self, last: loaded, reachable, reading, below_floor };
        watch.look_again().await?;
        // Compared with the table as it is after the listing: what was committed meanwhile is listed, and is its own.
        foreign::refuse_foreign(self.store(), &watch.last, &strange).await?;
        candidates.retain(|candidate| watch.is_unreferenced(&roots, candidate.key));
        candidates.sort();
        if let Err(refused) = refuse_fraction(table, candidates.bytes(), report.listed.bytes, options.max_fraction) {
            // What it would have been is what has to be looked at.
            for candidate in candidates.iter() {
                note(sink, &record(table, &roots, candidate, Fate::Orphan), 0)?;
            }
            return Err(refused);
        }

        report.applied = options.apply;
        report.not_asked = not_asked;
        report.clock = clock;
        report.orphans = Count { files: candidates.len() as u64, bytes: candidates.bytes() };
        report.attempts = left(&candidates);
        if options.apply {
            watch.remove(&roots, &removal, &candidates, &mut report, sink).await?;
        } else {
            for candidate in candidates.iter() {
                note(sink, &record(table, &roots, candidate, Fate::Orphan), 0)?;
            }
        }
        report.snapshots = watch.reachable.snapshots;
        report.manifests = watch.reachable.manifests;
        Ok(report)
    }

    /// Refuses when another table of the catalog has files where this one has: one of them would lose what the other needs.
    /// Gives the tables that could not be asked.
    pub(crate) async fn refuse_neighbours(
        &self,
        table: &TableIdent,
        roots: &Roots,
        removal: &Removal,
    ) -> Result<Vec<String>, Error> {
        let neighbours = self.neighbours.get_or_init(|| self.ask_everybody()).await;
        if let Some((other, path)) = neighbours.incomparable.iter().find(|(other, _)| other != table) {
            let (other, path) = (other.to_string(), path.clone());
            return Err(Error::refused(table, Refusal::Incomparable { other, path }));
        }
        for (other, theirs) in neighbours.places.iter().filter(|(other, _)| other != table) {
            // What is not scanned loses nothing.
            for ours in roots.places.iter().chain(roots.linked.iter().flatten()) {
                let meets = |theirs: &&Location| ours == *theirs || ours.contains(theirs) || theirs.contains(ours);
                if let Some(theirs) = theirs.iter().find(meets) {
                    let (location, theirs) = (ours.to_string(), theirs.to_string());
                    return Err(Error::refused(table, Refusal::Overlap { location, other: other.to_string(), theirs }));
                }
            }
            removal.check_place(&table.to_string(), theirs)?;
        }
        Ok(neighbours.not_asked.iter().filter(|other| **other != table.to_string()).cloned().collect())
    }

    /// Where the tables of the catalog have their files.
    async fn ask_everybody(&self) -> Neighbours {
        let mut neighbours = Neighbours::default();
        let tables = match self.tables(None).await {
            Ok(tables) => tables,
            Err(error) => {
                neighbours.not_asked.push(causes(&error));
                return neighbours;
            }
        };
        let mut loaded = futures::stream::iter(tables)
            .map(|ident| async move {
                let places = match self.load(&ident).await {
                    Ok(table) => Roots::of(&table, &[], self.store()).map(|roots| {
                        let real = roots.all().filter_map(|place| self.store().linked(place));
                        roots.all().cloned().chain(real).collect()
                    }),
                    Err(error) => Err(error),
                };
                (ident, places)
            })
            .buffered(CONCURRENT_LOADS);
        while let Some((ident, places)) = loaded.next().await {
            match places {
                Ok(places) => neighbours.places.push((ident, places)),
                Err(Error::NoTable { .. }) => {}
                Err(Error::Store(hexfloe_store::Error::Location { location, .. }))
                    if Location::is_of_a_known_store(&location) =>
                {
                    neighbours.incomparable.push((ident, location));
                }
                Err(_) => neighbours.not_asked.push(ident.to_string()),
            }
        }
        neighbours
    }

    fn refuse_early(&self, table: &TableIdent, options: &OrphanOptions) -> Result<(), Error> {
        if !(0.0..=1.0).contains(&options.max_fraction) {
            return Err(Error::Options(format!("a fraction is from 0 to 1, and {} was given", options.max_fraction)));
        }
        if options.older_than >= FLOOR {
            return Ok(());
        }
        if !options.below_floor {
            return Err(Error::refused(table, Refusal::Margin { older_than: options.older_than }));
        }
        self.refuse_running(table, Some(table))
    }

    /// Refuses `what` while an attempt at a table, or at any, runs on this machine.
    pub(crate) fn refuse_running(
        &self,
        what: &(impl ToString + ?Sized),
        table: Option<&TableIdent>,
    ) -> Result<(), Error> {
        let table = table.map(ToString::to_string);
        let folder = self.environment.announcements();
        let running = folder.map(|folder| hexfloe_commit::running(&folder, table.as_deref()));
        match running.and_then(|running| running.into_iter().next()) {
            Some(RunningAttempt { batch, attempt }) => Err(Error::refused(what, Refusal::Running { batch, attempt })),
            None => Ok(()),
        }
    }

    /// The time by which files are old: the store's, where a file may be written to ask for it. A machine that is behind
    /// the store keeps more files.
    async fn now(&self, roots: &Roots, ask: bool) -> Result<(SystemTime, ClockUsed), Error> {
        let since = Duration::from_millis(u64::try_from(self.environment.now_ms()).unwrap_or(0));
        let here = UNIX_EPOCH + since;
        if !ask {
            return Ok((here, ClockUsed::ThisMachine));
        }
        let name = names::clock(self.environment.uuid());
        let place = roots.location.join(&format!("metadata/{name}"))?.to_string();
        let asked = async {
            let mut upload = self.store().create(&place).await?;
            upload.write(Bytes::from_static(b"?")).await?;
            upload.finish().await?;
            self.store().last_modified(&place).await
        };
        let there = asked.await;
        // It may be there although the answer was lost.
        let removed = self.store().delete(&place).await;
        let there = match there {
            Ok(there) => there,
            // A disk that is full is what is to be cleaned, and has the clock of the machine.
            Err(_) if roots.location.family() == "file" => return Ok((here, ClockUsed::ThisMachine)),
            Err(error) => return Err(error.into()),
        };
        removed?;
        // A store that does not say when something was written cannot say that anything is old.
        Ok((there.unwrap_or(UNIX_EPOCH).min(here), ClockUsed::Store))
    }
}

/// Where the files of a table are.
#[derive(Clone, Debug)]
pub(crate) struct Roots {
    location: Location,
    /// What is listed: the location, and what is declared as the table's own.
    places: Vec<Location>,
    /// What each of these is when links are followed, if it is another place.
    linked: Vec<Option<Location>>,
    /// Where there may be orphans, and of which kind.
    roots: Vec<(Kind, Location)>,
    not_scanned: Vec<Location>,
}

impl Roots {
    pub(crate) fn of(table: &Table, owned: &[String], store: &Store) -> Result<Self, Error> {
        let metadata = table.metadata();
        let location = Location::parse(metadata.location())?;
        let mut places = vec![location.clone()];
        for place in owned {
            let place = Location::parse(place)?;
            if !places.iter().any(|known| *known == place || known.contains(&place)) {
                places.retain(|known| !place.contains(known));
                places.push(place);
            }
        }
        let mut roots = vec![(Kind::Data, location.join("data")?), (Kind::Metadata, location.join("metadata")?)];
        let mut not_scanned = Vec::new();
        for (kind, place) in Locations::declared(metadata) {
            let kind = if kind { Kind::Data } else { Kind::Metadata };
            let place = Location::parse(&place)?;
            if places.iter().any(|known| *known == place || known.contains(&place)) {
                roots.push((kind, place));
            } else if !not_scanned.contains(&place) {
                not_scanned.push(place);
            }
        }
        for place in places.iter().filter(|place| **place != location) {
            roots.extend([(Kind::Data, place.clone()), (Kind::Metadata, place.clone())]);
        }
        let linked = places.iter().map(|place| store.linked(place)).collect();
        Ok(Self { location, places, linked, roots, not_scanned })
    }

    pub(crate) fn places(&self) -> &[Location] {
        &self.places
    }

    /// Every place that is the table's, listed or not.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Location> {
        self.places.iter().chain(self.roots.iter().map(|(_, root)| root)).chain(&self.not_scanned)
    }

    /// Whether a file may be an orphan: it lies where writers put files, and is named as they name them.
    fn may_hold(&self, place: &Location, key: &str) -> bool {
        let (_, name) = key.rsplit_once('/').unwrap_or(("", key));
        self.roots.iter().any(|(kind, root)| {
            root.family() == place.family()
                && root.authority() == place.authority()
                && is_below(root.key(), key)
                && names::is_of_a_writer(*kind, name)
        })
    }

    /// How keys that are listed below a place are looked up.
    fn lookup(&self, reachable: &mut Reachable, place: usize) -> Lookup {
        let location = self.places.get(place).unwrap_or(&self.location);
        let real = self.linked.get(place).and_then(Option::as_ref).map(|real| real.key().to_owned());
        Lookup { prefix: reachable.prefix(location), listed: location.key().len(), real }
    }

    /// What is known of a listed key.
    fn find(&self, reachable: &mut Reachable, key: &str) -> Found {
        let place = self.places.iter().position(|place| is_below(place.key(), key)).unwrap_or(0);
        self.lookup(reachable, place).find(reachable, key)
    }

    /// A listed key as a location.
    fn locate(&self, key: &str) -> String {
        let place = self.places.iter().find(|place| is_below(place.key(), key)).unwrap_or(&self.location);
        format!("{}://{}/{key}", place.scheme(), place.authority())
    }
}

/// How keys below one place are looked up: under their own names, and under those they have when links are followed.
struct Lookup {
    prefix: u8,
    /// How much of a key is the place's.
    listed: usize,
    /// What the place is when links are followed, if it is another.
    real: Option<String>,
}

impl Lookup {
    fn find(&self, reachable: &Reachable, key: &str) -> Found {
        match (reachable.find(self.prefix, key), &self.real) {
            (Found::No, Some(real)) => {
                let real = format!("{real}{}", key.get(self.listed..).unwrap_or(key));
                reachable.find(self.prefix, real.trim_start_matches('/'))
            }
            (found, _) => found,
        }
    }
}

fn is_below(place: &str, key: &str) -> bool {
    place.is_empty() || key.strip_prefix(place).is_some_and(|rest| rest.starts_with('/'))
}

/// What a listing came to.
struct Sorted {
    candidates: Candidates,
    report: OrphanReport,
    /// Metadata files that the table does not refer to, as locations.
    strange: Vec<String>,
}

/// Sorts what is listed.
struct Sorting<'a> {
    table: &'a Table,
    roots: &'a Roots,
    reachable: &'a mut Reachable,
    cutoff: SystemTime,
    sink: &'a mut dyn Sink,
    sorted: Sorted,
    /// The first key, in the order of keys, that is named with another scheme or authority.
    conflict: Option<(String, Refusal)>,
    /// The table's own metadata file, until it is seen.
    unseen: Option<Location>,
}

impl<'a> Sorting<'a> {
    fn new(
        table: &'a Table,
        roots: &'a Roots,
        reachable: &'a mut Reachable,
        cutoff: SystemTime,
        sink: &'a mut dyn Sink,
    ) -> Self {
        let report = OrphanReport {
            table: table.identifier().to_string(),
            location: roots.location.to_string(),
            applied: false,
            written_before_ms: millis(cutoff),
            clock: ClockUsed::ThisMachine,
            snapshots: 0,
            manifests: 0,
            listed: Count::default(),
            referenced: Count::default(),
            young: Count::default(),
            undated: Count::default(),
            unknown: Count::default(),
            doubtful: Count::default(),
            orphans: Count::default(),
            removed: Count::default(),
            tagged: Count::default(),
            failed: Count::default(),
            failures: Vec::new(),
            stopped: None,
            attempts: Vec::new(),
            roots: roots.places.iter().map(ToString::to_string).collect(),
            not_asked: Vec::new(),
            not_scanned: roots.not_scanned.iter().map(ToString::to_string).collect(),
        };
        let own = table.metadata_location().and_then(|own| Location::parse(own).ok());
        let unseen = own.filter(|own| roots.places.iter().any(|place| place.contains(own)));
        let sorted = Sorted { candidates: Candidates::default(), report, strange: Vec::new() };
        Self { table, roots, reachable, cutoff, sink, sorted, conflict: None, unseen }
    }

    async fn list(&mut self, store: &Store, number: usize) -> Result<(), Error> {
        let Some(place) = self.roots.places.get(number) else { return Ok(()) };
        let lookup = self.roots.lookup(self.reachable, number);
        let mut objects = listing::everything(store, place);
        while let Some(object) = objects.try_next().await? {
            self.sort(place, &lookup, object)?;
        }
        Ok(())
    }

    fn sort(&mut self, place: &Location, lookup: &Lookup, object: StoreObject) -> Result<(), Error> {
        let StoreObject { key, size, last_modified } = object;
        if !is_below(place.key(), &key) {
            return Ok(());
        }
        self.sorted.report.listed.add(size);
        if self.unseen.as_ref().is_some_and(|own| own.key() == key) {
            self.unseen = None;
        }
        let (folder, name) = key.rsplit_once('/').unwrap_or(("", &key));
        // A checksum goes with its file, and stays with it.
        let main = names::checksummed(name).map(|main| format!("{folder}/{main}"));
        match lookup.find(self.reachable, main.as_deref().unwrap_or(&key)) {
            Found::Elsewhere(other) => {
                if self.conflict.as_ref().is_none_or(|(first, _)| key < *first) {
                    let refusal = self.spelling(place, &key, other);
                    self.conflict = Some((key, refusal));
                }
                return Ok(());
            }
            Found::Same => {
                self.sorted.report.referenced.add(size);
                return Ok(());
            }
            Found::Encoded => return self.keep(&key, size, last_modified, Fate::Doubtful),
            Found::No => {}
        }
        if let Some(whose) = names::of_another_format(&key)
            && self.conflict.as_ref().is_none_or(|(first, _)| key < *first)
        {
            let refusal = Refusal::Foreign { file: self.roots.locate(&key), whose: whose.to_owned() };
            self.conflict = Some((key.clone(), refusal));
        }
        if names::is_metadata(name) {
            self.sorted.strange.push(self.roots.locate(&key));
        }
        if !self.roots.may_hold(place, &key) {
            return self.keep(&key, size, last_modified, Fate::Unknown);
        }
        match last_modified {
            None => self.keep(&key, size, None, Fate::Undated),
            Some(time) if time >= self.cutoff => {
                self.sorted.report.young.add(size);
                Ok(())
            }
            Some(time) => {
                self.sorted.candidates.push(&key, size, time);
                Ok(())
            }
        }
    }

    /// A file that stays although nothing refers to it.
    fn keep(&mut self, key: &str, size: u64, last_modified: Option<SystemTime>, fate: Fate) -> Result<(), Error> {
        let report = &mut self.sorted.report;
        match fate {
            Fate::Doubtful => report.doubtful.add(size),
            Fate::Undated => report.undated.add(size),
            _ => report.unknown.add(size),
        }
        let record = FileRecord {
            table: report.table.clone(),
            file: self.roots.locate(key),
            size: Some(size),
            last_modified_ms: last_modified.map(millis),
            fate,
            by: None,
        };
        note(self.sink, &record, 0)
    }

    fn spelling(&self, place: &Location, key: &str, other: u8) -> Refusal {
        let (scheme, authority) = self.reachable.paths.spelled(other);
        let equal = (authority == place.authority()).then(|| (scheme.to_owned(), place.scheme().to_owned()));
        Refusal::Spelling {
            listed: format!("{}://{}/{key}", place.scheme(), place.authority()),
            named: format!("{scheme}://{authority}/{key}"),
            equal,
        }
    }

    /// What the whole listing came to.
    fn end(mut self) -> Result<Sorted, Error> {
        let table = self.table.identifier();
        if let Some((_, refusal)) = self.conflict {
            return Err(Error::refused(table, refusal));
        }
        if let Some(own) = self.unseen {
            return Err(Error::refused(table, Refusal::NotListed { file: own.to_string() }));
        }
        self.sorted.strange.sort_unstable();
        Ok(self.sorted)
    }
}

/// Keeps what a table refers to up to date.
struct Watch<'a> {
    cleaner: &'a Cleaner,
    last: Table,
    reachable: Reachable,
    reading: Reading,
    /// The margin is one that running attempts do not keep.
    below_floor: bool,
}

impl Watch<'_> {
    /// Loads the table once more, and adds what it refers to by now.
    ///
    /// # Errors
    ///
    /// [`Refusal::Moved`] when it did not get there by commits.
    async fn look_again(&mut self) -> Result<(), Error> {
        if self.below_floor {
            // Before the look: who has ended by now has committed what the look will show.
            let table = self.last.identifier();
            self.cleaner.refuse_running(table, Some(table))?;
        }
        let now = self.cleaner.load(self.last.identifier()).await?;
        if now.metadata_location() == self.last.metadata_location() && now.metadata() == self.last.metadata() {
            return Ok(());
        }
        if let Some(reason) = unexplained(&self.last, &now) {
            return Err(Error::refused(now.identifier(), Refusal::Moved { reason }));
        }
        refuse_without_gc(&now)?;
        self.reachable.add(State::of(&now), &self.reading).await?;
        self.last = now;
        Ok(())
    }

    fn is_unreferenced(&mut self, roots: &Roots, key: &str) -> bool {
        let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
        let main = names::checksummed(name).map(|main| format!("{folder}/{main}"));
        roots.find(&mut self.reachable, main.as_deref().unwrap_or(key)) == Found::No
    }

    /// Removes candidates in chunks, each after one more look at the table; then lists once more, to see that they went.
    async fn remove(
        &mut self,
        roots: &Roots,
        removal: &Removal,
        candidates: &Candidates,
        report: &mut OrphanReport,
        sink: &mut dyn Sink,
    ) -> Result<(), Error> {
        let table = self.last.identifier().clone();
        let mut removed = HashSet::new();
        for start in (0..candidates.len()).step_by(CHUNK) {
            if start > 0
                && let Err(error) = self.look_again().await
            {
                report.stopped = Some(error.to_string());
                break;
            }
            let chunk = (start..candidates.len().min(start + CHUNK)).filter_map(|index| candidates.get(index));
            let chunk = chunk.filter(|candidate| self.is_unreferenced(roots, candidate.key));
            let chunk: Vec<FileRecord> =
                chunk.map(|candidate| record(&table, roots, candidate, Fate::Orphan)).collect();
            let files = removal.take(chunk).await;
            let gone = report.removed.files + files.iter().filter(|file| file.fate == Fate::Removed).count() as u64;
            for file in files {
                let size = file.size.unwrap_or(0);
                match file.fate {
                    Fate::Removed => {
                        report.removed.add(size);
                        let place = Location::parse(&file.file).ok();
                        removed.extend(place.and_then(|place| candidates.position(place.key())));
                    }
                    Fate::Tagged => report.tagged.add(size),
                    _ => report.failed.add(size),
                }
                report.failures.extend(failure(&file).filter(|_| report.failures.len() < SHOWN));
                note(sink, &file, gone)?;
            }
        }
        if report.removed.files > 0
            && let Err(error) = self.check(roots, candidates, &removed, report, sink).await
        {
            match error {
                Error::Report { .. } => return Err(error),
                error => report.stopped = Some(format!("not all of it is known to be gone: {}", causes(&error))),
            }
        }
        Ok(())
    }

    /// Finds what a store said it removed, and still has.
    async fn check(
        &self,
        roots: &Roots,
        candidates: &Candidates,
        removed: &HashSet<usize>,
        report: &mut OrphanReport,
        sink: &mut dyn Sink,
    ) -> Result<(), Error> {
        let mut there = Vec::new();
        for place in &roots.places {
            let mut objects = listing::everything(self.cleaner.store(), place);
            while let Some(object) = objects.try_next().await? {
                there.extend(candidates.position(&object.key).filter(|index| removed.contains(index)));
            }
        }
        there.sort_unstable();
        there.dedup();
        for candidate in there.into_iter().filter_map(|index| candidates.get(index)) {
            report.removed.take(candidate.size);
            report.failed.add(candidate.size);
            let fate = Fate::Failed { error: "the store says that it was deleted, and still has it".to_owned() };
            let file = record(self.last.identifier(), roots, candidate, fate);
            report.failures.extend(failure(&file).filter(|_| report.failures.len() < SHOWN));
            note(sink, &file, report.removed.files)?;
        }
        Ok(())
    }
}

/// Why no series of commits leads from one state of a table to another; `None` when one may.
pub(crate) fn unexplained(then: &Table, now: &Table) -> Option<String> {
    let (before, after) = (then.metadata(), now.metadata());
    if before.uuid() != after.uuid() {
        return Some("it is another table of the same name".to_owned());
    }
    if before.location() != after.location() {
        return Some(format!("its location was {}, and is {}", before.location(), after.location()));
    }
    if after.last_sequence_number() < before.last_sequence_number()
        || after.last_updated_ms() < before.last_updated_ms().saturating_sub(CLOCK_TOLERANCE_MS)
    {
        let now = now.metadata_location().unwrap_or_default();
        return Some(format!("its metadata is {now}, which is older than what was there before"));
    }
    if then.metadata_location() == now.metadata_location() {
        return None;
    }
    let log = after.metadata_log();
    let is_logged = log.iter().any(|entry| Some(entry.metadata_file.as_str()) == then.metadata_location());
    let most = after.properties().get("write.metadata.previous-versions-max").and_then(|most| most.parse().ok());
    // A log that is full has forgotten the beginning.
    if is_logged || log.len() >= most.unwrap_or(100_usize) {
        return None;
    }
    Some(format!("its log does not have {}", then.metadata_location().unwrap_or_default()))
}

/// A table whose metadata file nobody names could lose it.
fn refuse_nowhere(table: &Table) -> Result<(), Error> {
    if table.metadata_location().is_some() {
        return Ok(());
    }
    let reason = "the catalog does not say which file it is".to_owned();
    let file = "its current metadata file".to_owned();
    Err(Error::refused(table.identifier(), Refusal::Unreadable { file, reason }))
}

pub(crate) fn refuse_without_gc(table: &Table) -> Result<(), Error> {
    match table.metadata().properties().get("gc.enabled") {
        Some(value) if !value.trim().eq_ignore_ascii_case("true") => {
            Err(Error::refused(table.identifier(), Refusal::GarbageCollection { value: value.clone() }))
        }
        _ => Ok(()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a fraction of bytes need not be exact")]
fn refuse_fraction(table: &TableIdent, orphans: u64, listed: u64, max: f64) -> Result<(), Error> {
    if orphans as f64 > listed as f64 * max {
        return Err(Error::refused(table, Refusal::Fraction { orphans, listed, max: max.to_string() }));
    }
    Ok(())
}

/// A table whose metadata file is not there, or is none, is refused: others may say of it what is to be kept.
fn unreadable_metadata(table: &TableIdent, error: hexfloe_catalog::Error) -> Error {
    let is_missing =
        |source: &iceberg::Error| hexfloe_store::Error::behind(source).is_some_and(hexfloe_store::Error::is_not_found);
    if let hexfloe_catalog::Error::Table { source, .. } = &error
        && (error.kind() == hexfloe_catalog::ErrorKind::Unexpected || is_missing(source))
    {
        let reason = source.to_string();
        return Error::refused(table, Refusal::Unreadable { file: "its current metadata file".to_owned(), reason });
    }
    error.into()
}

/// What attempts of ours left, by batch and attempt.
fn left(candidates: &Candidates) -> Vec<Left> {
    let mut attempts: BTreeMap<Attribution, (Count, i64)> = BTreeMap::new();
    for candidate in candidates.iter() {
        if let Some(by) = attribution(candidate.key) {
            let (count, since) = attempts.entry(by).or_insert((Count::default(), i64::MAX));
            count.add(candidate.size);
            *since = candidate.modified_ms.min(*since);
        }
    }
    attempts.into_iter().map(|(by, (count, since_ms))| Left { by, count, since_ms }).collect()
}

fn attribution(key: &str) -> Option<Attribution> {
    Attribution::of(key.rsplit('/').next()?)
}

fn record(table: &TableIdent, roots: &Roots, candidate: Candidate<'_>, fate: Fate) -> FileRecord {
    FileRecord {
        table: table.to_string(),
        file: roots.locate(candidate.key),
        size: Some(candidate.size),
        last_modified_ms: Some(candidate.modified_ms),
        fate,
        by: attribution(candidate.key),
    }
}

pub(crate) fn note(sink: &mut dyn Sink, record: &FileRecord, removed: u64) -> Result<(), Error> {
    sink.note(record).map_err(|source| Error::Report { removed, source })
}

/// What a report says of a file that should have gone.
pub(crate) fn failure(file: &FileRecord) -> Option<String> {
    match &file.fate {
        Fate::Failed { error } => Some(format!("{}: {error}", file.file)),
        _ => None,
    }
}

pub(crate) fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task of a multi-threaded runtime can clean.
    #[test]
    fn the_work_can_be_spawned() {
        fn is_send<T: Send>(_: impl FnOnce(&'static Cleaner, &'static TableIdent) -> T) {}
        is_send(|cleaner, table| async {
            cleaner.orphans(table, &OrphanOptions::default(), &mut crate::NoSink).await?;
            cleaner.expire(table, &crate::ExpireOptions::default(), &mut crate::NoSink).await?;
            cleaner.dropped("/lake/t", &crate::DroppedOptions::default(), &mut crate::NoSink).await?;
            cleaner.restore("/lake/q", true).await?;
            cleaner.tables(None).await
        });
    }
}
