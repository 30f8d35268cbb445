//! What is particular to a catalog in PostgreSQL: its tables are PyIceberg's, its address holds a password, and it can be killed alone.

use hexfloe_tests::{Backend, Exit, Lake, Postgres, SeaweedFs, json};

use crate::rest::{fifty_batches_while, holds_batches, points};

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
