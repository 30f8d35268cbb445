//! What goes over the wire to a REST catalog and to S3.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use hexfloe_tests::{
    Backend, CatalogFile, Exchange, Exit, Fault, Lake, Proxy, Reply, Request, Rule, SeaweedFs, Side, Tls, Value, json,
    judge,
};

const POINTS: &str = "id,lat,lon\n1,48.2,16.4\n2,-33.9,151.2\n";

fn lake_behind(change: impl FnOnce(CatalogFile, &Proxy) -> CatalogFile) -> (Lake, Proxy) {
    let lake = Lake::on(Backend::RestS3).and_points(POINTS);
    let proxy = Proxy::before(&SeaweedFs::shared().rest_address()).unwrap();
    let tokens = format!("{}/v1/oauth/tokens", proxy.uri());
    let file = lake.catalog().clone().with("uri", &proxy.uri()).with("oauth2-server-uri", &tokens);
    lake.write_catalog(&change(file, &proxy));
    (lake, proxy)
}

/// Has the catalog's configuration say more.
fn configured(proxy: &Proxy, change: impl Fn(&mut Value) + Send + Sync + 'static) {
    proxy.add(Rule::rewrite(
        |request| request.path.contains("/v1/config"),
        move |_, answer| {
            let mut config: Value = serde_json::from_slice(&answer.body).unwrap();
            change(&mut config);
            answer.body = config.to_string().into_bytes();
        },
    ));
}

fn header<'a>(exchange: &'a Exchange, name: &str) -> Option<&'a str> {
    exchange.request.header(name)
}

fn commits(proxy: &Proxy) -> Vec<Exchange> {
    proxy.log().into_iter().filter(|exchange| exchange.request.is_commit()).collect()
}

#[test]
fn the_servers_defaults_come_before_the_file_and_its_overrides_after() {
    let (lake, proxy) = lake_behind(|file, _| {
        file.with("header.X-Ours", "file").with("header.X-Both", "file").with("header.X-Forced", "file")
    });
    configured(&proxy, |config| {
        config["defaults"]["header.x-default"] = "server".into();
        config["defaults"]["header.X-Both"] = "server".into();
        config["overrides"]["header.X-Forced"] = "server".into();
    });
    lake.ingest(&["job.toml"]).committed();
    let commit = commits(&proxy).pop().unwrap();
    let seen = ["X-Ours", "X-Both", "X-Default", "X-Forced"].map(|name| header(&commit, name));
    assert_eq!(seen, [Some("file"), Some("file"), Some("server"), Some("server")]);
    assert_eq!(header(&commit, "X-Iceberg-Access-Delegation"), Some("vended-credentials"));
    let reads: Vec<_> = proxy.log().into_iter().filter(|exchange| exchange.request.method == "GET").collect();
    assert!(reads.iter().all(|read| header(read, "accept-encoding").is_some_and(|accepted| accepted.contains("gzip"))));
    assert!(header(&commit, "user-agent").is_some_and(|agent| agent.starts_with("hexfloe/")));
}

#[test]
fn a_server_that_honours_idempotency_keys_gets_one_for_each_commit() {
    let (lake, proxy) = lake_behind(|file, _| file);
    configured(&proxy, |config| config["idempotency-key-lifetime"] = "PT30M".into());
    for round in 0..3 {
        lake.write("points.csv", format!("{POINTS}{},48.2,16.4\n", 10 + round));
        lake.ingest(&["job.toml"]).committed();
    }
    let commits = commits(&proxy);
    let keys: BTreeSet<&str> = commits.iter().map(|commit| header(commit, "idempotency-key").unwrap()).collect();
    assert_eq!(keys.len(), commits.len(), "a key is of one body");
    // Version 7, in the third group.
    assert!(keys.iter().all(|key| key.len() == 36 && key.as_bytes()[14] == b'7'), "{keys:?}");
    let others = proxy.log().into_iter().filter(|exchange| !exchange.request.is_commit());
    assert!(others.into_iter().all(|exchange| header(&exchange, "idempotency-key").is_none()));
}

#[test]
fn a_server_that_does_not_gets_none() {
    let (lake, proxy) = lake_behind(|file, _| file);
    lake.ingest(&["job.toml"]).committed();
    assert!(commits(&proxy).iter().all(|commit| header(commit, "idempotency-key").is_none()));
}

#[test]
fn a_redirect_is_not_followed_with_a_commit() {
    let (lake, proxy) = lake_behind(|file, _| file);
    lake.ingest(&["job.toml"]).committed();
    lake.write("points.csv", format!("{POINTS}3,48.2,16.4\n"));
    let elsewhere = format!("{}/elsewhere", proxy.uri());
    proxy.add(Rule::new(Request::is_commit, move |_, _| {
        let mut answer = hexfloe_tests::Answer::error(307);
        answer.headers.push(("location".to_owned(), elsewhere.clone()));
        Reply::Answer(answer)
    }));
    lake.ingest(&["job.toml"]).ends(Exit::Unknown);
    assert!(!proxy.log().iter().any(|exchange| exchange.request.path.contains("elsewhere")));
    proxy.behave();
    lake.ingest(&["job.toml"]).committed();
}

#[test]
fn requests_are_signed_as_aws_signs_them() {
    let server = SeaweedFs::shared();
    let (id, secret) = server.key(0);
    let (lake, proxy) = lake_behind(|file, _| {
        file.without("credential")
            .without("oauth2-server-uri")
            .with("rest.sigv4-enabled", "true")
            .with("rest.signing-name", "glue")
            .with("rest.signing-region", "eu-north-1")
    });
    // The server here takes tokens: it gets one in the place of each signature.
    let form = format!("grant_type=client_credentials&client_id={id}&client_secret={secret}&scope=catalog");
    proxy.add(Rule::new(
        |_| true,
        move |request, server| {
            let ask = Request {
                method: "POST".to_owned(),
                server: None,
                path: "/v1/oauth/tokens".to_owned(),
                headers: vec![
                    ("host".to_owned(), "127.0.0.1".to_owned()),
                    ("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned()),
                ],
                body: form.clone().into_bytes(),
            };
            let token: Value = serde_json::from_slice(&server.ask(&ask).unwrap().body).unwrap();
            let mut request = request.clone();
            request.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
            let bearer = format!("Bearer {}", token["access_token"].as_str().unwrap());
            request.headers.push(("authorization".to_owned(), bearer));
            server.forward(&request).map_or(Reply::Reset, Reply::Answer)
        },
    ));
    lake.write("job.toml", std::fs::read_to_string(lake.path("job.toml")).unwrap().replace("ns.points", "a.b.points"));
    lake.ingest(&["job.toml"]).committed();
    let log = proxy.log();
    assert!(log.iter().any(|exchange| exchange.request.path.contains("a%1Fb")), "no path with an encoded character");
    assert!(log.iter().any(|exchange| exchange.request.is_commit()));
    for exchange in &log {
        let Request { method, path, headers, body, .. } = &exchange.request;
        let signed = header(exchange, "authorization").unwrap();
        let scope = format!("AWS4-HMAC-SHA256 Credential={id}/");
        assert!(signed.starts_with(&scope) && signed.contains("/eu-north-1/glue/aws4_request"), "{signed}");
        let expected = judge(
            "aws_signature",
            json!({
                "method": method, "url": format!("{}{path}", proxy.uri()), "headers": headers,
                "body": String::from_utf8(body.clone()).unwrap(),
                "key": id, "secret": secret, "region": "eu-north-1", "service": "glue",
            }),
        );
        assert!(signed.ends_with(&format!("Signature={}", expected.as_str().unwrap())), "{method} {path}: {signed}");
    }
}

#[test]
fn a_certificate_authority_of_ones_own_is_trusted_when_it_is_named() {
    let server = SeaweedFs::shared();
    let (rest, s3) = (Tls::before(&server.rest_address()), Tls::before(&server.s3_address()));
    let lake = Lake::on(Backend::RestS3).and_points(POINTS);
    // One file for both.
    let both = [rest.authority(), s3.authority()].map(|file| std::fs::read_to_string(file).unwrap()).concat();
    let file = lake
        .catalog()
        .clone()
        .with("uri", &rest.uri())
        .with("oauth2-server-uri", &format!("{}/v1/oauth/tokens", rest.uri()))
        .with("s3.endpoint", &s3.uri());
    lake.write("authorities.pem", both);
    lake.write_catalog(&file);
    lake.ingest(&["job.toml"]).refuses(Exit::Unavailable, &["error:", &rest.uri(), "certificate"]);
    lake.write_catalog(&file.with("ssl.cabundle", "authorities.pem"));
    lake.ingest(&["job.toml"]).committed();
    assert_eq!(lake.ask("count", json!({ "table": "ns.points" }))["rows"], 2);
}

#[test]
fn the_proxy_of_the_environment_is_used() {
    let server = SeaweedFs::shared();
    let forward = Proxy::before(&server.rest_address()).unwrap();
    let lake = Lake::on(Backend::RestS3).and_points(POINTS);
    // The store is asked directly, by another name.
    let store = format!("http://{}", server.s3_address().replace("127.0.0.1", "localhost"));
    let file = lake.catalog().clone().with("s3.endpoint", &store);
    let file = file.with_secret("HTTP_PROXY", &forward.uri()).with_secret("NO_PROXY", "localhost");
    let other = Lake::in_catalog(file).and_points(POINTS);
    other.ingest(&["job.toml"]).committed();
    let asked: Vec<String> = forward.log().into_iter().map(|exchange| exchange.request.path).collect();
    assert!(asked.iter().any(|path| path.contains("/v1/config")), "{asked:?}");
    assert!(asked.iter().any(|path| path.contains("/tables/points")), "{asked:?}");
}

/// Two that find a namespace missing both make it, and a server may answer one of them while it is half made for the other.
#[test]
fn a_namespace_that_a_server_cannot_make_at_once_is_asked_for_again() {
    let (lake, proxy) = lake_behind(|file, _| file);
    let makes = |request: &Request| request.method == "POST" && request.path.ends_with("/namespaces");
    proxy.add(Rule::fault(makes, Side::Before, Fault::Status(500)).only(1..=2));
    lake.ingest(&["job.toml"]).committed();
    let asked = proxy.log().into_iter().filter(|exchange| makes(&exchange.request)).count();
    assert_eq!(asked, 3);
}

/// A server that checks what a commit asks for, and not the pointer itself, lets a tag be made for a snapshot that expires.
#[test]
fn a_tag_that_is_made_while_its_snapshot_expires_keeps_the_files() {
    let (lake, proxy) = lake_behind(|file, _| file);
    let rival = Lake::in_catalog(lake.catalog().clone());
    lake.ingest(&["job.toml"]).committed();
    for _ in 0..2 {
        lake.ingest(&["job.toml", "--force"]).committed();
    }
    let table = lake.ask("table", json!({ "table": "ns.points" }));
    let oldest = table["snapshots"][0]["id"].clone();
    let below = || lake.ask("below", json!({ "location": table["location"] })).as_object().unwrap().len();
    let before = below();
    let expires =
        |request: &Request| request.is_commit() && String::from_utf8_lossy(&request.body).contains("remove-snapshots");
    proxy.add(Rule::new(expires, move |request, server| {
        rival.ask("do_ref", json!({ "table": "ns.points", "snapshot": oldest, "tag": "keep" }));
        server.forward(request).map_or(Reply::Reset, Reply::Answer)
    }));
    let run = lake.hexfloe(&["cleanup", "snapshots", "ns.points", "--older-than", "0s", "--apply", "--json"]);
    let report = run.ends(Exit::Incomplete).report();
    let told = report["tables"][0]["stopped"].as_str().unwrap().to_owned();
    assert!(told.contains("\"keep\"") && report["tables"][0]["removed"] == 0, "{report:#}");
    // Their own metadata files came, and nothing went.
    assert_eq!(below(), before + 2);
}

/// SeaweedFS answers all of several requests that make one table at the same time, and the last of them wins: whoever wrote for a table
/// that lost finds another one under its name. (Here the answers are changed, which is the same to who reads them.)
#[test]
fn data_files_for_a_table_that_turns_out_to_be_another_one_are_removed() {
    let (lake, proxy) = lake_behind(|file, _| file);
    lake.ingest(&["job.toml"]).committed();
    let loads = |request: &Request| request.method == "GET" && request.path.ends_with("/tables/points");
    let (watch, seen) = (Lake::in_catalog(lake.catalog().clone()), AtomicUsize::new(0));
    proxy.add(Rule::rewrite(loads, move |_, answer| {
        let stored = || watch.state().files.keys().filter(|path| path.ends_with(".parquet")).count();
        // The load before the commit, and the one that asks which files may go.
        if seen.load(Ordering::SeqCst) < 2 && stored() > 1 {
            seen.fetch_add(1, Ordering::SeqCst);
            let mut table: Value = serde_json::from_slice(&answer.body).unwrap();
            table["metadata"]["table-uuid"] = "00000000-0000-4000-8000-000000000000".into();
            answer.body = table.to_string().into_bytes();
        }
    }));
    lake.write("points.csv", "id,lat,lon\n3,1.5,2.5\n");
    lake.ingest(&["job.toml"]).committed();
    let stored = lake.state().files.keys().filter(|path| path.ends_with(".parquet")).count();
    assert_eq!((stored, lake.files("ns.points").len()), (2, 2), "files stored, and referred to");
}
