//! What happened in a run, for people: one line an event, with the time since the start, the actor, and what it did.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::AddAssign;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Virtual milliseconds since the run began.
    pub at_ms: i64,
    /// Who.
    pub actor: String,
    /// What: `put`, `delete`, `swap`, `stalls`, …
    pub deed: &'static str,
    /// To what, or with what result.
    pub about: String,
}

/// The events of a run, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    pub(crate) events: Vec<Event>,
    pub(crate) steps: u64,
}

impl Timeline {
    /// The events.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How much of everything there was in it.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally { runs: 1, steps: self.steps, deeds: BTreeMap::new() };
        for event in &self.events {
            let mut name = event.deed.to_owned();
            if let ("fault", Some((fault, _))) = (event.deed, event.about.split_once(':')) {
                let fault = fault.split_once(" by ").map_or(fault, |(fault, _)| fault);
                name = format!("fault: {fault}");
            }
            *tally.deeds.entry(name).or_default() += 1;
        }
        tally
    }

    /// A number that two runs share when the same things were done at the same times.
    ///
    /// The order in which files are read, and in which those of one attempt are removed, follows the hash maps of the libraries
    /// under test, which differ from process to process. So reads are only counted; which file a removal was about, and before
    /// which of several reads somebody stalled, does not matter.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut reads: BTreeMap<&str, u64> = BTreeMap::new();
        for event in &self.events {
            if matches!(event.deed, "read" | "read missing") {
                *reads.entry(&event.actor).or_default() += 1;
                continue;
            }
            (event.at_ms, &event.actor, event.deed).hash(&mut hasher);
            if !matches!(event.deed, "delete" | "stalls" | "dies" | "fault") {
                event.about.hash(&mut hasher);
            }
        }
        reads.hash(&mut hasher);
        hasher.finish()
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = |of: fn(&Event) -> &str| self.events.iter().map(|event| of(event).chars().count()).max();
        let actors = widest(|event| &event.actor).unwrap_or(0);
        let deeds = widest(|event| event.deed).unwrap_or(0);
        let mut line = |event: &Event, deed: &str, about: &str| {
            let line = format!("{}  {:actors$}  {deed:deeds$}  {about}", Elapsed(event.at_ms), event.actor);
            writeln!(f, "{}", line.trim_end())
        };
        // Reads and pages of listings are most of it, and say little: runs of them are counted.
        let mut events = self.events.iter().peekable();
        while let Some(event) = events.next() {
            let is_like = |next: &&Event| next.deed == event.deed && next.actor == event.actor;
            let mut times = 1;
            while matches!(event.deed, "read" | "lists") && events.next_if(is_like).is_some() {
                times += 1;
            }
            match (event.deed, times) {
                (_, 1) => line(event, event.deed, &event.about)?,
                ("read", _) => line(event, "reads", &format!("{times} files"))?,
                (deed, _) => line(event, deed, &format!("{times} pages"))?,
            }
        }
        Ok(())
    }
}

/// How much of everything there was in some runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs.
    pub runs: u64,
    /// Gates that were opened, stalls and deaths.
    pub steps: u64,
    deeds: BTreeMap<String, u64>,
}

impl Tally {
    /// How often something was done or happened, by the name it has in a [`Timeline`]; of faults by `fault: ` and their name.
    pub fn of(&self, deed: &str) -> u64 {
        self.deeds.get(deed).copied().unwrap_or(0)
    }
}

impl AddAssign<&Self> for Tally {
    fn add_assign(&mut self, other: &Self) {
        self.runs += other.runs;
        self.steps += other.steps;
        for (deed, times) in &other.deeds {
            *self.deeds.entry(deed.clone()).or_default() += times;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>12} runs", self.runs)?;
        writeln!(f, "{:>12} steps", self.steps)?;
        self.deeds.iter().try_for_each(|(deed, times)| writeln!(f, "{times:>12} {deed}"))
    }
}

/// Virtual time as days, hours, minutes and seconds.
pub(crate) struct Elapsed(pub(crate) i64);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(1_000);
        let (minutes, hours, days) = (seconds / 60 % 60, seconds / 3_600 % 24, seconds / 86_400);
        write!(f, "{days:>2}d {hours:02}:{minutes:02}:{:02}", seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at_ms: i64, deed: &'static str, about: &str) -> Event {
        Event { at_ms, actor: "writer 1".to_owned(), deed, about: about.to_owned() }
    }

    fn timeline(events: Vec<Event>) -> Timeline {
        Timeline { events, steps: 7 }
    }

    #[test]
    fn a_timeline_reads_in_columns_with_reads_together() {
        let fault = Event { actor: "a".to_owned(), ..event(90_061_100, "fault", "lost reply: commit places") };
        let timeline = timeline(vec![
            event(5, "put", "data/a"),
            event(90_061_006, "read", "b"),
            event(90_061_007, "read", "c"),
            fault,
            event(90_062_000, "read", "d"),
            event(90_062_000, "ends", ""),
        ]);
        let lines = [
            " 0d 00:00:00  writer 1  put    data/a",
            " 1d 01:01:01  writer 1  reads  2 files",
            " 1d 01:01:01  a         fault  lost reply: commit places",
            " 1d 01:01:02  writer 1  read   d",
            " 1d 01:01:02  writer 1  ends",
            "",
        ];
        assert_eq!(timeline.to_string(), lines.join("\n"));
    }

    #[test]
    fn what_happens_is_counted_and_added_up() {
        let late = event(1, "fault", "delayed by 50 ms: put data/a");
        let mut tally = timeline(vec![event(1, "read", "a"), event(1, "read", "b"), late]).tally();
        tally += &tally.clone();
        assert_eq!((tally.runs, tally.steps, tally.of("read"), tally.of("fault: delayed")), (2, 14, 4, 2));
        assert_eq!(tally.of("conflict"), 0);
    }

    #[test]
    fn which_file_is_read_first_does_not_tell_runs_apart_and_what_is_put_does() {
        let digest = |deed, about| timeline(vec![event(1, deed, about)]).digest();
        assert_eq!(digest("read", "a"), digest("read", "b"));
        assert_ne!(digest("put", "a"), digest("put", "b"));
    }
}
