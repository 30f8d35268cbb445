//! One commit of several tables: all of them have the batch afterwards, or none.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use hexfloe_catalog::{CommitOutcome, CommitPort, CommitRequest};
use hexfloe_commit::{BatchOutcome, Error, ErrorKind};
use iceberg::table::Table;
use rstest::rstest;

use crate::faults::{Rival, rival};
use crate::world::{World, committed, is_skipped, rows};

/// What happens to a commit of several tables.
#[derive(Clone)]
enum Fault {
    /// It is applied, and the answer is lost.
    LoseAnswer,
    /// It is applied, sent again on the way, and the second copy is refused.
    Resend,
    /// It never arrives, and nobody knows.
    Vanish,
    /// It is refused with an error, not a conflict.
    Refuse,
    /// Something happens before it arrives.
    After(Rival),
}

#[derive(Debug)]
struct FaultyPort {
    inner: Arc<dyn CommitPort>,
    script: Mutex<VecDeque<Fault>>,
    sent: Mutex<Vec<usize>>,
}

impl std::fmt::Debug for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fault")
    }
}

fn script(faults: impl IntoIterator<Item = Fault>) -> impl FnOnce(Arc<dyn CommitPort>) -> Arc<FaultyPort> {
    let script = Mutex::new(faults.into_iter().collect());
    move |inner| Arc::new(FaultyPort { inner, script, sent: Mutex::default() })
}

fn unknown() -> CommitOutcome<Vec<Table>> {
    CommitOutcome::Unknown { reason: "the connection was closed".to_owned(), source: None }
}

#[async_trait]
impl CommitPort for FaultyPort {
    async fn commit(&self, request: &CommitRequest) -> Result<CommitOutcome, hexfloe_catalog::Error> {
        self.sent.lock().unwrap().push(1);
        self.inner.commit(request).await
    }

    fn commits_together(&self) -> bool {
        self.inner.commits_together()
    }

    async fn commit_together(
        &self,
        requests: &[CommitRequest],
    ) -> Result<CommitOutcome<Vec<Table>>, hexfloe_catalog::Error> {
        self.sent.lock().unwrap().push(requests.len());
        let fault = self.script.lock().unwrap().pop_front();
        match fault {
            None => self.inner.commit_together(requests).await,
            Some(Fault::LoseAnswer) => {
                assert!(matches!(self.inner.commit_together(requests).await, Ok(CommitOutcome::Committed(_))));
                Ok(unknown())
            }
            Some(Fault::Resend) => {
                assert!(matches!(self.inner.commit_together(requests).await, Ok(CommitOutcome::Committed(_))));
                self.inner.commit_together(requests).await
            }
            Some(Fault::Vanish) => Ok(unknown()),
            Some(Fault::Refuse) => Err(hexfloe_catalog::Error::Settings("bad request".to_owned())),
            Some(Fault::After(act)) => {
                act().await;
                self.inner.commit_together(requests).await
            }
        }
    }
}

async fn both() -> (World, World) {
    let cities = World::new().await;
    let people = cities.beside("people").await;
    (cities, people)
}

async fn have_it(cities: &World, people: &World) {
    for world in [cities, people] {
        assert_eq!(world.rows().await, rows("one", 0..3));
        assert_eq!((world.ledger().await.len(), world.snapshots().await), (1, 1));
    }
}

#[rstest]
#[case::nothing_goes_wrong(None, &[2])]
#[case::the_answer_is_lost(Some(Fault::LoseAnswer), &[2])]
#[case::a_second_copy_is_refused(Some(Fault::Resend), &[2])]
#[case::the_request_is_lost(Some(Fault::Vanish), &[2, 2])]
#[tokio::test]
async fn all_tables_have_their_batch_in_one_snapshot_each(#[case] fault: Option<Fault>, #[case] sent: &[usize]) {
    let (cities, people) = both().await;
    let (cities, port) = cities.through(script(fault));
    let batches = [cities.batch("one", 0..3).await, people.batch("one", 0..3).await];
    let outcomes = cities.committer().commit_together(&batches).await.unwrap();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, BatchOutcome::Committed { .. })), "{outcomes:?}");
    assert_eq!(*port.sent.lock().unwrap(), sent);
    have_it(&cities, &people).await;
    // A request that may still arrive keeps its files.
    let lost = sent.len() > 1;
    let left = [cities.files().await, people.files().await];
    for (world, left) in std::iter::zip([&cities, &people], &left) {
        assert_eq!(left.difference(&world.referenced().await).count(), if lost { 2 } else { 0 });
    }

    // Again, with files of its own: they go.
    let batches = [cities.batch("one", 0..3).await, people.batch("one", 0..3).await];
    let outcomes = cities.committer().commit_together(&batches).await.unwrap();
    assert!(outcomes.iter().all(is_skipped), "{outcomes:?}");
    assert_eq!(port.sent.lock().unwrap().len(), sent.len());
    have_it(&cities, &people).await;
    assert_eq!([cities.files().await, people.files().await], left);
}

#[tokio::test]
async fn a_table_that_has_its_batch_is_left_as_it_is() {
    let (cities, people) = both().await;
    people.ingest("one", 0..3).await;
    let (cities, port) = cities.through(script([]));
    let batches = [cities.batch("one", 0..3).await, people.batch("one", 0..3).await];
    let outcomes = cities.committer().commit_together(&batches).await.unwrap();
    assert!(is_skipped(&outcomes[1]), "{outcomes:?}");
    committed(&outcomes[0]);
    assert_eq!(*port.sent.lock().unwrap(), [1]);
    have_it(&cities, &people).await;
}

#[rstest]
#[case::of_the_first_table(true)]
#[case::of_the_last_table(false)]
#[tokio::test]
async fn a_rival_of_one_table_keeps_the_other_unchanged_until_all_can_be_committed(#[case] first: bool) {
    let (cities, people) = both().await;
    let disturbed = if first { cities.clone() } else { people.clone() };
    let (before, watched) = (disturbed.batch("other", 10..13).await, [cities.clone(), people.clone()]);
    let act = rival(move || {
        let (disturbed, before) = (disturbed.clone(), before.clone());
        async move {
            committed(&disturbed.commit(&before).await.unwrap());
        }
    });
    let (cities, port) = cities.through(script([Fault::After(act)]));
    let batches = [cities.batch("one", 0..3).await, people.batch("one", 0..3).await];
    let outcomes = cities.committer().commit_together(&batches).await.unwrap();
    let ids: Vec<i64> = outcomes.iter().map(committed).collect();
    assert_eq!(*port.sent.lock().unwrap(), [2, 2], "the first is a conflict as a whole");
    for (world, id) in std::iter::zip(&watched, ids) {
        assert_eq!(world.load().await.metadata().current_snapshot_id(), Some(id));
        assert_eq!(world.rows().await.iter().filter(|row| rows("one", 0..3).contains(row)).count(), 3);
        world.assert_nothing_left_behind().await;
    }
    assert_eq!(watched[0].snapshots().await + watched[1].snapshots().await, 3);
}

#[tokio::test]
async fn a_refusal_leaves_no_table_changed_and_no_file_behind() {
    let (cities, people) = both().await;
    let (cities, _) = cities.through(script([Fault::Refuse]));
    let batches = [cities.batch("one", 0..3).await, people.batch("one", 0..3).await];
    let error = cities.committer().commit_together(&batches).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    for world in [&cities, &people] {
        assert_eq!((world.rows().await.len(), world.snapshots().await), (0, 0));
        world.assert_nothing_left_behind().await;
    }
}

#[tokio::test]
async fn what_stays_unknown_keeps_every_file() {
    let (cities, people) = both().await;
    let lost = std::iter::repeat_n(Fault::Vanish, 10);
    let (cities, _) = cities.through(script(lost));
    let batches = [cities.batch("one", 0..3).await, people.batch("one", 0..3).await];
    let error = cities.committer().commit_together(&batches).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    for (world, batch) in std::iter::zip([&cities, &people], &batches) {
        let there = world.files().await;
        assert!(batch.files.iter().all(|file| there.iter().any(|path| file.file_path().ends_with(path.as_str()))));
    }
}

#[tokio::test]
async fn two_batches_of_one_table_are_refused() {
    let (cities, _) = both().await;
    let batches = [cities.batch("one", 0..3).await, cities.batch("two", 3..6).await];
    let error = cities.committer().commit_together(&batches).await.unwrap_err();
    assert!(matches!(error, Error::Inconsistent { .. }) && error.to_string().contains("places.cities"), "{error}");
    cities.assert_nothing_left_behind().await;
}
