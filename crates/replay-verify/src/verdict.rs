//! What a verification came to.

use std::fmt;

use serde::Serialize;

/// What became of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// The promise was kept.
    Held,
    /// It was broken.
    Broken,
    /// It could not be played to its end; that says nothing about the promise.
    NotRun,
    /// It makes no sense with this catalog and store.
    NotApplicable,
}

/// Something that happened in a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// Milliseconds since the scenario began.
    pub at_ms: u64,
    /// Who did it.
    pub who: String,
    /// What.
    pub what: String,
}

/// What was seen of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Played {
    /// The scenario.
    pub name: String,
    /// What is promised.
    pub promise: String,
    /// What became of it.
    pub fate: Fate,
    /// What is wrong, or why it was not played.
    pub reason: Option<String>,
    /// How long it took.
    pub took_ms: u64,
    /// How many processes were started, and how many of them killed.
    pub processes: u32,
    /// Of these, how many were killed.
    pub kills: u32,
    /// What went wrong by order: faults in processes, and requests that the network failed.
    pub faults: u32,
    /// How many times a table was compared with what it has to be.
    pub looks: u32,
    /// What happened, in order.
    pub timeline: Vec<Moment>,
}

/// The whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// 1; keys are only ever added.
    pub version: u32,
    /// The catalog's name.
    pub catalog: String,
    /// `sql` or `rest`.
    pub kind: &'static str,
    /// Where tables are.
    pub warehouse: String,
    /// The namespace that was worked in.
    pub namespace: String,
    /// Where random moments came from.
    pub seed: u64,
    /// Whether no promise was broken and all could be tried.
    pub holds: bool,
    /// The verdict in a sentence.
    pub sentence: String,
    /// By scenario.
    pub scenarios: Vec<Played>,
    /// What could not be taken away again.
    pub left: Vec<String>,
    /// How long it took.
    pub took_ms: u64,
}

impl Fate {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Broken => "BROKEN",
            Self::NotRun => "not run",
            Self::NotApplicable => "n/a",
        }
    }
}

impl Verdict {
    /// The scenarios with a fate.
    pub fn of(&self, fate: Fate) -> impl Iterator<Item = &Played> {
        self.scenarios.iter().filter(move |played| played.fate == fate)
    }

    /// Sums something up over all scenarios.
    pub fn sum(&self, of: impl Fn(&Played) -> u32) -> u32 {
        self.scenarios.iter().map(of).sum()
    }

    /// Finds the verdict.
    pub(crate) fn conclude(mut self) -> Self {
        let count = |fate| self.of(fate).count();
        let (broken, not_run, held) = (count(Fate::Broken), count(Fate::NotRun), count(Fate::Held));
        self.holds = broken == 0 && not_run == 0;
        let place = format!("catalog {} ({}, {})", self.catalog, self.kind, self.warehouse);
        let sentence = match (self.of(Fate::Broken).next(), self.of(Fate::NotRun).next()) {
            (Some(first), _) => {
                let more = if broken > 1 { format!("; and {} more", broken - 1) } else { String::new() };
                let reason = first.reason.as_deref().unwrap_or_default();
                format!("{place} breaks a promise: {} ({}: {reason}){more}", first.promise, first.name)
            }
            (None, Some(first)) => {
                let reason = first.reason.as_deref().unwrap_or_default();
                format!(
                    "{place} could not be verified: {not_run} of {} scenarios were not played to their end (the first: {}: {reason})",
                    held + not_run,
                    first.name
                )
            }
            (None, None) => format!(
                "{place} holds: {held} scenarios with {} processes, {} of them killed, and {} faults lost nothing and doubled nothing",
                self.sum(|played| played.processes),
                self.sum(|played| played.kills),
                self.sum(|played| played.faults),
            ),
        };
        self.sentence = sentence;
        self
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8.3} s  {:<14} {}", Self::seconds(self.at_ms), self.who, self.what)
    }
}

impl Moment {
    /// Seconds of milliseconds.
    pub(crate) fn seconds(ms: u64) -> f64 {
        std::time::Duration::from_millis(ms).as_secs_f64()
    }
}
