//! The keys of a catalog file.
//!
//! One table: what is parsed, what the schema says and what is kept out of messages all come from it.

/// A key of a catalog file.
#[derive(Debug)]
pub(crate) struct Key {
    /// The name; one that ends in `.` is the beginning of names.
    pub(crate) name: &'static str,
    /// Whether the value proves who somebody is.
    pub(crate) secret: bool,
    /// What it is, for the schema.
    pub(crate) about: &'static str,
}

const fn key(name: &'static str, about: &'static str) -> Key {
    Key { name, secret: false, about }
}

const fn secret(name: &'static str, about: &'static str) -> Key {
    Key { name, secret: true, about }
}

pub(crate) const KEYS: &[Key] = &[
    key("name", "the catalog's name; in a SQL catalog it is part of every table's key"),
    key("type", "the kind of catalog: sql or rest"),
    key("uri", "where the catalog is: sqlite:FILE, postgresql://USER:${PASSWORD}@HOST/DATABASE, or https://HOST/PATH"),
    key("warehouse", "where new tables go: a location; for a REST catalog whatever it calls a warehouse"),
    key("prefix", "REST: the prefix in its paths, where the server does not say it"),
    secret("token", "REST: a bearer token"),
    secret("credential", "REST: ID:SECRET, exchanged for tokens (OAuth2 client credentials)"),
    key("scope", "REST: the scope of the tokens; `catalog` unless said"),
    key("oauth2-server-uri", "REST: where tokens are given; the catalog's own endpoint unless said"),
    key("audience", "REST: the audience of the tokens"),
    key("resource", "REST: the resource of the tokens"),
    key("header.", "REST: a header of every request"),
    key("rest.sigv4-enabled", "REST: whether requests are signed as AWS services want it"),
    key("rest.signing-name", "REST: the service that signatures are for; `execute-api` unless said"),
    key("rest.signing-region", "REST: the region that signatures are for"),
    key("rest.client.connection-timeout-ms", "REST: time to connect, in milliseconds; 10000 unless said"),
    key("rest.client.socket-timeout-ms", "REST: time for a whole request, in milliseconds; 60000 unless said"),
    key("ssl.cabundle", "a PEM file of certificates that are trusted besides the system's"),
    key("s3.endpoint", "S3: where it is, for everything but AWS"),
    key("s3.region", "S3: the region"),
    key("client.region", "S3: the region, where s3.region is not said"),
    key("s3.access-key-id", "S3: the id of the access key"),
    secret("s3.secret-access-key", "S3: the access key"),
    secret("s3.session-token", "S3: the token of temporary keys"),
    key("s3.path-style-access", "S3: whether the bucket is in the path (true unless said) or in the host's name"),
    key("s3.force-virtual-addressing", "S3: whether the bucket is in the host's name"),
    key("s3.anonymous", "S3: whether requests are not signed"),
    key("s3.connect-timeout", "all stores: seconds to connect; 10 unless said"),
    key("s3.request-timeout", "all stores: seconds for a request; 60 unless said"),
    key("s3.proxy-uri", "all stores: a proxy"),
    key("s3.sse.type", "S3: encryption by the server: none, s3 or kms"),
    key("s3.sse.key", "S3: the key of kms"),
    key("gcs.project-id", "GCS: the project; not needed to read or write objects"),
    secret("gcs.oauth2.token", "GCS: a bearer token"),
    key("gcs.oauth2.token-expires-at", "GCS: when the token expires, in milliseconds since 1970"),
    key("gcs.service.host", "GCS: where it is"),
    secret("gcs.credentials-json", "GCS: the key of a service account"),
    key("gcs.credential-file", "GCS: a file of application credentials"),
    key("gcs.no-auth", "GCS: whether requests are not signed"),
    key("adls.account-name", "Azure: the account, where locations do not say it"),
    secret("adls.account-key", "Azure: the account's key"),
    secret("adls.sas-token", "Azure: a shared access signature"),
    key("adls.tenant-id", "Azure: the tenant of the client"),
    key("adls.client-id", "Azure: the client"),
    secret("adls.client-secret", "Azure: the client's secret"),
    secret("adls.connection-string", "Azure: a connection string"),
    key("adls.account-host", "Azure: where it is"),
    secret("adls.token", "Azure: a bearer token"),
];

/// The key of a name, if there is one.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| match key.name.strip_suffix('.') {
        Some(_) => name.len() > key.name.len() && name.starts_with(key.name),
        None => key.name == name,
    })
}

/// Whether the value of a name is kept out of files and messages.
pub(crate) fn is_secret(name: &str) -> bool {
    if let Some(header) = name.strip_prefix("header.") {
        let header = header.to_ascii_lowercase();
        return ["authorization", "cookie", "key", "password", "secret", "token"]
            .iter()
            .any(|part| header.contains(part));
    }
    find(name).is_some_and(|key| key.secret) || hexfloe_store::is_secret(name)
}

/// The JSON schema of a catalog file, for editors. Dots are levels, as TOML has them.
pub fn catalog_schema() -> serde_json::Value {
    use serde_json::{Value, json};

    fn table(about: Option<&str>) -> Value {
        let mut table = json!({ "type": "object", "additionalProperties": false, "properties": {} });
        if let Some(about) = about {
            table["description"] = about.into();
        }
        table
    }

    let mut root = table(Some("a catalog file; `${NAME}` in a value is the environment's variable NAME"));
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    root["title"] = "CatalogSettings".into();
    root["required"] = json!(["name", "type", "uri"]);
    for key in KEYS {
        let mut value = json!({ "description": key.about, "type": ["string", "boolean", "integer"] });
        if key.name == "type" {
            value["enum"] = json!(["sql", "rest"]);
        }
        if key.secret {
            value = json!({ "description": key.about, "type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*\}" });
        }
        // Written with quotes a name with dots is one key.
        match key.name.strip_suffix('.') {
            Some(start) => root["patternProperties"][format!(r"^{start}\..+")] = value.clone(),
            None => root["properties"][key.name] = value.clone(),
        }
        let parts: Vec<&str> = key.name.split('.').collect();
        let (last, levels) = parts.split_last().map_or(("", &[][..]), |(last, levels)| (*last, levels));
        let mut level = &mut root;
        for part in levels {
            level = &mut level["properties"][*part];
            if level.is_null() {
                *level = table(None);
            }
        }
        match last {
            "" => level["additionalProperties"] = value,
            last => level["properties"][last] = value,
        }
    }
    root
}
