//! Merging of manifests, so that the number of manifests a commit has to read does not grow with the number of commits.
//!
//! Manifests are merged with others of about their size, once there are enough of them: each entry is then written again only
//! as often as its manifest grows by that factor. `n` commits of one file leave at most about `m · log_m(n)` manifests, with
//! `m` the count at which they merge.

use std::collections::BTreeMap;

use iceberg::spec::{ManifestContentType, ManifestFile, TableMetadata};

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

/// Groups of manifests to put into one, of one kind each, by their places; those that stay as they are come as groups of one.
pub(crate) fn merge_groups(manifests: &[&ManifestFile], merging: Merging) -> Vec<Vec<usize>> {
    let mut kinds: BTreeMap<Kind, Vec<Bin>> = BTreeMap::new();
    for (place, file) in manifests.iter().enumerate() {
        let kind = (file.content == ManifestContentType::Data, file.partition_spec_id);
        let bin = Bin { places: vec![place], files: live_files(file), bytes: file.manifest_length.unsigned_abs() };
        kinds.entry(kind).or_default().push(bin);
    }
    let mut groups = Vec::new();
    for (_, bins) in kinds {
        let merged = if merging.enabled { merge(bins, merging) } else { bins };
        groups.extend(merged.into_iter().map(|bin| bin.places));
    }
    groups
}

/// How many live files a manifest lists, as the manifest list says; 0 where it does not say.
pub(crate) fn live_files(file: &ManifestFile) -> u32 {
    file.added_files_count.unwrap_or(0) + file.existing_files_count.unwrap_or(0)
}

/// Manifests that are, or become, one.
struct Bin {
    places: Vec<usize>,
    files: u32,
    bytes: u64,
}

fn merge(bins: Vec<Bin>, merging: Merging) -> Vec<Bin> {
    let mut levels: BTreeMap<u32, Vec<Bin>> = BTreeMap::new();
    for bin in bins {
        levels.entry(level(bin.files, merging.min_count)).or_default().push(bin);
    }
    let mut done = Vec::new();
    while let Some((_, mut of_level)) = levels.pop_first() {
        if of_level.len() < merging.min_count {
            done.append(&mut of_level);
            continue;
        }
        for bin in filled(of_level, merging.target_bytes) {
            // Those that are as large as they may be stay; what was merged may be enough for the next level.
            match levels.get_mut(&level(bin.files, merging.min_count)) {
                Some(of_level) if bin.places.len() > 1 => of_level.push(bin),
                _ => done.push(bin),
            }
        }
    }
    done
}

/// How often a manifest of so many files has been merged, about.
fn level(files: u32, min_count: usize) -> u32 {
    files.max(1).ilog(u32::try_from(min_count).unwrap_or(u32::MAX))
}

/// Fills bins up to the target.
fn filled(bins: Vec<Bin>, target_bytes: u64) -> Vec<Bin> {
    let mut filled: Vec<Bin> = Vec::new();
    for next in bins {
        match filled.last_mut() {
            Some(bin) if bin.bytes + next.bytes <= target_bytes => {
                bin.places.extend(next.places);
                bin.files += next.files;
                bin.bytes += next.bytes;
            }
            _ => filled.push(next),
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn manifest(content: ManifestContentType, spec: i32, files: u32, bytes: i64) -> ManifestFile {
        ManifestFile {
            manifest_path: "memory:///m".to_owned(),
            manifest_length: bytes,
            partition_spec_id: spec,
            content,
            sequence_number: 1,
            min_sequence_number: 1,
            added_snapshot_id: 1,
            added_files_count: Some(0),
            existing_files_count: Some(files),
            deleted_files_count: Some(0),
            added_rows_count: Some(0),
            existing_rows_count: Some(0),
            deleted_rows_count: Some(0),
            partitions: None,
            key_metadata: None,
            first_row_id: None,
        }
    }

    /// How many manifests come out, and how many entries are written again.
    fn merged(manifests: &[ManifestFile], merging: Merging) -> (usize, u32) {
        let groups = merge_groups(&manifests.iter().collect::<Vec<_>>(), merging);
        let mut places: Vec<usize> = groups.concat();
        places.sort_unstable();
        assert_eq!(places, (0..manifests.len()).collect::<Vec<_>>(), "each once");
        let rewritten = groups.iter().filter(|group| group.len() > 1).flatten();
        (groups.len(), rewritten.map(|place| live_files(&manifests[*place])).sum())
    }

    const TEN: Merging = Merging { enabled: true, target_bytes: 8 << 20, min_count: 10 };

    #[rstest]
    #[case::too_few(&[1; 9], 9, 0)]
    #[case::enough(&[1; 10], 1, 10)]
    #[case::of_different_sizes(&[1, 1, 1, 1, 1, 10, 10, 10, 10, 10, 100], 11, 0)]
    #[case::the_small_ones_only(&[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 100], 2, 10)]
    #[case::on_to_the_next_level(&[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 10, 10, 10, 10, 10, 10, 10, 10, 10], 1, 100)]
    fn manifests_of_about_one_size_are_merged(#[case] files: &[u32], #[case] left: usize, #[case] rewritten: u32) {
        let manifests: Vec<_> = files.iter().map(|files| manifest(ManifestContentType::Data, 0, *files, 100)).collect();
        assert_eq!(merged(&manifests, TEN), (left, rewritten));
        assert_eq!(merged(&manifests, Merging { enabled: false, ..TEN }), (files.len(), 0));
    }

    #[test]
    fn only_what_is_of_one_kind_is_merged() {
        let mut manifests = vec![manifest(ManifestContentType::Data, 0, 1, 100); 9];
        manifests.extend(vec![manifest(ManifestContentType::Data, 1, 1, 100); 9]);
        manifests.extend(vec![manifest(ManifestContentType::Deletes, 0, 1, 100); 9]);
        assert_eq!(merged(&manifests, TEN), (27, 0));
    }

    #[test]
    fn no_merged_manifest_is_larger_than_the_target() {
        let manifests = vec![manifest(ManifestContentType::Data, 0, 1, 3 << 20); 10];
        assert_eq!(merged(&manifests, TEN), (5, 10), "pairs of 6 MiB");
    }

    #[test]
    fn a_thousand_commits_leave_few_manifests_and_write_each_entry_a_few_times() {
        let (mut manifests, mut rewritten) = (Vec::new(), 0);
        for _ in 0..1_000 {
            let files: Vec<&ManifestFile> = manifests.iter().collect();
            let mut next = vec![manifest(ManifestContentType::Data, 0, 1, 100)];
            for group in merge_groups(&files, TEN) {
                let entries = group.iter().map(|place| live_files(&manifests[*place])).sum();
                rewritten += if group.len() > 1 { entries } else { 0 };
                next.push(manifest(ManifestContentType::Data, 0, entries, 100 * i64::from(entries)));
            }
            manifests = next;
            assert!(manifests.len() <= 31, "{}", manifests.len());
        }
        assert!(rewritten <= 3_000, "{rewritten}");
    }
}
