//! The JSON schema of the job file is checked in, and changes are seen in review.

use std::path::Path;

/// With `UPDATE_SCHEMA=1` the file is written instead of compared.
#[test]
fn the_job_schema_is_the_one_that_is_checked_in() {
    let schema = schemars::schema_for!(hexfloe_ingest::Job);
    let mut schema = serde_json::to_string_pretty(&schema).unwrap();
    schema.push('\n');
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/job.schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &schema).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == schema,
        "docs/reference/job.schema.json is not the schema of the settings; write it with\n  \
         UPDATE_SCHEMA=1 cargo test -p hexfloe-ingest --test schema"
    );
}
