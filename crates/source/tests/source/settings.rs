//! Settings as people write them.

use hexfloe_source::{CsvSettings, ErrorKind, Format, Source, SourceSettings};
use rstest::rstest;

use crate::{folder, schema_of, settings};

#[test]
fn a_short_section_has_documented_defaults() {
    let settings: SourceSettings = toml::from_str("name = \"s\"\nformat = \"csv\"\npaths = [\"a.csv\"]\n").unwrap();
    assert_eq!(settings.format, Format::Csv);
    assert_eq!(settings.csv, CsvSettings::default());
    assert!(settings.csv.header);
    assert_eq!((settings.csv.delimiter, settings.csv.quote, settings.csv.null_values), (',', '"', vec![String::new()]));
    assert!(settings.schema.is_empty() && settings.select.is_none());
}

#[test]
fn a_full_section_is_read() {
    let text = "name = \"s\"\nformat = \"geoparquet\"\npaths = [\"a\"]\nselect = \"SELECT 1\"\n[schema]\nzip = \"string\"\n\
        [csv]\ndelimiter = \"\\t\"\ndecimal_comma = true\n";
    let settings: SourceSettings = toml::from_str(text).unwrap();
    assert_eq!(settings.format, Format::Geoparquet);
    assert_eq!((settings.csv.delimiter, settings.csv.decimal_comma), ('\t', true));
    assert_eq!(settings.schema, schema_of(&[("zip", "string")]));
}

#[rstest]
#[case("nam = \"s\"", "unknown field `nam`")]
#[case("format = \"xml\"", "unknown variant `xml`")]
#[case("csv = { separator = \",\" }", "unknown field `separator`")]
#[case("csv = { delimiter = \";;\" }", "character")]
fn what_is_not_known_is_refused(#[case] line: &str, #[case] message: &str) {
    let base = "name = \"s\"\npaths = [\"a\"]\n";
    let format = if line.starts_with("format") { "" } else { "format = \"csv\"\n" };
    let error = toml::from_str::<SourceSettings>(&format!("{base}{format}{line}\n")).unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
}

#[test]
fn the_json_schema_describes_every_setting() {
    let schema = serde_json::to_value(schemars::schema_for!(SourceSettings)).unwrap();
    for (part, at) in [("source", "/properties"), ("csv", "/$defs/CsvSettings/properties")] {
        for (name, property) in schema.pointer(at).unwrap().as_object().unwrap() {
            assert!(property.get("description").is_some(), "{part}.{name} has no description");
        }
    }
    assert_eq!(schema["additionalProperties"], false);
}

#[rstest]
#[case::delimiter(|s: &mut SourceSettings| s.csv.delimiter = 'é', "source.csv.delimiter: 'é' is not one byte")]
#[case::line_break(|s: &mut SourceSettings| s.csv.delimiter = '\n', "source.csv.delimiter: '\\n' is not one byte")]
#[case::quote(|s: &mut SourceSettings| s.csv.quote = ',', "source.csv.quote: ',' is also the delimiter")]
#[case::name(|s: &mut SourceSettings| s.name = " ".to_owned(), "source.name: is empty")]
#[case::no_paths(|s: &mut SourceSettings| s.paths.clear(), "source.paths: no paths")]
#[case::type_name(|s: &mut SourceSettings| s.schema = schema_of(&[("v", "strin")]), "source.schema.v: `strin` is not a type: the nearest names are `string`")]
fn a_setting_that_cannot_be_obeyed_is_refused(#[case] change: fn(&mut SourceSettings), #[case] message: &str) {
    let mut settings = settings(Format::Csv, &["a.csv"]);
    change(&mut settings);
    let error = Source::open(settings, folder(&[("a.csv", b"v\n1\n")]).path()).unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
    assert_eq!(error.kind(), ErrorKind::Configuration);
}

#[cfg(not(feature = "sql"))]
#[test]
fn select_without_sql_says_how_to_build_with_it() {
    let mut settings = settings(Format::Csv, &["a.csv"]);
    settings.select = Some("SELECT * FROM input".to_owned());
    let error = Source::open(settings, folder(&[("a.csv", b"v\n1\n")]).path()).unwrap_err();
    assert!(error.to_string().contains("--features sql"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Configuration);
}
