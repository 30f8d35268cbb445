//! Column names: which existing ones a person may have meant.

/// The names of `existing` that are nearest to `wanted`, best first: at most three.
pub(crate) fn nearest<'a>(wanted: &str, existing: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let mut scored: Vec<(f64, &str)> =
        existing.into_iter().map(|name| (strsim::jaro_winkler(&wanted, &name.to_lowercase()), name)).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

/// The end of a message about a name that does not exist.
pub(crate) fn hint(near: &[String]) -> String {
    if near.is_empty() {
        return ": it has no columns".to_owned();
    }
    let quoted: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    format!(": the nearest names are {}", quoted.join(", "))
}

/// Names in a message: the first twenty of them, and how many more there are.
pub(crate) fn listed(all: &[String]) -> String {
    const MOST: usize = 20;
    let mut names: Vec<String> = all.iter().take(MOST).map(|name| format!("`{name}`")).collect();
    if all.len() > MOST {
        names.push(format!("{} more", all.len() - MOST));
    }
    names.join(", ")
}
