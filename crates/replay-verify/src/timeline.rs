//! What happened in a run, for people: one line an event, with the time since the start, the actor, and what it did.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

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
pub struct Timeline(pub(crate) Vec<Event>);

impl Timeline {
    /// The events.
    pub fn events(&self) -> &[Event] {
        &self.0
    }

    /// A number that two runs share when the same things were done at the same times.
    ///
    /// The order in which files are read, and in which those of one attempt are removed, follows the hash maps of the libraries
    /// under test, which differ from process to process. So reads are only counted; which file a removal was about, and before
    /// which of several reads somebody stalled, does not matter.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut reads: BTreeMap<&str, u64> = BTreeMap::new();
        for event in &self.0 {
            if matches!(event.deed, "read" | "read missing") {
                *reads.entry(&event.actor).or_default() += 1;
                continue;
            }
            (event.at_ms, &event.actor, event.deed).hash(&mut hasher);
            if !matches!(event.deed, "delete" | "stalls" | "dies") {
                event.about.hash(&mut hasher);
            }
        }
        reads.hash(&mut hasher);
        hasher.finish()
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Reads are most of it, and say little: runs of them are counted.
        let mut events = self.0.iter().peekable();
        while let Some(event) = events.next() {
            let Event { at_ms, actor, deed, about } = event;
            let mut more = 0;
            while *deed == "read" && events.next_if(|next| next.deed == "read" && next.actor == *actor).is_some() {
                more += 1;
            }
            write!(f, "{} {actor:<12} {deed} {about}", Elapsed(*at_ms))?;
            if more > 0 {
                write!(f, " and {more} more")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Virtual time as days, hours, minutes, seconds and milliseconds.
pub(crate) struct Elapsed(pub(crate) i64);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, ms) = (self.0.div_euclid(1_000), self.0.rem_euclid(1_000));
        let (minutes, hours, days) = (seconds / 60 % 60, seconds / 3_600 % 24, seconds / 86_400);
        write!(f, "{days:>2}d {hours:02}:{minutes:02}:{:02}.{ms:03}", seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at_ms: i64, deed: &'static str, about: &str) -> Event {
        Event { at_ms, actor: "writer 1".to_owned(), deed, about: about.to_owned() }
    }

    #[test]
    fn a_timeline_reads_as_days_and_hours() {
        let timeline = Timeline(vec![
            event(90_061_005, "put", "data/a"),
            event(90_061_006, "read", "b"),
            event(90_061_007, "read", "c"),
        ]);
        assert_eq!(
            timeline.to_string(),
            " 1d 01:01:01.005 writer 1     put data/a\n 1d 01:01:01.006 writer 1     read b and 1 more\n"
        );
    }

    #[test]
    fn which_file_is_read_first_does_not_tell_runs_apart_and_what_is_put_does() {
        let digest = |deed, about| Timeline(vec![event(1, deed, about)]).digest();
        assert_eq!(digest("read", "a"), digest("read", "b"));
        assert_ne!(digest("put", "a"), digest("put", "b"));
    }
}
