//! A shapefile in a zip archive.
//!
//! Its files are extracted to a private folder that goes when the layer is closed. An archive is not trusted: names that lead
//! out of it and encrypted entries are refused, and no more is extracted than the limit allows, whatever the archive says of the
//! sizes of its entries.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use zip::ZipArchive;

use crate::companions;
use crate::error::{Error, one_line};
use crate::files::{CHUNK, InputFile};
use crate::geopackage::choose;
use crate::layers::{LayerOptions, private_folder};

use super::{Part, Parts, without_dbf};

/// What an archive may become at least, however small it is.
const LEAST_EXPANSION: u64 = 1 << 20;

/// The entries of one shapefile: the index of each, by extension.
type Entries = BTreeMap<String, usize>;

/// Extracts the shapefile that is meant.
pub(super) fn extract(input: &InputFile, options: &LayerOptions) -> Result<Parts, Error> {
    let refuse = |problem: String| Error::unreadable(input.path(), problem);
    let mut archive = ZipArchive::new(BufReader::new(input.open()?))
        .map_err(|error| refuse(format!("is no zip archive, or is cut off: {}", one_line(&error))))?;
    let found = shapefiles(&mut archive).map_err(refuse)?;
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    if names.is_empty() {
        return Err(refuse("holds no .shp".to_owned()));
    }
    // A shapefile may be called by its name alone where no other has it.
    let wanted = options.layer.as_deref().map(|layer| {
        let layer = layer.strip_suffix(".shp").unwrap_or(layer);
        let mut same = names.iter().filter(|name| stem(name) == layer);
        match (same.next(), same.next()) {
            (Some(only), None) => *only,
            _ => layer,
        }
    });
    let layer = choose(wanted, &names).map_err(|problem| problem.into_error(input.path()))?;
    let entries = found.get(layer).cloned().unwrap_or_default();
    let folder = private_folder(input)?;
    let mut left = input.size().saturating_mul(options.limits.expansion).max(LEAST_EXPANSION);
    let mut parts = BTreeMap::new();
    for (extension, index) in entries {
        let name = format!("{}/{layer}.{extension}", input.path());
        let part = extract_one(&mut archive, index, &folder, name, &mut left)?;
        parts.insert(extension, part);
    }
    let name = format!("{}/{layer}.shp", input.path());
    let dbf = parts.remove("dbf").ok_or_else(|| without_dbf(&name))?;
    let shp = parts.remove("shp").ok_or_else(|| refuse("holds no .shp".to_owned()))?;
    Ok(Parts {
        layer: Some(Arc::from(layer)),
        shp,
        dbf,
        shx: parts.remove("shx"),
        prj: parts.remove("prj"),
        cpg: parts.remove("cpg"),
        _folder: Some(folder),
    })
}

/// Whether a name leads to a place within the archive.
fn is_inside(name: &str) -> bool {
    let has_drive = name.as_bytes().get(1) == Some(&b':');
    !has_drive && !name.starts_with('/') && !name.contains('\0') && name.split('/').all(|part| part != "..")
}

fn stem(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The shapefiles in an archive, by their names without the extension.
fn shapefiles(archive: &mut ZipArchive<BufReader<File>>) -> Result<BTreeMap<String, Entries>, String> {
    let mut found: BTreeMap<String, Entries> = BTreeMap::new();
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(|error| format!("cannot be read: {}", one_line(&error)))?;
        let name = entry.name().map_err(|error| format!("has an entry without a name: {}", one_line(&error)))?;
        let name = name.replace('\\', "/"); // as some programs of Windows write them
        if !is_inside(&name) {
            return Err(format!("has an entry {name:?}, which lies outside of the archive: make it anew"));
        }
        // What macOS adds to archives, and what hides.
        let is_hidden = name.split('/').any(|part| part.starts_with('.') || part == "__MACOSX");
        let path = Path::new(&name);
        let (Some(extension), false) = (companions::extension(path), entry.is_dir() || is_hidden) else { continue };
        if !["shp", "dbf", "shx", "prj", "cpg"].contains(&extension.as_str()) {
            continue;
        }
        if entry.encrypted() {
            return Err(format!("has an encrypted entry {name:?}: decrypt it first"));
        }
        let stem = name.get(..name.len() - extension.len() - 1).unwrap_or_default().to_owned();
        if found.entry(stem).or_default().insert(extension, index).is_some() {
            return Err(format!("has two entries {name:?}: which one is meant cannot be known"));
        }
    }
    found.retain(|_, entries| entries.contains_key("shp"));
    Ok(found)
}

fn extract_one(
    archive: &mut ZipArchive<BufReader<File>>,
    index: usize,
    folder: &TempDir,
    name: String,
    left: &mut u64,
) -> Result<Part, Error> {
    let mut entry = archive.by_index(index).map_err(|error| Error::unreadable(&name, one_line(&error)))?;
    let path = folder.path().join(index.to_string());
    let mut file =
        File::options().read(true).write(true).create_new(true).open(&path).map_err(Error::io(&name, "extract"))?;
    let mut buffer = vec![0; CHUNK];
    let mut size = 0;
    loop {
        let read = entry
            .read(&mut buffer)
            .map_err(|error| Error::unreadable(&name, format!("cannot be extracted: {}", one_line(&error))))?;
        if read == 0 {
            break;
        }
        size += read as u64;
        *left = left.checked_sub(read as u64).ok_or_else(|| {
            Error::unreadable(
                &name,
                "becomes larger than source.limits.expansion allows: extract it, and see what it holds",
            )
        })?;
        file.write_all(&buffer[..read]).map_err(Error::io(&name, "extract"))?;
    }
    Ok(Part::new(name, file, size))
}
