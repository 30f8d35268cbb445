//! The exactly-once commit: overwrite and ledger in one snapshot.
