//! One page for people, which needs nothing from elsewhere.

use std::fmt::Write as _;

use crate::report::escaped;
use crate::verdict::{Fate, Moment, Played, Verdict};

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c2127;--dim:#5b6672;--line:#d9dee4;--ground:#fff;--good:#12693b;--bad:#b3261e;--warn:#8a5a00;--soft:#f4f6f8}\
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ec;--dim:#9aa6b2;--line:#39424c;--ground:#16191d;--good:#6fcf97;--bad:#ff8a80;--warn:#f2c14e;--soft:#1f242a}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--ground);margin:0 auto;max-width:74rem;padding:1.5rem}\
h1{font-size:1.35rem;margin:0 0 .25rem}h2{font-size:1.05rem;margin:2rem 0 .5rem}\
.verdict{border-left:.35rem solid var(--good);background:var(--soft);padding:.75rem 1rem;margin:1rem 0;font-size:1.05rem}\
.verdict.broken{border-color:var(--bad)}.verdict.not_run{border-color:var(--warn)}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;color:var(--dim);margin:0}dd{margin:0;color:var(--ink);overflow-wrap:anywhere}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.3rem .6rem .3rem 0;border-bottom:1px solid var(--line)}\
th{color:var(--dim);font-weight:600}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\
.fate{white-space:nowrap;font-weight:600}.held{color:var(--good)}.broken .fate,.fate.broken{color:var(--bad)}.fate.not_run{color:var(--warn)}.fate.not_applicable{color:var(--dim)}\
code,.line{font:13px/1.45 ui-monospace,monospace}.reason{color:var(--bad);overflow-wrap:anywhere}.promise{color:var(--dim)}\
details{border-bottom:1px solid var(--line);padding:.35rem 0}summary{cursor:pointer}\
ol{list-style:none;margin:.5rem 0;padding:0}.line{display:grid;grid-template-columns:5.5rem 10rem 1fr;gap:.75rem;overflow-wrap:anywhere}.line span:first-child{text-align:right;color:var(--dim)}\
@media print{details{break-inside:avoid}}";

/// The verdict, a table by scenario, and the timeline of each; those of scenarios that failed are open.
pub fn html(verdict: &Verdict) -> String {
    let mut page = String::new();
    // Writing into a text does not fail.
    let _ =
        head(&mut page, verdict).and_then(|()| table(&mut page, verdict)).and_then(|()| timelines(&mut page, verdict));
    page.push_str("</body>\n</html>\n");
    page
}

fn class(fate: Fate) -> &'static str {
    match fate {
        Fate::Held => "held",
        Fate::Broken => "broken",
        Fate::NotRun => "not_run",
        Fate::NotApplicable => "not_applicable",
    }
}

fn word(fate: Fate) -> &'static str {
    match fate {
        Fate::NotApplicable => "not applicable",
        other => other.word(),
    }
}

fn head(page: &mut String, verdict: &Verdict) -> std::fmt::Result {
    let worst = [Fate::Broken, Fate::NotRun].into_iter().find(|fate| verdict.of(*fate).next().is_some());
    let title = escaped(&format!("Verification of catalog {}", verdict.catalog));
    writeln!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p class=\"verdict {}\">{}</p>",
        worst.map_or("held", class),
        escaped(&verdict.sentence),
    )?;
    let count = |fate| verdict.of(fate).count();
    let facts = [
        (
            "Scenarios",
            format!(
                "{} held, {} broken, {} not run, {} not applicable",
                count(Fate::Held),
                count(Fate::Broken),
                count(Fate::NotRun),
                count(Fate::NotApplicable)
            ),
        ),
        ("Catalog", format!("{} ({})", verdict.catalog, verdict.kind)),
        ("Warehouse", verdict.warehouse.clone()),
        ("Worked in", format!("namespace {}", verdict.namespace)),
        (
            "Processes",
            format!(
                "{}, of them {} killed; {} faults; {} looks at tables",
                verdict.sum(|played| played.processes),
                verdict.sum(|played| played.kills),
                verdict.sum(|played| played.faults),
                verdict.sum(|played| played.looks)
            ),
        ),
        ("Took", format!("{:.1} s", Moment::seconds(verdict.took_ms))),
        ("Seed", verdict.seed.to_string()),
        ("Left behind", if verdict.left.is_empty() { "nothing".to_owned() } else { verdict.left.join("; ") }),
    ];
    page.push_str("<dl>\n");
    for (name, value) in facts {
        writeln!(page, "<dt>{name}</dt><dd>{}</dd>", escaped(&value))?;
    }
    page.push_str("</dl>\n");
    Ok(())
}

fn table(page: &mut String, verdict: &Verdict) -> std::fmt::Result {
    page.push_str(
        "<h2>Scenarios</h2>\n<table>\n<tr><th></th><th>scenario</th><th>what is promised</th><th class=\"n\">processes</th>\
         <th class=\"n\">killed</th><th class=\"n\">faults</th><th class=\"n\">looks</th><th class=\"n\">seconds</th></tr>\n",
    );
    for played in &verdict.scenarios {
        let Played { name, promise, fate, reason, took_ms, processes, kills, faults, looks, .. } = played;
        let reason = reason.as_ref().map_or_else(String::new, |reason| {
            let class = if *fate == Fate::NotApplicable { "promise" } else { "reason" };
            format!("<div class=\"{class}\">{}</div>", escaped(reason))
        });
        writeln!(
            page,
            "<tr><td class=\"fate {}\">{}</td><td><a href=\"#{name}\"><code>{name}</code></a></td><td>{}{reason}</td>\
             <td class=\"n\">{processes}</td><td class=\"n\">{kills}</td><td class=\"n\">{faults}</td><td class=\"n\">{looks}</td>\
             <td class=\"n\">{:.1}</td></tr>",
            class(*fate),
            word(*fate),
            escaped(promise),
            Moment::seconds(*took_ms),
        )?;
    }
    page.push_str("</table>\n");
    Ok(())
}

fn timelines(page: &mut String, verdict: &Verdict) -> std::fmt::Result {
    page.push_str("<h2>What happened</h2>\n");
    let failed = |played: &&Played| matches!(played.fate, Fate::Broken | Fate::NotRun);
    let (first, then): (Vec<&Played>, Vec<&Played>) = verdict.scenarios.iter().partition(failed);
    for played in first.into_iter().chain(then) {
        let Played { name, fate, timeline, .. } = played;
        let open = if failed(&played) { " open" } else { "" };
        writeln!(
            page,
            "<details id=\"{name}\"{open}><summary><span class=\"fate {}\">{}</span> <code>{name}</code></summary>\n<ol>",
            class(*fate),
            word(*fate),
        )?;
        for Moment { at_ms, who, what } in timeline {
            let (at, who, what) = (Moment::seconds(*at_ms), escaped(who), escaped(what));
            writeln!(page, "<li class=\"line\"><span>{at:.3} s</span><span>{who}</span><span>{what}</span></li>")?;
        }
        page.push_str("</ol></details>\n");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::verdict;

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_opens_what_failed() {
        let page = html(&verdict());
        for outside in ["http://", "https://", "<script", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("<details id=\"bad\" open>") && page.contains("<details id=\"away\" open>"), "{page}");
        assert!(page.contains("<details id=\"fine\">"), "{page}");
        assert!(page.contains("ends &lt;b&gt;badly&lt;/b&gt; &amp; "), "{page}");
        let (bad, fine) = (page.find("<details id=\"bad\""), page.find("<details id=\"fine\""));
        assert!(bad < fine, "what failed comes first");
    }
}
