//! What a dropped table left.
//!
//! A catalog that drops a table often leaves its files. Nothing says that they are not needed any more, so everything that
//! can say the contrary is asked: every table of the catalog, and the age of the youngest file.

use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use futures::TryStreamExt;
use hexfloe_store::Location;
use iceberg::{NamespaceIdent, TableIdent};
use serde::Serialize;

use crate::candidates::{Candidate, Candidates};
use crate::error::{Error, Refusal};
use crate::foreign::{self, Owner};
use crate::listing;
use crate::names::{self, Attribution, Kind};
use crate::orphans::{Cleaner, DEFAULT_MARGIN, FLOOR, Roots, SHOWN, failure, note};
use crate::paths::EqualSchemes;
use crate::reachable::{Reachable, State, Which};
use crate::removal::{CHUNK, Disposal, Removal};
use crate::report::{Count, Fate, FileRecord, Sink};

/// What is removed of a dropped table, and how.
#[derive(Clone, Debug)]
pub struct DroppedOptions {
    /// How old the youngest file has to be. At least [`FLOOR`], unless `below_floor`.
    pub older_than: Duration,
    /// Remove, and not only say what would be removed.
    pub apply: bool,
    /// Allow a margin below [`FLOOR`].
    pub below_floor: bool,
    /// Schemes that are the same.
    pub equal_schemes: EqualSchemes,
    /// What is done with files.
    pub disposal: Disposal,
}

impl Default for DroppedOptions {
    /// A dry run with a margin of three days.
    fn default() -> Self {
        Self {
            older_than: DEFAULT_MARGIN,
            apply: false,
            below_floor: false,
            equal_schemes: EqualSchemes::default(),
            disposal: Disposal::Delete,
        }
    }
}

/// What a dropped table left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DroppedReport {
    /// Where it was.
    pub location: String,
    /// Whether it was to be removed.
    pub applied: bool,
    /// The uuid of the table, as its metadata files say it.
    pub uuid: String,
    /// Tables of the catalog that were asked.
    pub asked: u64,
    /// What may go: files named as writers of tables name them.
    pub files: Count,
    /// Other files, which stay.
    pub unknown: Count,
    /// What went.
    pub removed: Count,
    /// What got a tag instead.
    pub tagged: Count,
    /// What should have gone, or got a tag.
    pub failed: Count,
    /// The first of these, each with the reason.
    pub failures: Vec<String>,
}

impl Cleaner {
    /// The tables of a namespace and those below it, or of the whole catalog, in order.
    ///
    /// # Errors
    ///
    /// When the catalog cannot list.
    pub async fn tables(&self, namespace: Option<&NamespaceIdent>) -> Result<Vec<TableIdent>, Error> {
        let catalog = self.catalog.catalog();
        let failed = |action: &'static str| {
            move |source: iceberg::Error| match (source.kind(), namespace) {
                (iceberg::ErrorKind::NamespaceNotFound, Some(namespace)) => {
                    Error::Options(format!("there is no namespace {namespace} in the catalog"))
                }
                _ => Error::Catalog(hexfloe_catalog::Error::Table {
                    action,
                    table: "of the catalog".to_owned(),
                    source: Box::new(source),
                }),
            }
        };
        let mut waiting = match namespace {
            Some(namespace) => vec![namespace.clone()],
            None => catalog.list_namespaces(None).await.map_err(failed("list every"))?,
        };
        let (mut seen, mut tables) = (BTreeSet::new(), BTreeSet::new());
        while let Some(namespace) = waiting.pop() {
            if !seen.insert(namespace.to_string()) {
                continue;
            }
            for table in catalog.list_tables(&namespace).await.map_err(failed("list every"))? {
                tables.insert((table.to_string(), table));
            }
            waiting.extend(catalog.list_namespaces(Some(&namespace)).await.map_err(failed("list every"))?);
        }
        Ok(tables.into_iter().map(|(_, table)| table).collect())
    }

    /// Finds what a dropped table left in its location, and with `apply` removes it.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] when a table of the catalog may need it, when it is not a table's, or when it is too new.
    pub async fn dropped(
        &self,
        location: &str,
        options: &DroppedOptions,
        sink: &mut dyn Sink,
    ) -> Result<DroppedReport, Error> {
        let place = Location::parse(location)?;
        let refuse = |refusal| Error::refused(&place, refusal);
        if options.older_than < FLOOR && !options.below_floor {
            return Err(refuse(Refusal::Margin { older_than: options.older_than }));
        }
        if options.older_than < FLOOR {
            self.refuse_running(&place, None)?;
        }
        let removal = Removal::new(self.store().clone(), self.environment.clone(), &options.disposal)?;
        removal.check(&place.to_string(), std::slice::from_ref(&place))?;
        let now = UNIX_EPOCH + Duration::from_millis(u64::try_from(self.environment.now_ms()).unwrap_or(0));
        let cutoff = now.checked_sub(options.older_than).unwrap_or(UNIX_EPOCH);

        let mut report =
            DroppedReport { location: place.to_string(), applied: options.apply, ..DroppedReport::default() };
        let locate = |key: &str| format!("{}://{}/{key}", place.scheme(), place.authority());
        let mut all = Candidates::default();
        let mut metadata = Vec::new();
        let mut young: Option<String> = None;
        let mut objects = listing::everything(self.store(), &place);
        while let Some(object) = objects.try_next().await? {
            let name = object.key.rsplit('/').next().unwrap_or_default();
            if names::is_metadata(name) {
                metadata.push(locate(&object.key));
            }
            let time = object.last_modified.filter(|time| *time < cutoff);
            if time.is_none() && young.as_ref().is_none_or(|first| object.key < *first) {
                young = Some(object.key.clone());
            }
            all.push(&object.key, object.size, time.unwrap_or(UNIX_EPOCH));
        }
        all.sort();
        metadata.sort_unstable();
        report.uuid = self.whose(&place, &metadata).await?;
        self.refuse_without_gc_then(&place, &metadata).await?;
        if let Some(key) = young {
            return Err(refuse(Refusal::Young { file: locate(&key) }));
        }
        report.asked = self.refuse_claimed(&place, &report.uuid, &all, options).await?;

        let is_of_a_writer = |key: &str| {
            let name = key.rsplit('/').next().unwrap_or_default();
            names::is_of_a_writer(Kind::Data, name) || names::is_of_a_writer(Kind::Metadata, name)
        };
        all.retain(|file| {
            let goes = is_of_a_writer(file.key);
            let count = if goes { &mut report.files } else { &mut report.unknown };
            count.add(file.size);
            goes
        });
        let record = |file: Candidate<'_>| FileRecord {
            table: place.to_string(),
            file: locate(file.key),
            size: Some(file.size),
            last_modified_ms: Some(file.modified_ms),
            fate: Fate::Orphan,
            by: file.key.rsplit('/').next().and_then(Attribution::of),
        };
        // Metadata goes last: while it is there, what is left can be found again.
        let (last, first): (Vec<usize>, Vec<usize>) =
            (0..all.len()).partition(|index| all.get(*index).is_some_and(|file| names::is_metadata(file.key)));
        for chunk in first.chunks(CHUNK).chain(last.chunks(CHUNK)) {
            let chunk = chunk.iter().filter_map(|index| all.get(*index)).map(record);
            let files = if options.apply { removal.take(chunk.collect()).await } else { chunk.collect() };
            for file in files {
                let size = file.size.unwrap_or(0);
                match file.fate {
                    Fate::Removed => report.removed.add(size),
                    Fate::Tagged => report.tagged.add(size),
                    Fate::Failed { .. } => report.failed.add(size),
                    _ => {}
                }
                report.failures.extend(failure(&file).filter(|_| report.failures.len() < SHOWN));
                note(sink, &file, report.removed.files)?;
            }
        }
        Ok(report)
    }

    /// The one table whose metadata lies in a place.
    async fn whose(&self, place: &Location, metadata: &[String]) -> Result<String, Error> {
        let mut uuid: Option<String> = None;
        for file in metadata {
            let refusal = match foreign::owner(self.store(), file).await? {
                Owner::Gone => continue,
                Owner::Table(owner) if uuid.as_ref().is_none_or(|uuid| *uuid == owner) => {
                    uuid = Some(owner);
                    continue;
                }
                Owner::Table(owner) => Refusal::Foreign { file: file.clone(), whose: format!("uuid {owner}") },
                Owner::View(owner) => Refusal::Foreign { file: file.clone(), whose: format!("a view, uuid {owner}") },
                Owner::Nobody(reason) => Refusal::Unreadable { file: file.clone(), reason },
            };
            return Err(Error::refused(place, refusal));
        }
        uuid.ok_or_else(|| Error::refused(place, Refusal::NoTableThere))
    }

    /// Refuses when the table did not let go of files, as any of its metadata says.
    async fn refuse_without_gc_then(&self, place: &Location, metadata: &[String]) -> Result<(), Error> {
        for file in metadata {
            if let Some(value) = foreign::property(self.store(), file, "gc.enabled").await?
                && !value.trim().eq_ignore_ascii_case("true")
            {
                return Err(Error::refused(place, Refusal::GarbageCollection { value }));
            }
        }
        Ok(())
    }

    /// Refuses when a table of the catalog is the one, lies there, or refers to a file there; says how many were asked.
    async fn refuse_claimed(
        &self,
        place: &Location,
        uuid: &str,
        files: &Candidates,
        options: &DroppedOptions,
    ) -> Result<u64, Error> {
        let tables = self.tables(None).await?;
        for ident in &tables {
            let claimed = |what: String| Error::refused(place, Refusal::Claimed { other: ident.to_string(), what });
            let table = match self.load(ident).await {
                // Somebody dropped it meanwhile.
                Err(Error::NoTable { .. }) => continue,
                loaded => loaded?,
            };
            if table.metadata().uuid().to_string().eq_ignore_ascii_case(uuid) {
                return Err(claimed(format!("the uuid {uuid}")));
            }
            let roots = Roots::of(&table, &[], self.store())?;
            let own = table.metadata_location().map(Location::parse).transpose()?;
            let overlaps = |theirs: &&Location| *theirs == place || theirs.contains(place) || place.contains(theirs);
            if let Some(theirs) = roots.all().chain(own.as_ref()).find(overlaps) {
                return Err(claimed(theirs.to_string()));
            }
            let mut reachable = Reachable::new(self.store().clone(), options.equal_schemes.clone(), Which::All);
            reachable.add(State::of(&table), &self.reading(ident)).await?;
            for file in files.iter() {
                let location = Location::parse(&format!("{}://{}/{}", place.scheme(), place.authority(), file.key))?;
                if !reachable.names(&location) {
                    continue;
                }
                return Err(claimed(format!("{}://{}/{}", place.scheme(), place.authority(), file.key)));
            }
        }
        Ok(tables.len() as u64)
    }
}
