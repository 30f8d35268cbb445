//! Random histories of a table, checked after every step against a model in memory.
//!
//! A history ingests batches, replays them with and without force, and lets other writers append, compact, delete,
//! change spec and schema, roll back, expire and spoil the ledger: before, between, and in the middle of our commits,
//! whose requests and answers get lost on the way. After every step the table must hold the model's rows, the summary
//! must be a recount of the manifests, the ledger must name completed batches only, and no file may be missing or left
//! behind.
//!
//! Histories are numbered by their seeds, so that a failure names one number. `HEXFLOE_MODEL_SEED` is the first of
//! them and `HEXFLOE_MODEL_HISTORIES` their count; the defaults are what every run of the tests does.

mod driver;
mod engine;
mod expectation;
mod files;
mod steps;

use std::path::Path;
use std::sync::Arc;

use hexfloe_store::Store;
use object_store::memory::InMemory;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use self::driver::Driver;
use self::steps::{History, histories};
use crate::world::{Made, World};

/// How many histories there are, in all tests of this module together.
const HISTORIES: u64 = 2_000;

/// They are spread over so many tests, which run side by side.
const SHARES: u64 = 4;

#[test]
fn the_table_follows_the_model_through_any_history_1() {
    follow(0);
}

#[test]
fn the_table_follows_the_model_through_any_history_2() {
    follow(1);
}

#[test]
fn the_table_follows_the_model_through_any_history_3() {
    follow(2);
}

#[test]
fn the_table_follows_the_model_through_any_history_4() {
    follow(3);
}

/// One share of the histories: every fourth seed.
#[expect(clippy::panic, reason = "a history that goes wrong is told step by step")]
fn follow(share: u64) {
    let (first, count) = (setting("HEXFLOE_MODEL_SEED", 0), setting("HEXFLOE_MODEL_HISTORIES", HISTORIES));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = runtime.block_on(lake());
    for seed in (first + share..first + count).step_by(usize::try_from(SHARES).unwrap()) {
        let result = runner(seed).run(&histories(), |history| {
            runtime.block_on(run(&world, &history));
            Ok(())
        });
        match result {
            Ok(()) => {}
            Err(TestError::Fail(reason, history)) => panic!("{}", failure(seed, &reason.to_string(), &history)),
            Err(TestError::Abort(reason)) => panic!("seed {seed}: {reason}"),
        }
    }
}

async fn run(world: &World, history: &History) {
    let to_merge = if history.merging { "2" } else { "100" };
    let delete_mode = if history.merge_on_read { "merge-on-read" } else { "copy-on-write" };
    let properties = vec![
        ("commit.manifest.min-count-to-merge", to_merge.to_owned()),
        ("write.delete.mode", delete_mode.to_owned()),
    ];
    let mut driver = Driver::new(world.anew(history.partitioned, properties).await).await;
    for (left, step) in (0..history.steps.len()).rev().zip(&history.steps) {
        driver.take(step, left == 0).await;
    }
}

fn failure(seed: u64, reason: &str, history: &History) -> String {
    let steps: Vec<String> = history.steps.iter().map(|step| format!("  {step:?}")).collect();
    format!(
        "the history of seed {seed} goes wrong: {reason}\nits shortest form, partitioned by category: {}, merging manifests: {}, merge-on-read: {}\n{}\n\
         again: HEXFLOE_MODEL_SEED={seed} HEXFLOE_MODEL_HISTORIES=1 cargo test --test commit model",
        history.partitioned,
        history.merging,
        history.merge_on_read,
        steps.join("\n")
    )
}

/// One history for this seed.
fn runner(seed: u64) -> TestRunner {
    let config = Config { cases: 1, failure_persistence: None, max_shrink_iters: 1_000, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Files in memory, and the catalog where writing is cheap.
async fn lake() -> World {
    let store = Store::empty().mount("file", "", Arc::new(InMemory::new()));
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    World::make_in(folder.unwrap(), Made { store, ..Made::default() }).await
}

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(value) => value.parse().unwrap(),
        Err(_) => default,
    }
}
