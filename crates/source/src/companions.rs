//! Files that belong to another: the `.dbf` of a `.shp`, the `-wal` of a GeoPackage.
//!
//! A companion is no input of its own. It is found beside its file, without regard to case, when the source is opened; it is
//! hashed, counted, opened by identity and checked like the file itself, so that a batch id is a function of all of them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::settings::Format;

/// The files of a shapefile that hold something of what is read. `.shx` holds nothing that `.shp` does not, but it is checked
/// against it.
const OF_SHAPEFILE: [&str; 4] = ["cpg", "dbf", "prj", "shx"];

/// What SQLite puts beside a database.
const OF_SQLITE: [&str; 3] = ["-journal", "-shm", "-wal"];

/// Whether a file that a pattern matches, or a folder holds, is an input of this format. A path that is named outright always
/// is one.
pub(crate) fn is_input(format: Format, path: &Path) -> bool {
    match format {
        Format::Shapefile => has_extension(path, "shp") || has_extension(path, "zip"),
        Format::Geopackage => {
            let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
            !OF_SQLITE.iter().any(|suffix| name.ends_with(suffix))
        }
        _ => true,
    }
}

/// The inputs that a folder means, if folders mean something in this format: the shapefiles in it, sorted.
///
/// # Errors
///
/// If the folder cannot be listed.
pub(crate) fn in_folder(format: Format, folder: &Path) -> Option<io::Result<Vec<PathBuf>>> {
    (format == Format::Shapefile).then(|| {
        let mut paths = listed(folder)?;
        paths.retain(|path| {
            let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            !hidden && has_extension(path, "shp") && !path.is_dir()
        });
        paths.sort();
        Ok(paths)
    })
}

/// The companions of a file, sorted.
///
/// # Errors
///
/// If its folder cannot be listed.
pub(crate) fn of(format: Format, path: &Path) -> io::Result<Vec<PathBuf>> {
    match format {
        Format::Geopackage => {
            // An empty log holds nothing. A journal means that a writer did not finish, which the reader refuses.
            let beside = |suffix: &str| {
                let mut name = path.as_os_str().to_owned();
                name.push(suffix);
                PathBuf::from(name)
            };
            let found = ["-journal", "-wal"].map(beside).into_iter();
            Ok(found.filter(|path| fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0)).collect())
        }
        Format::Shapefile if has_extension(path, "shp") => {
            let folder = path.parent().unwrap_or(Path::new("."));
            let mut found = listed(folder)?;
            found.retain(|other| is_companion(path, other) && other.is_file());
            found.sort_by_key(|other| (other.file_stem() != path.file_stem(), other.clone()));
            // Of two that differ by case only, the one that is spelled like the file.
            let mut kept: Vec<PathBuf> = Vec::new();
            for other in found {
                if !kept.iter().any(|known| extension(known) == extension(&other)) {
                    kept.push(other);
                }
            }
            kept.sort();
            Ok(kept)
        }
        _ => Ok(Vec::new()),
    }
}

fn is_companion(path: &Path, other: &Path) -> bool {
    let same_stem = match (path.file_stem(), other.file_stem()) {
        (Some(one), Some(two)) => one.eq_ignore_ascii_case(two),
        _ => false,
    };
    // Esri calls the one of `a.shp` either `a.cpg` or `a.shp.cpg`; only the first is in use.
    same_stem && OF_SHAPEFILE.iter().any(|extension| has_extension(other, extension))
}

fn listed(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    fs::read_dir(folder)?.map(|entry| Ok(folder.join(entry?.file_name()))).collect()
}

/// The extension in lower case.
pub(crate) fn extension(path: &Path) -> Option<String> {
    path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase())
}

pub(crate) fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
}
