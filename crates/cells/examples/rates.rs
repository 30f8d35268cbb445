//! What `benches/cells` measures with: the time that each way of computing cells takes on one core, and the points and cells themselves.
//!
//! ```text
//! rates kernels                                  the ways there are on this machine
//! rates points uniform|cities COUNT              latitudes, then longitudes, as 8-byte numbers
//! rates cells  uniform|cities COUNT RESOLUTION   cells, as 8-byte numbers
//! rates time   uniform|cities COUNT RESOLUTION WAY PASSES    nanoseconds a cell
//! rates start                                    microseconds that the first encoder takes
//! ```
//!
//! The points are worked on in pieces of 4,096, and of each the least time of all passes counts: other work on the machine can only add to it,
//! and adds more to what takes longer.

use std::error::Error;
use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use h3o::{LatLng, Resolution};
use hexfloe_cells::{Degrees, Encoder, Kernel};

const PIECE: usize = 4_096;

#[path = "../benches/cells/points.rs"]
mod points;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let mut out = std::io::stdout().lock();
    match arguments[..] {
        ["kernels"] => {
            for kernel in Kernel::available() {
                writeln!(out, "{kernel:?}")?;
            }
        }
        ["start"] => {
            let start = now();
            black_box(Encoder::new(Resolution::Nine));
            writeln!(out, "{}", start.elapsed().as_nanos() as f64 / 1e3)?;
        }
        ["points", set, count] => {
            let (lat, lng) = points::set(set, count.parse()?)?;
            for degrees in lat.iter().chain(&lng) {
                out.write_all(&degrees.to_le_bytes())?;
            }
        }
        ["cells", set, count, resolution] => {
            let (lat, lng) = points::set(set, count.parse()?)?;
            let mut cells = vec![0; lat.len()];
            Encoder::new(points::resolution(resolution)?).encode(Degrees { lat: &lat, lng: &lng }, &mut cells)?;
            for cell in cells {
                out.write_all(&cell.to_le_bytes())?;
            }
        }
        ["time", set, count, resolution, way, passes] => {
            let (lat, lng) = points::set(set, count.parse()?)?;
            let mut cells = vec![0; lat.len()];
            let encode = way_of(way, points::resolution(resolution)?)?;
            let mut least = vec![Duration::MAX; lat.len().div_ceil(PIECE)];
            for _ in 0..passes.parse()? {
                let pieces = lat.chunks(PIECE).zip(lng.chunks(PIECE)).zip(cells.chunks_mut(PIECE));
                for (((lat, lng), cells), least) in pieces.zip(&mut least) {
                    let start = now();
                    encode(Degrees { lat, lng }, cells)?;
                    *least = start.elapsed().min(*least);
                }
                black_box(&cells);
            }
            writeln!(out, "{}", least.iter().sum::<Duration>().as_nanos() as f64 / lat.len() as f64)?;
        }
        _ => return Err("see the top of crates/cells/examples/rates.rs".into()),
    }
    Ok(())
}

type Encode = Box<dyn Fn(Degrees<'_>, &mut [u64]) -> Result<(), Box<dyn Error>>>;

/// h3o's loop, or an encoder on the kernel of that name.
fn way_of(name: &str, resolution: Resolution) -> Result<Encode, Box<dyn Error>> {
    if name == "h3o" {
        return Ok(Box::new(move |Degrees { lat, lng }, cells| {
            for ((cell, &lat), &lng) in cells.iter_mut().zip(lat).zip(lng) {
                *cell = LatLng::new(lat, lng)?.to_cell(resolution).into();
            }
            Ok(())
        }));
    }
    let kernel = Kernel::available().into_iter().find(|kernel| format!("{kernel:?}") == name);
    let encoder = Encoder::with_kernel(resolution, kernel.ok_or("not a kernel of this machine")?);
    Ok(Box::new(move |points, cells| {
        encoder.encode(points, cells)?;
        Ok(())
    }))
}

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn now() -> Instant {
    Instant::now()
}
