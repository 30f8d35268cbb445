//! Figures for Prometheus, as a text file for node_exporter's textfile collector.

use std::collections::BTreeMap;
use std::path::Path;

use crate::cleanup::{Cleaned, Outcome};
use crate::exit::Failure;

/// Writes the figures of a run. The file is replaced in one step: whoever reads it sees a whole one.
pub(crate) fn write<T: Outcome>(file: &Path, command: &str, cleaned: &[Cleaned<T>]) -> Result<(), Failure> {
    let failed = |error| Failure::unexpected(&format!("write {}", file.display()), error);
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = file.with_file_name(name);
    std::fs::write(&part, text(command, cleaned)).map_err(failed)?;
    std::fs::rename(&part, file).map_err(failed)
}

fn text<T: Outcome>(command: &str, cleaned: &[Cleaned<T>]) -> String {
    let mut metrics: BTreeMap<(&str, &str), Vec<(String, u64)>> = BTreeMap::new();
    let mut add = |name, help, table: &str, value| {
        metrics.entry((name, help)).or_default().push((escaped(table), value));
    };
    for cleaned in cleaned {
        let (table, code) = match cleaned {
            Cleaned::Done(report) => {
                for (name, help, value) in report.figures() {
                    add(name, help, report.table(), value);
                }
                (report.table(), if report.is_complete() { 0 } else { 9 })
            }
            Cleaned::Failed { table, code, .. } => (table.as_str(), *code),
        };
        add("exit_code", "What a run with this table alone would end with.", table, u64::from(code));
    }
    let mut text = String::new();
    for ((name, help), values) in metrics {
        text.push_str(&format!("# HELP hexfloe_cleanup_{name} {help}\n# TYPE hexfloe_cleanup_{name} gauge\n"));
        for (table, value) in values {
            text.push_str(&format!("hexfloe_cleanup_{name}{{command=\"{command}\",table=\"{table}\"}} {value}\n"));
        }
    }
    text
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    #[derive(Serialize)]
    struct Fake;

    impl Outcome for Fake {
        fn table(&self) -> &str {
            "ns.\"a\""
        }

        fn is_complete(&self) -> bool {
            true
        }

        fn sentences(&self) -> Vec<String> {
            Vec::new()
        }

        fn figures(&self) -> Vec<(&'static str, &'static str, u64)> {
            vec![("removed_files", "Files that went.", 3)]
        }
    }

    #[test]
    fn each_metric_is_explained_once_and_given_for_each_table() {
        let refused = Cleaned::Failed { table: "ns.b".to_owned(), code: 8, error: "no".to_owned() };
        let expected = concat!(
            "# HELP hexfloe_cleanup_exit_code What a run with this table alone would end with.\n",
            "# TYPE hexfloe_cleanup_exit_code gauge\n",
            "hexfloe_cleanup_exit_code{command=\"orphans\",table=\"ns.\\\"a\\\"\"} 0\n",
            "hexfloe_cleanup_exit_code{command=\"orphans\",table=\"ns.b\"} 8\n",
            "# HELP hexfloe_cleanup_removed_files Files that went.\n",
            "# TYPE hexfloe_cleanup_removed_files gauge\n",
            "hexfloe_cleanup_removed_files{command=\"orphans\",table=\"ns.\\\"a\\\"\"} 3\n",
        );
        assert_eq!(text("orphans", &[Cleaned::Done(Fake), refused]), expected);
    }
}
