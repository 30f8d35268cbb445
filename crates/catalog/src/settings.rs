//! What people write in a catalog file.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use hexfloe_store::{Location, Properties, secrets};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{Error, keys};

/// A catalog file, with keys as PyIceberg spells them.
///
/// ```toml
/// name       = "lake"
/// type       = "rest"
/// uri        = "https://catalog.example.com"
/// warehouse  = "lake"
/// credential = "${LAKE_CREDENTIAL}"
/// s3.region  = "eu-north-1"
/// ```
///
/// Relative paths are relative to the folder of the file. `${NAME}` in a value is an environment variable (`$${` a plain
/// `${`), and secrets are only written so.
#[derive(Clone, PartialEq, Eq)]
pub struct CatalogSettings {
    /// The catalog's name; in a SQL catalog it is part of every table's key.
    pub name: String,
    /// The kind of catalog.
    pub kind: CatalogKind,
    /// Where the catalog is: `sqlite:FILE` or SQLAlchemy's `sqlite:///FILE` (four slashes for an absolute path),
    /// `postgresql://…`, or `https://…`.
    pub uri: String,
    /// Where new tables go: `file:FOLDER` or an absolute location; for a REST catalog whatever it calls a warehouse, or
    /// nothing.
    pub warehouse: String,
    /// Everything else: `s3.endpoint`, `credential`, ….
    pub properties: Properties,
}

/// The kinds of catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatalogKind {
    /// Tables in a SQL database, as in Java's JDBC catalog and PyIceberg's `SqlCatalog`.
    Sql,
    /// A server that speaks Iceberg's REST protocol.
    Rest,
}

/// Where a SQL catalog is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    /// A file, absolute.
    Sqlite(PathBuf),
    /// A server.
    Postgres(String),
}

impl CatalogSettings {
    /// The catalog that needs nothing: SQLite and a warehouse below `lake/`.
    pub fn embedded() -> Self {
        Self {
            name: "lake".to_owned(),
            kind: CatalogKind::Sql,
            uri: "sqlite:lake/catalog.db".to_owned(),
            warehouse: "file:lake/warehouse".to_owned(),
            properties: Properties::new(),
        }
    }

    /// Parses a catalog file; `environment` gives the value of a variable.
    ///
    /// The secrets in it are remembered as such ([`secrets::remember`]).
    ///
    /// # Errors
    ///
    /// [`Error::Settings`] with the line: unknown and missing keys, values of a wrong type, variables that are not set,
    /// secrets that are written out.
    pub fn from_toml(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let line = |position: usize| text[..position.min(text.len())].matches('\n').count() + 1;
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map(|span| format!("line {}: ", line(span.start))).unwrap_or_default();
            Error::Settings(format!("{at}{}", error.message()))
        })?;
        let mut values = Vec::new();
        flatten("", table.get_ref(), &mut values);
        let mut properties = Properties::new();
        for (name, value) in values {
            let at = line(value.span().start);
            let refuse = |reason: String| Error::Settings(format!("line {at}: {reason}"));
            if keys::find(&name).is_none() {
                return Err(refuse(format!("unknown field `{name}`{}", suggestion(&name))));
            }
            let written = match value.get_ref() {
                DeValue::String(text) => text.clone().into_owned(),
                DeValue::Boolean(value) => value.to_string(),
                DeValue::Integer(value) if value.radix() == 10 => value.as_str().to_owned(),
                DeValue::Integer(_) => return Err(refuse(format!("{name}: write the number in decimal"))),
                other => return Err(refuse(format!("{name} is {}, and has to be text", other.type_str()))),
            };
            let expanded = expand(&written, environment).map_err(|reason| refuse(format!("{name}: {reason}")))?;
            if keys::is_secret(&name) && !written.is_empty() {
                if expanded.secrets.is_empty() {
                    let variable = name.to_ascii_uppercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_");
                    return Err(refuse(format!(
                        "{name} is a secret: write {name} = \"${{{variable}}}\", and set {variable} in the environment"
                    )));
                }
                secrets::remember(&expanded.text);
                match (name.as_str(), expanded.text.split_once(':')) {
                    // Who we are may be said.
                    ("credential", Some((_, secret))) => secrets::remember(secret),
                    _ => expanded.secrets.iter().for_each(|secret| secrets::remember(secret)),
                }
            }
            if ["uri", "oauth2-server-uri", "s3.proxy-uri", "s3.endpoint"].contains(&name.as_str()) {
                refuse_written_password(&name, &written).map_err(refuse)?;
                if let Some(password) = password(&expanded.text).map(|range| &expanded.text[range]) {
                    secrets::remember(password);
                    let decoded = url::form_urlencoded::parse(format!("p={}", password.replace('+', "%2B")).as_bytes())
                        .next()
                        .map(|(_, decoded)| decoded.into_owned());
                    decoded.iter().for_each(|decoded| secrets::remember(decoded));
                }
            }
            if properties.insert(name.clone(), expanded.text).is_some() {
                return Err(refuse(format!("{name} is written twice")));
            }
        }
        let mut take = |name: &str| properties.remove(name);
        let missing = |name: &str| Error::Settings(format!("missing field `{name}`"));
        let kind = match take("type").ok_or_else(|| missing("type"))?.as_str() {
            "sql" => CatalogKind::Sql,
            "rest" => CatalogKind::Rest,
            other => return Err(Error::Settings(format!("type {other:?} is not one of sql, rest"))),
        };
        let name = take("name").ok_or_else(|| missing("name"))?;
        let uri = take("uri").ok_or_else(|| missing("uri"))?;
        let warehouse = match (take("warehouse"), kind) {
            (Some(warehouse), _) => warehouse,
            (None, CatalogKind::Rest) => String::new(),
            (None, CatalogKind::Sql) => return Err(missing("warehouse")),
        };
        Ok(Self { name, kind, uri, warehouse, properties })
    }

    /// The value of a property that is not empty.
    pub(crate) fn property(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The database of a SQL catalog.
    pub(crate) fn database(&self, base: &Path) -> Result<Database, Error> {
        let database = self.database_as_written(base)?;
        let (Database::Postgres(url), Some(file)) = (&database, self.property("ssl.cabundle")) else {
            return Ok(database);
        };
        if url.contains("sslrootcert=") {
            return Ok(database);
        }
        let mut parsed =
            url::Url::parse(url).map_err(|error| Error::Settings(format!("uri cannot be read: {error}")))?;
        parsed.query_pairs_mut().append_pair("sslrootcert", &absolute(base, file)?.display().to_string());
        Ok(Database::Postgres(parsed.into()))
    }

    fn database_as_written(&self, base: &Path) -> Result<Database, Error> {
        // SQLAlchemy names the driver too: `postgresql+psycopg2://`.
        let server = self.uri.split_once("://").and_then(|(scheme, rest)| {
            matches!(scheme.split('+').next(), Some("postgres" | "postgresql")).then_some(rest)
        });
        if let Some(rest) = server {
            return Ok(Database::Postgres(format!("postgresql://{rest}")));
        }
        let shown = secrets::conceal(&self.uri).into_owned();
        let Some(rest) = self.uri.strip_prefix("sqlite:") else {
            let reason = format!("uri {shown:?} is not supported; write `sqlite:FILE` or `postgresql://…`");
            return Err(Error::Settings(reason));
        };
        // SQLAlchemy: three slashes and a relative path, four for an absolute one.
        let path = rest.strip_prefix("///").unwrap_or(rest);
        if path.is_empty() || path.starts_with("//") || path.contains('?') {
            return Err(Error::Settings(format!("uri {shown:?} names no database file; write `sqlite:FILE`")));
        }
        absolute(base, path).map(Database::Sqlite)
    }

    /// The warehouse, absolute and canonical.
    pub(crate) fn warehouse(&self, base: &Path) -> Result<Location, Error> {
        let local = match self.warehouse.split_once(':') {
            Some(("file", path)) if !path.starts_with("//") => Some(path),
            Some(_) => None,
            None => Some(self.warehouse.as_str()),
        };
        match local {
            Some(path) => Ok(Location::from_path(&absolute(base, path)?)?),
            None => Ok(Location::parse(&self.warehouse)?),
        }
    }

    /// The certificates of `ssl.cabundle`.
    pub(crate) fn roots(&self, base: &Path) -> Result<Option<Vec<u8>>, Error> {
        let Some(file) = self.property("ssl.cabundle") else { return Ok(None) };
        let path = absolute(base, file)?;
        let failed = |error| Error::Settings(format!("cannot read ssl.cabundle {}: {error}", path.display()));
        std::fs::read(&path).map(Some).map_err(failed)
    }

    /// The properties of stores.
    pub(crate) fn store_properties(&self) -> Properties {
        let stores = ["s3.", "gcs.", "adls.", "client."];
        let of_stores = self.properties.iter().filter(|(name, _)| stores.iter().any(|store| name.starts_with(store)));
        of_stores.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

impl fmt::Debug for CatalogSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Properties = self
            .properties
            .iter()
            .map(|(name, value)| (name.clone(), if keys::is_secret(name) { "***".to_owned() } else { value.clone() }))
            .collect();
        f.debug_struct("CatalogSettings")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("uri", &without_password(&self.uri))
            .field("warehouse", &self.warehouse)
            .field("properties", &shown)
            .finish()
    }
}

/// The values of a table, its tables' names joined by dots.
fn flatten<'t>(above: &str, table: &'t DeTable<'_>, values: &mut Vec<(String, &'t Spanned<DeValue<'t>>)>) {
    for (name, value) in table {
        let name = match above {
            "" => name.get_ref().to_string(),
            above => format!("{above}.{}", name.get_ref()),
        };
        match value.get_ref() {
            DeValue::Table(table) => flatten(&name, table, values),
            _ => values.push((name, value)),
        }
    }
}

fn suggestion(name: &str) -> String {
    let near = keys::KEYS.iter().map(|key| (strsim::damerau_levenshtein(key.name, name), key.name));
    match near.min() {
        Some((distance, near)) if distance <= 3 => format!("; did you mean `{near}`?"),
        _ => String::new(),
    }
}

struct Expanded {
    text: String,
    /// The values of the variables in it.
    secrets: Vec<String>,
}

/// Puts environment variables in the places of `${NAME}`.
fn expand(written: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Expanded, String> {
    let mut expanded = Expanded { text: String::new(), secrets: Vec::new() };
    let mut rest = written;
    while let Some(start) = rest.find("${") {
        let (before, after) = (&rest[..start], &rest[start + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            expanded.text.push_str(before);
            expanded.text.push_str("${");
            rest = after;
            continue;
        }
        let Some((name, after)) = after.split_once('}') else {
            return Err("`${` without `}`; write `$${` for the characters themselves".to_owned());
        };
        let is_name = !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            return Err(format!("{name:?} is not the name of an environment variable"));
        }
        let value = environment(name).filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| format!("the environment variable {name} is not set"))?;
        expanded.text.push_str(before);
        expanded.text.push_str(&value);
        expanded.secrets.push(value);
        rest = after;
    }
    expanded.text.push_str(rest);
    Ok(expanded)
}

/// The place of the password in a URI: before the last `@` of what is not its query, or in the query.
fn password(uri: &str) -> Option<std::ops::Range<usize>> {
    let start = uri.find("://")? + 3;
    let end = uri[start..].find('?').map_or(uri.len(), |query| start + query);
    if let Some((user, _)) = uri[start..end].rsplit_once('@')
        && let Some(colon) = user.find(':')
    {
        return Some(start + colon + 1..start + user.len());
    }
    let query = &uri[end..];
    let place = query.find("?password=").or_else(|| query.find("&password="))? + "?password=".len();
    let length = query[place..].find('&').unwrap_or(query.len() - place);
    Some(end + place..end + place + length)
}

fn refuse_written_password(name: &str, uri: &str) -> Result<(), String> {
    match password(uri) {
        Some(range) if !uri[range.clone()].is_empty() && !uri[range.clone()].contains("${") => {
            Err(format!("the password in {name} is a secret: write it as ${{NAME}}, and set NAME in the environment"))
        }
        _ => Ok(()),
    }
}

fn without_password(uri: &str) -> String {
    match password(uri) {
        Some(range) => format!("{}***{}", &uri[..range.start], &uri[range.end..]),
        None => uri.to_owned(),
    }
}

/// `path` as seen from `base`, absolute and without `..`, which is taken off as written, whatever links there are:
/// a location is a name, and must be the same in every run.
fn absolute(base: &Path, path: &str) -> Result<PathBuf, Error> {
    let joined = std::path::absolute(base.join(path))
        .map_err(|error| Error::Settings(format!("path {path:?} cannot be made absolute: {error}")))?;
    let mut plain = PathBuf::new();
    for component in joined.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn parse(text: &str) -> Result<CatalogSettings, Error> {
        let environment = |name: &str| match name {
            "ID" => Some("someone".to_owned()),
            "HUSH" => Some("hush-hush".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        CatalogSettings::from_toml(text, &environment)
    }

    const REST: &str = "name = 'lake'\ntype = 'rest'\nuri = 'http://localhost'\n";

    #[rstest]
    #[case("sqlite:lake/catalog.db", "/base/lake/catalog.db")]
    #[case("sqlite:/lake/catalog.db", "/lake/catalog.db")]
    #[case("sqlite:///lake/catalog.db", "/base/lake/catalog.db")]
    #[case("sqlite:////lake/catalog.db", "/lake/catalog.db")]
    #[case("sqlite:../lake/catalog.db", "/lake/catalog.db")]
    #[case("sqlite:./lake/../catalog.db", "/base/catalog.db")]
    fn database_paths_read_as_sqlalchemy_reads_them(#[case] uri: &str, #[case] path: &str) {
        let settings = CatalogSettings { uri: uri.to_owned(), ..CatalogSettings::embedded() };
        assert_eq!(settings.database(Path::new("/base")).unwrap(), Database::Sqlite(PathBuf::from(path)));
    }

    #[rstest]
    #[case("postgresql://me@localhost/lake")]
    #[case("postgres://me@localhost/lake")]
    #[case("postgresql+psycopg2://me@localhost/lake")]
    fn a_server_is_named_as_sqlalchemy_names_it(#[case] uri: &str) {
        let settings = CatalogSettings { uri: uri.to_owned(), ..CatalogSettings::embedded() };
        let server = Database::Postgres("postgresql://me@localhost/lake".to_owned());
        assert_eq!(settings.database(Path::new("/base")).unwrap(), server);
    }

    #[test]
    fn certificates_are_passed_on_to_the_database() {
        let mut settings = CatalogSettings {
            uri: "postgresql://db/lake?sslmode=verify-full".to_owned(),
            ..CatalogSettings::embedded()
        };
        settings.properties.insert("ssl.cabundle".to_owned(), "ca.pem".to_owned());
        let expected = "postgresql://db/lake?sslmode=verify-full&sslrootcert=%2Fbase%2Fca.pem";
        assert_eq!(settings.database(Path::new("/base")).unwrap(), Database::Postgres(expected.to_owned()));
    }

    #[rstest]
    #[case("oracle://localhost/lake")]
    #[case("sqlite:")]
    #[case("sqlite://lake.db")]
    #[case("sqlite:lake.db?mode=ro")]
    fn other_databases_are_refused(#[case] uri: &str) {
        let settings = CatalogSettings { uri: uri.to_owned(), ..CatalogSettings::embedded() };
        assert!(matches!(settings.database(Path::new("/base")), Err(Error::Settings(_))));
    }

    #[rstest]
    #[case("file:lake/warehouse", "file:///base/lake/warehouse")]
    #[case("lake/warehouse/", "file:///base/lake/warehouse")]
    #[case("file:/lake", "file:///lake")]
    #[case("../lake", "file:///lake")]
    #[case("file:./lake", "file:///base/lake")]
    #[case("file:///lake/", "file:///lake")]
    #[case("s3://lake/db/", "s3://lake/db")]
    fn warehouses_are_written_in_one_form(#[case] warehouse: &str, #[case] location: &str) {
        let settings = CatalogSettings { warehouse: warehouse.to_owned(), ..CatalogSettings::embedded() };
        assert_eq!(settings.warehouse(Path::new("/base")).unwrap().to_string(), location);
    }

    #[test]
    fn a_relative_base_is_taken_from_the_current_folder() {
        let here = std::env::current_dir().unwrap();
        let settings = CatalogSettings::embedded();
        let database = settings.database(Path::new("jobs")).unwrap();
        assert_eq!(database, Database::Sqlite(here.join("jobs/lake/catalog.db")));
        assert_eq!(
            settings.warehouse(Path::new("")).unwrap(),
            Location::from_path(&here.join("lake/warehouse")).unwrap()
        );
    }

    #[test]
    fn dots_are_levels_or_part_of_a_name_and_variables_are_put_in() {
        let text = format!(
            "{REST}credential = '${{ID}}:${{HUSH}}'\n\"s3.endpoint\" = 'http://s3'\ns3.path-style-access = true\n\
             header.X-Tenant = 'a$${{b}}'\n[s3.sse]\ntype = 'kms'\n"
        );
        let settings = parse(&text).unwrap();
        let expected = [
            ("credential", "someone:hush-hush"),
            ("header.X-Tenant", "a${b}"),
            ("s3.endpoint", "http://s3"),
            ("s3.path-style-access", "true"),
            ("s3.sse.type", "kms"),
        ];
        assert_eq!(settings.properties, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert_eq!(settings.warehouse, "");
        let shown = format!("{settings:?}");
        assert!(!shown.contains("hush") && shown.contains("http://s3"), "{shown}");
        assert_eq!(secrets::conceal("rejected hush-hush"), "rejected ***");
    }

    #[rstest]
    #[case("credential = 'id:secret'", "line 4: credential is a secret: write credential = \"${CREDENTIAL}\"")]
    #[case(
        "s3.secret-access-key = 'x'",
        "s3.secret-access-key is a secret: write s3.secret-access-key = \"${S3_SECRET"
    )]
    #[case("header.Authorization = 'Basic x'", "header.Authorization is a secret")]
    #[case("token = '${NOT_SET}'", "line 4: token: the environment variable NOT_SET is not set")]
    #[case("token = '${EMPTY}'", "the environment variable EMPTY is not set")]
    #[case("token = '${HUSH'", "`${` without `}`")]
    #[case("token = '${1X}'", "\"1X\" is not the name of an environment variable")]
    #[case("s3.endpoint_ = 'x'", "line 4: unknown field `s3.endpoint_`; did you mean `s3.endpoint`?")]
    #[case("scope = 1.5", "line 4: scope is float, and has to be text")]
    #[case("\"s3.region\" = 'a'\ns3.region = 'b'", "s3.region is written twice")]
    #[case("scope = ", "line 4:")]
    fn what_is_wrong_is_said_with_its_line(#[case] line: &str, #[case] message: &str) {
        let error = parse(&format!("{REST}{line}\n")).unwrap_err().to_string();
        assert!(error.contains(message) && !error.contains('\n'), "{error}");
    }

    #[test]
    fn what_is_not_secret_in_a_uri_or_a_credential_is_shown() {
        let environment = |name: &str| Some(format!("value-of-{name}"));
        let text = "name='a'\ntype='sql'\nwarehouse='w'\nuri='postgresql://${USER}:${PASSWORD}@${HOST}/lake'\n\
                    credential='${CLIENT}:${KEY}'";
        CatalogSettings::from_toml(text, &environment).unwrap();
        for (shown, hidden) in [("USER", "PASSWORD"), ("HOST", "PASSWORD"), ("CLIENT", "KEY")] {
            let told = secrets::conceal(&format!("value-of-{shown} value-of-{hidden}")).into_owned();
            assert_eq!(told, format!("value-of-{shown} ***"));
        }
    }

    #[test]
    fn a_password_in_the_uri_is_a_variable_and_is_not_shown() {
        let uri =
            |password: &str| format!("name='a'\ntype='sql'\nwarehouse='w'\nuri='postgresql://me:{password}@db/lake'");
        let error = parse(&uri("hunter2")).unwrap_err().to_string();
        assert!(error.contains("line 4: the password in uri is a secret") && !error.contains("hunter2"), "{error}");
        let settings = parse(&uri("${HUSH}")).unwrap();
        assert!(settings.uri.contains("hush-hush"));
        assert!(format!("{settings:?}").contains("postgresql://me:***@db/lake"));
    }

    #[rstest]
    #[case("postgresql://db/lake?user=me&password=hunter2", "postgresql://db/lake?user=me&password=***")]
    #[case("postgresql://me:hun/ter2@db/lake?sslmode=require", "postgresql://me:***@db/lake?sslmode=require")]
    #[case("http://me:p@w@db:80/lake", "http://me:***@db:80/lake")]
    fn passwords_are_found_wherever_they_are(#[case] uri: &str, #[case] shown: &str) {
        assert_eq!(without_password(uri), shown);
        assert!(refuse_written_password("uri", uri).is_err());
        let settings = CatalogSettings { uri: uri.to_owned(), ..CatalogSettings::embedded() };
        assert!(!format!("{settings:?}").contains("ter2"));
    }

    #[test]
    fn a_number_is_decimal() {
        let error = parse(&format!("{REST}rest.client.socket-timeout-ms = 0x10000")).unwrap_err().to_string();
        assert!(error.contains("line 4: rest.client.socket-timeout-ms: write the number in decimal"), "{error}");
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_it() {
        let error = parse("name='a'\ntype='sql'\nuri='sqlite:a'\nwarehouse='b'\nwarehous='c'");
        let error = error.unwrap_err().to_string();
        assert!(error.contains("line 5: unknown field `warehous`") && !error.contains('|'), "{error}");
    }

    #[rstest]
    #[case("type='sql'\nuri='sqlite:a'\nwarehouse='b'", "missing field `name`")]
    #[case("name='a'\nuri='sqlite:a'\nwarehouse='b'", "missing field `type`")]
    #[case("name='a'\ntype='hive'\nuri='sqlite:a'", "type \"hive\" is not one of sql, rest")]
    #[case("name='a'\ntype='sql'\nuri='sqlite:a'", "missing field `warehouse`")]
    fn what_is_missing_is_named(#[case] text: &str, #[case] message: &str) {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}
