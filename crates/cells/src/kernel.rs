//! The fast way: a block of points at a time, in a few plain loops that the compiler turns into vector instructions.

#[cfg(target_arch = "x86_64")]
use crate::arithmetic::Fused;
use crate::arithmetic::{Arithmetic, Plain};
use crate::base::{base_bits, known, turn};
use crate::digits::{Climb, one};
use crate::face::{Guess, round};
use crate::plan::{Plan, Shared};
use crate::vector;

/// How many points are worked on at a time.
pub(crate) const BLOCK: usize = 128;

pub(crate) type Numbers = [f64; BLOCK];
pub(crate) type Indices = [u32; BLOCK];

/// An instruction set that there is a copy of the fast way for. The cells are the same with each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kernel {
    /// What every processor of the architecture has: SSE2 on x86-64.
    Baseline,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 (F, DQ, VL, BW and CD).
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Kernel {
    /// Those that this machine can run, the fastest last.
    #[must_use]
    pub fn available() -> Vec<Self> {
        let kernels = [
            (Self::Baseline, true),
            #[cfg(target_arch = "x86_64")]
            (Self::Avx2, avx2()),
            #[cfg(target_arch = "x86_64")]
            (Self::Avx512, avx512()),
        ];
        kernels.into_iter().filter_map(|(kernel, here)| here.then_some(kernel)).collect()
    }

    /// The fastest that this machine can run.
    #[must_use]
    pub fn fastest() -> Self {
        Self::available().pop().unwrap_or(Self::Baseline)
    }

    /// Computes the cells of a block; 0 for those that are not certain. On the baseline if this machine does not have the instructions.
    pub(crate) fn run(
        self,
        plan: &Plan,
        lat: &Numbers,
        lng: &Numbers,
        scratch: &mut Scratch,
        cells: &mut [u64; BLOCK],
    ) {
        #[cfg(target_arch = "x86_64")]
        if let Some(copy) = self.copy() {
            #[expect(unsafe_code, reason = "`copy` has asked the processor whether it has the instructions")]
            return unsafe { copy(plan, lat, lng, scratch, cells) };
        }
        block::<Plain>(plan, lat, lng, scratch, cells);
    }

    /// The copy for an instruction set that goes beyond the baseline, if this machine has it.
    #[cfg(target_arch = "x86_64")]
    fn copy(self) -> Option<CompiledBlock> {
        match self {
            Self::Avx512 if avx512() => Some(block_avx512),
            Self::Avx2 if avx2() => Some(block_avx2),
            _ => None,
        }
    }
}

#[cfg(target_arch = "x86_64")]
type CompiledBlock = unsafe fn(&Plan, &Numbers, &Numbers, &mut Scratch, &mut [u64; BLOCK]);

#[cfg(target_arch = "x86_64")]
fn avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[cfg(target_arch = "x86_64")]
fn avx512() -> bool {
    avx2()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn block_avx2(plan: &Plan, lat: &Numbers, lng: &Numbers, scratch: &mut Scratch, cells: &mut [u64; BLOCK]) {
    block::<Fused>(plan, lat, lng, scratch, cells);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512vl,avx512bw,avx512cd")]
fn block_avx512(plan: &Plan, lat: &Numbers, lng: &Numbers, scratch: &mut Scratch, cells: &mut [u64; BLOCK]) {
    block::<Fused>(plan, lat, lng, scratch, cells);
}

/// The columns between the loops.
pub(crate) struct Scratch {
    x: Numbers,
    y: Numbers,
    z: Numbers,
    a: Numbers,
    b: Numbers,
    cos: Numbers,
    face: Indices,
    i: Indices,
    j: Indices,
    first: Indices,
    digits: [u64; BLOCK],
    accepted: [u64; BLOCK],
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self {
            x: [0.0; BLOCK],
            y: [0.0; BLOCK],
            z: [0.0; BLOCK],
            a: [0.0; BLOCK],
            b: [0.0; BLOCK],
            cos: [0.0; BLOCK],
            face: [0; BLOCK],
            i: [0; BLOCK],
            j: [0; BLOCK],
            first: [0; BLOCK],
            digits: [0; BLOCK],
            accepted: [0; BLOCK],
        }
    }
}

#[inline(always)]
fn block<A: Arithmetic>(plan: &Plan, lat: &Numbers, lng: &Numbers, scratch: &mut Scratch, cells: &mut [u64; BLOCK]) {
    let shared = plan.shared;
    if plan.steps.one {
        locate::<A, true>(plan, shared, lat, lng, scratch);
    } else {
        locate::<A, false>(plan, shared, lat, lng, scratch);
    }
    climb(plan, shared, scratch);
    let Scratch { face, i, j, first, digits, accepted, .. } = scratch;
    for k in 0..BLOCK {
        let entry = shared.bases.entry(face[k], i[k], j[k], first[k]);
        let digits = turn(entry).of(digits[k]) << plan.unused;
        cells[k] = (plan.header | base_bits(entry) | digits) & accepted[k] & known(entry);
    }
}

/// The face, the biased (i, j) and all ones if that is certain.
#[inline(always)]
fn locate<A: Arithmetic, const ODD: bool>(
    plan: &Plan,
    shared: &Shared,
    lat: &Numbers,
    lng: &Numbers,
    scratch: &mut Scratch,
) {
    let Scratch { x, y, z, a, b, cos, face, i, j, accepted, .. } = scratch;
    for k in 0..BLOCK {
        let inside = (lat[k].abs() <= 90.0) & (lng[k].abs() <= 180.0);
        let (lat, lng) = if inside { (lat[k], lng[k]) } else { (0.0, 0.0) };
        [x[k], y[k], z[k]] = vector::fast::<A>(lat, lng);
        face[k] = Guess::node::<A>(lat, lng);
        accepted[k] = if inside { u64::MAX } else { 0 };
    }
    for face in face.iter_mut() {
        *face = shared.guess.at(*face);
    }
    for k in 0..BLOCK {
        let position = plan.grid.project::<A>(face[k], [x[k], y[k], z[k]]);
        (a[k], b[k], cos[k]) = (position.a, position.b, position.cos);
    }
    for k in 0..BLOCK {
        let rounded = round::<A, ODD>(a[k], b[k], plan.bias_i, plan.bias_j);
        (i[k], j[k]) = (rounded.i, rounded.j);
        let certain = (rounded.from_centre < plan.own) & (rounded.from_edge > plan.edge) & (cos[k] < plan.near);
        accepted[k] &= if certain { u64::MAX } else { 0 };
    }
}

/// The digits, and (i, j) at resolution 0.
#[inline(always)]
fn climb(plan: &Plan, shared: &Shared, scratch: &mut Scratch) {
    let Scratch { i, j, first, digits, .. } = scratch;
    digits.fill(0);
    first.fill(0);
    let mut shift = 0;
    if plan.steps.one {
        step(i, j, first, digits, one);
        shift += 3;
    }
    if plan.steps.two {
        step(i, j, first, digits, |climb| shared.tables.two(climb, shift));
        shift += 6;
    }
    for _ in 0..plan.steps.fours {
        step(i, j, first, digits, |climb| shared.tables.four(climb, shift));
        shift += 12;
    }
}

#[inline(always)]
fn step(i: &mut Indices, j: &mut Indices, first: &mut Indices, digits: &mut [u64; BLOCK], up: impl Fn(Climb) -> Climb) {
    for k in 0..BLOCK {
        let next = up(Climb { i: i[k], j: j[k], digits: digits[k], first: first[k] });
        (i[k], j[k], digits[k], first[k]) = (next.i, next.j, next.digits, next.first);
    }
}
