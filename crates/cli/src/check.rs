//! `hexfloe check`.

use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use hexfloe_catalog::{CheckReport, SelfTest, Verdict};
use iceberg::NamespaceIdent;
use serde::Serialize;

use crate::arguments::CheckArguments;
use crate::exit::Failure;
use crate::{display, environment, open};

#[derive(Serialize)]
struct Checked {
    version: u32,
    holds: bool,
    #[serde(flatten)]
    report: CheckReport,
}

pub(crate) async fn run(arguments: CheckArguments) -> Result<ExitCode, Failure> {
    let (settings, base) = open::settings(arguments.catalog.as_deref())?;
    let namespace = arguments.namespace.map(|name| NamespaceIdent::from_strs(name.split('.')));
    let namespace = namespace.transpose().map_err(|error| Failure::configuration(error.message()))?;
    let environment = environment::system();
    let now = || UNIX_EPOCH + Duration::from_millis(u64::try_from(environment.now_ms()).unwrap_or(0));
    let test = SelfTest { settings: &settings, base: &base, id: environment.uuid(), now: &now, namespace };
    let report = test.run().await?;
    let holds = report.holds();
    if arguments.json {
        display::json(&Checked { version: 1, holds, report })?;
    } else {
        display::print(&told(&report))?;
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn told(report: &CheckReport) -> String {
    let mut text = format!("catalog {} ({})\n", report.catalog, report.kind);
    for finding in &report.findings {
        let verdict = match finding.verdict {
            Verdict::Held => "ok",
            Verdict::Broken => "BROKEN",
            Verdict::Noted => "note",
        };
        text.push_str(&format!("  {verdict:<8}{}: {}\n", finding.check, finding.detail));
    }
    text.push_str(match report.holds() {
        true => "the guarantee holds here\n",
        false => "the guarantee does not hold here: do not ingest through this catalog\n",
    });
    text
}
