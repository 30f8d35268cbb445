"""Writes crates/batch/tests/batch/covers.txt: polygons, and the cells that the C library finds for each (package h3).

    target/venv/bin/python tests/geometry/cover.py

A line for each polygon, as well-known text; and below it one for each of its covers: containment, resolution, number of cells, and the
first sixteen digits of the SHA-256 of the cells (fifteen hexadecimal digits each, ascending, a line feed behind each). None of them
comes near a pole or the antimeridian, where the two libraries are to differ.
"""

import hashlib
import math
import pathlib
import random

import h3
from shapely.geometry import Polygon

TARGET = pathlib.Path(__file__).parents[2] / "crates/batch/tests/batch/covers.txt"
MODES = {"center": "center", "boundary": "full", "covers": "overlap"}

rng = random.Random(7)


def star(x, y, radius, points):
    angles = sorted(rng.uniform(0, 2 * math.pi) for _ in range(points))
    ring = [(a, radius * rng.uniform(0.3, 1)) for a in angles]
    return [(round(x + far * math.cos(a), 6), round(y + far * math.sin(a), 6)) for a, far in ring]


def cells(polygon, resolution, mode):
    shape = h3.geo_to_h3shape(polygon.__geo_interface__)
    return sorted(h3.polygon_to_cells_experimental(shape, resolution, contain=mode))


polygons = [
    (Polygon(star(10.7, 59.9, 0.3, 9)), [4, 7, 8]),
    (Polygon(star(-43.2, -22.9, 2, 12)), [3, 5, 6]),
    (Polygon(star(151.2, -33.9, 0.02, 7)), [8, 10, 11]),
    (Polygon(star(20, 0, 40, 14)), [1, 2, 3]),
    (Polygon(star(0, 0, 0.001, 5)), [9, 12, 14]),
    (Polygon([(2, 48), (3, 48), (3, 49), (2, 49)], [[(2.2, 48.2), (2.8, 48.2), (2.8, 48.8), (2.2, 48.8)]]), [5, 6, 7]),
    (Polygon([(5, 50), (8, 50), (8, 50.001), (5, 50.001)]), [4, 6, 8]),
    # Around the pentagon that lies off the coast of Argentina.
    (Polygon([(-62, -42), (-53, -42), (-53, -36), (-62, -36)]), [2, 3, 5]),
]

lines = []
for polygon, resolutions in polygons:
    assert polygon.is_valid
    lines.append(f"{polygon.wkt}\n")
    for resolution in resolutions:
        for name, mode in MODES.items():
            found = cells(polygon, resolution, mode)
            digest = hashlib.sha256("".join(f"{cell}\n" for cell in found).encode()).hexdigest()
            lines.append(f"{name} {resolution} {len(found)} {digest[:16]}\n")
TARGET.write_text("".join(lines))
print(f"{TARGET}: {len(lines) - len(polygons)} covers, {TARGET.stat().st_size} bytes")
