//! The `iceberg` crate's catalog over REST.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use hexfloe_store::{Properties, Store, VendedProperties, Vendor};
use iceberg::table::Table;
use iceberg::{Catalog, Namespace, NamespaceIdent, TableCommit, TableCreation, TableIdent};
use iceberg_catalog_rest::{
    CommitTableRequest, CommitTableResponse, CreateNamespaceRequest, CreateTableRequest, ListNamespaceResponse,
    ListTablesResponse, LoadTableResult, NamespaceResponse, RegisterTableRequest, RenameTableRequest,
    UpdateNamespacePropertiesRequest,
};
use reqwest::Method;
use serde::Serialize;

use super::Client;
use crate::Error;

/// A REST catalog. Its tables are read and written through the [`Store`] it was given, with the credentials that the
/// server vends for each of them.
#[derive(Clone, Debug)]
pub struct RestCatalog {
    pub(crate) client: Arc<Client>,
    pub(crate) store: Store,
}

/// Vends for one table, by loading it again.
#[derive(Debug)]
struct TableVendor {
    client: Arc<Client>,
    table: TableIdent,
}

#[async_trait]
impl Vendor for TableVendor {
    async fn vend(&self) -> Result<Vec<VendedProperties>, Box<dyn std::error::Error + Send + Sync>> {
        let action = "renew the credentials of the table";
        let answer = self.client.send(action, Method::GET, self.client.table_url(&self.table)?, None).await?;
        Ok(vended(&answer.json(action)?))
    }
}

/// What an answer says about stores: credentials for prefixes, over the configuration of the whole table.
fn vended(loaded: &LoadTableResult) -> Vec<VendedProperties> {
    let stores = ["s3.", "gcs.", "adls.", "client."];
    let of_stores = |config: &HashMap<String, String>| -> Properties {
        let of_stores = config.iter().filter(|(name, _)| stores.iter().any(|store| name.starts_with(store)));
        of_stores.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let general = of_stores(&loaded.config);
    let mut vended: Vec<VendedProperties> = Vec::new();
    let mut add = |prefix: &str, properties: Properties| {
        if !properties.is_empty() && !vended.iter().any(|vended| vended.prefix == prefix) {
            vended.push(VendedProperties { prefix: prefix.to_owned(), properties });
        }
    };
    let metadata = &loaded.metadata;
    let elsewhere = ["write.data.path", "write.metadata.path"].map(|name| metadata.properties().get(name));
    let own =
        loaded.metadata_location.as_ref().and_then(|location| location.rsplit_once('/')).map(|(folder, _)| folder);
    let places = [Some(metadata.location()), own].into_iter().chain(elsewhere.map(|place| place.map(String::as_str)));
    // The table's own places first, each with the credentials of the longest prefix: another table may be given others
    // for the same prefix.
    let credentials = || loaded.storage_credentials.iter().flatten();
    let merged = |config: Option<&HashMap<String, String>>| {
        let mut properties = general.clone();
        properties.extend(config.map(of_stores).unwrap_or_default());
        properties
    };
    for place in places.flatten() {
        let fitting = credentials().filter(|credential| VendedProperties::reach(&credential.prefix, place));
        let longest = fitting.max_by_key(|credential| credential.prefix.len());
        add(place, merged(longest.map(|credential| &credential.config)));
    }
    for credential in credentials() {
        add(&credential.prefix, merged(Some(&credential.config)));
    }
    vended
}

impl RestCatalog {
    pub(crate) fn new(client: Arc<Client>, store: Store) -> Self {
        Self { client, store }
    }

    async fn call(
        &self,
        action: &str,
        method: Method,
        url: url::Url,
        body: &impl Serialize,
    ) -> Result<super::client::Answer, Error> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Error::Answer { action: action.to_owned(), reason: error.to_string() })?;
        self.client.send(action, method, url, Some(body)).await
    }

    /// The table of an answer, with access to its files.
    pub(crate) fn table(&self, ident: &TableIdent, loaded: LoadTableResult) -> Result<Table, Error> {
        let vended = vended(&loaded);
        if !vended.is_empty() {
            let vendor: Arc<dyn Vendor> =
                Arc::new(TableVendor { client: Arc::clone(&self.client), table: ident.clone() });
            self.store.grant(vended, &vendor);
        }
        let failed = |error| Error::table("open", ident, error);
        let mut builder = Table::builder()
            .file_io(self.store.file_io())
            .metadata(loaded.metadata)
            .identifier(ident.clone())
            .runtime(iceberg::Runtime::try_current().map_err(failed)?);
        if let Some(location) = loaded.metadata_location {
            builder = builder.metadata_location(location);
        }
        builder.build().map_err(failed)
    }

    /// The table as the server has it now; `None` when there is none.
    pub(crate) async fn load(&self, ident: &TableIdent) -> Result<Option<Table>, Error> {
        let action = format!("load table {ident}");
        match self.client.send(&action, Method::GET, self.client.table_url(ident)?, None).await {
            Ok(answer) => self.table(ident, answer.json(&action)?).map(Some),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The metadata of a commit's answer as a table.
    pub(crate) fn committed(&self, ident: &TableIdent, answer: CommitTableResponse) -> Result<Table, Error> {
        let CommitTableResponse { metadata_location, metadata } = answer;
        let loaded = LoadTableResult {
            metadata_location: Some(metadata_location),
            metadata,
            config: HashMap::new(),
            storage_credentials: None,
        };
        self.table(ident, loaded)
    }

    /// Creates a table at a location, or where the server likes.
    pub(crate) async fn create(
        &self,
        namespace: &NamespaceIdent,
        creation: TableCreation,
        location: Option<String>,
    ) -> Result<Table, Error> {
        let ident = TableIdent::new(namespace.clone(), creation.name.clone());
        let action = format!("create table {ident}");
        let mut properties = creation.properties;
        properties.entry("format-version".to_owned()).or_insert_with(|| "2".to_owned());
        let request = CreateTableRequest {
            name: creation.name,
            location,
            schema: creation.schema,
            partition_spec: creation.partition_spec,
            write_order: creation.sort_order,
            stage_create: Some(false),
            properties,
        };
        let url = self.client.namespace_url(namespace, &["tables"])?;
        let answer = self.call(&action, Method::POST, url, &request).await?;
        self.table(&ident, answer.json(&action)?)
    }

    /// The namespace's own location, if the server gives it one.
    pub(crate) async fn namespace_location(&self, namespace: &NamespaceIdent) -> Result<Option<String>, Error> {
        let action = format!("load namespace {}", namespace.as_ref().join("."));
        let answer = self.client.send(&action, Method::GET, self.client.namespace_url(namespace, &[])?, None).await?;
        let mut namespace: NamespaceResponse = answer.json(&action)?;
        Ok(namespace.properties.remove("location").filter(|location| !location.is_empty()))
    }
}

fn of_namespace(action: &str, namespace: &NamespaceIdent) -> String {
    format!("{action} namespace {}", namespace.as_ref().join("."))
}

#[async_trait]
impl Catalog for RestCatalog {
    async fn list_namespaces(&self, parent: Option<&NamespaceIdent>) -> iceberg::Result<Vec<NamespaceIdent>> {
        let action = "list namespaces";
        let mut namespaces = Vec::new();
        let mut page: Option<String> = None;
        loop {
            let mut url = self.client.url(&["namespaces"])?;
            if let Some(parent) = parent {
                url.query_pairs_mut().append_pair("parent", &self.client.name_of(parent));
            }
            if let Some(page) = &page {
                url.query_pairs_mut().append_pair("pageToken", page);
            }
            let answer: ListNamespaceResponse = self.client.send(action, Method::GET, url, None).await?.json(action)?;
            // Some servers answer with all that lie below.
            let depth = parent.map_or(0, |parent| parent.len()) + 1;
            namespaces.extend(answer.namespaces.into_iter().filter(|namespace| namespace.len() == depth));
            page = answer.next_page_token.filter(|token| !token.is_empty());
            if page.is_none() {
                return Ok(namespaces);
            }
        }
    }

    async fn create_namespace(
        &self,
        namespace: &NamespaceIdent,
        properties: HashMap<String, String>,
    ) -> iceberg::Result<Namespace> {
        let action = of_namespace("create", namespace);
        let request = CreateNamespaceRequest { namespace: namespace.clone(), properties };
        let answer = self.call(&action, Method::POST, self.client.url(&["namespaces"])?, &request).await?;
        Ok(answer.json::<NamespaceResponse>(&action)?.into())
    }

    async fn get_namespace(&self, namespace: &NamespaceIdent) -> iceberg::Result<Namespace> {
        let action = of_namespace("load", namespace);
        let url = self.client.namespace_url(namespace, &[])?;
        let answer = self.client.send(&action, Method::GET, url, None).await?;
        Ok(answer.json::<NamespaceResponse>(&action)?.into())
    }

    async fn namespace_exists(&self, namespace: &NamespaceIdent) -> iceberg::Result<bool> {
        match self.get_namespace(namespace).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == iceberg::ErrorKind::NamespaceNotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn update_namespace(
        &self,
        namespace: &NamespaceIdent,
        properties: HashMap<String, String>,
    ) -> iceberg::Result<()> {
        let request = UpdateNamespacePropertiesRequest { removals: None, updates: properties };
        let url = self.client.namespace_url(namespace, &["properties"])?;
        self.call(&of_namespace("update", namespace), Method::POST, url, &request).await?;
        Ok(())
    }

    async fn drop_namespace(&self, namespace: &NamespaceIdent) -> iceberg::Result<()> {
        let url = self.client.namespace_url(namespace, &[])?;
        self.client.send(&of_namespace("drop", namespace), Method::DELETE, url, None).await?;
        Ok(())
    }

    async fn list_tables(&self, namespace: &NamespaceIdent) -> iceberg::Result<Vec<TableIdent>> {
        let action = of_namespace("list the tables of", namespace);
        let mut tables = Vec::new();
        let mut page: Option<String> = None;
        loop {
            let mut url = self.client.namespace_url(namespace, &["tables"])?;
            if let Some(page) = &page {
                url.query_pairs_mut().append_pair("pageToken", page);
            }
            let answer: ListTablesResponse = self.client.send(&action, Method::GET, url, None).await?.json(&action)?;
            tables.extend(answer.identifiers);
            page = answer.next_page_token.filter(|token| !token.is_empty());
            if page.is_none() {
                return Ok(tables);
            }
        }
    }

    async fn create_table(&self, namespace: &NamespaceIdent, mut creation: TableCreation) -> iceberg::Result<Table> {
        let location = creation.location.take();
        Ok(self.create(namespace, creation, location).await?)
    }

    async fn load_table(&self, table: &TableIdent) -> iceberg::Result<Table> {
        let missing = || iceberg::Error::new(iceberg::ErrorKind::TableNotFound, format!("there is no table {table}"));
        self.load(table).await?.ok_or_else(missing)
    }

    async fn drop_table(&self, table: &TableIdent) -> iceberg::Result<()> {
        let url = self.client.table_url(table)?;
        self.client.send(&format!("drop table {table}"), Method::DELETE, url, None).await?;
        Ok(())
    }

    async fn purge_table(&self, table: &TableIdent) -> iceberg::Result<()> {
        let mut url = self.client.table_url(table)?;
        url.query_pairs_mut().append_pair("purgeRequested", "true");
        self.client.send(&format!("purge table {table}"), Method::DELETE, url, None).await?;
        Ok(())
    }

    async fn table_exists(&self, table: &TableIdent) -> iceberg::Result<bool> {
        let url = self.client.table_url(table)?;
        match self.client.send(&format!("look for table {table}"), Method::HEAD, url, None).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_missing() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn rename_table(&self, source: &TableIdent, destination: &TableIdent) -> iceberg::Result<()> {
        let request = RenameTableRequest { source: source.clone(), destination: destination.clone() };
        let url = self.client.url(&["tables", "rename"])?;
        self.call(&format!("rename table {source}"), Method::POST, url, &request).await?;
        Ok(())
    }

    async fn register_table(&self, table: &TableIdent, metadata_location: String) -> iceberg::Result<Table> {
        let action = format!("register table {table}");
        let request = RegisterTableRequest { name: table.name().to_owned(), metadata_location, overwrite: Some(false) };
        let url = self.client.namespace_url(table.namespace(), &["register"])?;
        let answer = self.call(&action, Method::POST, url, &request).await?;
        Ok(self.table(table, answer.json(&action)?)?)
    }

    async fn update_table(&self, mut commit: TableCommit) -> iceberg::Result<Table> {
        let table = commit.identifier().clone();
        let action = format!("commit to table {table}");
        let request = CommitTableRequest {
            identifier: Some(table.clone()),
            requirements: commit.take_requirements(),
            updates: commit.take_updates(),
        };
        let body = serde_json::to_vec(&request)?;
        let answer = self.client.commit(&self.client.table_url(&table)?, &body, &[]).await;
        let answer = answer.map_err(|unanswered| unanswered.error)?;
        if !answer.status.is_success() {
            return Err(answer.refused(&action).into());
        }
        Ok(self.committed(&table, answer.json(&action)?)?)
    }
}
