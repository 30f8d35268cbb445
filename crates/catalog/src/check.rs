//! A self-test of a catalog and its store: what Hexfloe relies on, tried in a scratch namespace.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::time::SystemTime;

use futures::TryStreamExt;
use hexfloe_store::Location;
use iceberg::spec::{
    MAIN_BRANCH, ManifestListWriter, NestedField, Operation, PrimitiveType, Schema, Snapshot, SnapshotReference,
    SnapshotRetention, Summary, Type, UnboundPartitionSpec,
};
use iceberg::table::Table;
use iceberg::{NamespaceIdent, TableIdent, TableRequirement, TableUpdate};
use serde::Serialize;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::{
    Access, CatalogKind, CatalogSettings, CommitOutcome, CommitRequest, Error, ErrorKind, OpenCatalog, ServerFacts,
    TableDefinition,
};

/// How many commits race for one base, and how often.
const RIVALS: usize = 8;
const ROUNDS: usize = 4;

/// Two parts and a bit: as large objects are written.
const LARGE_OBJECT: usize = (16 << 20) + 1_000;

/// More than this between the clocks is worth a word: cleanup judges age by the store's.
const CLOCK_SECONDS: f64 = 60.0;

/// What became of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is as Hexfloe needs it.
    Held,
    /// It is not: the guarantee does not hold here.
    Broken,
    /// Nothing depends on it; good to know.
    Noted,
}

/// One thing that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What it is about.
    pub check: &'static str,
    /// What became of it.
    pub verdict: Verdict,
    /// What was seen.
    pub detail: String,
}

/// What [`SelfTest::run`] found.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// The catalog's name.
    pub catalog: String,
    /// `sql` or `rest`.
    pub kind: &'static str,
    /// In the order in which it was tried.
    pub findings: Vec<Finding>,
}

impl CheckReport {
    /// Whether everything is as Hexfloe needs it.
    pub fn holds(&self) -> bool {
        self.findings.iter().all(|finding| finding.verdict != Verdict::Broken)
    }
}

/// A self-test to run.
pub struct SelfTest<'a> {
    /// The catalog.
    pub settings: &'a CatalogSettings,
    /// What its relative paths are relative to.
    pub base: &'a Path,
    /// Makes the names of this run its own.
    pub id: Uuid,
    /// The clock.
    pub now: &'a (dyn Fn() -> SystemTime + Sync),
    /// Where to work; a scratch namespace, made and dropped, unless said.
    pub namespace: Option<NamespaceIdent>,
}

struct Running<'a> {
    test: &'a SelfTest<'a>,
    catalog: OpenCatalog,
    table: TableIdent,
    findings: Vec<Finding>,
}

impl SelfTest<'_> {
    /// Runs the test, and takes away what it made.
    ///
    /// # Errors
    ///
    /// When the catalog or the store cannot be reached or refuses what the test needs; that says nothing about promises.
    pub async fn run(&self) -> Result<CheckReport, Error> {
        let catalog = self.open().await?;
        let scratch = format!("hexfloe_check_{}", self.id.simple());
        let namespace = self.namespace.clone().unwrap_or_else(|| NamespaceIdent::new(scratch.clone()));
        if self.namespace.is_some() {
            let failed = |error| {
                Error::table("look for the namespace of", &format!("{}.*", namespace.as_ref().join(".")), error)
            };
            if !catalog.catalog().namespace_exists(&namespace).await.map_err(failed)? {
                return Err(Error::Settings(format!("there is no namespace {}", namespace.as_ref().join("."))));
            }
        }
        let table = TableIdent::new(namespace, scratch);
        let mut running = Running { test: self, catalog, table, findings: Vec::new() };
        running.note_server();
        let checked = running.check().await;
        let cleaned = running.clean().await;
        if let Err(error) = checked {
            let table = running.table.to_string();
            return Err(match cleaned {
                Ok(()) => error,
                Err(_) => Error::Left { table, source: Box::new(error) },
            });
        }
        match cleaned {
            Ok(()) => running.add("clean up", Verdict::Held, "nothing is left of this test".to_owned()),
            Err(error) => running.add("clean up", Verdict::Noted, format!("something is left of this test: {error}")),
        }
        let kind = match self.settings.kind {
            CatalogKind::Sql => "sql",
            CatalogKind::Rest => "rest",
        };
        Ok(CheckReport { catalog: self.settings.name.clone(), kind, findings: running.findings })
    }

    async fn open(&self) -> Result<OpenCatalog, Error> {
        OpenCatalog::open(self.settings, self.base, Access::Create).await
    }
}

impl Running<'_> {
    fn add(&mut self, check: &'static str, verdict: Verdict, detail: String) {
        self.findings.push(Finding { check, verdict, detail });
    }

    fn hold(&mut self, check: &'static str, holds: bool, detail: String) {
        self.add(check, if holds { Verdict::Held } else { Verdict::Broken }, detail);
    }

    fn note_server(&mut self) {
        let Some(ServerFacts { endpoints, idempotency, prefix }) = self.catalog.server().cloned() else { return };
        let prefix = prefix.map_or_else(|| "no prefix".to_owned(), |prefix| format!("prefix {prefix:?}"));
        self.add("server", Verdict::Noted, prefix);
        let endpoints: Option<Vec<String>> = endpoints.map(|endpoints| endpoints.into_iter().collect());
        let several = endpoints.as_ref().map(|known| known.iter().any(|name| name.ends_with("/transactions/commit")));
        self.add(
            "endpoints",
            Verdict::Noted,
            match &endpoints {
                Some(known) => format!("{} named", known.len()),
                None => "the server names none; the usual ones are assumed".to_owned(),
            },
        );
        let several = match several {
            Some(true) => "offered",
            Some(false) => "not offered",
            None => "not named by the server",
        };
        self.add("commits to several tables at once", Verdict::Noted, several.to_owned());
        let idempotency = if idempotency { "honoured" } else { "not offered; requests are never sent twice anyway" };
        self.add("idempotency keys", Verdict::Noted, idempotency.to_owned());
    }

    async fn check(&mut self) -> Result<(), Error> {
        let table = self.create().await?;
        self.read_and_write(&table).await?;
        self.swap(table).await
    }

    async fn create(&mut self) -> Result<Table, Error> {
        let column = NestedField::required(1, "n", Type::Primitive(PrimitiveType::Long));
        let schema = Schema::builder().with_fields([column.into()]).build();
        let definition = TableDefinition {
            schema: schema.map_err(|error| Error::Definition(Box::new(error)))?,
            partition_spec: UnboundPartitionSpec::default(),
            properties: HashMap::new(),
        };
        let created = self.catalog.create(&self.table, &definition, self.test.id).await?;
        let version = created.table.metadata().format_version();
        let location = created.table.metadata().location().to_owned();
        let elsewhere = if created.ours { "" } else { ", which is not where it was asked to be" };
        self.hold("create a table", true, format!("format version {}, at {location}{elsewhere}", version as u8));
        let again = Uuid::from_u128(self.test.id.as_u128().wrapping_add(1));
        let second = self.catalog.create(&self.table, &definition, again).await?;
        let same = second.table.metadata().uuid() == created.table.metadata().uuid();
        self.hold("create it again", same && !second.ours, "the table that is there is found, and kept".to_owned());
        Ok(created.table)
    }

    async fn read_and_write(&mut self, table: &Table) -> Result<(), Error> {
        let store = self.catalog.store().clone();
        let folder = Location::parse(table.metadata().location())?.join("data")?;
        let vended = store.is_granted(&folder);
        let credentials = match vended {
            true => "vended with the table, and renewed before they expire",
            false => "those of the catalog file or the environment",
        };
        self.add("credentials of the store", Verdict::Noted, credentials.to_owned());

        let name = folder.join(&format!("check-{}.parquet", self.test.id.simple()))?.to_string();
        let before = (self.test.now)();
        let mut upload = store.create(&name).await?;
        upload.write("hexfloe".into()).await?;
        upload.finish().await?;
        let after = (self.test.now)();
        let read = store.read(&name).await?;
        self.hold("write and read an object", read == "hexfloe", format!("{} bytes", read.len()));
        let mut second = store.create(&name).await?;
        second.write("another".into()).await?;
        let kept = matches!(second.finish().await, Err(hexfloe_store::Error::Exists { .. }));
        let kept = kept && store.read(&name).await? == "hexfloe";
        self.hold("conditional put", kept, "an object that is there is not written over".to_owned());

        let listed: Vec<_> = store.list(&folder).try_collect().await?;
        let seen = listed.iter().find(|listed| listed.location.to_string() == name);
        self.hold(
            "list what was written",
            seen.is_some_and(|seen| seen.size == 7),
            format!("{} objects", listed.len()),
        );
        if let Some(seen) = seen {
            let middle = before + after.duration_since(before).unwrap_or_default() / 2;
            let ahead = match seen.last_modified.duration_since(middle) {
                Ok(ahead) => ahead.as_secs_f64(),
                Err(error) => -error.duration().as_secs_f64(),
            };
            // Stores count in whole seconds.
            let how = match ahead {
                ahead if ahead.abs() < 2.0 => "the same within two seconds".to_owned(),
                ahead if ahead > 0.0 => format!("the store's is {ahead:.0} s ahead of this machine's"),
                ahead => format!("the store's is {:.0} s behind this machine's", -ahead),
            };
            let word = if ahead.abs() > CLOCK_SECONDS { "; set one of them right" } else { "" };
            self.add("clocks", Verdict::Noted, format!("{how}{word}"));
        }
        let large = folder.join(&format!("check-{}-large.parquet", self.test.id.simple()))?.to_string();
        let mut upload = store.create(&large).await?;
        upload.write(vec![7; LARGE_OBJECT].into()).await?;
        let size = upload.finish().await?;
        let tail = store.read_range(&large, LARGE_OBJECT as u64 - 3..LARGE_OBJECT as u64).await?;
        self.hold("write an object in parts", tail == [7, 7, 7].as_slice(), format!("{size} bytes"));
        store.delete(&large).await?;
        store.delete(&name).await?;
        let gone = store.size(&name).await.is_err_and(|error| error.is_not_found());
        self.hold("delete an object", gone, "it is not found afterwards".to_owned());
        Ok(())
    }

    async fn swap(&mut self, created: Table) -> Result<(), Error> {
        let mut base = created;
        let mut acknowledged: BTreeSet<i64> = BTreeSet::new();
        let (mut uneven, mut unknown, mut refused) = (0, 0, None);
        for round in 0..ROUNDS {
            let mut rivals = JoinSet::new();
            for rival in 0..RIVALS {
                let id = i64::try_from(round * RIVALS + rival + 1).unwrap_or(i64::MAX);
                let request = self.snapshot(&base, id).await?;
                // Each by itself, as other processes would.
                let catalog = self.test.open().await?;
                rivals.spawn(async move { (id, catalog.port().commit(&request).await) });
            }
            let mut won = 0;
            for (id, outcome) in rivals.join_all().await {
                match outcome {
                    Ok(CommitOutcome::Committed(_)) => {
                        won += 1;
                        acknowledged.insert(id);
                    }
                    Ok(CommitOutcome::Conflict { .. }) => {}
                    Ok(CommitOutcome::Unknown { .. }) => unknown += 1,
                    Err(error) if error.kind() == ErrorKind::Unexpected => refused = Some(error.to_string()),
                    Err(error) => return Err(error),
                }
            }
            uneven += usize::from(won != 1);
            base = self.loaded().await?;
        }
        let there: BTreeSet<i64> = base.metadata().snapshots().map(|snapshot| snapshot.snapshot_id()).collect();
        let even = refused.is_none() && (uneven == 0 || unknown > 0 && there.len() == ROUNDS);
        let detail = match (uneven, refused) {
            (_, Some(refusal)) => format!("a commit that is too late is no conflict, but: {refusal}"),
            (0, None) => format!("of {RIVALS} commits on one base one wins, {ROUNDS} times of {ROUNDS}"),
            (uneven, None) => format!("in {uneven} of {ROUNDS} rounds not exactly one of {RIVALS} commits won"),
        };
        self.hold("compare and swap", even, detail);
        let lost = acknowledged.difference(&there).count();
        self.hold("acknowledged is there", lost == 0, format!("{} acknowledged, {lost} lost", acknowledged.len()));

        let stale = base.clone();
        let request = self.snapshot(&base, 1_001).await?;
        let first = self.catalog.port().commit(&request).await?;
        let landed = matches!(first, CommitOutcome::Committed(_));
        let late = self.snapshot(&stale, 1_002).await?;
        let late = self.catalog.port().commit(&late).await;
        let told = match &late {
            Ok(CommitOutcome::Conflict { .. }) => "is a conflict, and changes nothing".to_owned(),
            Ok(CommitOutcome::Committed(_)) => "is applied".to_owned(),
            Ok(CommitOutcome::Unknown { reason, .. }) => format!("is left open: {reason}"),
            Err(error) if error.kind() == ErrorKind::Unexpected => format!("is no conflict, but: {error}"),
            Err(_) => "cannot be told".to_owned(),
        };
        let conflict = matches!(&late, Ok(CommitOutcome::Conflict { .. }));
        match late {
            Err(error) if error.kind() != ErrorKind::Unexpected => return Err(error),
            _ => self.hold("a stale commit", landed && conflict, told),
        }
        let again = self.catalog.port().commit(&request).await?;
        let now = self.loaded().await?;
        let once = now.metadata().snapshots().filter(|snapshot| snapshot.snapshot_id() == 1_001).count() == 1;
        let newer = now.metadata().snapshots().count() == there.len() + 1;
        let told = match again {
            CommitOutcome::Committed(_) => "recognised as committed",
            CommitOutcome::Conflict { .. } => "a conflict",
            CommitOutcome::Unknown { .. } => "left open, to be looked up",
        };
        self.hold("a request that arrives twice", once && newer, format!("is applied once; the second is {told}"));
        Ok(())
    }

    async fn loaded(&self) -> Result<Table, Error> {
        self.catalog.load(&self.table).await?.ok_or_else(|| Error::gone(&self.table))
    }

    /// The commit of an empty snapshot.
    async fn snapshot(&self, base: &Table, id: i64) -> Result<CommitRequest, Error> {
        let metadata = base.metadata();
        let failed = |error| Error::table("write a manifest list of", &self.table, error);
        let (parent, sequence_number) = (metadata.current_snapshot_id(), metadata.next_sequence_number());
        let list = format!("{}/metadata/snap-{id}-0-{}.avro", metadata.location().trim_end_matches('/'), self.test.id);
        let writer = base.file_io().new_output(&list).map_err(failed)?.writer().await.map_err(failed)?;
        let mut manifests = ManifestListWriter::v2(writer, id, parent, sequence_number);
        manifests.add_manifests(std::iter::empty()).map_err(failed)?;
        manifests.close().await.map_err(failed)?;
        let snapshot = Snapshot::builder()
            .with_snapshot_id(id)
            .with_parent_snapshot_id(parent)
            .with_sequence_number(sequence_number)
            .with_timestamp_ms(metadata.last_updated_ms())
            .with_manifest_list(list)
            .with_schema_id(metadata.current_schema_id())
            .with_summary(Summary { operation: Operation::Append, additional_properties: HashMap::new() })
            .build();
        let reference = SnapshotReference::new(id, SnapshotRetention::branch(None, None, None));
        Ok(CommitRequest {
            base: base.clone(),
            requirements: vec![
                TableRequirement::UuidMatch { uuid: metadata.uuid() },
                TableRequirement::RefSnapshotIdMatch { r#ref: MAIN_BRANCH.to_owned(), snapshot_id: parent },
            ],
            updates: vec![
                TableUpdate::AddSnapshot { snapshot },
                TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.to_owned(), reference },
            ],
        })
    }

    async fn clean(&self) -> Result<(), Error> {
        let failed = |error| Error::table("drop", &self.table, error);
        let Some(table) = self.catalog.load(&self.table).await? else {
            // A test that got no further than its namespace.
            let namespace = self.table.namespace();
            if self.test.namespace.is_none()
                && self.catalog.catalog().namespace_exists(namespace).await.map_err(failed)?
            {
                self.catalog.catalog().drop_namespace(namespace).await.map_err(failed)?;
            }
            return Ok(());
        };
        self.catalog.catalog().drop_table(&self.table).await.map_err(failed)?;
        // Its own place, named after this test.
        let location = Location::parse(table.metadata().location())?;
        if location.key().contains(&self.test.id.simple().to_string()) {
            let store = self.catalog.store();
            let left: Vec<_> = store.list(&location).map_ok(|listed| listed.location.to_string()).try_collect().await?;
            for (_, result) in store.delete_all(left).await {
                result?;
            }
        }
        if self.test.namespace.is_none() {
            self.catalog.catalog().drop_namespace(self.table.namespace()).await.map_err(failed)?;
        }
        Ok(())
    }
}
