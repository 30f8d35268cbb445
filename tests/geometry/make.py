"""Writes crates/geometry/tests/geometry/interior_points.txt: polygons, and the point that GEOS finds within each.

    target/venv/bin/python tests/geometry/make.py [/work/shared/data/naturalearth_lowres]

A line for each polygon: a name, its well-known binary in hexadecimal digits, and x and y as shapely's `point_on_surface` has
them. The polygons are the first of every country of Natural Earth (coarse ones first, as far as the size allows), and odd ones.
"""

import glob
import math
import pathlib
import sys

import pyogrio
import shapely
from shapely.geometry import Polygon

TARGET = pathlib.Path(__file__).parents[2] / "crates/geometry/tests/geometry/interior_points.txt"
MOST_BYTES = 38_000

star = [(math.cos(k * math.pi / 5) * (9 if k % 2 else 2), math.sin(k * math.pi / 5) * (9 if k % 2 else 2)) for k in range(10)]

ODD = {
    "square": Polygon([(0, 0), (4, 0), (4, 4), (0, 4)]),
    "clockwise": Polygon([(0, 0), (0, 4), (4, 4), (4, 0)]),
    "triangle": Polygon([(0, 0), (7, 1), (3, 5)]),
    "u": Polygon([(0, 0), (9, 0), (9, 9), (7, 9), (7, 2), (2, 2), (2, 9), (0, 9)]),
    "u_upside_down": Polygon([(0, 9), (9, 9), (9, 0), (6, 0), (6, 7), (2, 7), (2, 0), (0, 0)]),
    "c": Polygon([(0, 0), (9, 0), (9, 2), (2, 2), (2, 7), (9, 7), (9, 9), (0, 9)]),
    "comb": Polygon([(0, 0), (9, 0), (9, 8), (8, 8), (8, 1), (6, 1), (6, 9), (3, 9), (3, 1), (1, 1), (1, 7), (0, 7)]),
    "edge_through_the_middle": Polygon([(0, 0), (9, 0), (9, 5), (4, 5), (4, 10), (0, 10)]),
    "edges_through_the_middle": Polygon([(0, 0), (2, 0), (2, 5), (7, 5), (7, 0), (9, 0), (9, 10), (6, 10), (6, 5), (3, 5), (3, 10), (0, 10)]),
    "vertex_in_the_middle": Polygon([(0, 0), (8, 0), (5, 5), (8, 10), (0, 10), (3, 5)]),
    "star": Polygon(star),
    "star_shifted": shapely.affinity.translate(Polygon(star), 174.3, -41.7),
    "hole": Polygon([(0, 0), (9, 0), (9, 9), (0, 9)], [[(3, 2), (5, 2), (5, 7), (3, 7)]]),
    "hole_at_the_side": Polygon([(0, 0), (9, 0), (9, 9), (0, 9)], [[(1, 1), (8, 1), (8, 8), (1, 8)]]),
    "many_holes": Polygon([(0, 0), (99, 0), (99, 50), (0, 50)], [[(x, 5), (x + 4, 5), (x + 4, 45), (x, 45)] for x in range(3, 90, 11)]),
    "hole_touches": Polygon([(0, 0), (9, 0), (9, 9), (0, 9)], [[(0, 4), (5, 2), (5, 6)]]),
    "spike": Polygon([(0, 0), (4, 0), (4, 4), (2, 4), (2, 900), (2, 4), (0, 4)]),
    "thin_spike": Polygon([(0, 0), (4, 0), (4, 4), (2.001, 4), (2, 900), (1.999, 4), (0, 4)]),
    "sliver": Polygon([(0, 0), (1000, 1e-7), (1000, 2e-7)]),
    "upright_sliver": Polygon([(0, 0), (1e-9, 1000), (2e-9, 1000)]),
    "tiny": Polygon([(10, 50), (10 + 1e-12, 50), (10, 50 + 1e-12)]),
    "huge": Polygon([(-1e300, -1e300), (1e300, -1e300), (1e300, 1e300)]),
    "world": Polygon([(-180, -90), (180, -90), (180, 90), (-180, 90)]),
    "flat": Polygon([(0, 5), (4, 5), (9, 5)]),
    "upright_flat": Polygon([(5, 0), (5, 4), (5, 9)]),
    "one_place": Polygon([(3, 7), (3, 7), (3, 7)]),
    "bow_tie": Polygon([(0, 0), (9, 9), (9, 0), (0, 9)]),
    "metres": Polygon([(533000.25, 180100.5), (533010.75, 180101.25), (533009.5, 180117.125), (532998.5, 180111.75)]),
}


def line(name, polygon):
    point = shapely.point_on_surface(polygon)
    return f"{name} {shapely.to_wkb(polygon, hex=True, flavor='iso', byte_order=1)} {point.x!r} {point.y!r}\n"


def countries(path):
    shapefile = glob.glob(f"{path}/*.shp")[0]
    frame = pyogrio.read_dataframe(shapefile)
    name = "ISO_A3" if "ISO_A3" in frame else "iso_a3"
    for code, country, geometry in zip(frame[name], frame.index, frame.geometry):
        yield f"{code}-{country}".replace(" ", "_"), shapely.force_2d(shapely.get_parts(geometry)[0])


lines = [line(name, polygon) for name, polygon in ODD.items()]
size = sum(map(len, lines))
path = sys.argv[1] if len(sys.argv) > 1 else "/work/shared/data/naturalearth_lowres"
for text in sorted((line(*country) for country in countries(path)), key=lambda text: (len(text), text)):
    size += len(text)
    if size > MOST_BYTES:
        break
    lines.append(text)
TARGET.write_text("".join(lines))
print(f"{TARGET}: {len(lines)} polygons, {TARGET.stat().st_size} bytes")
