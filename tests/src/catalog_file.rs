//! What a catalog file says, as values: tests change single keys, and hand the same catalog to `hexfloe` and to the judges.

use serde_json::{Map, Value};

/// A catalog file. Secrets stand in it as `${NAME}`, and are passed in the environment.
#[derive(Clone, Debug, Default)]
pub struct CatalogFile {
    keys: Vec<(String, String)>,
    secrets: Vec<(String, String)>,
}

impl CatalogFile {
    /// A file that holds these keys.
    pub fn of(keys: &[(&str, &str)]) -> Self {
        keys.iter().fold(Self::default(), |file, (key, value)| file.with(key, value))
    }

    /// The file with this key, in place of the one it may have had.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        match self.keys.iter_mut().find(|(name, _)| name == key) {
            Some((_, before)) => value.clone_into(before),
            None => self.keys.push((key.to_owned(), value.to_owned())),
        }
        self
    }

    /// The file without this key.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        self.keys.retain(|(name, _)| name != key);
        self
    }

    /// The file with a value for `${name}`.
    #[must_use]
    pub fn with_secret(mut self, name: &str, value: &str) -> Self {
        self.secrets.retain(|(known, _)| known != name);
        self.secrets.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The value of a key, with `${…}` as it stands.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.keys.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The text of the file.
    pub fn toml(&self) -> String {
        self.keys.iter().fold(String::new(), |text, (key, value)| {
            // A JSON string is a TOML string.
            text + &format!("{} = {}\n", Value::from(key.as_str()), Value::from(value.as_str()))
        })
    }

    /// The environment that the file refers to: what must never be seen in any output.
    pub fn environment(&self) -> &[(String, String)] {
        &self.secrets
    }

    /// The properties with secrets filled in, as the judges take them.
    pub fn properties(&self) -> Value {
        let filled = |value: &str| {
            let fill = |text: String, (name, secret): &(String, String)| text.replace(&format!("${{{name}}}"), secret);
            self.secrets.iter().fold(value.to_owned(), fill)
        };
        let properties: Map<_, _> = self.keys.iter().map(|(key, value)| (key.clone(), filled(value).into())).collect();
        properties.into()
    }
}
