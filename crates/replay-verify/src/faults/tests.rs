use std::collections::HashMap;

use futures::{FutureExt, StreamExt, TryStreamExt};
use hexfloe_catalog::conformance::{definition, fresh_id};
use hexfloe_catalog::{CommitOutcome, CommitRequest, OpenCatalog};
use hexfloe_commit::{Environment, SharedEnvironment};
use hexfloe_store::{Location, Store};
use iceberg::TableUpdate;
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt, PutMode, PutOptions};
use rstest::rstest;
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::*;
use crate::catalog::{MemoryCatalog, Pointers};
use crate::store::MemoryStore;

/// A process that is watched.
#[derive(Debug)]
struct Watched {
    crashed: AtomicBool,
    noted: Mutex<Vec<String>>,
    held: Mutex<Vec<String>>,
    waited: Mutex<Vec<Duration>>,
    releases: Semaphore,
}

impl Watched {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            crashed: AtomicBool::new(false),
            noted: Mutex::default(),
            held: Mutex::default(),
            waited: Mutex::default(),
            releases: Semaphore::new(0),
        })
    }
}

#[async_trait]
impl Host for Watched {
    async fn crash(&self) {
        assert!(!self.crashed.swap(true, Ordering::Relaxed), "a process ends once");
    }

    async fn hold(&self, at: &str) {
        self.held.lock().unwrap().push(at.to_owned());
        self.releases.acquire().await.unwrap().forget();
    }

    async fn wait(&self, time: Duration) {
        self.waited.lock().unwrap().push(time);
    }

    fn note(&self, what: &str) {
        self.noted.lock().unwrap().push(what.to_owned());
    }
}

fn injection(call: Call, fault: Fault) -> Injection {
    Injection { call, path: String::new(), nth: 1, times: 1, fault }
}

/// A store in memory, as it is and as a process sees it.
struct Seen {
    real: MemoryStore,
    store: Arc<dyn ObjectStore>,
    faults: Faults,
    host: Arc<Watched>,
}

fn seen(injections: Vec<Injection>) -> Seen {
    let real = MemoryStore::new(Arc::new(|| 1_700_000_000_000));
    let host = Watched::new();
    let faults = Faults::new(injections, host.clone());
    Seen { store: faults.store(Arc::new(real.clone())), real, faults, host }
}

fn put(call: Call, fault: Fault) -> Seen {
    seen(vec![injection(call, fault)])
}

impl Seen {
    async fn create(&self, path: &str) -> object_store::Result<()> {
        let options = PutOptions::from(PutMode::Create);
        self.store.put_opts(&Path::from(path), "abcd".into(), options).await.map(|_| ())
    }

    async fn upload(&self, path: &str) -> object_store::Result<()> {
        let mut upload = self.store.put_multipart(&Path::from(path)).await?;
        upload.put_part("ab".into()).await?;
        upload.put_part("cd".into()).await?;
        upload.complete().await.map(|_| ())
    }

    fn has(&self, path: &str) -> bool {
        self.real.bytes(path).is_some_and(|bytes| bytes == "abcd")
    }

    fn times(&self) -> Vec<u32> {
        self.faults.struck().into_iter().map(|(_, times)| times).collect()
    }
}

fn broke(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|cause| cause.downcast_ref().is_some_and(|io: &io::Error| io.kind() == io::ErrorKind::ConnectionReset))
}

#[rstest]
#[case(Fault::CrashBefore, false)]
#[case(Fault::CrashAfter, true)]
#[case(Fault::Partial, false)]
#[tokio::test]
async fn a_process_that_a_fault_has_ended_does_nothing_any_more(#[case] fault: Fault, #[case] lands: bool) {
    let seen = put(Call::Put, fault);
    assert!(seen.create("a").now_or_never().is_none());
    assert!(seen.host.crashed.load(Ordering::Relaxed));
    assert_eq!((seen.has("a"), seen.times()), (lands, vec![1]));
    let path = Path::from("a");
    assert!(seen.create("b").now_or_never().is_none());
    assert!(seen.store.get(&path).now_or_never().is_none());
    assert!(seen.store.list(None).next().now_or_never().is_none());
    assert!(seen.store.delete(&path).now_or_never().is_none());
    assert!(seen.store.put_multipart(&path).now_or_never().is_none());
    assert_eq!((seen.has("a"), seen.has("b")), (lands, false));
}

#[rstest]
#[case(Call::Put, Fault::NotDelivered, false)]
#[case(Call::Put, Fault::LostReply, true)]
#[case(Call::Upload, Fault::NotDelivered, false)]
#[case(Call::Upload, Fault::LostReply, true)]
#[tokio::test]
async fn whether_a_call_was_delivered_cannot_be_told_from_the_error(
    #[case] call: Call,
    #[case] fault: Fault,
    #[case] lands: bool,
) {
    let seen = put(call, fault);
    let answer = if call == Call::Put { seen.create("a").await } else { seen.upload("a").await };
    assert!(broke(&answer.unwrap_err()));
    assert_eq!((seen.has("a"), seen.times()), (lands, vec![1]));
    seen.create("b").await.unwrap();
}

#[tokio::test]
async fn what_lands_may_be_answered_with_an_error_or_a_conflict() {
    let failing = put(Call::Put, Fault::ErrorAfterSuccess);
    let error = failing.create("a").await.unwrap_err();
    assert!(failing.has("a") && !broke(&error) && matches!(error, Error::Generic { .. }), "{error}");

    let denying = put(Call::Put, Fault::ConflictAfterSuccess);
    assert!(matches!(denying.create("a").await, Err(Error::AlreadyExists { .. })));
    assert!(denying.has("a"));
    let denying = put(Call::Put, Fault::ConflictAfterSuccess);
    assert!(matches!(denying.store.put(&Path::from("a"), "abcd".into()).await, Err(Error::Precondition { .. })));
    assert!(denying.has("a"));
    let denying = put(Call::Upload, Fault::ConflictAfterSuccess);
    assert!(denying.upload("a").await.is_err());
    assert!(denying.has("a"));
}

#[tokio::test]
async fn of_two_deliveries_the_second_answer_is_given() {
    let seen = put(Call::Put, Fault::Twice);
    assert!(matches!(seen.create("a").await, Err(Error::AlreadyExists { .. })));
    assert!(seen.has("a"));
    let seen = put(Call::Copy, Fault::Twice);
    seen.create("a").await.unwrap();
    let copied = seen.store.copy_if_not_exists(&Path::from("a"), &Path::from("b")).await;
    assert!(matches!(copied, Err(Error::AlreadyExists { .. })) && seen.has("b"));
}

#[tokio::test]
async fn a_call_that_is_held_goes_on_when_it_is_let() {
    for (fault, at, lands) in [(Fault::HoldBefore, "before put a", false), (Fault::HoldAfter, "after put a", true)] {
        let seen = put(Call::Put, fault);
        let mut create = Box::pin(seen.create("a"));
        assert!(futures::poll!(&mut create).is_pending());
        assert_eq!((seen.has("a"), seen.host.held.lock().unwrap().as_slice()), (lands, &[at.to_owned()][..]));
        seen.host.releases.add_permits(1);
        create.await.unwrap();
        assert!(seen.has("a"));
    }
}

#[tokio::test]
async fn an_answer_may_come_late() {
    let seen = put(Call::Put, Fault::Delayed { ms: 7 });
    seen.create("a").await.unwrap();
    assert_eq!(*seen.host.waited.lock().unwrap(), [Duration::from_millis(7)]);
    assert_eq!(*seen.host.noted.lock().unwrap(), ["delayed by 7 ms: put a"]);
}

#[tokio::test]
async fn objects_may_be_without_a_date() {
    let seen = seen(vec![injection(Call::List, Fault::Undated), injection(Call::Read, Fault::Undated)]);
    seen.create("a").await.unwrap();
    let dates = async || -> Vec<i64> {
        let listed = seen.store.list(None).map_ok(|meta| meta.last_modified.timestamp_millis());
        listed.try_collect().await.unwrap()
    };
    assert_eq!((dates().await, dates().await), (vec![0], vec![1_700_000_000_000]));
    let head = seen.store.head(&Path::from("a")).await.unwrap();
    assert_eq!(head.last_modified.timestamp_millis(), 0);
    assert_eq!(seen.times(), [1, 1]);
}

#[tokio::test]
async fn a_listing_may_be_slow_and_break_off() {
    let seen = seen(vec![
        injection(Call::List, Fault::Slow { ms: 9 }),
        Injection { nth: 2, ..injection(Call::List, Fault::LostReply) },
        Injection { nth: 3, ..injection(Call::List, Fault::NotDelivered) },
    ]);
    for number in 0..2 * crate::store::PAGE {
        seen.create(&number.to_string()).await.unwrap();
    }
    let slow: Vec<_> = seen.store.list(None).try_collect().await.unwrap();
    assert_eq!((slow.len(), seen.host.waited.lock().unwrap().as_slice()), (16, &[Duration::from_millis(9); 2][..]));
    let broken: Vec<_> = seen.store.list(None).collect().await;
    assert!(broken.len() == 17 && broken[16].as_ref().is_err_and(|error| broke(error)));
    let never: Vec<_> = seen.store.list(None).collect().await;
    assert!(never.len() == 1 && never[0].is_err());
    assert_eq!(seen.store.list(None).count().await, 16);
}

#[tokio::test]
async fn each_of_many_deletes_may_fail_by_itself() {
    let seen = seen(vec![
        Injection { path: "b".to_owned(), ..injection(Call::Delete, Fault::LostReply) },
        Injection { path: "c".to_owned(), ..injection(Call::Delete, Fault::NotDelivered) },
    ]);
    let paths = ["a", "b", "c", "d"];
    for path in paths {
        seen.create(path).await.unwrap();
    }
    let all = futures::stream::iter(paths).map(|path| Ok(Path::from(path))).boxed();
    let answers: Vec<bool> = seen.store.delete_stream(all).map(|deleted| deleted.is_ok()).collect().await;
    assert_eq!(answers, [true, false, false, true]);
    assert_eq!(paths.map(|path| seen.has(path)), [false, false, true, false]);
}

#[tokio::test]
async fn an_injection_strikes_at_the_calls_it_names_and_several_strike_one() {
    let seen = seen(vec![
        Injection { path: "/data/".to_owned(), nth: 2, times: 2, ..injection(Call::Put, Fault::NotDelivered) },
        injection(Call::Put, Fault::Delayed { ms: 1 }),
        injection(Call::Put, Fault::ErrorAfterSuccess),
        // Of no meaning there.
        injection(Call::Put, Fault::Stale),
    ]);
    let mut answers = Vec::new();
    for path in ["t/metadata/1", "t/data/1", "t/data/2", "t/metadata/2", "t/data/3", "t/data/4"] {
        answers.push(seen.create(path).await.is_ok());
    }
    assert_eq!(answers, [false, true, false, true, false, true]);
    assert!(seen.has("t/metadata/1") && !seen.has("t/data/2"));
    assert_eq!(seen.times(), [2, 1, 1, 0]);
}

#[tokio::test]
async fn decorators_are_put_around_each_other() {
    let inner = put(Call::Put, Fault::Twice);
    let outer = Faults::new(vec![injection(Call::Put, Fault::LostReply)], inner.host.clone());
    let store = outer.store(Arc::clone(&inner.store));
    let error = store.put_opts(&Path::from("a"), "abcd".into(), PutOptions::from(PutMode::Create)).await.unwrap_err();
    assert!(broke(&error), "{error}");
    assert_eq!((inner.has("a"), inner.times(), outer.struck()[0].1), (true, vec![1], 1));
}

#[test]
fn injections_are_written_in_a_few_words() {
    let read = |text| serde_json::from_str::<Injection>(text);
    let delayed = Injection { nth: 2, ..injection(Call::Commit, Fault::Delayed { ms: 5 }) };
    assert_eq!(read(r#"{"call": "commit", "nth": 2, "fault": {"delayed": {"ms": 5}}}"#).unwrap(), delayed);
    let lost = Injection { path: "data".to_owned(), times: 3, ..injection(Call::Put, Fault::LostReply) };
    let text = serde_json::to_string(&lost).unwrap();
    assert_eq!(text, r#"{"call":"put","path":"data","nth":1,"times":3,"fault":"lost_reply"}"#);
    assert_eq!(read(&text).unwrap(), lost);
    assert!(read(r#"{"call": "commit", "nth": 1, "fault": "stale", "often": 2}"#).is_err());
    assert_eq!(lost.to_string(), "put 1 to 3 of data: lost reply");
}

/// A clock that goes.
#[derive(Debug, Default)]
struct Ticking(std::sync::atomic::AtomicI64);

#[async_trait]
impl Environment for Ticking {
    fn now_ms(&self) -> i64 {
        1_700_000_000_000 + self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn uuid(&self) -> Uuid {
        fresh_id()
    }

    fn jitter(&self) -> f64 {
        0.5
    }

    async fn sleep(&self, _: Duration) {}
}

#[test]
fn a_clock_may_be_wrong() {
    let clock: SharedEnvironment = Arc::new(Ticking::default());
    assert_eq!(SkewedClock::new(clock.clone(), -3_600_000).now_ms(), 1_699_996_400_000);
    assert_eq!(SkewedClock::new(clock, 1_000).now_ms(), 1_700_000_001_001);
}

/// A table in memory, and its catalog as a process sees it.
struct Lake {
    table: TableIdent,
    real: OpenCatalog,
    catalog: OpenCatalog,
    faults: Faults,
}

async fn lake(injections: Vec<Injection>) -> Lake {
    let store = Store::empty().mount("memory", "", Arc::new(MemoryStore::new(Arc::new(|| 1_700_000_000_000))));
    let memory = MemoryCatalog::open(Arc::<Pointers>::default(), store.clone(), Arc::new(Ticking::default()));
    let warehouse = Location::parse("memory:///lake").unwrap();
    let real = OpenCatalog::assemble("memory", Arc::new(memory.clone()), Arc::new(memory), store, warehouse);
    let table = TableIdent::from_strs(["places", "cities"]).unwrap();
    real.create(&table, &definition(), fresh_id()).await.unwrap();
    let faults = Faults::new(injections, Watched::new());
    let catalog = real.clone().with_port(|port| faults.port(port)).with_catalog(|catalog| faults.catalog(catalog));
    Lake { table, real, catalog, faults }
}

impl Lake {
    /// Sets a property on the table as the process sees it.
    async fn set(&self, value: &str) -> CommitOutcome {
        let base = self.catalog.load(&self.table).await.unwrap().unwrap();
        let updates = HashMap::from([("said".to_owned(), value.to_owned())]);
        let updates = vec![TableUpdate::SetProperties { updates }];
        self.catalog.port().commit(&CommitRequest { base, requirements: Vec::new(), updates }).await.unwrap()
    }

    async fn said_in(&self, catalog: &OpenCatalog) -> Option<String> {
        let table = catalog.load(&self.table).await.unwrap().unwrap();
        table.metadata().properties().get("said").cloned()
    }
}

#[rstest]
#[case(Fault::NotDelivered, false)]
#[case(Fault::LostReply, true)]
#[case(Fault::ErrorAfterSuccess, true)]
#[tokio::test]
async fn what_became_of_a_commit_without_a_good_answer_is_unknown(#[case] fault: Fault, #[case] lands: bool) {
    let lake = lake(vec![injection(Call::Commit, fault)]).await;
    let outcome = lake.set("x").await;
    assert!(matches!(&outcome, CommitOutcome::Unknown { source: Some(_), .. }), "{outcome:?}");
    assert_eq!(lake.said_in(&lake.real).await.is_some(), lands);
    assert!(lake.catalog.port().is_certain());
    assert!(matches!(lake.set("y").await, CommitOutcome::Committed(_)));
    assert_eq!(lake.faults.struck()[0].1, 1);
}

#[rstest]
#[case(Fault::ConflictAfterSuccess)]
#[case(Fault::Twice)]
#[tokio::test]
async fn a_port_that_denies_what_has_happened_is_not_certain(#[case] fault: Fault) {
    let lake = lake(vec![injection(Call::Commit, fault)]).await;
    let outcome = lake.set("x").await;
    assert!(matches!(outcome, CommitOutcome::Conflict { .. }), "{outcome:?}");
    assert_eq!(lake.said_in(&lake.real).await.as_deref(), Some("x"));
    assert!(!lake.catalog.port().is_certain() && lake.real.port().is_certain());
}

#[tokio::test]
async fn a_conflict_after_success_takes_a_success() {
    let lake = lake(vec![injection(Call::Commit, Fault::ErrorAfterSuccess)]).await;
    let base = lake.real.load(&lake.table).await.unwrap().unwrap();
    let requirements = vec![iceberg::TableRequirement::NotExist];
    let request = CommitRequest { base, requirements, updates: Vec::new() };
    let outcome = lake.catalog.port().commit(&request).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Conflict { .. }), "{outcome:?}");
    assert_eq!(lake.faults.struck()[0].1, 0);
}

#[tokio::test]
async fn a_stale_table_is_the_one_of_the_load_before() {
    let stale = Injection { nth: 1, times: 9, ..injection(Call::Load, Fault::Stale) };
    let lake = lake(vec![Injection { times: 1, ..stale.clone() }, Injection { nth: 3, ..stale }]).await;
    // The first load has none before it.
    assert!(matches!(lake.set("1").await, CommitOutcome::Committed(_)));
    assert_eq!(lake.said_in(&lake.catalog).await.as_deref(), Some("1"));
    let base = lake.real.load(&lake.table).await.unwrap().unwrap();
    let updates = HashMap::from([("said".to_owned(), "2".to_owned())]);
    let updates = vec![TableUpdate::SetProperties { updates }];
    let outcome = lake.real.port().commit(&CommitRequest { base, requirements: Vec::new(), updates }).await;
    assert!(matches!(outcome.unwrap(), CommitOutcome::Committed(_)));
    assert_eq!(lake.said_in(&lake.catalog).await.as_deref(), Some("1"));
    assert_eq!(lake.said_in(&lake.catalog).await.as_deref(), Some("2"));
    assert_eq!(lake.faults.struck().iter().map(|(_, times)| *times).collect::<Vec<_>>(), [0, 2]);
}

#[tokio::test]
async fn a_load_that_fails_is_one_of_a_catalog_that_is_away() {
    let lake = lake(vec![injection(Call::Load, Fault::NotDelivered)]).await;
    let error = lake.catalog.load(&lake.table).await.unwrap_err();
    assert_eq!(error.kind(), hexfloe_catalog::ErrorKind::Unavailable);
    assert!(broke(&error), "{error:?}");
    assert!(lake.catalog.load(&lake.table).await.unwrap().is_some());
}

#[tokio::test]
async fn a_process_that_ends_at_its_commit_does_not_load_any_more() {
    let lake = lake(vec![injection(Call::Commit, Fault::CrashAfter)]).await;
    assert!(lake.set("x").now_or_never().is_none());
    assert!(lake.catalog.load(&lake.table).now_or_never().is_none());
    assert_eq!(lake.said_in(&lake.real).await.as_deref(), Some("x"));
}

#[tokio::test]
async fn the_local_disk_has_the_same_faults() {
    let folder = tempfile::tempdir().unwrap();
    let root = format!("file://{}", folder.path().to_str().unwrap());
    let faults = Faults::new(
        vec![
            injection(Call::Put, Fault::LostReply),
            Injection { path: "torn".to_owned(), ..injection(Call::Put, Fault::Partial) },
        ],
        Watched::new(),
    );
    let decorate = faults.clone();
    let store = Store::local().decorated(move |store| decorate.store(store));
    let write = async |name: &str| {
        let mut upload = store.create(&format!("{root}/{name}")).await?;
        upload.write("abcd".into()).await?;
        upload.finish().await
    };
    // Who has no answer looks, and finds what it wrote.
    assert_eq!(write("whole").await.unwrap(), 4);
    store.copy(&format!("{root}/whole"), &format!("{root}/copy")).await.unwrap();
    tokio::select! {
        biased;
        torn = write("torn") => unreachable!("{torn:?}"),
        () = async { while !faults.has_ended() { tokio::task::yield_now().await } } => {}
    }
    assert_eq!(faults.struck().iter().map(|(_, times)| *times).collect::<Vec<_>>(), [1, 1]);
    // What is left is not finished, has half of the bytes, and is found and removed by others.
    let others = Store::local();
    let below = Location::parse(&root).unwrap();
    let mut left: Vec<_> =
        others.list(&below).map_ok(|file| (file.location.to_string(), file.size)).try_collect().await.unwrap();
    left.sort();
    let expected = [("copy", 4), ("torn#1", 2), ("whole", 4)].map(|(name, size)| (format!("{root}/{name}"), size));
    assert_eq!(left, expected);
    others.delete(&format!("{root}/torn#1")).await.unwrap();
}
