//! Catalogs behind Iceberg's REST protocol.
//!
//! The `iceberg-catalog-rest` crate brings the protocol's messages. Its client is not used: it has no time-outs, turns every
//! failure into one kind of error, does not renew tokens, and loses the credentials that a server vends with a table.
//!
//! * [`client`] sends requests: one place for paths, authentication, time-outs, and what may be sent again;
//! * [`auth`] says who we are;
//! * [`catalog`] is the `iceberg` crate's catalog: namespaces, loading and creating;
//! * [`port`] commits.

mod auth;
mod catalog;
mod client;
mod port;

pub use catalog::RestCatalog;
pub use client::ServerFacts;
pub(crate) use client::{Client, FIRST_WAIT, pause};
pub use port::RestPort;
