//! The ingest job: source, batch, data files, commit.
