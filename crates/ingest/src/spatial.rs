//! What a job makes of the places in its source: settings and what the files state become [`Positions`], cells and geometry columns, or
//! are refused.
//!
//! The coordinate reference system comes from the file, or from the job where the file does not say. A job that contradicts its file
//! is refused: one of them is wrong, and the cells would be too.

use std::collections::BTreeMap;
use std::sync::Arc;

use hexfloe_batch::{CellDerivation, Containment, CoverDerivation, GeometryEncoding, GeometryRule, PointColumns};
use hexfloe_commit::names;
use hexfloe_crs::{Crs, LonLatTransform};
use hexfloe_geometry::{Limits, Repair};
use hexfloe_source::{GeometryColumn, InputLimits, Source, StatedCrs};
use iceberg::table::Table;

use crate::Error;
use crate::job::{CoverContainment, CoverSettings, GeometryRepair, GeometrySettings, Job, NoGeometry};
use crate::mode::Replacement;
use crate::positions::{GeometryInput, Origin, Positions, StoredGeometry};
use crate::shape::Additions;

/// The name of the geometry column, unless the job gives another.
pub(crate) const GEOMETRY_COLUMN: &str = "geometry";

/// What the job adds to the source's columns. With a table, what the table's cells already are is kept to.
pub(crate) fn additions(
    job: &Job,
    source: &Source,
    replacement: &Replacement,
    table: Option<&Table>,
) -> Result<Additions, Error> {
    let geometry = job.geometry.clone().unwrap_or_default();
    let stated = source.geometries()?;
    let limits = limits(&job.source.limits, geometry.repair);
    let repair = geometry.repair.map(|GeometryRepair::CloseRings| Repair::CloseRings);
    let positions = positions(job, &geometry, &stated, (&limits, repair), table)?;
    if positions.is_none() && (job.h3.is_some() || geometry.store.is_some()) {
        return Err(Error::Job(
            "cells and geometries need positions: set geometry.lat and geometry.lon, or geometry.column".to_owned(),
        ));
    }
    if positions.is_some() && !stated.is_empty() && job.source.select.is_some() && names_no_column(&geometry) {
        return Err(Error::Job("geometry.column is needed with source.select".to_owned()));
    }
    let points_only = matches!(&positions, Some(Positions::Geometry(input)) if input.points_only);
    let rule = match &positions {
        Some(Positions::Geometry(_)) if !points_only => GeometryRule::Representative,
        _ => GeometryRule::Point,
    };
    let cells = job
        .h3
        .as_ref()
        .map(|h3| CellDerivation::new(h3.column.clone(), h3.resolution, h3.cell_type, h3.parents.clone(), rule));
    let cells = cells.transpose()?;
    let takes_nulls = |cells: &CellDerivation| column_takes_nulls(table, cells.column());
    let keeps = job.quality.no_geometry == NoGeometry::Keep && !points_only && cells.as_ref().is_none_or(takes_nulls);
    let position_required = !keeps && matches!(positions, Some(Positions::Geometry(_)));
    let cells = if position_required { cells.map(CellDerivation::required) } else { cells };
    let cover = job.h3.as_ref().and_then(|h3| h3.cover.as_ref()).map(cover).transpose()?;
    let geometries = stored(job, &geometry, &stated, positions.as_ref(), &limits)?;
    let additions =
        Additions { positions, cells, cover, geometries, position_required, slice: replacement.slice().cloned() };
    match additions.twice() {
        None => Ok(additions),
        Some(name) => Err(Error::Job(format!(
            "the job makes two columns of the name `{name}`: name one of them otherwise (geometry.store_column, geometry.bbox, h3.column, \
             h3.cover.column)"
        ))),
    }
}

fn names_no_column(geometry: &GeometrySettings) -> bool {
    [&geometry.lat, &geometry.lon, &geometry.x, &geometry.y, &geometry.column].iter().all(|name| name.is_none())
}

fn limits(input: &InputLimits, repair: Option<GeometryRepair>) -> Limits {
    Limits {
        depth: usize::try_from(input.depth).unwrap_or(usize::MAX),
        closed_rings: repair.is_none(),
        ..Limits::default()
    }
}

fn column_takes_nulls(table: Option<&Table>, column: &str) -> bool {
    let field = table.and_then(|table| table.metadata().current_schema().field_by_name(column).cloned());
    field.is_none_or(|field| !field.required)
}

fn positions(
    job: &Job,
    geometry: &GeometrySettings,
    stated: &[GeometryColumn],
    (limits, repair): (&Limits, Option<Repair>),
    table: Option<&Table>,
) -> Result<Option<Positions>, Error> {
    let given = geometry.crs.as_deref().map(Crs::parse).transpose()?;
    let GeometrySettings { lat, lon, x, y, column, .. } = geometry.clone();
    match (lat, lon, x, y, column) {
        (Some(lat), Some(lon), None, None, None) => match given {
            Some(crs) if !crs.is_lon_lat() => Err(Error::Job(format!(
                "geometry.crs: {crs} has no latitudes and longitudes in degrees on WGS 84: name the columns as geometry.x and geometry.y"
            ))),
            _ => Ok(Some(Positions::Points(PointColumns::LatLon { lat, lon }))),
        },
        (None, None, Some(x), Some(y), None) => {
            let crs =
                given.ok_or_else(|| Error::Job("geometry.crs is needed with geometry.x and geometry.y".to_owned()))?;
            let system = Arc::new(LonLatTransform::from(&crs)?);
            Ok(Some(Positions::Projected { x, y, system }))
        }
        (None, None, None, None, column) => {
            let named = column.as_deref();
            let of_file = match named {
                Some(named) => stated.iter().find(|stated| stated.column == named),
                None => stated.first(),
            };
            let Some(column) = named.or(of_file.map(|stated| stated.column.as_str())) else { return Ok(None) };
            let crs = match job.source.select {
                None => reference(column, given, of_file)?,
                Some(_) => reference_of_result(column, given, stated)?,
            };
            let needed = job.h3.is_some() || geometry.store_crs.is_some();
            let system = needed.then(|| LonLatTransform::from(&crs).map(Arc::new)).transpose()?;
            let encoding = of_file.map_or(Ok(GeometryEncoding::Wkb), encoding)?;
            let points_only = cells_of_points_only(job, table);
            let (column, limits, crs) = (column.to_owned(), *limits, Some(crs));
            let input = GeometryInput { column, encoding, crs, limits, repair, points_only, system };
            Ok(Some(Positions::Geometry(input)))
        }
        _ => Err(Error::Job("geometry: give either `lat` and `lon`, or `x` and `y`, or `column`".to_owned())),
    }
}

pub(crate) fn encoding(stated: &GeometryColumn) -> Result<GeometryEncoding, Error> {
    GeometryEncoding::from_name(&stated.encoding).ok_or_else(|| {
        Error::Mismatch(format!(
            "the geometry column `{}` is encoded as {}, which is none of the encodings of GeoParquet 1.1",
            stated.column, stated.encoding
        ))
    })
}

/// A table whose cells are on record as those of points gets no others.
fn cells_of_points_only(job: &Job, table: Option<&Table>) -> bool {
    let property = job.h3.as_ref().map(|h3| format!("{}{}", names::DERIVATION_PREFIX, h3.column));
    let recorded =
        table.zip(property).and_then(|(table, property)| table.metadata().properties().get(&property).cloned());
    let record = recorded.and_then(|json| hexfloe_batch::DerivationRecord::from_json(&json).ok());
    record.is_some_and(|record| record.rule == GeometryRule::Point.to_string())
}

/// The system of a geometry column.
fn reference(column: &str, given: Option<Crs>, of_file: Option<&GeometryColumn>) -> Result<Crs, Error> {
    let stated = of_file.map_or(&StatedCrs::Missing, |stated| &stated.crs);
    match (stated, given) {
        (StatedCrs::Stated(stated), Some(given)) if !stated.is_unknown() && !stated.is_same(&given) => {
            Err(Error::Mismatch(format!(
                "the geometry column `{column}` is in {stated}, as the file states, and geometry.crs says {given}: remove \
                 geometry.crs, or correct the file"
            )))
        }
        (_, Some(given)) => Ok(given),
        (stated, None) => stated.known().ok_or_else(|| {
            Error::Mismatch(format!(
                "the geometry column `{column}` has no known coordinate reference system, and numbers alone do not tell: say which \
                 it is with geometry.crs (or --crs), for example \"OGC:CRS84\" for longitude and latitude, or \"EPSG:27700\""
            ))
        }),
    }
}

/// The system of a geometry column in the result of a `select`: which column of the file it was cannot be told.
fn reference_of_result(column: &str, given: Option<Crs>, stated: &[GeometryColumn]) -> Result<Crs, Error> {
    let mut known: Vec<Crs> = stated.iter().filter_map(|stated| stated.crs.known()).collect();
    known.dedup_by(|one, other| one.is_same(other));
    match (known.as_slice(), given) {
        ([], given) => reference(column, given, None),
        ([only], None) => Ok(only.clone()),
        (known, Some(given)) if known.iter().any(|known| known.is_same(&given)) => Ok(given),
        (known, given) => {
            let listed: Vec<String> = known.iter().map(ToString::to_string).collect();
            let says = given.map_or_else(|| "does not say which".to_owned(), |given| format!("says {given}"));
            Err(Error::Mismatch(format!(
                "the geometry column `{column}` of the select comes from a file whose geometries are in {}, and geometry.crs {says}",
                listed.join(" and in ")
            )))
        }
    }
}

fn cover(settings: &CoverSettings) -> Result<CoverDerivation, Error> {
    let containment = match settings.containment {
        CoverContainment::Covers => Containment::Covers,
        CoverContainment::ContainsCentroid => Containment::Center,
        CoverContainment::ContainsBoundary => Containment::Boundary,
    };
    Ok(CoverDerivation::new(settings.column.clone(), settings.resolution, containment, settings.max_cells)?)
}

/// The geometry columns of the table: that of the positions if the job wants it kept, and the others of the file.
fn stored(
    job: &Job,
    geometry: &GeometrySettings,
    stated: &[GeometryColumn],
    positions: Option<&Positions>,
    limits: &Limits,
) -> Result<Vec<StoredGeometry>, Error> {
    let mut stored = Vec::new();
    let lon_lat = geometry.store_crs.as_deref().map(Crs::parse).transpose()?;
    if let Some(crs) = lon_lat.as_ref().filter(|crs| !crs.is_lon_lat()) {
        return Err(Error::Job(format!(
            "geometry.store_crs: geometries can be brought to OGC:CRS84 only, not to {crs}"
        )));
    }
    match (geometry.store, positions) {
        (Some(_), Some(positions)) => {
            let (from, crs) = match positions {
                Positions::Geometry(_) if lon_lat.is_some() => (Origin::Reprojected, Some(Crs::lon_lat())),
                Positions::Geometry(input) => (Origin::Primary, input.crs.clone()),
                Positions::Points(_) | Positions::Projected { .. } => (Origin::Positions, Some(Crs::lon_lat())),
            };
            let name = geometry.store_column.clone().unwrap_or_else(|| GEOMETRY_COLUMN.to_owned());
            stored.push(StoredGeometry { name, from, crs, bbox: geometry.bbox.clone() });
        }
        _ if geometry.bbox.is_some() || lon_lat.is_some() || geometry.store_column.is_some() => {
            return Err(Error::Job(
                "geometry.bbox, geometry.store_column and geometry.store_crs are about the stored geometry: set geometry.store = \"wkb\""
                    .to_owned(),
            ));
        }
        _ => {}
    }
    if job.source.select.is_none() {
        for other in stated {
            if positions.is_some_and(|positions| positions.takes(&other.column)) {
                continue;
            }
            let crs = other.crs.known();
            let (column, encoding, limits) = (other.column.clone(), encoding(other)?, *limits);
            let input = GeometryInput {
                column: column.clone(),
                encoding,
                crs: crs.clone(),
                limits,
                repair: None,
                points_only: false,
                system: None,
            };
            stored.push(StoredGeometry { name: column, from: Origin::Other(input), crs, bbox: None });
        }
    }
    Ok(stored)
}

/// What the columns rest on besides the derivation of the cells, as properties of the table.
pub(crate) fn records(additions: &Additions, repair: Option<GeometryRepair>) -> BTreeMap<String, String> {
    let mut records = BTreeMap::new();
    for stored in &additions.geometries {
        let crs = stored.crs.as_ref().map_or_else(|| "unknown".to_owned(), Crs::key);
        records.insert(format!("{}{}", names::CRS_PREFIX, stored.name), crs);
    }
    let system = match &additions.positions {
        Some(Positions::Projected { system, .. }) => Some(system),
        Some(Positions::Geometry(input)) => input.system.as_ref(),
        Some(Positions::Points(_)) | None => None,
    };
    if let Some(system) = system.filter(|system| !system.is_identity()) {
        let record = system.record();
        records.insert(format!("{}{}", names::TRANSFORMATION_PREFIX, record.from), record.to_json());
    }
    for stored in &additions.geometries {
        if let Some(bbox) = &stored.bbox {
            let record = serde_json::json!({ "rule": "bounding-box-1", "of": stored.name });
            records.insert(format!("{}{bbox}", names::DERIVATION_PREFIX), record.to_string());
        }
    }
    if let Some(cover) = &additions.cover {
        records.insert(format!("{}{}", names::DERIVATION_PREFIX, cover.column()), cover.record());
    }
    let primary = additions.geometries.iter().find(|stored| !matches!(stored.from, Origin::Other(_)));
    if let (Some(GeometryRepair::CloseRings), Some(stored)) = (repair, primary) {
        records
            .insert(format!("{}{}", names::DERIVATION_PREFIX, stored.name), r#"{"repair":"close-rings-1"}"#.to_owned());
    }
    records
}

/// What the coordinates of the rows mean, where that is not longitude and latitude: the same numbers in another system are other rows.
pub(crate) fn systems(additions: &Additions) -> String {
    let (primary, mut systems) = match &additions.positions {
        Some(Positions::Geometry(input)) => (Some(input), String::new()),
        Some(Positions::Projected { x, y, system }) => (None, format!("{x},{y}\t{}\n", system.record().from)),
        Some(Positions::Points(_)) | None => (None, String::new()),
    };
    let others = additions.geometries.iter().filter_map(|stored| match &stored.from {
        Origin::Other(input) => Some(input),
        _ => None,
    });
    for GeometryInput { column, crs, .. } in primary.into_iter().chain(others) {
        if let Some(crs) = crs.as_ref().filter(|crs| !crs.is_lon_lat()) {
            systems += &format!("{column}\t{}\n", crs.key());
        }
    }
    systems
}
