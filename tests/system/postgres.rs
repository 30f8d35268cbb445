//! What is particular to a catalog in PostgreSQL: its tables are PyIceberg's, its address holds a password, and it can be killed alone.

use hexfloe_tests::{Backend, Exit, Lake, Postgres, SeaweedFs, json, judge};

use crate::rest::{TABLE, fifty_batches_while, holds_batches, points};

#[test]
fn a_database_killed_and_started_again_loses_none_of_fifty_batches() {
    let postgres = Postgres::start();
    let lake = Lake::on_postgres(&postgres, SeaweedFs::shared());
    fifty_batches_while(&lake, || {
        postgres.kill();
        postgres.start_again();
    });
}

#[test]
fn a_warehouse_on_local_files_may_have_its_catalog_in_postgres() {
    let lake = Lake::on(Backend::PostgresS3).and_points(&points(0));
    lake.write_catalog(&lake.catalog().clone().with("warehouse", "file:warehouse"));
    lake.ingest(&["job.toml"]).committed();
    lake.ingest(&["job.toml"]).skipped();
    assert!(lake.path("warehouse/ns").is_dir());
    let tables = lake.ask("catalog", json!({}));
    assert_eq!((tables.as_array().unwrap().len(), &tables[0][0], &tables[0][1]), (1, &json!("ns"), &json!("points")));
    assert!(tables[0][2].as_str().unwrap().starts_with("file:"), "{tables}");
}

#[test]
fn the_tables_are_those_of_pyiceberg_whoever_makes_them_first() {
    let lake = Lake::on(Backend::PostgresS3).and_points(&points(0));
    lake.ask("do_make_catalog", json!({ "namespace": "ns" }));
    lake.ingest(&["job.toml"]).committed();
    holds_batches(&lake, 1);
}

#[test]
fn a_driver_in_the_address_is_not_minded() {
    let lake = Lake::on(Backend::PostgresS3).and_points(&points(0));
    let uri = lake.catalog().get("uri").unwrap().replace("postgresql:", "postgresql+psycopg2:");
    lake.write_catalog(&lake.catalog().clone().with("uri", &uri));
    lake.ingest(&["job.toml"]).committed();
    holds_batches(&lake, 1);
}

#[test]
fn a_database_that_does_not_exist_is_named() {
    let lake = Lake::on(Backend::PostgresS3).and_points(&points(0));
    let uri = Postgres::shared().uri("no-such-database", "${PGPASSWORD}");
    lake.write_catalog(&lake.catalog().clone().with("uri", &uri));
    let run = lake.ingest(&["job.toml"]).refuses(Exit::Usage, &["error:", "no-such-database"]);
    assert!(!run.stderr.contains(&Postgres::shared().password()), "{}", run.stderr);
    assert_eq!(lake.ask("objects", json!({})), json!({}), "nothing was written before the catalog was there");
}

#[test]
fn a_password_that_is_written_out_is_refused_with_its_line() {
    let lake = Lake::on(Backend::PostgresS3).and_points(&points(0));
    let uri = Postgres::shared().uri("any", "written-out-9d2f");
    lake.write_catalog(&lake.catalog().clone().with("uri", &uri));
    let run = lake.ingest(&["job.toml"]).refuses(Exit::Usage, &["catalog.toml", "line", "uri"]);
    assert!(!run.stderr.contains("written-out-9d2f"), "{}", run.stderr);
}

/// The first schema of the path is where missing tables would be made; the catalog's may be in another one.
#[test]
fn the_tables_are_found_in_any_schema_of_the_path_and_made_in_none() {
    let postgres = Postgres::shared();
    let lake = Lake::on(Backend::PostgresS3).and_points(&points(0));
    lake.ingest(&["job.toml"]).committed();
    let uri = lake.catalog().get("uri").unwrap().replace("${PGPASSWORD}", &postgres.password());
    let database = uri.rsplit('/').next().unwrap().to_owned();
    let sql = |statement: &str| judge("do_sql", json!({ "uri": uri, "statement": statement }));
    sql("CREATE SCHEMA other");
    sql(&format!("ALTER DATABASE \"{database}\" SET search_path = other, public"));
    assert_eq!(
        lake.hexfloe(&["batches", TABLE, "--json"]).ends(Exit::Done).report()["batches"].as_array().unwrap().len(),
        1
    );
    assert_eq!(lake.ingest(&["job.toml"]).ends(Exit::Done).report()["status"], "skipped");
    let schemas = sql("SELECT table_schema::text FROM information_schema.tables WHERE table_name = 'iceberg_tables'");
    assert_eq!(schemas, json!([["public"]]));
}

#[test]
fn a_lock_that_is_held_is_not_waited_for_without_end() {
    let postgres = Postgres::shared();
    let lake = Lake::on(Backend::PostgresS3).and_points(&points(0));
    lake.ingest(&["job.toml"]).committed();
    let uri = lake.catalog().get("uri").unwrap().replace("${PGPASSWORD}", &postgres.password());
    // Longer than anybody waits here.
    let hold = "BEGIN; LOCK TABLE iceberg_tables IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600); COMMIT";
    std::thread::scope(|scope| {
        let holding = scope.spawn(|| judge("do_sql", json!({ "uri": uri, "statement": hold })));
        let waiting = "SELECT count(*)::int FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted \
                       AND relation = 'iceberg_tables'::regclass";
        while judge("do_sql", json!({ "uri": uri, "statement": waiting })) != json!([[1]]) {
            hexfloe_tests::pause(std::time::Duration::from_millis(50));
        }
        lake.hexfloe(&["batches", TABLE]).ends(Exit::Unavailable);
        assert!(!holding.is_finished(), "it waited for the lock to be given back");
        let end = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted \
                   AND relation = 'iceberg_tables'::regclass";
        judge("do_sql", json!({ "uri": uri, "statement": end }));
        // It was cut off, and says so.
        drop(holding.join());
    });
    lake.ingest(&["job.toml"]).ends(Exit::Done);
}

#[test]
fn who_may_not_write_the_catalog_is_told_so() {
    let postgres = Postgres::shared();
    let lake = Lake::on(Backend::PostgresS3).and_points(&points(0));
    lake.ingest(&["job.toml"]).committed();
    let uri = lake.catalog().get("uri").unwrap().replace("${PGPASSWORD}", &postgres.password());
    let database = uri.rsplit('/').next().unwrap();
    let only_read = format!("ALTER DATABASE \"{database}\" SET default_transaction_read_only = on");
    judge("do_sql", json!({ "uri": uri, "statement": only_read }));
    lake.ingest(&["job.toml", "--force"]).refuses(Exit::Usage, &["error:", "read-only transaction"]);
}
