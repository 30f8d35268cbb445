//! What may happen next, and what comes of it.

use crate::files::{Attempt, File, Files};
use crate::guards::Guard;
use crate::protocol::Protocol;
use crate::state::{Answer, Base, Cleaner, LATE, MARGIN, ON_THE_WAY, Outcome, Phase, Request, State, Writer};
use crate::table::{Place, Snapshot};
use crate::tidy::tidy;

/// One step of somebody. Writers are named by their number, requests by the attempt that sent them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    WritesDataFile(usize),
    Loads(usize),
    /// The same, and no summary tells any more what it holds.
    LoadsWithoutSummaries(usize),
    Drafts(usize),
    Sends(usize),
    SendsTwice(usize),
    /// The catalog gets a copy, and its answer arrives.
    Delivers(Attempt),
    /// The catalog gets a copy, and nobody hears of it.
    DeliversUnheard(Attempt),
    /// Somebody on the way says no, and the request goes on.
    IsRefusedOnTheWay(Attempt),
    HasNoAnswer(usize),
    LooksALastTime(usize),
    AsksWhatToRemove(usize),
    Removes(usize),
    Dies(usize),
    CleanerLoads,
    CleanerLists,
    CleanerLoadsAgain,
    CleanerDeletes,
    GoesBack(Place),
    EngineGoesBack(Place),
    TimeGoesBy,
}

impl Step {
    /// Every name that there is.
    pub(crate) const NAMES: [&str; 21] = [
        "writes its data file",
        "loads and decides",
        "loads and decides without summaries",
        "writes its manifests and looks for its data file",
        "sends its request",
        "sends its request, which is delivered twice",
        "is answered",
        "is answered, and the answer is lost",
        "is refused on the way",
        "has no answer",
        "looks a last time",
        "asks what it may remove",
        "removes",
        "dies",
        "cleaner loads",
        "cleaner lists",
        "cleaner loads again",
        "cleaner deletes",
        "goes back",
        "another engine goes back",
        "time goes by",
    ];

    /// What the table of code paths calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::WritesDataFile(_) => "writes its data file",
            Self::Loads(_) => "loads and decides",
            Self::LoadsWithoutSummaries(_) => "loads and decides without summaries",
            Self::Drafts(_) => "writes its manifests and looks for its data file",
            Self::Sends(_) => "sends its request",
            Self::SendsTwice(_) => "sends its request, which is delivered twice",
            Self::Delivers(_) => "is answered",
            Self::DeliversUnheard(_) => "is answered, and the answer is lost",
            Self::IsRefusedOnTheWay(_) => "is refused on the way",
            Self::HasNoAnswer(_) => "has no answer",
            Self::LooksALastTime(_) => "looks a last time",
            Self::AsksWhatToRemove(_) => "asks what it may remove",
            Self::Removes(_) => "removes",
            Self::Dies(_) => "dies",
            Self::CleanerLoads => "cleaner loads",
            Self::CleanerLists => "cleaner lists",
            Self::CleanerLoadsAgain => "cleaner loads again",
            Self::CleanerDeletes => "cleaner deletes",
            Self::GoesBack(_) => "goes back",
            Self::EngineGoesBack(_) => "another engine goes back",
            Self::TimeGoesBy => "time goes by",
        }
    }
}

impl Protocol {
    /// What may happen next.
    pub(crate) fn possible(&self, state: &State, steps: &mut Vec<Step>) {
        for (number, writer) in state.writers.iter().enumerate() {
            self.writers_steps(number, writer, state, steps);
        }
        for request in &state.requests {
            let writer = request.by.run.writer();
            if state.writers[writer].waits_for(writer) == Some(request.by) {
                steps.extend([Step::Delivers(request.by), Step::IsRefusedOnTheWay(request.by)]);
            }
            steps.push(Step::DeliversUnheard(request.by));
        }
        steps.push(match state.cleaner {
            Cleaner::Away => Step::CleanerLoads,
            Cleaner::Loaded(_) => Step::CleanerLists,
            Cleaner::Listed(_) => Step::CleanerLoadsAgain,
            Cleaner::Deleting(_) => Step::CleanerDeletes,
        });
        if !state.table.went_back {
            for place in state.table.line(state.table.head).skip(1) {
                steps.extend([Step::GoesBack(place), Step::EngineGoesBack(place)]);
            }
        }
        steps.push(Step::TimeGoesBy);
    }

    fn writers_steps(&self, number: usize, writer: &Writer, state: &State, steps: &mut Vec<Step>) {
        match writer.phase {
            Phase::Over if writer.runs < self.runs[number] => steps.push(Step::WritesDataFile(number)),
            Phase::Over => {}
            Phase::Loading if !writer.has_attempts_left() => steps.push(Step::LooksALastTime(number)),
            Phase::Loading => {
                steps.push(Step::Loads(number));
                if self.may_be_forgotten(number, state) {
                    steps.push(Step::LoadsWithoutSummaries(number));
                }
            }
            Phase::Decided(_) => steps.push(Step::Drafts(number)),
            Phase::Drafted(base) => {
                steps.push(Step::Sends(number));
                if state.may_double && !base.is_stale(&state.table) {
                    steps.push(Step::SendsTwice(number));
                }
            }
            Phase::Waiting => steps.push(Step::HasNoAnswer(number)),
            Phase::Concluding => steps.push(Step::AsksWhatToRemove(number)),
            Phase::Removing(_) => steps.push(Step::Removes(number)),
        }
        if writer.is_at_work() {
            steps.push(Step::Dies(number));
        }
    }

    /// Whether it is by a summary alone that the writer's batch is known.
    fn may_be_forgotten(&self, number: usize, state: &State) -> bool {
        let batch = self.batches[number];
        state.table.is_in_summaries(batch) && !self.is_in_ledger(number, state)
    }

    fn is_in_ledger(&self, number: usize, state: &State) -> bool {
        state.table.is_in_ledger(self.batches[number], !self.has(Guard::LedgerCountsOnItsLine))
    }

    /// What comes of a step; `None` when nothing does.
    pub(crate) fn after(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::WritesDataFile(number) => self.write_data_file(&mut state, number),
            Step::Loads(number) => self.load(&mut state, number, true),
            Step::LoadsWithoutSummaries(number) => self.load(&mut state, number, false),
            Step::Drafts(number) => draft(&mut state, number),
            Step::Sends(number) => self.send(&mut state, number, 1),
            Step::SendsTwice(number) => self.send(&mut state, number, 2),
            Step::Delivers(attempt) => self.deliver(&mut state, attempt, true),
            Step::DeliversUnheard(attempt) => self.deliver(&mut state, attempt, false),
            Step::IsRefusedOnTheWay(attempt) => self.refuse_on_the_way(&mut state, attempt),
            Step::HasNoAnswer(number) => self.give_up_waiting(&mut state, number),
            Step::LooksALastTime(number) => self.look_a_last_time(&mut state, number),
            Step::AsksWhatToRemove(number) => ask_what_to_remove(&mut state, number),
            Step::Removes(number) => {
                if let Phase::Removing(files) = state.writers[number].phase {
                    state.delete(files);
                    state.writers[number].end();
                }
            }
            Step::Dies(number) => state.writers[number].end(),
            Step::CleanerLoads => state.cleaner = Cleaner::Loaded(state.table.newest()),
            Step::CleanerLists => self.list(&mut state),
            Step::CleanerLoadsAgain => self.load_again(&mut state),
            Step::CleanerDeletes => {
                if let Cleaner::Deleting(files) = state.cleaner {
                    state.delete(files);
                    state.cleaner = Cleaner::Away;
                }
            }
            Step::GoesBack(to) => state.table.go_back(to, true),
            Step::EngineGoesBack(to) => state.table.go_back(to, false),
            Step::TimeGoesBy => age(&mut state),
        }
        self.see(&mut state);
        if self.is_tidy {
            tidy(&mut state);
        }
        (state != *before).then_some(state)
    }

    fn write_data_file(&self, state: &mut State, number: usize) {
        let writer = Writer { phase: Phase::Loading, ..Writer::new(state.writers[number].runs + 1) };
        state.put(writer.run(number).data_file());
        state.writers[number] = writer;
    }

    /// Loads the table, and decides on it as it is.
    fn load(&self, state: &mut State, number: usize, with_summaries: bool) {
        let base = Base { head: state.table.head, next: state.table.newest() + 1 };
        let again = state.writers[number].sent_count() > 0;
        if again && !self.has(Guard::RecheckInTheLoop) {
            // The request is sent again, on the new head, with what was decided on the old one.
            state.writers[number].phase = Phase::Decided(base);
            return;
        }
        if self.look(state, number) {
            return conclude(state, number, Outcome::Committed);
        }
        let in_summaries = with_summaries && state.table.is_in_summaries(self.batches[number]);
        if in_summaries || self.is_in_ledger(number, state) {
            return conclude(state, number, Outcome::Skipped);
        }
        if self.is_late(&state.writers[number]) {
            return conclude(state, number, Outcome::Failed);
        }
        state.writers[number].phase = Phase::Decided(base);
        state.writers[number].decided_on = base.head;
    }

    /// Whether a request that was sent is in the table; those that never will be are refuted.
    fn look(&self, state: &mut State, number: usize) -> bool {
        let State { table, writers, .. } = state;
        let run = writers[number].run(number);
        let mut landed = false;
        for (answer, attempt) in writers[number].sent.iter_mut().flatten().zip(0..) {
            match *answer {
                _ if table.holds_attempt(run.attempt(attempt)) => landed = true,
                Answer::Denied(base) if base != table.head || !self.has(Guard::RefusalIsDoubted) => {
                    *answer = Answer::Refuted;
                }
                _ => {}
            }
        }
        landed
    }

    fn is_late(&self, writer: &Writer) -> bool {
        writer.age >= LATE && self.has(Guard::LateAttemptRefusal)
    }

    fn send(&self, state: &mut State, number: usize, copies: u8) {
        let writer = &state.writers[number];
        let Phase::Drafted(base) = writer.phase else { return };
        let by = writer.run(number).attempt(writer.sent_count());
        if self.is_late(writer) {
            state.delete([by.manifests()].into_iter().collect());
            return conclude(state, number, Outcome::Failed);
        }
        let mut rows = state.table.rows(base.head);
        if self.has(Guard::ColumnIsTheTruth) {
            let found = state.table.rows(writer.decided_on);
            rows = rows.without(self.batches, self.batches[number], found);
        }
        let request = Request { by, base, rows: rows.with(by.run), copies, age: 0 };
        state.may_double &= copies == 1;
        state.requests.push(request);
        state.requests.sort_unstable_by_key(|request| request.by);
        let writer = &mut state.writers[number];
        writer.sent[usize::from(by.number)] = Some(Answer::Open);
        writer.phase = Phase::Waiting;
    }

    /// The catalog gets a copy of a request, and applies it if it may.
    fn deliver(&self, state: &mut State, by: Attempt, is_heard: bool) {
        let Some(index) = state.request(by) else { return };
        let Request { base, rows, .. } = state.requests[index];
        let compares = self.has(Guard::Requirement);
        let is_stale = base.is_stale(&state.table) && self.has(Guard::SequenceNumbers);
        let is_refused = compares && (base.head != state.table.head || is_stale);
        let applies = !is_refused && !state.table.holds_attempt(by);
        if applies {
            let before = state.table.rows(state.table.head);
            state.table.add(Snapshot { by, batch: self.batches[by.run.writer()], parent: base.head, rows });
            let is_lost = |batch: u8| before.holds(self.batches, batch) && !rows.holds(self.batches, batch);
            state.wrong.overwritten |= self.batches.into_iter().any(is_lost);
        }
        state.requests[index].copies -= 1;
        if state.requests[index].copies == 0 {
            state.requests.remove(index);
        }
        self.see(state);
        if is_heard && applies {
            for answer in state.writers[by.run.writer()].sent.iter_mut().flatten() {
                if matches!(answer, Answer::Denied(_)) {
                    // It is conditioned on a head that is gone.
                    *answer = Answer::Refuted;
                }
            }
            conclude(state, by.run.writer(), Outcome::Committed);
        } else if is_heard {
            answer(state, by, Answer::Denied(base.head));
        }
    }

    fn refuse_on_the_way(&self, state: &mut State, by: Attempt) {
        if let Some(index) = state.request(by) {
            answer(state, by, Answer::Denied(state.requests[index].base.head));
        }
    }

    fn give_up_waiting(&self, state: &mut State, number: usize) {
        if let Some(by) = state.writers[number].waits_for(number) {
            let known = if self.has(Guard::UnknownIsNotFailed) { Answer::Open } else { Answer::Refuted };
            answer(state, by, known);
        }
    }

    /// After the last attempt.
    fn look_a_last_time(&self, state: &mut State, number: usize) {
        let landed = self.look(state, number);
        conclude(state, number, if landed { Outcome::Committed } else { Outcome::Failed });
    }

    fn list(&self, state: &mut State) {
        let Cleaner::Loaded(newest) = state.cleaner else { return };
        let margin = if self.has(Guard::Margin) { MARGIN } else { 0 };
        let referenced = state.referenced(newest);
        let is_old = |file: &File| state.store[file.index()].is_some_and(|age| age >= margin);
        let candidates = File::all().filter(is_old).filter(|file| !referenced.contains(*file)).collect();
        state.cleaner = Cleaner::Listed(candidates);
    }

    fn load_again(&self, state: &mut State) {
        let Cleaner::Listed(candidates) = state.cleaner else { return };
        let referenced =
            if self.has(Guard::SecondReload) { state.referenced(state.table.newest()) } else { Files::default() };
        state.cleaner = Cleaner::Deleting(candidates.without(referenced));
    }

    /// Who is at work sees whether the batch is in the table.
    fn see(&self, state: &mut State) {
        let rows = state.table.rows(state.table.head);
        for (number, writer) in state.writers.iter_mut().enumerate().filter(|(_, writer)| writer.is_at_work()) {
            writer.seen |= rows.holds(self.batches, self.batches[number]);
        }
    }
}

/// The outcome is known. Files of requests that lost go; those of a batch that is not in by a request of ours, after one more
/// look at the table.
fn conclude(state: &mut State, number: usize, outcome: Outcome) {
    let writer = &mut state.writers[number];
    state.wrong.untrue |= outcome != Outcome::Failed && !writer.seen;
    if outcome != Outcome::Committed {
        writer.phase = Phase::Concluding;
        return;
    }
    let is_lost = |(by, answer): &(Attempt, Answer)| *answer == Answer::Refuted && !state.table.holds_attempt(*by);
    let lost: Files = writer.attempts(number).filter(is_lost).map(|(by, _)| by.manifests()).collect();
    remove(writer, lost);
}

pub(crate) fn remove(writer: &mut Writer, files: Files) {
    if files.is_empty() {
        writer.end();
    } else {
        writer.phase = Phase::Removing(files);
    }
}

/// What nothing refers to, of requests that nothing comes of any more.
pub(crate) fn ask_what_to_remove(state: &mut State, number: usize) {
    let writer = &state.writers[number];
    let refuted = writer.attempts(number).filter(|(_, answer)| *answer == Answer::Refuted);
    let mut files: Files = refuted.map(|(by, _)| by.manifests()).collect();
    if writer.attempts(number).all(|(_, answer)| answer == Answer::Refuted) {
        files.insert(writer.run(number).data_file());
    }
    let files = files.without(state.referenced(state.table.newest()));
    remove(&mut state.writers[number], files);
}

/// An answer that did not settle it.
fn answer(state: &mut State, by: Attempt, answer: Answer) {
    let writer = &mut state.writers[by.run.writer()];
    writer.sent[usize::from(by.number)] = Some(answer);
    writer.phase = Phase::Loading;
}

/// Writes the manifests; then files that are not quite new are looked for.
fn draft(state: &mut State, number: usize) {
    let writer = state.writers[number];
    let Phase::Decided(base) = writer.phase else { return };
    let run = writer.run(number);
    if writer.age > 0 && !state.is_there(run.data_file()) {
        return conclude(state, number, Outcome::Failed);
    }
    state.put(run.attempt(writer.sent_count()).manifests());
    state.writers[number].phase = Phase::Drafted(base);
}

/// Everything gets older. A request that is on its way for too long never arrives.
fn age(state: &mut State) {
    for age in state.store.iter_mut().flatten() {
        *age = (*age + 1).min(MARGIN);
    }
    for writer in state.writers.iter_mut().filter(|writer| writer.is_at_work()) {
        writer.age = (writer.age + 1).min(LATE);
    }
    state.requests.iter_mut().for_each(|request| request.age += 1);
    state.requests.retain(|request| request.age <= ON_THE_WAY);
}
