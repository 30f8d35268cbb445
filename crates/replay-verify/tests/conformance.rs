//! The store and the catalog in memory keep the promises that every store and every catalog keep.

#![expect(clippy::unwrap_used, reason = "tests")]

mod store {
    use std::sync::Arc;

    use hexfloe_replay_verify::store::MemoryStore;
    use hexfloe_store::Store;
    use hexfloe_store::conformance::Subject;

    struct Memory(Store);

    impl Memory {
        fn new() -> Self {
            let objects = MemoryStore::new(Arc::new(|| 1_700_000_000_000));
            Self(Store::empty().mount("memory", "", Arc::new(objects)))
        }
    }

    impl Subject for Memory {
        fn store(&self) -> Store {
            self.0.clone()
        }

        fn root(&self) -> String {
            "memory:///root".to_owned()
        }
    }

    hexfloe_store::conforms! { Memory::new() }
}

mod catalog {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;

    use async_trait::async_trait;
    use hexfloe_catalog::OpenCatalog;
    use hexfloe_catalog::conformance::{Subject, fresh_id};
    use hexfloe_commit::Environment;
    use hexfloe_replay_verify::catalog::{MemoryCatalog, Pointers};
    use hexfloe_replay_verify::store::MemoryStore;
    use hexfloe_store::{Location, Store};
    use uuid::Uuid;

    #[derive(Debug)]
    struct Ticking(AtomicI64);

    #[async_trait]
    impl Environment for Ticking {
        fn now_ms(&self) -> i64 {
            self.0.fetch_add(1, Ordering::Relaxed)
        }

        fn uuid(&self) -> Uuid {
            fresh_id()
        }

        fn jitter(&self) -> f64 {
            0.5
        }

        async fn sleep(&self, time: Duration) {
            self.0.fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
        }
    }

    struct Memory {
        pointers: Arc<Pointers>,
        store: Store,
        environment: Arc<Ticking>,
    }

    impl Memory {
        fn new() -> Self {
            let objects = MemoryStore::new(Arc::new(|| 1_700_000_000_000));
            let store = Store::empty().mount("memory", "", Arc::new(objects));
            let environment = Arc::new(Ticking(AtomicI64::new(1_700_000_000_000)));
            Self { pointers: Arc::default(), store, environment }
        }
    }

    #[async_trait]
    impl Subject for Memory {
        async fn open(&self) -> OpenCatalog {
            let environment = Arc::<Ticking>::clone(&self.environment);
            let catalog = MemoryCatalog::open(Arc::clone(&self.pointers), self.store.clone(), environment);
            let port = Arc::new(catalog.clone());
            let warehouse = Location::parse("memory:///lake").unwrap();
            OpenCatalog::assemble("memory", Arc::new(catalog), port, self.store.clone(), warehouse)
        }
    }

    hexfloe_catalog::conforms! { Memory::new(); superseded_metadata_goes_only_where_the_table_asks }
}
