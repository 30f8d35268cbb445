"""What other readers and writers of spatial files say: GDAL through pyogrio, GeoPandas, Shapely, PROJ through pyproj, and H3's own library.

Questions of `judge.py`, in a file of their own because loading these libraries takes a second that few tests need.
"""

import glob
import hashlib
import json
import os
import shutil
import sys
import warnings

_ENDINGS = {
    "shapefile": (".shp", "ESRI Shapefile"),
    "geopackage": (".gpkg", "GPKG"),
    "geojson": (".geojson", "GeoJSON"),
    "geojsonseq": (".geojsons", "GeoJSONSeq"),
    "flatgeobuf": (".fgb", "FlatGeobuf"),
    "geoparquet": (".parquet", None),
}


def do_convert(source, to, format, **options):
    """Writes a spatial file as another format, with GDAL or GeoPandas; its path."""
    import geopandas
    import pyogrio

    ending, driver = _ENDINGS[format]
    path = to + ending
    frame = source if isinstance(source, geopandas.GeoDataFrame) else geopandas.read_file(source)
    if driver is None:
        frame.to_parquet(path, **options)
        return path
    if format.startswith("geojson"):
        # GDAL rounds coordinates, at best in the last bit.
        with open(path, "w", encoding="utf-8") as file:
            if format == "geojson":
                file.write(frame.to_json(drop_id=True))
            else:
                file.writelines(json.dumps(feature) + "\n" for feature in frame.iterfeatures(drop_id=True, na="null"))
        return path
    if format == "geopackage":
        options.setdefault("GEOMETRY_NAME", "geometry")
    if format == "flatgeobuf":
        # With an index the features are put into another order.
        options.setdefault("SPATIAL_INDEX", "NO")
    # Not every polygon a group of polygons.
    options.setdefault("promote_to_multi", False)
    pyogrio.write_dataframe(frame, path, driver=driver, **options)
    return path


def _read(lake, table):
    return sys.modules["__main__"]._arrow(lake, table, "pyiceberg", None, None, None)


def _representative(geometry):
    """The point that stands for a geometry, by the rule that `hexfloe_geometry::representative_point` states."""
    import shapely

    if geometry is None or geometry.is_empty:
        return None
    if geometry.geom_type == "Point":
        return geometry
    if geometry.geom_type in ("LineString", "LinearRing"):
        return geometry.interpolate(0.5, normalized=True)
    if geometry.geom_type == "Polygon":
        return shapely.point_on_surface(geometry)
    return _representative(next(part for part in geometry.geoms if not part.is_empty))


def spatial_differences(lake, table, source, geometry="geometry", cell=None, resolution=None, crs=None, ordered=True):
    """In what the rows of a table differ from the features of a file: geometries exactly, attributes, cells. A list of sentences."""
    import geopandas
    import h3
    import pyproj
    import shapely

    read = _read(lake, table)
    frame = geopandas.read_file(source)
    if len(frame) != read.num_rows:
        return [f"{read.num_rows} rows, and {len(frame)} features"]
    wrong = []
    stored = shapely.from_wkb(read[geometry].to_numpy(zero_copy_only=False))
    expected = frame.geometry.to_numpy()
    columns = [name for name in frame.columns if name != frame.geometry.name]
    if not ordered:
        key = columns[0]
        order = {value: index for index, value in enumerate(frame[key].tolist())}
        positions = [order[value] for value in read[key].to_pylist()]
        frame = frame.iloc[positions]
        expected = frame.geometry.to_numpy()
    for index, (one, other) in enumerate(zip(stored, expected)):
        if (one is None) != (other is None) or (one is not None and not shapely.equals_exact(one, other, 0.0)):
            wrong.append(f"row {index}: geometry {one} and {other}"[:300])
    for name in columns:
        theirs = [None if value != value else value for value in frame[name].tolist()]
        ours = read[name].to_pylist()
        different = [i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b]
        if different:
            wrong.append(f"{name}: {len(different)} values, first {ours[different[0]]!r} and {theirs[different[0]]!r}")
    if cell:
        to_degrees = pyproj.Transformer.from_crs(crs or frame.crs, "OGC:CRS84", always_xy=True)
        for index, (one, ours) in enumerate(zip(expected, read[cell].to_pylist())):
            point = _representative(one)
            theirs = None
            if point is not None:
                lon, lat = to_degrees.transform(point.x, point.y)
                theirs = h3.str_to_int(h3.latlng_to_cell(lat, lon, resolution))
            if ours != theirs:
                wrong.append(f"row {index}: cell {ours} and {theirs}")
    return wrong[:20]


def spatial_digest(lake, table, leave_out=()):
    """SHA-256 of all rows, column by column in the order of the names."""
    read = _read(lake, table)
    digest = hashlib.sha256()
    for name in sorted(read.column_names):
        if name not in leave_out:
            digest.update(repr((name, read[name].to_pylist())).encode())
    return digest.hexdigest()


def parcel_cells(lake, table, source, resolution):
    """Of how many parcels the cell is not that of PROJ and H3, how far the places are apart at most (m), and the sums of areas."""
    import geopandas
    import h3
    import numpy
    import pyproj
    import shapely

    read = _read(lake, table)
    frame = geopandas.read_file(source)
    points = [_representative(geometry) for geometry in frame.geometry]
    to_degrees = pyproj.Transformer.from_crs(frame.crs, "OGC:CRS84", always_xy=True)
    lon, lat = to_degrees.transform([p.x for p in points], [p.y for p in points])
    expected = [h3.str_to_int(h3.latlng_to_cell(b, a, resolution)) for a, b in zip(lon, lat)]
    ours = read["h3_cell"].to_pylist()
    stored = shapely.from_wkb(read["geometry"].to_numpy(zero_copy_only=False))
    apart = [
        h3.great_circle_distance(h3.cell_to_latlng(h3.int_to_str(a)), h3.cell_to_latlng(h3.int_to_str(b)), unit="m")
        for a, b in zip(ours, expected)
        if a != b
    ]
    areas = [float(numpy.sum(shapely.area(g))) for g in (stored, frame.geometry.to_numpy())]
    same = bool(numpy.all(shapely.equals_exact(stored, frame.geometry.to_numpy(), 0.0)))
    return {"rows": read.num_rows, "different": len(apart), "farthest_m": max(apart, default=0), "areas": areas, "same": same}


def seen_as_geometry(lake, table, geometry="geometry", bbox=None):
    """What GeoPandas, DuckDB and GDAL (its ADBC driver, with DuckDB for an engine) see in each data file of a table."""
    import duckdb
    import geopandas
    import pyogrio

    main = sys.modules["__main__"]
    engine = glob.glob(os.path.join(os.path.dirname(duckdb.__file__), "..", "_duckdb*.so"))[0]
    seen = []
    for file in main.files(lake, table):
        path = file["path"].removeprefix("file://")
        frame = geopandas.read_parquet(path)
        named = {"geometry_name": frame.geometry.name, "crs": frame.crs.to_string() if frame.crs else None}
        gdal = pyogrio.read_dataframe("ADBC:" + path, ADBC_DRIVER=engine)
        connection = duckdb.connect()
        main._load_extensions(connection, "spatial")
        kind, count = connection.execute(
            f"SELECT any_value(typeof({geometry})), count(*) FILTER (ST_IsValid({geometry}) OR NOT ST_IsValid({geometry}))"
            f" FROM read_parquet('{path}')"
        ).fetchone()
        seen.append({
            "geopandas": {**named, "rows": len(frame), "bounds": frame.total_bounds.tolist()},
            "gdal": {"rows": len(gdal), "crs": gdal.crs.to_string() if gdal.crs else None, "bounds": gdal.total_bounds.tolist()},
            "duckdb": {"type": kind, "rows": count},
        })
    return seen


def bytes_read(lake, table, conditions):
    """For each condition, how many rows DuckDB finds in the data files, and how many bytes it reads for their geometries.

    The bytes are those that the kernel counts for this process, so Linux only.
    """
    import duckdb
    import pyarrow.parquet as pq

    main = sys.modules["__main__"]
    paths = [file["path"].removeprefix("file://") for file in main.files(lake, table)]
    listed = ", ".join(f"'{path}'" for path in paths)

    def read_so_far():
        with open("/proc/self/io", encoding="ascii") as counts:
            return int(dict(line.split(": ") for line in counts)["rchar"])

    def ask(where):
        connection = duckdb.connect()
        main._load_extensions(connection, "spatial")
        before = read_so_far()
        found, _ = connection.execute(
            f"SELECT count(*), sum(octet_length(ST_AsWKB(geometry))) FROM read_parquet([{listed}]) WHERE {where}"
        ).fetchone()
        return {"found": found, "bytes": read_so_far() - before}

    groups = sum(pq.ParquetFile(path).metadata.num_row_groups for path in paths)
    return {"groups": groups, "answers": [ask(where) for where in conditions]}


def do_unpack_again(folder):
    """Copies of all files of a folder in their own place: other inodes and times, the same content."""
    for path in glob.glob(os.path.join(folder, "*")):
        shutil.copyfile(path, path + ".new")
        os.replace(path + ".new", path)
        os.utime(path, (1, 1))


def do_part(source, to, part, parts):
    """Every so manieth feature of a file, as a shapefile."""
    import geopandas

    return do_convert(geopandas.read_file(source).iloc[part::parts], to, "shapefile")


# ---------------------------------------------------------------- what goes wrong, in every format


def _kind(kind):
    """Geometries of a kind of trouble, and the system they are in."""
    import shapely

    box = shapely.box
    cities = [(-0.13, 51.51), (13.40, 52.52), (-74.01, 40.71), (-43.17, -22.91), (151.21, -33.87), (139.69, 35.69), (178.44, -18.14), (-149.90, 61.22)]
    return {
        "cities": ([shapely.Point(*place) for place in cities], "OGC:CRS84"),
        "empty": ([shapely.Point(16.4, 48.2), None, shapely.Point()], "OGC:CRS84"),
        "nothing": ([], "OGC:CRS84"),
        "wide": (
            [
                shapely.MultiPolygon([box(177, -20, 180, -16), box(-180, -20, -178, -16)]),
                box(-180, -90, 180, 90),
                shapely.Polygon([(lon, 80) for lon in range(-180, 181, 20)] + [(180, 90), (-180, 90)]),
                shapely.Polygon([(0, 0), (10, 0), (10, 10), (8, 10), (8, 2), (2, 2), (2, 10), (0, 10)]),
            ],
            "OGC:CRS84",
        ),
        "across": ([shapely.Polygon([(177, -16), (-178, -16), (-178, -20), (177, -20)])], "OGC:CRS84"),
        "british": ([shapely.Point(530_000, 180_000), box(482_000, 300_000, 482_050, 300_050)], "EPSG:27700"),
        "unstated": ([shapely.Point(530_000, 180_000)], None),
        "metres": ([shapely.Point(530_000, 180_000)], "OGC:CRS84"),
        "swapped": ([shapely.Point(35.69, 139.69)], "OGC:CRS84"),
        "high": ([shapely.Point(16.4, 48.2, 171.5), shapely.Point(16.5, 48.3, 180.0)], "OGC:CRS84"),
    }[kind]


def do_trouble(kind, format, to):
    """A file of such a kind in such a format: its path, the cells (resolution 7) that PROJ and H3 give to its rows."""
    import geopandas
    import h3
    import pyogrio
    import pyproj
    import shapely

    geometries, crs = _kind(kind)
    cells = []
    for geometry in geometries:
        point = _representative(geometry)
        if point is None or crs is None:
            cells.append(None)
            continue
        lon, lat = pyproj.Transformer.from_crs(crs, "OGC:CRS84", always_xy=True).transform(point.x, point.y)
        cells.append(h3.str_to_int(h3.latlng_to_cell(lat, lon, 7)))
    ids = list(range(1, len(geometries) + 1))
    if format == "csv":
        path = to + ".csv"
        with open(path, "w", encoding="utf-8") as file:
            file.write("id,wkt\n")
            for number, geometry in zip(ids, geometries):
                file.write(f'{number},"{"" if geometry is None else shapely.to_wkt(geometry, rounding_precision=-1)}"\n')
        return {"path": path, "cells": cells}
    if format == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = to + ".parquet"
        wkb = [None if geometry is None else shapely.to_wkb(geometry, flavor="iso") for geometry in geometries]
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "wkt": pa.array(wkb, pa.binary())}), path)
        return {"path": path, "cells": cells}
    series = geopandas.GeoSeries(geometries, crs=crs if crs != "OGC:CRS84" else "EPSG:4326")
    frame = geopandas.GeoDataFrame({"id": ids}, geometry=series)
    options = {}
    if not geometries or kind == "empty":
        options["geometry_type"] = "Point"
    if kind == "wide" and format in ("shapefile", "geopackage", "flatgeobuf"):
        options["geometry_type"] = "Unknown" if format != "shapefile" else "Polygon"
    if kind == "british":
        options["geometry_type"] = "Unknown"
        if format == "shapefile":
            # A shapefile has one type of geometry.
            frame, cells = frame.iloc[1:], cells[1:]
            options["geometry_type"] = "Polygon"
    if format == "geoparquet":
        options = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = do_convert(frame, to, format, **options)
    return {"path": path, "cells": cells}


def do_odd(odd, folder):
    """A file with which something is odd; its path."""
    import geopandas
    import pyogrio
    import shapely

    os.makedirs(folder, exist_ok=True)
    to = os.path.join(folder, odd)

    def written(geometries, format="geopackage", crs="EPSG:4326", columns=None, **options):
        columns = columns or {"id": list(range(1, len(geometries) + 1))}
        frame = geopandas.GeoDataFrame(columns, geometry=geopandas.GeoSeries(geometries, crs=crs))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return do_convert(frame, to, format, **options)

    point = shapely.Point
    if odd == "no_prj":
        path = written([point(530_000, 180_000), point(431_000, 433_000)], "shapefile", "EPSG:27700")
        os.remove(to + ".prj")
        return path
    if odd == "swapped":
        return written([point(35.69, 139.69), point(-33.87, 151.21)], "geojson")
    if odd == "cp1252":
        path = written([point(8.54, 47.37)], "shapefile", columns={"name": ["Zürich"]}, encoding="cp1252")
        os.remove(to + ".cpg")
        return path
    if odd == "mercator":
        path = to + ".geojson"
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                '{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"id":1},'
                '"geometry":{"type":"Point","coordinates":[1826766.0,6140643.0]}}]}'
            )
        return path
    if odd == "empty_layer":
        return written([], "flatgeobuf", geometry_type="Point")
    if odd == "two_layers":
        path = written([point(16.4, 48.2)], layer="stops")
        frame = geopandas.GeoDataFrame({"id": [1]}, geometry=[shapely.LineString([(16, 48), (17, 48)])], crs="EPSG:4326")
        pyogrio.write_dataframe(frame, path, layer="lines", append=True)
        return path
    if odd == "null_geometry":
        return written([point(16.4, 48.2), None], geometry_type="Point")
    if odd == "heights":
        return written([point(16.4, 48.2, 171.0)], "geoparquet")
    if odd == "antimeridian":
        return written([point(179.9, -17), point(-179.9, -17)], "geojsonseq")
    if odd == "topojson":
        path = to + ".json"
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"type":"Topology","objects":{"a":{"type":"GeometryCollection","geometries":[]}},"arcs":[]}')
        return path
    raise ValueError(odd)


def do_two_columns(to):
    """A GeoParquet file with two geometry columns, each in a system of its own."""
    import geopandas
    import shapely

    plots = geopandas.GeoSeries([shapely.box(530_000, 180_000, 530_100, 180_100)], crs="EPSG:27700")
    frame = geopandas.GeoDataFrame({"id": [1]}, geometry=plots)
    frame["entrance"] = geopandas.GeoSeries([shapely.Point(-0.128, 51.504)], crs="OGC:CRS84")
    frame.to_parquet(to + ".parquet")
    return to + ".parquet"


def geo_columns(lake, table):
    """Of each geometry column that the first data file has: types and, by name, the system."""
    import pyarrow.parquet as pq
    import pyproj

    path = sys.modules["__main__"].files(lake, table)[0]["path"].removeprefix("file://")
    geo = json.loads(pq.read_schema(path).metadata[b"geo"])
    named = {}
    for name, column in geo["columns"].items():
        crs = column.get("crs", "OGC:CRS84")
        crs = pyproj.CRS.from_json_dict(crs).to_string() if isinstance(crs, dict) else crs
        named[name] = {"types": column["geometry_types"], "crs": crs, "bbox": column.get("bbox")}
    return {"primary": geo["primary_column"], "columns": named}


def degrees_bounds(source):
    """The box around a file's geometries in degrees, by PROJ."""
    import geopandas

    return geopandas.read_file(source).to_crs("OGC:CRS84").total_bounds.tolist()


def expected_cover(wkt, resolution):
    """The cells whose centre is in a polygon, by H3's own library."""
    import h3
    import shapely

    return sorted(h3.str_to_int(cell) for cell in h3.geo_to_cells(shapely.from_wkt(wkt), resolution))
