//! A verdict as other programs and people read it.

mod html;
mod junit;

pub use html::html;
pub use junit::junit;

/// Text within XML and HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(character),
            // XML 1.0 has no place for them.
            control if control.is_control() => escaped.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::verdict::{Fate, Moment, Played, Verdict};

    pub(crate) fn verdict() -> Verdict {
        let played = |name: &str, fate, reason: Option<&str>| Played {
            name: name.to_owned(),
            promise: format!("the promise of {name}"),
            fate,
            reason: reason.map(str::to_owned),
            took_ms: 1_234,
            processes: 3,
            kills: 1,
            faults: 2,
            looks: 4,
            timeline: vec![Moment {
                at_ms: 17,
                who: "first run".to_owned(),
                what: "ends <b>badly</b> & \u{1}".to_owned(),
            }],
        };
        Verdict {
            version: 1,
            catalog: "lake".to_owned(),
            kind: "sql",
            warehouse: "file:lake/warehouse".to_owned(),
            namespace: "scratch_hexfloe_1".to_owned(),
            seed: 7,
            holds: false,
            sentence: String::new(),
            scenarios: vec![
                played("fine", Fate::Held, None),
                played("bad", Fate::Broken, Some("5 rows are missing \"for good\"")),
                played("away", Fate::NotRun, Some("no server")),
                played("none", Fate::NotApplicable, Some("no network")),
            ],
            left: Vec::new(),
            took_ms: 5_000,
        }
        .conclude()
    }

    #[test]
    fn what_breaks_is_the_verdict_and_what_was_not_run_is_no_proof() {
        let all = verdict();
        assert!(!all.holds);
        assert!(
            all.sentence.contains("the promise of bad") && all.sentence.contains("5 rows are missing"),
            "{}",
            all.sentence
        );
        let without = |fates: &[Fate]| {
            let mut verdict = verdict();
            verdict.scenarios.retain(|played| !fates.contains(&played.fate));
            verdict.conclude()
        };
        let unknown = without(&[Fate::Broken]);
        assert!(!unknown.holds && unknown.sentence.contains("could not be verified"), "{}", unknown.sentence);
        let held = without(&[Fate::Broken, Fate::NotRun]);
        assert!(held.holds && held.sentence.contains("holds: 1 scenarios"), "{}", held.sentence);
    }
}
