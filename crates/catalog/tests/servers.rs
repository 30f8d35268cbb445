//! The commit port's promises over catalogs in servers: PostgreSQL with tables in S3, and REST.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use async_trait::async_trait;
use hexfloe_catalog::conformance::Subject;
use hexfloe_catalog::{Access, CatalogSettings, OpenCatalog};
use hexfloe_tests::{CatalogFile, Postgres, SeaweedFs};

/// An empty catalog, opened anew for each who asks.
struct Remote {
    file: CatalogFile,
}

impl Remote {
    fn postgres() -> Self {
        let store = SeaweedFs::shared();
        Self { file: Postgres::shared().catalog(&format!("s3://{}/warehouse", store.bucket()), store.s3()) }
    }

    fn rest() -> Self {
        let server = SeaweedFs::shared();
        Self { file: server.rest(&server.table_bucket()) }
    }
}

#[async_trait]
impl Subject for Remote {
    async fn open(&self) -> OpenCatalog {
        let known = self.file.environment();
        let variable = |name: &str| known.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let settings = CatalogSettings::from_toml(&self.file.toml(), &variable).unwrap();
        OpenCatalog::open(&settings, Path::new("."), Access::Create).await.unwrap()
    }
}

mod postgres {
    use super::Remote;

    hexfloe_catalog::conforms! { Remote::postgres(); superseded_metadata_goes_only_where_the_table_asks }
}

mod rest {
    use super::Remote;

    hexfloe_catalog::conforms! { Remote::rest() }
}
