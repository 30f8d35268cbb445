//! The faces of the icosahedron: which one a point is on, and where on it.

use crate::arithmetic::{Arithmetic, Plain, TO_INTEGER, larger, low_bits, smaller};
use crate::figures::{AZIMUTHS, CENTRES, ODD_TURN, UNITS_PER_RADIAN};
use crate::vector::dot;

/// Faces in a table that five bits index.
const FACES_PADDED: usize = 32;

/// A face with the axes of one resolution's grid: for a unit vector v, a = v·`a` / v·`normal` and b = v·`b` / v·`normal`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plane {
    pub(crate) normal: [f64; 3],
    pub(crate) a: [f64; 3],
    pub(crate) b: [f64; 3],
}

/// The grid of one resolution on the twenty faces.
///
/// A point of a face has three coordinates a + b + c = 0, along three directions of neighbours. The cell (i, j) has its centre at
/// a = 2i − j, b = 2j − i, c = −i − j and its six sides where one of them is 1 more or less.
pub(crate) struct Grid {
    planes: [Plane; FACES_PADDED],
    /// √7 to the power of the resolution: the distance between cells of resolution 0, counted in cells.
    scale: f64,
    odd: bool,
}

/// Where a point lies on the grid of a face.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pub(crate) a: f64,
    pub(crate) b: f64,
    /// The cosine of the angle to the centre of the face.
    pub(crate) cos: f64,
}

/// The cell around a position, and how far inside it and inside the face the position is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounded {
    /// The low bits of i and j, each with a bias added.
    pub(crate) i: u32,
    pub(crate) j: u32,
    /// The greatest distance from the cell's centre along a, b, c: 1 on its border.
    pub(crate) from_centre: f64,
    /// The least of a, b, c on the even grid, times √7 if the resolution is odd: −2 · [`Grid::scale`] (· √7) on the face's border.
    pub(crate) from_edge: f64,
}

impl Grid {
    pub(crate) fn new(resolution: u8) -> Self {
        let odd = resolution % 2 == 1;
        let scale = 7f64.powi(i32::from(resolution / 2)) * if odd { 7f64.sqrt() } else { 1.0 };
        let unit = UNITS_PER_RADIAN * scale;
        let mut planes = [Plane::default(); FACES_PADDED];
        for (plane, (&normal, &azimuth)) in planes.iter_mut().zip(CENTRES.iter().zip(&AZIMUTHS)) {
            let [x, y, z] = normal;
            let length = x.hypot(y);
            let north = [-z * x / length, -z * y / length, (x * x + y * y) / length];
            let east = [-y / length, x / length, 0.0];
            let (sin, cos) = (azimuth - if odd { ODD_TURN } else { 0.0 }).sin_cos();
            let axis = |k: usize| (cos * north[k] + sin * east[k], sin * north[k] - cos * east[k]);
            plane.normal = normal;
            plane.a = std::array::from_fn(|k| 2.0 * unit * axis(k).0);
            plane.b = std::array::from_fn(|k| unit * (3f64.sqrt() * axis(k).1 - axis(k).0));
        }
        Self { planes, scale, odd }
    }

    /// How many steps of a, b or c a radian has at the centre of a face.
    pub(crate) fn steps_per_radian(&self) -> f64 {
        2.0 * UNITS_PER_RADIAN * self.scale
    }

    /// Where [`Rounded::from_edge`] has to be above for a point that is `margin` steps within the face.
    pub(crate) fn edge(&self, margin: f64) -> f64 {
        (margin - 2.0 * self.scale) * if self.odd { 7f64.sqrt() } else { 1.0 }
    }

    /// How many steps within the face a point with this [`Rounded::from_edge`] is.
    pub(crate) fn within_edge(&self, from_edge: f64) -> f64 {
        from_edge / if self.odd { 7f64.sqrt() } else { 1.0 } + 2.0 * self.scale
    }

    /// The point of the sphere (not of length 1) at a position on a face.
    pub(crate) fn unproject(&self, face: u32, a: f64, b: f64) -> [f64; 3] {
        let Plane { normal, a: ea, b: eb } = self.planes[face as usize % FACES_PADDED];
        // Along a and b the axes have lengths 2 units, and cos 120° between them.
        let square = dot::<Plain>(ea, ea);
        let (along_a, along_b) = ((a + b / 2.0) / square / 0.75, (b + a / 2.0) / square / 0.75);
        std::array::from_fn(|k| normal[k] + along_a * ea[k] + along_b * eb[k])
    }

    /// Projects a unit vector on a face.
    #[inline(always)]
    pub(crate) fn project<A: Arithmetic>(&self, face: u32, v: [f64; 3]) -> Position {
        let plane = &self.planes[face as usize % FACES_PADDED];
        let cos = dot::<A>(v, plane.normal);
        let inverse = 1.0 / cos;
        Position { a: dot::<A>(v, plane.a) * inverse, b: dot::<A>(v, plane.b) * inverse, cos }
    }
}

/// Finds the cell around a position. `bias_i` and `bias_j` are integers plus [`TO_INTEGER`].
///
/// The lines where a, b or c is an integer cut each cell into triangles, so that their floors tell the cell.
#[inline(always)]
pub(crate) fn round<A: Arithmetic, const ODD: bool>(a: f64, b: f64, bias_i: f64, bias_j: f64) -> Rounded {
    let c = -a - b;
    let floor_c = A::floor(c);
    let (sum_i, sum_j) =
        (A::mul_add(A::floor(a) - floor_c, 1.0 / 3.0, bias_i), A::mul_add(A::floor(b) - floor_c, 1.0 / 3.0, bias_j));
    let (i, j) = (sum_i - bias_i, sum_j - bias_j);
    let (off_a, off_b, off_c) = (a - (i + i - j), b - (j + j - i), c + (i + j));
    let from_centre = larger(larger(off_a.abs(), off_b.abs()), off_c.abs());
    let (edge_a, edge_b, edge_c) = if ODD { (a + a - b, b + b - c, c + c - a) } else { (a, b, c) };
    let from_edge = smaller(smaller(edge_a, edge_b), edge_c);
    Rounded { i: low_bits(sum_i), j: low_bits(sum_j), from_centre, from_edge }
}

/// The face whose centre is closest to a point.
#[expect(clippy::cast_possible_truncation, reason = "there are 20 faces")]
pub(crate) fn closest(v: [f64; 3]) -> u32 {
    let mut best = (0, f64::NEG_INFINITY);
    for (face, &centre) in CENTRES.iter().enumerate() {
        let cos = dot::<Plain>(v, centre);
        if cos > best.1 {
            best = (face as u32, cos);
        }
    }
    best.0
}

/// Guesses faces: the closest to the nearest node of a grid of half degrees.
pub(crate) struct Guess(Vec<u8>);

const ROWS: usize = 361;
const COLUMNS: usize = 721;
const NODES: usize = ROWS * COLUMNS;
/// Half degrees between two nodes of a row that are always worked out. Those between two of the same face are taken to be on it too.
const SPAN: usize = 16;

impl Guess {
    /// Makes the grid.
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "20 faces, 721 half degrees")]
    pub(crate) fn new() -> Self {
        let sin_cos = |half_degrees: usize, from: f64| (from + half_degrees as f64 / 2.0).to_radians().sin_cos();
        let longitudes: [_; COLUMNS] = std::array::from_fn(|column| sin_cos(column, -180.0));
        let mut nodes = vec![0; NODES];
        for (row, nodes) in nodes.chunks_exact_mut(COLUMNS).enumerate() {
            let (sin_lat, cos_lat) = sin_cos(row, -90.0);
            let face = |column: usize| {
                let (sin_lng, cos_lng) = longitudes[column];
                closest([cos_lng * cos_lat, sin_lng * cos_lat, sin_lat]) as u8
            };
            nodes[0] = face(0);
            for from in (0..COLUMNS - 1).step_by(SPAN) {
                nodes[from + SPAN] = face(from + SPAN);
                fill_between(nodes, &face, from, from + SPAN);
            }
        }
        Self(nodes)
    }

    /// The index of the node nearest to a latitude from −90 to 90 and a longitude from −180 to 180 degrees.
    #[inline(always)]
    pub(crate) fn node<A: Arithmetic>(lat: f64, lng: f64) -> u32 {
        const COLUMNS: f64 = 721.0;
        let row = (lat + lat + TO_INTEGER) - TO_INTEGER;
        let column = lng + lng + (TO_INTEGER + 180.0 * COLUMNS + 360.0);
        low_bits(A::mul_add(row, COLUMNS, column))
    }

    /// The face at a node.
    #[inline(always)]
    pub(crate) fn at(&self, node: u32) -> u32 {
        self.0.get(node as usize).map_or(0, |&face| u32::from(face))
    }
}

fn fill_between(nodes: &mut [u8], face: &impl Fn(usize) -> u8, from: usize, to: usize) {
    if nodes[from] == nodes[to] {
        let same = nodes[from];
        nodes[from..to].fill(same);
    } else if to - from > 1 {
        let middle = usize::midpoint(from, to);
        nodes[middle] = face(middle);
        fill_between(nodes, face, from, middle);
        fill_between(nodes, face, middle, to);
    }
}
