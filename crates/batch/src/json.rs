//! JSON with stable bytes: the keys stand in the order in which the type declares them.

use serde::Serialize;

/// The JSON of a value made of structs, strings and numbers only.
#[expect(
    clippy::expect_used,
    reason = "serde_json fails only on map keys that are no strings, and on writers that fail"
)]
pub(crate) fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("structs of strings and numbers have a JSON form")
}
