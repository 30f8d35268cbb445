//! The inside of a polygon, for many questions about one polygon.

use geo::Line;

/// A polygon whose edges are sorted by latitude, so that a question looks only at those on its own.
pub(crate) struct Area {
    /// From south to north; an edge is in each row that it passes through.
    rows: Vec<Vec<Line>>,
    south: f64,
    height: f64,
}

impl Area {
    /// The inside of rings, each of which ends where it began: what an odd number of them surrounds.
    pub(crate) fn new(rings: &[Vec<[f64; 2]>]) -> Self {
        let edges = || {
            rings
                .iter()
                .flat_map(|ring| ring.iter().zip(ring.iter().skip(1)))
                .map(|(&[x0, y0], &[x1, y1])| Line::new((x0, y0), (x1, y1)))
        };
        let heights = || rings.iter().flatten().map(|&[_, y]| y);
        let (south, north) = (heights().fold(f64::INFINITY, f64::min), heights().fold(f64::NEG_INFINITY, f64::max));
        let count = edges().count();
        let mut area = Self { rows: Vec::new(), south, height: north - south };
        // Edges from bottom to top are in every row: there are as many rows as do not make more than eight copies of each.
        let mut rows = count.clamp(1, 4096);
        while rows > 1 && edges().map(|edge| area.span(&edge, rows).count()).sum::<usize>() > 8 * count {
            rows /= 2;
        }
        area.rows = vec![Vec::new(); rows];
        for edge in edges() {
            for row in area.span(&edge, rows) {
                if let Some(row) = area.rows.get_mut(row) {
                    row.push(edge);
                }
            }
        }
        area
    }

    /// Whether a position is inside. One on an edge may be or not.
    pub(crate) fn contains(&self, [x, y]: [f64; 2]) -> bool {
        let crossed = |edge: &&Line| {
            let (start, end) = (edge.start, edge.end);
            (start.y > y) != (end.y > y) && start.x + (y - start.y) / (end.y - start.y) * (end.x - start.x) < x
        };
        self.row_of(y).iter().filter(crossed).count() % 2 == 1
    }

    /// How many edges [`contains`](Self::contains) looks at.
    pub(crate) fn cost(&self, [_, y]: [f64; 2]) -> usize {
        self.row_of(y).len()
    }

    fn row_of(&self, y: f64) -> &[Line] {
        self.rows.get(self.row(y, self.rows.len())).map_or(&[], Vec::as_slice)
    }

    fn span(&self, edge: &Line, rows: usize) -> std::ops::RangeInclusive<usize> {
        self.row(edge.start.y.min(edge.end.y), rows)..=self.row(edge.start.y.max(edge.end.y), rows)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "what is negative is 0, and what is no number too"
    )]
    #[expect(clippy::cast_precision_loss, reason = "there are at most 4096 rows")]
    fn row(&self, y: f64, rows: usize) -> usize {
        (((y - self.south) / self.height * rows as f64) as usize).min(rows.saturating_sub(1))
    }
}
