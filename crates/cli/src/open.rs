//! Which catalog a command works on.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use hexfloe_catalog::{Access, CatalogSettings, OpenCatalog};
use hexfloe_replay_verify::faults::Faults;
use hexfloe_store::Store;
use iceberg::TableIdent;

use crate::exit::Failure;

/// What this process sees catalogs and stores through, if it is one of a verification.
static SEEN_THROUGH: OnceLock<Faults> = OnceLock::new();

/// Has every catalog that is opened from now on be seen through faults.
pub(crate) fn behind(faults: Faults) {
    // Nobody asks for it twice.
    let _ = SEEN_THROUGH.set(faults);
}

/// Opens the catalog of a file, or the embedded one below the current folder.
pub(crate) async fn catalog(file: Option<&Path>, access: Access) -> Result<OpenCatalog, Failure> {
    let (settings, base) = settings(file)?;
    let Some(faults) = SEEN_THROUGH.get() else { return Ok(OpenCatalog::open(&settings, &base, access).await?) };
    let through = faults.clone();
    let store = Store::local().decorated(move |store| through.store(store));
    let opened = OpenCatalog::open_with(&settings, &base, access, store).await?;
    Ok(opened.with_port(|port| faults.port(port)).with_catalog(|catalog| faults.catalog(catalog)))
}

/// The settings of a catalog file, and the folder that its paths are relative to.
pub(crate) fn settings(file: Option<&Path>) -> Result<(CatalogSettings, PathBuf), Failure> {
    let (settings, base) = match file {
        None => (CatalogSettings::embedded(), PathBuf::new()),
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::configuration(format!("cannot read {}: {error}", file.display())))?;
            let settings =
                CatalogSettings::from_toml(&text, &variable).map_err(|error| Failure::from(error).in_file(file))?;
            (settings, folder_of(file))
        }
    };
    let base = std::path::absolute(if base.as_os_str().is_empty() { Path::new(".") } else { &base })
        .map_err(|error| Failure::unexpected("find the current folder", error))?;
    Ok((settings, base))
}

/// A variable of the environment.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A table as it is named in arguments.
pub(crate) fn table_ident(name: &str) -> Result<TableIdent, Failure> {
    let ident = TableIdent::from_strs(name.split('.')).ok().filter(|ident| !ident.namespace().is_empty());
    ident.ok_or_else(|| Failure::configuration(format!("{name:?} is not a table; write namespace.name")))
}

/// The folder of a file.
pub(crate) fn folder_of(file: &Path) -> PathBuf {
    file.parent().map(Path::to_owned).unwrap_or_default()
}
