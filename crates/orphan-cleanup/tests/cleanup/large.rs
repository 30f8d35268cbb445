//! Tables with millions of files. Most of the tests here are run by `benches/cleanup` alone, which measures them from
//! outside.
//!
//! Where the files would be too many, they are imagined: a store makes keys and manifests up as it is asked for them.

use std::collections::HashSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use chrono::DateTime;
use futures::StreamExt;
use futures::stream::BoxStream;
use hexfloe_orphan_cleanup::{Cleaner, NoSink, OrphanOptions, OrphanReport};
use hexfloe_store::{Location, Store};
use iceberg::spec::{MAIN_BRANCH, ManifestFile, ManifestWriterBuilder};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::world::{Steady, World, data_file};

const PARTITIONS: usize = 200;

/// What stands for the number of a manifest until it is known.
const UNKNOWN: &str = "p=PPP/MMMMMM";

/// A table's files, by the numbers of their manifests.
#[derive(Clone, Copy, Debug)]
struct Shape {
    entries: usize,
    referenced: usize,
    /// Not in the table, and old.
    orphaned: usize,
    /// Not in the table, and new.
    young: usize,
}

impl Shape {
    fn manifests(self) -> usize {
        self.referenced + self.orphaned + self.young
    }

    fn is_young(self, manifest: usize) -> bool {
        manifest >= self.referenced + self.orphaned
    }
}

/// The part of a key that says which manifest its file is in.
fn manifest_part(manifest: usize) -> String {
    format!("p={:03}/{manifest:06}", manifest % PARTITIONS)
}

/// The name of a file, below the folder of data.
fn file_name(manifest: &str, entry: usize) -> String {
    format!("{manifest}-{entry:05}-7d6c1f2e-5b1d-4c5e-9a51-0f0d8b1f6a01.parquet")
}

/// A store that says it has the files of a large table.
struct Imagined {
    inner: Arc<dyn ObjectStore>,
    shape: Shape,
    /// The key of the table's location.
    root: OnceLock<String>,
    /// A manifest with [`UNKNOWN`] in its paths, and where that is.
    template: OnceLock<(Vec<u8>, Vec<usize>)>,
    deleted: Arc<Mutex<HashSet<String>>>,
}

impl fmt::Debug for Imagined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Imagined").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl fmt::Display for Imagined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Imagined")
    }
}

impl Imagined {
    fn data(&self) -> String {
        format!("{}/data", self.root.get().unwrap())
    }

    /// The number of an imagined manifest.
    fn manifest(location: &Path) -> Option<usize> {
        location.filename()?.strip_prefix("imagined-")?.get(..6)?.parse().ok()
    }

    fn manifest_bytes(&self, manifest: usize) -> Vec<u8> {
        let (template, places) = self.template.get().unwrap();
        let (mut bytes, known) = (template.clone(), manifest_part(manifest));
        for place in places {
            bytes[*place..*place + known.len()].copy_from_slice(known.as_bytes());
        }
        bytes
    }

    /// The files of some partitions.
    fn files(&self, partitions: Range<usize>) -> impl Iterator<Item = Result<ObjectMeta>> + Send + 'static + use<> {
        let (shape, data, deleted) = (self.shape, self.data(), Arc::clone(&self.deleted));
        let manifests = partitions.flat_map(move |partition| (partition..shape.manifests()).step_by(PARTITIONS));
        let files = manifests.flat_map(move |manifest| {
            let (data, part) = (data.clone(), manifest_part(manifest));
            let age =
                if shape.is_young(manifest) { Duration::from_secs(1 << 33) } else { Duration::from_secs(1 << 20) };
            (0..shape.entries)
                .map(move |entry| (format!("{data}/{}", file_name(&part, entry)), DateTime::from(UNIX_EPOCH + age)))
        });
        let left = files.filter(move |(key, _)| !deleted.lock().unwrap().contains(key));
        left.map(|(key, last_modified)| {
            let location = Path::parse(key)?;
            Ok(ObjectMeta { location, last_modified, size: 1_000, e_tag: None, version: None })
        })
    }
}

#[async_trait]
impl ObjectStore for Imagined {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let Some(manifest) = Self::manifest(location) else { return self.inner.get_opts(location, options).await };
        let one = InMemory::new();
        one.put(location, self.manifest_bytes(manifest).into()).await?;
        one.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (inner, data, deleted) = (Arc::clone(&self.inner), self.data(), Arc::clone(&self.deleted));
        let delete = move |location: Result<Path>| {
            let (inner, data, deleted) = (Arc::clone(&inner), data.clone(), Arc::clone(&deleted));
            async move {
                let location = location?;
                if location.as_ref().starts_with(&data) {
                    deleted.lock().unwrap().insert(location.to_string());
                } else {
                    inner.delete(&location).await?;
                }
                Ok(location)
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (place, data) = (prefix.map(Path::as_ref).unwrap_or_default(), self.data());
        let partitions = match place.strip_prefix(&data) {
            Some("") => 0..PARTITIONS,
            Some(below) => {
                let partition = below.strip_prefix("/p=").unwrap().parse().unwrap();
                partition..partition + 1
            }
            None if data.starts_with(place) => 0..PARTITIONS,
            None => 0..0,
        };
        let inner = self.inner.list(prefix);
        let files = futures::stream::iter(self.files(partitions));
        inner.chain(files).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let data = self.data();
        let mut listed = self.inner.list_with_delimiter(prefix).await?;
        let place = prefix.map(Path::as_ref).unwrap_or_default();
        if place == data {
            let partitions = (0..PARTITIONS).map(|partition| Path::parse(format!("{data}/p={partition:03}")));
            listed.common_prefixes.extend(partitions.collect::<std::result::Result<Vec<_>, _>>()?);
        } else if data.strip_suffix("/data") == Some(place) {
            listed.common_prefixes.push(Path::parse(data)?);
        }
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// Writes a manifest of these paths into the table's folder of metadata.
async fn write_manifest(world: &World, name: &str, paths: impl Iterator<Item = String>) -> ManifestFile {
    let table = world.load().await;
    let metadata = table.metadata();
    let output = table.file_io().new_output(format!("{}/metadata/{name}", metadata.location())).unwrap();
    let (schema, spec) = (metadata.current_schema().clone(), metadata.default_partition_spec().as_ref().clone());
    let mut manifest = ManifestWriterBuilder::new(output, Some(1), schema, spec).build_v2_data();
    for path in paths {
        manifest.add_file(data_file(&path), -1).unwrap();
    }
    manifest.write_manifest_file().await.unwrap()
}

/// Cleans an imagined table, on all processors.
async fn clean(shape: Shape, apply: bool) -> OrphanReport {
    let world = World::new().await;
    let root = world.root().await;
    let template = write_manifest(
        &world,
        "00000000-0000-0000-0000-000000000001-m0.avro",
        (0..shape.entries).map(|entry| format!("{root}/data/{}", file_name(UNKNOWN, entry))),
    )
    .await;
    let bytes = world.store().read(&template.manifest_path).await.unwrap().to_vec();
    let places = bytes.windows(UNKNOWN.len()).enumerate().filter(|(_, part)| *part == UNKNOWN.as_bytes());
    let places: Vec<usize> = places.map(|(place, _)| place).collect();
    assert_eq!(places.len(), shape.entries, "the paths are in the manifest as they are");
    let manifests = (0..shape.referenced).map(|number| ManifestFile {
        manifest_path: format!("{root}/metadata/imagined-{number:06}-m0.avro"),
        ..template.clone()
    });
    let list = format!("{root}/metadata/snap-1-0-00000000-0000-0000-0000-000000000001.avro");
    world.add_snapshot(MAIN_BRANCH, 1, list, manifests.collect()).await;
    world.store().delete(&template.manifest_path).await.unwrap();

    let imagined = Imagined {
        inner: Store::local().mounted("file", "").unwrap(),
        shape,
        root: OnceLock::from(Location::parse(&root).unwrap().key().to_owned()),
        template: OnceLock::from((bytes, places)),
        deleted: Arc::default(),
    };
    let catalog = world.catalog_over(Store::empty().mount("file", "", Arc::new(imagined))).await;
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let cleaner = Cleaner::new(catalog, Arc::<Steady>::clone(&world.environment)).with_threads(threads);
    let options = OrphanOptions { apply, max_fraction: 1.0, ..OrphanOptions::default() };
    let report = cleaner.orphans(&world.table(), &options, &mut NoSink).await.unwrap();
    let files = |manifests: usize| (manifests * shape.entries) as u64;
    assert_eq!((report.orphans.files, report.young.files), (files(shape.orphaned), files(shape.young)));
    assert!(report.referenced.files >= files(shape.referenced));
    if apply {
        assert_eq!((report.removed, report.failed.files), (report.orphans, 0));
    }
    report
}

/// The most memory that this process has had, in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() >> 10
}

/// Says what `benches/cleanup` reads.
fn tell(report: &OrphanReport) {
    println!("\n{{\"files\": {}, \"orphans\": {}}}", report.listed.files, report.orphans.files);
}

#[cfg(target_os = "linux")]
#[test]
fn a_million_keys_are_cleaned_in_little_memory() {
    let myself = std::env::current_exe().unwrap();
    let run = std::process::Command::new(myself)
        .args(["--exact", "large::a_million_keys", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{said}");
    let peak: u64 = said.split("peak ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap();
    // The keys alone are a hundred and fifty.
    assert!(peak < 100, "{peak} MiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the test above, in a process of its own; alone: cargo test --workspace --features sql --test cleanup a_million_keys -- --ignored"]
async fn a_million_keys() {
    let report = clean(Shape { entries: 1_000, referenced: 90, orphaned: 10, young: 900 }, true).await;
    assert!(report.listed.files > 1_000_000);
    println!("peak {} MiB", peak_mib());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; run by: benches/cleanup imagined"]
async fn ten_million_imagined_files_and_ten_thousand_orphans() {
    tell(&clean(Shape { entries: 10_000, referenced: 1_000, orphaned: 1, young: 0 }, false).await);
}

/// Leaves the lake where it is, and says where.
#[tokio::test]
#[ignore = "makes a million files; run by: benches/cleanup files"]
async fn a_lake_of_a_million_real_files_and_ten_thousand_orphans() {
    let world = World::new().await;
    let root = world.root().await;
    let folder = std::path::PathBuf::from(root.strip_prefix("file://").unwrap()).join("data");
    for partition in 0..PARTITIONS {
        std::fs::create_dir_all(folder.join(format!("p={partition:03}"))).unwrap();
    }
    let mut manifests = Vec::new();
    for number in 0..1_010 {
        let part = manifest_part(number);
        let names = (0..1_000).map(|entry| file_name(&part, entry));
        for name in names.clone() {
            std::fs::File::create_new(folder.join(name)).unwrap();
        }
        if number < 1_000 {
            let paths = names.map(|name| format!("{root}/data/{name}"));
            let id = uuid::Uuid::from_u128((1 << 64) + number as u128);
            manifests.push(write_manifest(&world, &format!("{id}-m0.avro"), paths).await);
        }
    }
    let list = format!("{root}/metadata/snap-1-0-00000000-0000-0000-0000-000000000001.avro");
    world.add_snapshot(MAIN_BRANCH, 1, list, manifests).await;
    println!("\n{{\"folder\": {:?}}}", world.leave());
}
