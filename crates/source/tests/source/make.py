"""Makes fixtures/*.fgb with GDAL, from the folder of the repository: target/venv/bin/python crates/source/tests/source/make.py

They are kept, being small: the tests need neither GDAL nor Python. GeoPackages and shapefiles are made by the tests themselves.
"""

import pathlib

import geopandas
import numpy
import pandas
import pyarrow
import pyogrio
from shapely import from_wkt

FOLDER = pathlib.Path(__file__).parent / "fixtures"


def types():
    """A column of each type that pandas can say, and a row of nulls; points of EPSG:27700; with an index."""
    frame = geopandas.GeoDataFrame(
        {
            "b": pandas.array([True, False, None], dtype="boolean"),
            "i16": pandas.array([-7, 7, None], dtype="Int16"),
            "i32": pandas.array([2**31 - 1, 0, None], dtype="Int32"),
            "i64": pandas.array([2**63 - 1, -1, None], dtype="Int64"),
            "f32": numpy.array([0.5, 1.5, numpy.nan], dtype="float32"),
            "f64": numpy.array([0.1, -0.1, numpy.nan]),
            "s": ["Zürich", "", None],
            "at": pandas.to_datetime(["2024-05-06T07:08:09.123Z", "2024-05-06T09:08:09Z", None], format="ISO8601"),
            "raw": [b"\x00\xff", b"", None],
        },
        geometry=[from_wkt("POINT (1 2)"), from_wkt("POINT (3 4)"), from_wkt("POINT (5 6)")],
        crs=27700,
    )
    pyogrio.write_arrow(
        pyarrow.table(frame.to_arrow(index=False)),
        FOLDER / "types.fgb",
        driver="FlatGeobuf",
        geometry_name="geometry",
        geometry_type="Point",
        crs="EPSG:27700",
    )


def mixed():
    """Geometries of all types, in their order; no reference system; without an index."""
    geometries = [
        "POINT (1 2)",
        "LINESTRING (0 0, 1 1)",
        "POLYGON ((0 0, 9 0, 9 9, 0 0), (3 1, 4 1, 4 2, 3 1))",
        "MULTIPOINT ((0 0), (1 1))",
        "MULTILINESTRING ((0 0, 1 1), (2 2, 3 3, 4 4))",
        "MULTIPOLYGON (((0 0, 9 0, 9 9, 0 0), (3 1, 4 1, 4 2, 3 1)), ((20 0, 29 0, 29 9, 20 0)))",
        "GEOMETRYCOLLECTION (POINT (1 2), LINESTRING (0 0, 1 1))",
        None,
        "POLYGON EMPTY",
    ]
    geometries = [from_wkt(wkt) if wkt else None for wkt in geometries]
    frame = geopandas.GeoDataFrame({"n": range(len(geometries))}, geometry=geometries)
    frame.to_file(FOLDER / "mixed.fgb", driver="FlatGeobuf", index=False, SPATIAL_INDEX="NO")


def heights():
    """Lines with z."""
    lines = [from_wkt("LINESTRING Z (0 0 5, 1 1 6)"), from_wkt("LINESTRING Z (2 2 7, 3 3 8)")]
    frame = geopandas.GeoDataFrame({"n": [1, 2]}, geometry=lines, crs=4326)
    frame.to_file(FOLDER / "heights.fgb", driver="FlatGeobuf", index=False, SPATIAL_INDEX="NO")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    types()
    mixed()
    heights()
