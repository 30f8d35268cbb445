//! The JSON schema of the catalog file is checked in, and changes are seen in review.

use std::path::Path;

#[test]
fn the_catalog_schema_is_the_one_that_is_checked_in() {
    let mut schema = serde_json::to_string_pretty(&hexfloe_catalog::catalog_schema()).unwrap();
    schema.push('\n');
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/catalog.schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &schema).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).is_ok_and(|checked_in| checked_in == schema),
        "docs/reference/catalog.schema.json is not the schema of the settings; write it with\n  \
         UPDATE_SCHEMA=1 cargo test -p hexfloe-catalog --test schema"
    );
}
