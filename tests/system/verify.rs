//! `hexfloe verify`: it holds where the guarantee holds, says what is broken where it does not, and leaves nothing behind.

use std::time::Duration;

use hexfloe_tests::{
    Answer, Backend, CatalogFile, Exit, Fault, Lake, Proxy, Reply, Request, Rule, SeaweedFs, Side, Value, json, judge,
    pause,
};
use rstest::rstest;

/// A lake in which a verification has been before, so that everything that stays is there.
fn lake(backend: Backend) -> Lake {
    let lake = Lake::on(backend);
    lake.hexfloe(&["verify", "--scenario", "replay-is-a-no-op"]).ends(Exit::Done);
    lake
}

#[rstest]
fn everything_that_is_promised_holds_and_nothing_is_left(
    #[values(Backend::Sqlite, Backend::PostgresS3, Backend::RestS3)] backend: Backend,
) {
    let lake = lake(backend);
    let before = lake.state();
    // With all scenarios where processes start fastest; elsewhere what differs by catalog and store.
    let some: &[&str] = match backend {
        Backend::Sqlite => &["--kills", "5"],
        _ => &[
            "--kills",
            "2",
            "--scenario",
            "catalog-and-store",
            "--scenario",
            "append-twice-would-have-doubled",
            "--scenario",
            "killed-at-random-moments",
            "--scenario",
            "torn-upload",
            "--scenario",
            "eight-writers-of-one-batch",
            "--scenario",
            "eight-writers-of-eight-batches",
            "--scenario",
            "compacted-between-plan-and-commit",
            "--scenario",
            "conflict-after-success",
            "--scenario",
            "answer-to-the-commit-is-lost",
            "--scenario",
            "over-a-bad-network",
            "--scenario",
            "told-once-after-a-crash",
        ],
    };
    let arguments = ["verify", "--json", "--junit", "verify.xml", "--report", "verify.html"];
    let run = lake.hexfloe(&[&arguments[..], some].concat()).ends(Exit::Done);
    let verdict = run.report();
    assert_eq!(verdict["holds"], true, "{verdict:#}");
    assert_eq!(verdict["left"], json!([]), "{verdict:#}");
    let scenarios = verdict["scenarios"].as_array().unwrap();
    let of = |fate: &str| scenarios.iter().filter(|played| played["fate"] == fate).count();
    // Neither the catalog nor the store of the first is across a network.
    let not_here = usize::from(backend == Backend::Sqlite);
    assert_eq!((of("held"), of("not_applicable")), (scenarios.len() - not_here, not_here), "{verdict:#}");
    let sum = |key: &str| scenarios.iter().map(|played| played[key].as_u64().unwrap()).sum::<u64>();
    assert!(sum("kills") >= 4 && sum("processes") > 40 && sum("looks") > 20, "{verdict:#}");
    assert_eq!(lake.state(), before, "what verification made is gone again");

    let page = std::fs::read_to_string(lake.path("verify.html")).unwrap();
    let cases = judge("junit", json!({ "file": lake.path("verify.xml").display().to_string() }));
    assert_eq!(cases.as_array().unwrap().len(), scenarios.len());
    for (case, played) in std::iter::zip(cases.as_array().unwrap(), scenarios) {
        let name = played["name"].as_str().unwrap();
        assert_eq!(case["name"], name);
        assert_eq!(case["outcome"], if played["fate"] == "held" { "passed" } else { "skipped" });
        assert!(page.contains(&format!("<details id=\"{name}\">")), "{name}");
    }
}

/// What a verification says of a catalog that does not do what it says.
fn broken(lake: &Lake, scenarios: &[&str]) -> Value {
    let chosen: Vec<&str> = scenarios.iter().flat_map(|name| ["--scenario", *name]).collect();
    let run = lake.hexfloe(&[&["verify", "--json"], &chosen[..]].concat());
    let verdict = run.ends(Exit::Broken).report();
    assert_eq!(verdict["holds"], false, "{verdict:#}");
    assert_eq!(verdict["left"], json!([]), "{verdict:#}");
    verdict
}

fn through(proxy: &Proxy, catalog: &CatalogFile) -> CatalogFile {
    catalog.clone().with("uri", &proxy.uri()).with("oauth2-server-uri", &format!("{}/v1/oauth/tokens", proxy.uri()))
}

#[track_caller]
fn says(verdict: &Value, words: &[&str]) {
    let sentence = verdict["sentence"].as_str().unwrap();
    assert!(words.iter().all(|word| sentence.contains(word)), "{words:?}: {sentence}");
}

#[test]
fn a_catalog_that_ignores_requirements_is_found() {
    let lake = Lake::on(Backend::RestS3);
    let proxy = Proxy::before(&SeaweedFs::shared().rest_address()).unwrap();
    proxy.add(Rule::new(Request::is_commit, |request, server| {
        let mut body: Value = serde_json::from_slice(&request.body).unwrap();
        body["requirements"] = json!([]);
        let request = Request { body: body.to_string().into_bytes(), ..request.clone() };
        server.forward(&request).map_or(Reply::Reset, Reply::Answer)
    }));
    lake.write_catalog(&through(&proxy, lake.catalog()));
    let verdict = broken(&lake, &["catalog-and-store"]);
    says(&verdict, &["breaks a promise", "of commits on one base one wins", "compare and swap"]);
    // It is not only said by the self-test.
    let verdict = broken(&lake, &["eight-writers-of-eight-batches", "a-rival-commits-first"]);
    says(&verdict, &["breaks a promise"]);
}

#[test]
fn a_server_that_answers_and_does_nothing_is_found() {
    let lake = Lake::on(Backend::RestS3);
    let proxy = Proxy::before(&SeaweedFs::shared().rest_address()).unwrap();
    proxy.add(Rule::fault(Request::is_commit, Side::Before, Fault::OldMetadata));
    lake.write_catalog(&through(&proxy, lake.catalog()));
    let verdict = broken(&lake, &["catalog-and-store"]);
    says(&verdict, &["breaks a promise", "what is acknowledged stays"]);
}

#[test]
fn a_store_without_conditional_put_is_found() {
    let lake = Lake::on(Backend::PostgresS3);
    let proxy = Proxy::before(&SeaweedFs::shared().s3_address()).unwrap();
    let catalog = lake.catalog().properties();
    let asks = |request: &Request| request.method == "PUT" && request.header("if-none-match").is_some();
    proxy.add(Rule::new(asks, move |request, _| {
        let bucket_and_key = request.path.split('?').next().unwrap_or_default().trim_start_matches('/');
        let files = json!({ format!("s3://{bucket_and_key}"): request.body });
        judge("do_write", json!({ "catalog": catalog, "files": files }));
        let headers = vec![("etag".to_owned(), "\"written\"".to_owned())];
        Reply::Answer(Answer { status: 200, headers, body: Vec::new() })
    }));
    lake.write_catalog(&lake.catalog().clone().with("s3.endpoint", &proxy.uri()));
    let verdict = broken(&lake, &["catalog-and-store"]);
    says(&verdict, &["breaks a promise", "conditional put", "is not written over"]);
}

#[test]
fn ctrl_c_ends_it_and_nothing_is_left() {
    let lake = lake(Backend::Sqlite);
    let before = lake.state();
    let mut running = lake.start(&["verify", "--scenario", "killed-at-random-moments", "--kills", "10000"]);
    until_it_works(&lake, &mut running);
    running.interrupt();
    let run = running.end();
    assert_eq!(run.code, Some(130), "{run:?}");
    assert!(run.stderr.contains("interrupted; nothing is left"), "{run:?}");
    assert_eq!(lake.state(), before);
}

#[rstest]
fn what_a_killed_one_left_is_removed_by_the_next(#[values(Backend::Sqlite, Backend::RestS3)] backend: Backend) {
    let lake = lake(backend);
    let before = lake.state();
    let mut running = lake.start(&["verify", "--scenario", "killed-at-random-moments", "--kills", "10000"]);
    until_it_works(&lake, &mut running);
    assert!(running.kill(Duration::ZERO));
    // Its last ingest may be at work for a moment more.
    pause(Duration::from_secs(2));
    assert_ne!(lake.state(), before, "something was left");
    let next = lake.hexfloe(&["verify", "--scenario", "replay-is-a-no-op"]).ends(Exit::Done);
    assert!(next.stderr.contains("removed what a verification had left that was killed"), "{next:?}");
    assert_eq!(lake.state(), before);
}

/// Waits until tables of a verification are in the lake.
fn until_it_works(lake: &Lake, running: &mut hexfloe_tests::Running) {
    let notes = lake.path("hexfloe/verify");
    let noted = || {
        let notes = std::fs::read_dir(&notes).into_iter().flatten().flatten();
        notes.filter_map(|note| std::fs::metadata(note.path()).ok()).any(|note| note.len() > 0)
    };
    while !noted() {
        assert!(!running.has_ended(), "it ended before it had begun");
        pause(Duration::from_millis(20));
    }
    // A few batches are in a table by then.
    pause(Duration::from_secs(2));
    assert!(!running.has_ended(), "ten thousand kills take longer");
}

#[test]
fn what_cannot_be_asked_for_is_refused() {
    let lake = Lake::new();
    lake.hexfloe(&["verify", "--scenario", "replay-is-a-nop"]).refuses(Exit::Usage, &["replay-is-a-nop", "--list"]);
    lake.hexfloe(&["verify", "--namespace", "nowhere"]).refuses(Exit::Usage, &["no namespace nowhere"]);
    lake.hexfloe(&["verify", "--remove", "ns"]).refuses(Exit::Usage, &["scratch_hexfloe_"]);
    lake.hexfloe(&["verify", "--remove", "scratch_hexfloe_"]).refuses(Exit::Usage, &["eight digits"]);
    lake.hexfloe(&["verify", "--remove", "scratch_hexfloe_a"]).refuses(Exit::Usage, &["eight digits"]);
    let unwritable = ["verify", "--report", "nowhere/report.html"];
    lake.hexfloe(&unwritable).refuses(Exit::Usage, &["cannot write nowhere/report.html"]);
    let list = lake.hexfloe(&["verify", "--list"]).ends(Exit::Done);
    assert!(list.stdout.lines().count() > 35 && list.stdout.contains("replay-is-a-no-op"), "{list:?}");
}

#[test]
fn a_namespace_that_is_only_named_so_keeps_its_tables() {
    let lake = Lake::new().and_points("id,lat,lon\n1,48.2,16.4\n");
    let own = "table.name=\"scratch_hexfloe_0a1b2c3d.orders\"";
    lake.ingest(&["job.toml", "--set", own]).committed();
    let before = lake.state();
    let run = lake.hexfloe(&["verify", "--remove", "scratch_hexfloe_0a1b2c3d"]).ends(Exit::Incomplete);
    assert!(run.stderr.contains("namespace scratch_hexfloe_0a1b2c3d"), "{run:?}");
    let run = lake.hexfloe(&["verify", "--scenario", "replay-is-a-no-op"]).ends(Exit::Done);
    assert!(run.stderr.contains("is named as those of verifications"), "{run:?}");
    let after = lake.state();
    assert_eq!(after.tables, before.tables);
    assert!(before.files.iter().all(|(file, content)| after.files.get(file) == Some(content)), "{after:?}");
}
