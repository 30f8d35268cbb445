//! Reads a spatial file so many times, as an ingest does, and brings its geometries to longitude and latitude; prints the seconds of each. See
//! `benches/reading`.
//!
//!     reading FILE FORMAT TIMES

use std::path::Path;
use std::time::Instant;

use hexfloe_batch::{GeometryEncoding, geometries};
use hexfloe_crs::LonLatTransform;
use hexfloe_geometry::{Limits, map_coordinates};
use hexfloe_source::{Format, ScanOptions, Source, SourceSettings};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, format, times] = arguments.as_slice() else { return Err("reading FILE FORMAT TIMES".into()) };
    let format: Format = serde_json::from_value(format.as_str().into())?;
    for _ in 0..times.parse::<u32>()? {
        let source = Source::open(SourceSettings::new("reading", format, vec![file.clone()]), Path::new("."))?;
        let column = source.geometries()?.into_iter().next().ok_or("no geometry column")?;
        let system = LonLatTransform::from(&column.crs.known().ok_or("no reference system")?)?;
        let begun = now();
        let mut scan = source.scan(&ScanOptions::default())?;
        let mut batches = Vec::new();
        while let Some(piece) = scan.next_piece()? {
            batches.extend(piece.decode()?.batches);
        }
        let read = begun.elapsed();
        let rows: usize = batches.iter().map(|batch| batch.batch.num_rows()).sum();
        let begun = now();
        let mut vertices = 0_u64;
        let mut buffer = Vec::new();
        for batch in &batches {
            let index = batch.batch.schema().index_of(&column.column)?;
            let array = batch.batch.column(index);
            let found = geometries(&column.column, array, GeometryEncoding::Wkb, None, &Limits::default())?;
            for wkb in found.wkb.iter().flatten() {
                buffer.clear();
                buffer.extend_from_slice(wkb);
                map_coordinates(&mut buffer, |position| {
                    vertices += 1;
                    system.lon_lat(position).map_err(|error| hexfloe_geometry::Problem::Unreadable(error.to_string()))
                })?;
            }
        }
        let moved = begun.elapsed();
        println!("{} {} {rows} {vertices}", read.as_secs_f64(), moved.as_secs_f64());
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "it measures time")]
fn now() -> Instant {
    Instant::now()
}
