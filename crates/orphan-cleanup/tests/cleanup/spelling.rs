//! How listings and metadata spell one file.

use hexfloe_orphan_cleanup::{EqualSchemes, Fate, OrphanOptions, Refusal};
use iceberg::spec::MAIN_BRANCH;
use rstest::rstest;

use crate::world::{World, files_of};

#[rstest]
#[case::a_uri("file:///")]
#[case::one_slash("file:/")]
#[case::a_path("/")]
#[case::a_host("file://localhost/")]
#[case::doubled_slashes("file:////")]
#[tokio::test]
async fn every_spelling_of_a_local_path_is_the_same_file(#[case] spelling: &str) {
    let world = World::new().await;
    let file = world.orphan().await;
    let spelled = format!("{spelling}{}", file.strip_prefix("file:///").unwrap());
    world.commit(MAIN_BRANCH, &[&spelled], false).await;
    let (report, records) = world.clean().await.unwrap();
    assert_eq!(records, []);
    assert_eq!(report.referenced, report.listed);
    world.assert_whole().await;
}

#[rstest]
#[case::relative("data/{}")]
#[case::a_drive("C:/lake/{}")]
#[case::a_drive_with_backslashes("C:\\lake\\{}")]
#[case::nothing("")]
#[tokio::test]
async fn a_path_that_cannot_be_compared_is_refused(#[case] path: &str) {
    let world = World::new().await;
    let file = world.orphan().await;
    let path = path.replace("{}", file.rsplit('/').next().unwrap());
    world.commit(MAIN_BRANCH, &[&path], false).await;
    assert_eq!(world.refused_with(&world.options()).await, Refusal::Unplaced { path });
}

#[tokio::test]
async fn another_scheme_is_refused_unless_it_is_declared_to_be_the_same() {
    let world = World::in_bucket().await;
    let orphan = world.orphan().await;
    let live = world.orphan().await;
    let spelled = live.replace("s3://", "s3a://");
    world.commit(MAIN_BRANCH, &[&spelled], false).await;
    let refusal = world.refused_with(&world.options()).await;
    let equal = Some(("s3a".to_owned(), "s3".to_owned()));
    assert_eq!(refusal, Refusal::Spelling { listed: live.clone(), named: spelled, equal });
    assert!(refusal.to_string().contains("--equal-scheme s3a=s3"), "{refusal}");

    let options = OrphanOptions { equal_schemes: EqualSchemes::default().and("s3a", "s3"), ..world.options() };
    let (report, _) = world.clean_with(&options).await.unwrap();
    assert_eq!(report.removed.files, 1);
    let files = world.files().await;
    assert!(files.contains(&live) && !files.contains(&orphan));
}

#[rstest]
#[case::another_bucket("s3://copy/")]
#[case::another_bucket_and_scheme("s3a://copy/")]
#[case::a_store_nobody_knows("hdfs://name-node:8020/")]
#[tokio::test]
async fn the_same_key_elsewhere_is_refused_whatever_is_declared(#[case] place: &str) {
    let world = World::in_bucket().await;
    let file = world.orphan().await;
    let named = file.replace("s3://lake/", place);
    world.commit(MAIN_BRANCH, &[&named], false).await;
    let options = OrphanOptions { equal_schemes: EqualSchemes::default().and("s3a", "s3"), ..world.options() };
    let refusal = world.refused_with(&options).await;
    assert!(matches!(&refusal, Refusal::Spelling { listed, equal: None, .. } if *listed == file), "{refusal:?}");
}

#[tokio::test]
async fn a_file_that_is_named_in_two_ways_is_refused_although_one_of_them_is_right() {
    let world = World::in_bucket().await;
    let file = world.append().await;
    let spelled = file.replace("s3://", "s3n://");
    world.commit(MAIN_BRANCH, &[&spelled], false).await;
    let refusal = world.refused_with(&world.options()).await;
    assert!(matches!(&refusal, Refusal::Spelling { named, .. } if *named == spelled), "{refusal:?}");
}

/// Values of partitions, and fields, as folders have them.
const FOLDERS: [&str; 14] = [
    "city=New York",
    "time=10:11:12",
    "share=50%",
    "share=50%25",
    "x=a%20b",
    "x=a%2Fb",
    "home=~",
    "city=Malmö",
    "city=東京",
    "x=a+b&c=d#e?f",
    "_h3=8928308280fffff",
    ".x=1",
    "_temporary",
    "x='\"[]{}|\\^`",
];

#[rstest]
#[case::local(false)]
#[case::in_a_bucket(true)]
#[tokio::test]
async fn whatever_a_partition_is_called_exactly_its_orphans_go(#[case] in_bucket: bool) {
    let world = if in_bucket { World::in_bucket().await } else { World::new().await };
    let (mut live, mut orphans) = (Vec::new(), Vec::new());
    for folder in FOLDERS {
        live.push(world.orphan_in(&format!("data/{folder}")).await);
        orphans.push(world.orphan_in(&format!("data/{folder}")).await);
    }
    let paths: Vec<&str> = live.iter().map(String::as_str).collect();
    world.commit(MAIN_BRANCH, &paths, false).await;
    let (report, records) = world.clean().await.unwrap();
    orphans.sort();
    assert_eq!(files_of(&records, |fate| *fate == Fate::Removed), orphans);
    assert_eq!((report.doubtful.files, report.failed.files), (0, 0));
    let files = world.files().await;
    assert!(live.iter().all(|file| files.contains(file)));
    assert!(!orphans.iter().any(|file| files.contains(file)));
    world.assert_whole().await;
}

#[rstest]
#[case::once_more("x=a b", "x=a%20b")]
#[case::once_less("x=a%20b", "x=a b")]
#[case::twice("x=a%2520b", "x=a%20b")]
#[case::a_plus("x=a/b", "x=a%2Fb")]
#[tokio::test]
async fn a_file_that_metadata_has_in_another_encoding_is_kept(#[case] listed: &str, #[case] named: &str) {
    let world = World::new().await;
    let file = world.orphan_in(&format!("data/{listed}")).await;
    world.commit(MAIN_BRANCH, &[&file.replace(listed, named)], false).await;
    let orphan = world.orphan_in(&format!("data/{listed}")).await;
    let (report, records) = world.clean().await.unwrap();
    assert_eq!((report.doubtful.files, report.removed.files), (1, 1));
    assert_eq!(files_of(&records, |fate| *fate == Fate::Doubtful), std::slice::from_ref(&file));
    let files = world.files().await;
    assert!(files.contains(&file) && !files.contains(&orphan));
}
/// One name of a file is enough to know that the others are not orphans.
#[cfg(unix)]
#[tokio::test]
async fn a_link_to_a_folder_of_the_table_does_not_make_orphans_of_its_files() {
    let world = World::new().await;
    let live = world.append_in("data/day=2026-08-11").await;
    let folder = std::path::PathBuf::from(live.strip_prefix("file://").unwrap()).parent().unwrap().to_owned();
    std::os::unix::fs::symlink(&folder, folder.parent().unwrap().join("latest")).unwrap();
    let result = world.clean().await;
    assert!(world.store().size(&live).await.is_ok(), "a live file is gone: {result:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_metadata_names_by_way_of_a_link_is_no_orphan() {
    let world = World::new().await;
    let file = world.orphan().await;
    let root = world.root().await;
    let place = std::path::PathBuf::from(root.strip_prefix("file://").unwrap());
    let link = place.parent().unwrap().join("link");
    std::os::unix::fs::symlink(&place, &link).unwrap();
    world.commit(MAIN_BRANCH, &[&file.replace(place.to_str().unwrap(), link.to_str().unwrap())], false).await;
    let result = world.clean().await;
    assert!(world.store().size(&file).await.is_ok(), "a live file is gone: {result:?}");
}
