//! Exit codes, and what is said on the way out.

use std::error::Error;
use std::process::ExitCode;

/// A failure with its exit code. The codes are documented in `docs/reference/exit-codes.md`.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
    no_catalog: bool,
}

impl Failure {
    pub(crate) fn unexpected(action: &str, error: impl Error) -> Self {
        Self { code: 1, message: format!("failed to {action}: {}", chain(&error)), no_catalog: false }
    }

    pub(crate) fn configuration(message: impl Into<String>) -> Self {
        Self { code: 2, message: message.into(), no_catalog: false }
    }

    pub(crate) fn in_file(self, path: &std::path::Path) -> Self {
        Self { message: format!("{}: {}", path.display(), self.message), ..self }
    }

    /// Whether the catalog was looked for and is not there.
    pub(crate) fn is_no_catalog(&self) -> bool {
        self.no_catalog
    }
}

impl From<hexfloe_ingest::Error> for Failure {
    fn from(error: hexfloe_ingest::Error) -> Self {
        use hexfloe_ingest::ErrorKind;
        let code = match error.kind() {
            ErrorKind::Configuration => 2,
            ErrorKind::Input => 3,
            ErrorKind::Derivation => 4,
            ErrorKind::Conflict => 5,
            ErrorKind::Unknown => 6,
            ErrorKind::Unavailable => 7,
            _ => 1,
        };
        let no_catalog = matches!(error, hexfloe_ingest::Error::Catalog(hexfloe_catalog::Error::NoCatalog { .. }));
        Self { code, message: chain(&error), no_catalog }
    }
}

impl From<hexfloe_catalog::Error> for Failure {
    fn from(error: hexfloe_catalog::Error) -> Self {
        hexfloe_ingest::Error::from(error).into()
    }
}

/// An error and what is behind it, on one line.
fn chain(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        // Wrappers often repeat what they wrap.
        if !message.contains(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        source = cause.source();
    }
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Says what went wrong, on one line of stderr.
pub(crate) fn failed(failure: &Failure) -> ExitCode {
    eprintln!("error: {}", failure.message);
    ExitCode::from(failure.code)
}
