//! Catalog files, and `hexfloe check` on the catalogs they lead to.

use std::collections::BTreeSet;
use std::fs;

use hexfloe_tests::{
    Backend, CatalogFile, Exit, Fault, Lake, POINTS, Postgres, Proxy, Reply, Rule, SeaweedFs, Side, Value, json, judge,
    repository,
};
use rstest::rstest;

fn verdicts(report: &Value) -> BTreeSet<(String, String)> {
    let findings = report["findings"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    findings.iter().map(|finding| (text(&finding["check"]), text(&finding["verdict"]))).collect()
}

const PROMISES: [&str; 11] = [
    "acknowledged is there",
    "a request that arrives twice",
    "a stale commit",
    "clean up",
    "compare and swap",
    "conditional put",
    "create a table",
    "create it again",
    "delete an object",
    "list what was written",
    "write an object in parts",
];

#[rstest]
fn a_catalog_that_can_be_trusted_passes_and_nothing_is_left(
    #[values(Backend::Sqlite, Backend::PostgresS3, Backend::RestS3)] backend: Backend,
) {
    let lake = Lake::on(backend);
    let report = lake.hexfloe(&["check", "--json"]).ends(Exit::Done).report();
    assert_eq!(report["holds"], true, "{report:#}");
    let verdicts = verdicts(&report);
    for promise in PROMISES {
        assert!(verdicts.contains(&(promise.to_owned(), "held".to_owned())), "{promise}: {report:#}");
    }
    assert!(!verdicts.iter().any(|(_, verdict)| verdict == "broken"), "{report:#}");
    // On a local disk the folders stay.
    let is_folder = |path: &String| lake.path("lake/warehouse").join(path).is_dir();
    let left: Vec<_> = lake.state().files.into_keys().filter(|path| !is_folder(path)).collect();
    assert!(left.is_empty(), "{left:?}");
    let told = lake.hexfloe(&["check"]).ends(Exit::Done).stdout;
    assert!(told.contains("  ok      compare and swap: of 8 commits on one base one wins"), "{told}");
    assert!(told.ends_with("the guarantee holds here\n"), "{told}");
}

#[test]
fn a_namespace_that_is_given_is_used_and_kept() {
    let lake = Lake::on(Backend::RestS3).and_points("id,lat,lon\n1,48.2,16.4\n");
    lake.ingest(&["job.toml"]).committed();
    let before = lake.state();
    let report = lake.hexfloe(&["check", "--namespace", "ns", "--json"]).ends(Exit::Done).report();
    assert_eq!(report["holds"], true, "{report:#}");
    assert_eq!(lake.state(), before);
}

/// A lake on REST whose catalog answers through a proxy.
fn behind_a_proxy() -> (Lake, Proxy) {
    let lake = Lake::on(Backend::RestS3);
    let proxy = Proxy::before(&SeaweedFs::shared().rest_address()).unwrap();
    lake.write_catalog(&lake.catalog().clone().with("uri", &proxy.uri()));
    (lake, proxy)
}

#[test]
fn a_gateway_that_sends_every_commit_twice_breaks_nothing() {
    let (lake, proxy) = behind_a_proxy();
    proxy.add(Rule::fault(hexfloe_tests::Request::is_commit, Side::Before, Fault::Duplicate));
    let report = lake.hexfloe(&["check", "--json"]).ends(Exit::Done).report();
    assert_eq!(report["holds"], true, "{report:#}");
}

#[test]
fn a_catalog_that_does_not_compare_is_found_out() {
    let (lake, proxy) = behind_a_proxy();
    // It takes the updates and forgets what they were conditioned on.
    proxy.add(Rule::new(hexfloe_tests::Request::is_commit, |request, server| {
        let mut request = request.clone();
        let mut body: Value = serde_json::from_slice(&request.body).unwrap();
        body["requirements"] = json!([]);
        request.body = body.to_string().into_bytes();
        match server.ask(&request) {
            Ok(answer) => Reply::Answer(answer),
            Err(_) => Reply::Reset,
        }
    }));
    let run = lake.hexfloe(&["check", "--json"]).ends(Exit::Unexpected);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["holds"], false);
    assert!(verdicts(&report).contains(&("a stale commit".to_owned(), "broken".to_owned())), "{report:#}");
    let told = lake.hexfloe(&["check"]).ends(Exit::Unexpected).stdout;
    assert!(told.contains("BROKEN") && told.contains("do not ingest through this catalog"), "{told}");
}

#[test]
fn a_catalog_that_answers_without_doing_is_found_out() {
    let (lake, proxy) = behind_a_proxy();
    proxy.add(Rule::fault(hexfloe_tests::Request::is_commit, Side::Before, Fault::OldMetadata));
    let run = lake.hexfloe(&["check", "--json"]).ends(Exit::Unexpected);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(verdicts(&report).contains(&("compare and swap".to_owned(), "broken".to_owned())), "{report:#}");
}

/// The files of `catalog-config`, and whether one of the servers here is behind them.
fn files() -> Vec<String> {
    let folder = repository().join("catalog-config");
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".toml"))
        .collect();
    names.sort();
    names
}

/// The variables that a text names as `${NAME}`.
fn variables(text: &str) -> BTreeSet<&str> {
    let live = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    live.flat_map(|line| line.split("${").skip(1)).filter_map(|rest| Some(rest.split_once('}')?.0)).collect()
}

#[test]
fn every_file_follows_the_schema_and_is_understood() {
    let names = files();
    let known = [
        "glue",
        "gravitino",
        "lakekeeper",
        "nessie",
        "polaris",
        "postgres",
        "rest",
        "s3tables",
        "seaweedfs",
        "sqlite",
        "unity",
    ];
    assert_eq!(names, known.map(|name| format!("{name}.toml")));
    let schema = repository().join("docs/reference/catalog.schema.json").display().to_string();
    for name in names {
        let path = repository().join("catalog-config").join(&name);
        let text = fs::read_to_string(&path).unwrap();
        let errors = judge("schema_errors", json!({ "schema": schema, "toml": path.display().to_string() }));
        assert_eq!(errors, json!([]), "{name}: {errors:#}");

        // Without its variables the file says which is missing, unless it needs none.
        let lake = Lake::new();
        lake.write("catalog.toml", &text);
        let variables = variables(&text);
        let run = lake.hexfloe(&["check", "--catalog", "catalog.toml"]);
        if variables.is_empty() {
            run.ends(Exit::Done);
        } else {
            let run = run.ends(Exit::Usage);
            assert!(run.stderr.contains("the environment variable"), "{name}: {}", run.stderr);
        }
        for variable in &variables {
            assert!(text.contains(&format!("{variable}=")), "{name} does not explain {variable}");
        }
        // With them it is understood: what fails then is the server that is not there.
        let file = variables.iter().fold(CatalogFile::default(), |file, variable| {
            let value = match *variable {
                name if name.ends_with("URI")
                    || name.ends_with("URL")
                    || name.ends_with("ENDPOINT")
                    || name.ends_with("HOST") =>
                {
                    "http://127.0.0.1:9"
                }
                "PGPORT" => "9",
                "LAKE_WAREHOUSE" => "s3://bucket/lake",
                _ => "placeholder",
            };
            let value = if *variable == "PGHOST" { "127.0.0.1" } else { value };
            file.with_secret(variable, value)
        });
        let live: String = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
        // Where the address is written out it is that of a service, which tests leave alone.
        if !variables.is_empty() && !live.contains("https://") {
            let lake = Lake::in_catalog(file);
            lake.write("catalog.toml", &text);
            let run = lake.hexfloe(&["check"]).ends(Exit::Unavailable);
            assert!(!run.stderr.contains("unknown field"), "{name}: {}", run.stderr);
        }
    }
}

#[rstest]
#[case("sqlite.toml")]
#[case("postgres.toml")]
#[case("rest.toml")]
#[case("seaweedfs.toml")]
fn the_files_whose_server_runs_here_work_as_they_are(#[case] name: &str) {
    let server = SeaweedFs::shared();
    let (id, secret) = server.key(0);
    let bucket = server.table_bucket();
    let store =
        CatalogFile::default().with_secret("AWS_ACCESS_KEY_ID", &id).with_secret("AWS_SECRET_ACCESS_KEY", &secret);
    let s3 = format!("http://{}", server.s3_address());
    let rest = format!("http://{}", server.rest_address());
    let file = match name {
        "sqlite.toml" => CatalogFile::default(),
        "postgres.toml" => {
            let postgres = Postgres::shared();
            let database = postgres.database();
            let address = postgres.address();
            let (host, port) = address.split_once(':').unwrap();
            let uri = postgres.uri(&database, "");
            let user = uri.trim_start_matches("postgresql://").split(':').next().unwrap().to_owned();
            store
                .with_secret("PGHOST", host)
                .with_secret("PGPORT", port)
                .with_secret("PGUSER", &user)
                .with_secret("PGPASSWORD", &postgres.password())
                .with_secret("PGDATABASE", &database)
                .with_secret("LAKE_WAREHOUSE", &format!("s3://{}/lake", server.bucket()))
                .with_secret("S3_ENDPOINT", &s3)
                .with_secret("AWS_REGION", "us-east-1")
        }
        // This server vends no credentials: the data is reached as the environment says.
        "rest.toml" => store
            .with_secret("CATALOG_URI", &rest)
            .with_secret("CATALOG_WAREHOUSE", &format!("s3://{bucket}"))
            .with_secret("CATALOG_TOKEN_URI", &format!("{rest}/v1/oauth/tokens"))
            .with_secret("CATALOG_CREDENTIAL", &format!("{id}:{secret}"))
            .with_secret("AWS_ENDPOINT_URL", &s3)
            .with_secret("AWS_REGION", "us-east-1"),
        _ => store
            .with_secret("SEAWEEDFS_CATALOG_URL", &rest)
            .with_secret("SEAWEEDFS_S3_URL", &s3)
            .with_secret("SEAWEEDFS_BUCKET", &bucket)
            .with_secret("SEAWEEDFS_CREDENTIAL", &format!("{id}:{secret}")),
    };
    let lake = Lake::in_catalog(file);
    lake.write("catalog.toml", fs::read(repository().join("catalog-config").join(name)).unwrap());
    lake.write("job.toml", POINTS);
    lake.write("points.csv", "id,lat,lon\n1,48.2,16.4\n2,-33.9,151.2\n");
    let report = lake.hexfloe(&["check", "--json"]).ends(Exit::Done).report();
    assert_eq!(report["holds"], true, "{report:#}");
    assert_eq!(lake.ingest(&["job.toml"]).committed()["rows"], 2);
    assert_eq!(lake.ingest(&["job.toml"]).ends(Exit::Done).report()["status"], "skipped");
}
