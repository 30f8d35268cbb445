//! JUnit's XML, which CI systems read.

use std::fmt::Write as _;

use crate::report::escaped;
use crate::verdict::{Fate, Moment, Verdict};

/// A test case for each scenario: failed, if its promise was broken; in error, if it could not be played.
pub fn junit(verdict: &Verdict) -> String {
    let count = |fate| verdict.of(fate).count();
    let seconds = Moment::seconds(verdict.took_ms);
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    let suite = escaped(&format!("hexfloe verify {}", verdict.catalog));
    let (tests, failures, errors) = (verdict.scenarios.len(), count(Fate::Broken), count(Fate::NotRun));
    let skipped = count(Fate::NotApplicable);
    // Writing into a text does not fail.
    let _ = writeln!(
        text,
        "<testsuite name=\"{suite}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\" time=\"{seconds:.3}\">"
    );
    for played in &verdict.scenarios {
        let (name, seconds) = (escaped(&played.name), Moment::seconds(played.took_ms));
        let _ = write!(text, "  <testcase classname=\"hexfloe.verify\" name=\"{name}\" time=\"{seconds:.3}\">");
        let reason = escaped(played.reason.as_deref().unwrap_or_default());
        let timeline: String = played.timeline.iter().map(|moment| format!("{moment}\n")).collect();
        let timeline = escaped(&timeline);
        let _ = match played.fate {
            Fate::Held => Ok(()),
            Fate::Broken => write!(text, "<failure message=\"{reason}\">{timeline}</failure>"),
            Fate::NotRun => write!(text, "<error message=\"{reason}\">{timeline}</error>"),
            Fate::NotApplicable => write!(text, "<skipped message=\"{reason}\"/>"),
        };
        text.push_str("</testcase>\n");
    }
    text.push_str("</testsuite>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::verdict;

    #[test]
    fn each_fate_has_its_element_and_text_is_escaped() {
        let text = junit(&verdict());
        assert!(text.contains("tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\" time=\"5.000\""), "{text}");
        assert!(text.contains("<failure message=\"5 rows are missing &quot;for good&quot;\">"), "{text}");
        assert!(text.contains("ends &lt;b&gt;badly&lt;/b&gt; &amp; \u{fffd}"), "{text}");
        assert!(text.contains("name=\"fine\" time=\"1.234\"></testcase>"), "{text}");
    }
}
