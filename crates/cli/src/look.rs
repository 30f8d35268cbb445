//! `hexfloe inspect`: what files are, and the job that would ingest them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use hexfloe_ingest::{InspectOptions, Inspection, Layer};
use hexfloe_source::Remotes;
use hexfloe_store::Store;
use tokio::runtime::Handle;

use crate::arguments::LookArguments;
use crate::display::{self, counted};
use crate::exit::Failure;

pub(crate) fn look(arguments: &LookArguments) -> Result<(), Failure> {
    let base = std::env::current_dir().map_err(|error| Failure::unexpected("find the current folder", error))?;
    let store = Store::local().with_remote(BTreeMap::new(), None);
    let store = store.map_err(|error| Failure::unexpected("look for stores across the network", error))?;
    let remotes = Remotes::new(store, Handle::current());
    let options = InspectOptions {
        crs: arguments.crs.as_deref(),
        layer: arguments.layer.as_deref(),
        base: &base,
        remotes: Some(&remotes),
    };
    let inspection = hexfloe_ingest::inspect(&arguments.files, &options);
    if arguments.json {
        display::json(&inspection)?;
    } else {
        let layers: Vec<String> = inspection.layers.iter().map(told).collect();
        display::print(&layers.join("\n"))?;
    }
    if let Some(path) = arguments.job.as_ref().filter(|_| inspection.layers.iter().any(|layer| layer.job.is_some())) {
        write_job(path, &inspection, &base)?;
    }
    let unread = inspection.layers.iter().filter(|layer| layer.error.is_some()).count();
    match unread {
        0 => Ok(()),
        _ => Err(Failure::input(format!("{} cannot be read", counted(unread as u64, "file")))),
    }
}

/// A layer, for people.
fn told(layer: &Layer) -> String {
    let name = layer.layer.as_ref().map_or_else(|| layer.file.clone(), |name| format!("{}, layer {name}", layer.file));
    if let Some(error) = &layer.error {
        let again = format!("{}: cannot be read: ", layer.file);
        return format!("{name}: cannot be read: {}\n", error.strip_prefix(&again).unwrap_or(error));
    }
    let mut text = format!("{name}: {}, {}, {} bytes\n", layer.format, counted(layer.rows, "row"), layer.bytes);
    if let Some(place) = &layer.geometry {
        let types = if place.types.is_empty() { String::new() } else { format!(" ({})", place.types.join(", ")) };
        let crs = match &place.crs {
            Some(crs) => format!("{crs}, as {} says", said(place.crs_from)),
            None => "an unknown coordinate reference system".to_owned(),
        };
        let _ = writeln!(text, "  geometry  {}{types} in {crs}", place.column);
        if let Some([xmin, ymin, xmax, ymax]) = place.bbox {
            let _ = writeln!(text, "  box       {xmin} {ymin} to {xmax} {ymax}");
        }
    }
    let columns: Vec<String> =
        layer.columns.iter().map(|column| format!("{} {}", column.name.escape_debug(), column.data_type)).collect();
    let _ = writeln!(text, "  columns   {}", columns.join(", "));
    for sample in &layer.samples {
        let _ =
            writeln!(text, "  row {:<5} {:.6} {:.6} is in cell {}", sample.row, sample.lon, sample.lat, sample.cell);
    }
    for problem in &layer.problems {
        let _ = writeln!(text, "  note      {problem}");
    }
    if let Some(job) = &layer.job {
        let lines: Vec<String> = job.lines().map(|line| format!("    {line}")).collect();
        let _ = writeln!(text, "  job (inspect --job writes it)\n{}", lines.join("\n").replace("    \n", "\n"));
    }
    text
}

fn said(crs_from: &str) -> &str {
    match crs_from {
        "file" => "the file",
        "format" => "its format",
        _ => "--crs",
    }
}

/// Writes the job of the only layer; a file that is there is left as it is.
fn write_job(path: &Path, inspection: &Inspection, base: &Path) -> Result<(), Failure> {
    let jobs: Vec<&Layer> = inspection.layers.iter().filter(|layer| layer.job.is_some()).collect();
    let [layer] = jobs.as_slice() else {
        let problem = format!("a job is of one layer of one file, and there are {}: choose one (--layer)", jobs.len());
        return Err(Failure::configuration(problem));
    };
    let Some(job) = &layer.job else { return Ok(()) };
    // Paths in a job start from its folder.
    let job = match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(_) if !layer.file.contains("://") => {
            let absolute: PathBuf = base.join(&layer.file);
            let folder = path.parent().map(|folder| base.join(folder)).unwrap_or_default();
            let place = absolute.strip_prefix(folder).unwrap_or(&absolute);
            let written = |place: &str| format!("paths = [{}]", hexfloe_ingest::toml_text(place));
            job.replace(&written(&layer.file), &written(&place.display().to_string()))
        }
        _ => job.clone(),
    };
    let refuse = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::configuration(format!(
            "{} is there already: remove it, or name another file with --job",
            path.display()
        )),
        _ => Failure::configuration(format!("cannot write {}: {error}", path.display())),
    };
    let mut file = std::fs::File::create_new(path).map_err(refuse)?;
    file.write_all(job.as_bytes()).map_err(refuse)?;
    let unknown = layer.geometry.as_ref().is_some_and(|place| place.crs.is_none());
    let first = if unknown { "set geometry.crs in it, then " } else { "" };
    display::say(&format!("wrote {}; next: {first}hexfloe ingest {}", path.display(), path.display()));
    Ok(())
}
