//! Merging of manifests, so that the number of manifests a commit has to read does not grow with the number of commits.
//!
//! Manifests are merged with others of about their size, once there are enough of them: each entry is then written again only
//! as often as its manifest grows by that factor. `n` commits of one file leave at most about `m · log_m(n)` manifests, with
//! `m` the count at which they merge.

use std::collections::BTreeMap;

use iceberg::spec::TableMetadata;

use crate::base::LoadedManifest;

/// When manifests are merged, as the table's `commit.manifest*` properties say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Merging {
    /// `commit.manifest-merge.enabled`: true.
    enabled: bool,
    /// `commit.manifest.target-size-bytes`: 8 MiB. No merged manifest is larger.
    target_bytes: u64,
    /// `commit.manifest.min-count-to-merge`: 100. So many manifests of about one size are merged.
    min_count: usize,
}

impl Merging {
    pub(crate) fn of(metadata: &TableMetadata) -> Self {
        let property = |name: &str| metadata.properties().get(name).map(|value| value.trim());
        let number = |name: &str| property(name).and_then(|value| value.parse::<u64>().ok());
        Self {
            enabled: property("commit.manifest-merge.enabled").is_none_or(|value| !value.eq_ignore_ascii_case("false")),
            target_bytes: number("commit.manifest.target-size-bytes").unwrap_or(8 << 20),
            min_count: number("commit.manifest.min-count-to-merge")
                .and_then(|count| usize::try_from(count).ok())
                .unwrap_or(100)
                .max(2),
        }
    }
}

/// What a manifest has in common with those it may be merged with: content and partition spec.
type Kind = (bool, i32);

/// Groups of manifests to put into one, of one kind each; those that stay as they are come as groups of one.
pub(crate) fn merge_groups(manifests: Vec<&LoadedManifest>, merging: Merging) -> Vec<Vec<&LoadedManifest>> {
    let mut kinds: BTreeMap<Kind, Vec<Sized<'_>>> = BTreeMap::new();
    for loaded in manifests {
        let kind = (loaded.is_data(), loaded.file.partition_spec_id);
        let (entries, bytes) = (loaded.live().count(), loaded.file.manifest_length.unsigned_abs());
        kinds.entry(kind).or_default().push(Sized { manifests: vec![loaded], entries, bytes });
    }
    let mut groups = Vec::new();
    for (_, sized) in kinds {
        let merged = if merging.enabled { merge(sized, merging) } else { sized };
        groups.extend(merged.into_iter().map(|sized| sized.manifests));
    }
    groups
}

/// Manifests that are, or become, one.
struct Sized<'a> {
    manifests: Vec<&'a LoadedManifest>,
    entries: usize,
    bytes: u64,
}

fn merge(sized: Vec<Sized<'_>>, merging: Merging) -> Vec<Sized<'_>> {
    let mut levels: BTreeMap<u32, Vec<Sized<'_>>> = BTreeMap::new();
    for sized in sized {
        levels.entry(level(sized.entries, merging.min_count)).or_default().push(sized);
    }
    let mut done = Vec::new();
    while let Some((_, mut of_level)) = levels.pop_first() {
        if of_level.len() < merging.min_count {
            done.append(&mut of_level);
            continue;
        }
        for bin in bins(of_level, merging.target_bytes) {
            let entries = bin.entries;
            // Those that are as large as they may be stay; what was merged may be enough for the next level.
            match levels.iter_mut().find(|(other, _)| **other == level(entries, merging.min_count)) {
                Some((_, of_level)) if bin.manifests.len() > 1 => of_level.push(bin),
                _ => done.push(bin),
            }
        }
    }
    done
}

/// How often a manifest of so many entries has been merged, about.
fn level(entries: usize, min_count: usize) -> u32 {
    entries.max(1).ilog(min_count)
}

/// Fills bins up to the target.
fn bins(sized: Vec<Sized<'_>>, target_bytes: u64) -> Vec<Sized<'_>> {
    let mut bins: Vec<Sized<'_>> = Vec::new();
    for next in sized {
        match bins.last_mut() {
            Some(bin) if bin.bytes + next.bytes <= target_bytes => {
                bin.manifests.extend(next.manifests);
                bin.entries += next.entries;
                bin.bytes += next.bytes;
            }
            _ => bins.push(next),
        }
    }
    bins
}
