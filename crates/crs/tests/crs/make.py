#!/usr/bin/env python3
"""Makes what the tests compare with, by pyproj:

    target/venv/bin/python crates/crs/tests/crs/make.py

places.tsv       code, x, y, longitude, latitude: by the same operation of PROJ, always x before y, all over the area of use
definitions.tsv  code, dialect, well-known text without any id, in the dialects of ESRI and GDAL
"""

import importlib.util
import pathlib
import re

import numpy
from pyproj import CRS, Transformer
from pyproj.enums import TransformDirection, WktVersion

HERE = pathlib.Path(__file__).resolve().parent
SPEC = importlib.util.spec_from_file_location("make", HERE.parents[1] / "data/make.py")
DATA = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(DATA)

CODES = [27700, 3857, 2154, 32633, 4326, 3031, 3035, 5070, 28992, 31370, 2056, 3067, 25832, 2193, 4258, 4269, 31467, 27572, 3832, 2263, 3413, 2048, 32701]


def without_ids(text):
    """A text as tools write it that know no codes."""
    keep = lambda node: node if isinstance(node, str) else [node[0], *(keep(c) for c in node[1:] if isinstance(c, str) or c[0] not in ("AUTHORITY", "ID"))]
    write = lambda node: node if isinstance(node, str) else node[0] + "[" + ",".join(map(write, node[1:])) + "]"
    return write(keep(DATA.tree_of(tokens(text))))


def tokens(text):
    return re.findall(r'"(?:[^"]|"")*"|[A-Za-z_]\w*|[-+]?[\d.][\d.eE+-]*|[\[\](),]', text)


def main():
    places, definitions = [], []
    for code in CODES:
        crs = CRS.from_epsg(code)
        base = DATA.base_of(crs)
        transformer, _ = base.best(crs.area_of_use.bounds)
        to_base = Transformer.from_crs(crs, base.crs, always_xy=True)
        lon, lat = DATA.grid(crs.area_of_use.bounds)
        lon, lat = lon[::4], lat[::4]
        x, y = to_base.transform(*transformer.transform(lon, lat, direction=TransformDirection.INVERSE), direction=TransformDirection.INVERSE)
        lon, lat = transformer.transform(*to_base.transform(x, y))
        for row in zip(x, y, lon, lat):
            if numpy.isfinite(row).all():
                places.append(f"{code}\t" + "\t".join(repr(float(v)) for v in row))
        for name, dialect in (("esri", WktVersion.WKT1_ESRI), ("gdal", WktVersion.WKT1_GDAL), ("wkt2", WktVersion.WKT2_2019)):
            definitions.append(f"{code}\t{name}\t{without_ids(crs.to_wkt(dialect))}")
    (HERE / "places.tsv").write_text("\n".join(places) + "\n")
    (HERE / "definitions.tsv").write_text("\n".join(definitions) + "\n")


if __name__ == "__main__":
    main()
