//! What can go wrong, by what the person who runs the job does about it.

use std::io;

use crate::names;

/// Why a source could not be opened or read. The message names the file and, where there is one, the line, column and
/// value, and says what to do next; [`Error::kind`] is for the program that has to choose an exit code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting cannot be obeyed.
    #[error("{setting}: {problem}")]
    Setting {
        /// The setting, as a path in the job file.
        setting: String,
        /// What is wrong with it, and what to write instead.
        problem: String,
    },

    /// The job speaks of a column that the source does not have.
    #[error("no column `{column}` in {file}{}", names::hint(.near))]
    NoColumn {
        /// The column that was asked for.
        column: String,
        /// The file, or `the result of select`.
        file: String,
        /// The names in the source that are nearest to it.
        near: Vec<String>,
    },

    /// The SQL of `select` was refused.
    #[error("source.select: {problem}")]
    Select {
        /// The SQL engine's words, on one line.
        problem: String,
    },

    /// A path of the job leads to nothing that can be read.
    #[error("source.paths: {path:?} {problem}")]
    Path {
        /// The path or pattern, as the job gives it.
        path: String,
        /// What is there instead, and what to do.
        problem: String,
    },

    /// A file is not what its format says.
    #[error("{file}: {problem}")]
    Unreadable {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: String,
    },

    /// One record of a text file cannot be read.
    #[error("{file}, line {line}: {problem}")]
    Record {
        /// The file.
        file: String,
        /// The line on which the record begins, counted from 1 and with the header.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },

    /// A value cannot be read, in a place where its row cannot be set aside.
    #[error("{file}, row {row}: {problem}")]
    Value {
        /// The file.
        file: String,
        /// The row, counted from 1 and without the header.
        row: u64,
        /// The column, its value, and what to do.
        problem: String,
    },

    /// Two files of one source do not have the same columns.
    #[error(
        "{second} does not have the columns of {first}: column `{column}` {problem}; the files of one source need one schema"
    )]
    FilesDiffer {
        /// The file that came first.
        first: String,
        /// The file that differs from it.
        second: String,
        /// The column that differs.
        column: String,
        /// How it differs.
        problem: String,
    },

    /// The `geo` metadata of a GeoParquet file is missing or malformed.
    #[error("{file}: geo metadata, field `{field}`: {problem}")]
    Geo {
        /// The file.
        file: String,
        /// The field, as a path in the metadata.
        field: String,
        /// What is wrong with it.
        problem: String,
    },

    /// A file is not the one it was when the source was opened.
    #[error("{file} changed while being read ({what}): nothing of it can be trusted, run again once it is complete")]
    Changed {
        /// The file.
        file: String,
        /// What differs.
        what: &'static str,
    },

    /// The operating system refused.
    #[error("failed to {action} {file}")]
    Io {
        /// The file.
        file: String,
        /// What was tried.
        action: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },

    /// A server or the network failed.
    #[error("failed to {action} {file}: {problem}")]
    Remote {
        /// The URL of the file, without what is secret in it.
        file: String,
        /// What was tried.
        action: &'static str,
        /// What the server said, on one line.
        problem: String,
    },

    /// The caller decoded the pieces of a serial scan in another order than they came in, or went on after a failure.
    #[error("piece {index} of a serial scan cannot be decoded: {problem}")]
    OutOfOrder {
        /// The piece.
        index: u64,
        /// What was expected.
        problem: &'static str,
    },
}

/// What the person who runs the job does about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Change the job.
    Configuration,
    /// Change the input.
    Input,
    /// Look at the machine: permissions, disks, limits, the network.
    Io,
}

impl Error {
    /// What to do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Setting { .. } | Self::NoColumn { .. } | Self::Select { .. } | Self::OutOfOrder { .. } => {
                ErrorKind::Configuration
            }
            Self::Path { .. }
            | Self::Unreadable { .. }
            | Self::Record { .. }
            | Self::Value { .. }
            | Self::FilesDiffer { .. }
            | Self::Geo { .. }
            | Self::Changed { .. } => ErrorKind::Input,
            Self::Io { .. } | Self::Remote { .. } => ErrorKind::Io,
        }
    }

    pub(crate) fn setting(setting: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Setting { setting: setting.into(), problem: problem.into() }
    }

    pub(crate) fn unreadable(file: &str, problem: impl Into<String>) -> Self {
        Self::Unreadable { file: file.to_owned(), problem: problem.into() }
    }

    pub(crate) fn record(file: &str, line: u64, problem: impl Into<String>) -> Self {
        Self::Record { file: file.to_owned(), line, problem: problem.into() }
    }

    pub(crate) fn io(file: &str, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_owned();
        move |source| Self::Io { file, action, source }
    }
}

/// A message of another library on one line.
pub(crate) fn one_line(message: &impl std::fmt::Display) -> String {
    let text = message.to_string();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
