"""Makes the files that the tests and the benchmark read, the same bytes every time: seeded, and made once.

python tests/data.py FOLDER [NAME...]

points_1m.parquet    a million seeded observations around real places, over thirty days
points_10m.parquet   ten million of them; points_40m.parquet are forty; points_shuffled.parquet are the ten in no order
points.csv           the first million of the ten as CSV; points.geoparquet, as points in well-known binary
kinds.parquet        every column type, nested ones too, with nulls, negatives and instants before 1970
spread.parquet       values that sort partition transforms out: years apart, before 1970, long and short strings
places.geoparquet    points as WKB with GeoParquet metadata
parcels.gpkg         21,253 polygons that tile a county, in EPSG:27700
world.geojson        a feature collection of 1 GiB on one line; small_world.geojson is one of 64 MiB
"""

import csv
import datetime as dt
import decimal
import hashlib
import json
import os
import struct
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CITIES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "cities", "cities.csv")


def cities():
    with open(CITIES, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return np.array([float(r["lat"]) for r in rows]), np.array([float(r["lon"]) for r in rows]), rows


def points(path, rows, seed):
    """Observations as a feed has them: in time order, seven decimals, a few thousand sensors."""
    rng = np.random.default_rng(seed)
    lat, lon, _ = cities()
    place = rng.integers(0, len(lat), rows)
    y = np.round(np.clip(lat[place] + rng.normal(0, 0.05, rows), -89.999999, 89.999999), 7)
    x = np.round((lon[place] + rng.normal(0, 0.05, rows) + 180) % 360 - 180, 7)
    start = np.datetime64("2026-03-01T00:00:00", "us").astype("int64")
    instants = start + np.sort(rng.integers(0, 30 * 86_400 * 1_000_000, rows))
    sensors = pa.array([f"S{i:05d}" for i in range(5000)])
    kinds = pa.array(["bus", "tram", "taxi", "bike", "truck", "ship", "rail", "foot"])
    table = pa.table(
        {
            "event_id": pa.array(np.arange(rows, dtype="int64") + 1),
            "event_ts": pa.array(instants, pa.timestamp("us")),
            "lat": y,
            "lon": x,
            "sensor_id": sensors.take(pa.array(rng.integers(0, len(sensors), rows))),
            "category": kinds.take(pa.array(rng.integers(0, len(kinds), rows))),
            "value": np.round(rng.gamma(2.0, 15.0, rows), 3),
        }
    )
    pq.write_table(table, path, compression="zstd", row_group_size=131_072)


def shuffled(path, of):
    """The same rows in an order that is no order."""
    table = pq.read_table(of)
    order = np.random.default_rng(7).permutation(len(table))
    pq.write_table(table.take(pa.array(order)).combine_chunks(), path, compression="zstd", row_group_size=131_072)


def as_csv(path, of, rows=1_000_000):
    import pyarrow.csv as pc

    pc.write_csv(pq.read_table(of).slice(0, rows), path, pc.WriteOptions(quoting_style="needed"))


def as_geoparquet(path, of, rows=1_000_000):
    """Points in well-known binary instead of two columns."""
    table = pq.read_table(of).slice(0, rows).combine_chunks()
    wkb = np.zeros(rows, dtype=np.dtype([("head", "V5"), ("x", "<f8"), ("y", "<f8")]))
    wkb["head"] = np.void(b"\x01\x01\x00\x00\x00")
    wkb["x"], wkb["y"] = table["lon"].to_numpy(), table["lat"].to_numpy()
    points = pa.FixedSizeBinaryArray.from_buffers(pa.binary(21), rows, [None, pa.py_buffer(wkb.tobytes())]).cast(pa.binary())
    table = table.drop(["lat", "lon"]).append_column("geometry", points)
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": {"encoding": "WKB", "geometry_types": ["Point"]}}}
    table = table.replace_schema_metadata({"geo": json.dumps(geo)})
    pq.write_table(table, path, compression="zstd", row_group_size=131_072)


def kinds(path, rows=2_000, seed=3):
    """One column of every type; every seventh value is null, and the first rows hold the extremes."""
    rng = np.random.default_rng(seed)
    lat, lon, places = cities()
    epoch = dt.datetime(1970, 1, 1)

    def sometimes(values, every=7):
        return [None if i % every == every - 1 else v for i, v in enumerate(values)]

    micros = [-1, 0, 1, -62_135_596_800_000_000, 253_402_300_799_999_999] + rng.integers(
        -(2**51), 2**51, rows - 5
    ).tolist()
    millis = [m // 1000 for m in micros]
    nanos = [-1, 0, 1, -1_000, 999] + rng.integers(-(2**62), 2**62, rows - 5).tolist()
    nanos = [n // 1000 * 1000 for n in nanos]  # Iceberg's timestamps are microseconds: nothing to lose here
    days = [-1, 0, 1, -719_162, 2_932_896] + rng.integers(-40_000, 40_000, rows - 5).tolist()
    wide = [10**37, -(10**37), 0, 1, -1] + [int(a) * int(b) for a, b in rng.integers(-(2**62), 2**62, (rows - 5, 2))]
    wide = [w % 10**37 if w >= 0 else -(-w % 10**37) for w in wide]
    money = [decimal.Decimal(int(v)).scaleb(-2) for v in rng.integers(-999_999_999, 999_999_999, rows)]
    texts = ["", " ", "NULL", "ß∂🌍", "a" * 40] + [
        places[int(i)]["name"] for i in rng.integers(0, len(places), rows - 5)
    ]
    columns = {
        "id": pa.array(range(rows), pa.int64()),
        "lat": pa.array(lat[:rows]),
        "lon": pa.array(lon[:rows]),
        "flag": pa.array(sometimes([bool(v) for v in rng.integers(0, 2, rows)]), pa.bool_()),
        "small": pa.array(sometimes(rng.integers(-(2**31), 2**31, rows).tolist()), pa.int32()),
        "real": pa.array(sometimes(rng.normal(0, 1e6, rows).astype("float32").tolist()), pa.float32()),
        "money": pa.array(sometimes(money), pa.decimal128(9, 2)),
        "wide": pa.array(sometimes([decimal.Decimal(w) for w in wide]), pa.decimal128(38, 0)),
        "day": pa.array(sometimes(days), pa.int32()).cast(pa.date32()),
        "naive_ms": pa.array(sometimes(millis), pa.int64()).cast(pa.timestamp("ms")),
        "naive_us": pa.array(sometimes(micros), pa.int64()).cast(pa.timestamp("us")),
        "naive_ns": pa.array(sometimes(nanos), pa.int64()).cast(pa.timestamp("ns")),
        "zoned": pa.array(sometimes(micros), pa.int64()).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
        "clock": pa.array(sometimes(rng.integers(0, 86_400_000_000, rows).tolist()), pa.int64()).cast(pa.time64("us")),
        "text": pa.array(sometimes(texts), pa.string()),
        "blob": pa.array(sometimes([bytes(rng.integers(0, 256, int(n), "uint8")) for n in rng.integers(0, 20, rows)])),
        "numbers": pa.array(
            sometimes([rng.integers(-9, 9, int(n)).tolist() + [None] for n in rng.integers(0, 4, rows)]),
            pa.list_(pa.int64()),
        ),
        "address": pa.array(
            sometimes([{"street": t, "number": None if i % 3 == 0 else i} for i, t in enumerate(texts)]),
            pa.struct([("street", pa.string()), ("number", pa.int32())]),
        ),
        "tags": pa.array(
            sometimes([[(f"k{j}", float(j) / 2) for j in range(i % 3)] for i in range(rows)]),
            pa.map_(pa.string(), pa.float64()),
        ),
        "trips": pa.array(
            sometimes([[{"at": epoch + dt.timedelta(microseconds=i), "legs": [i, None]}] for i in range(rows)]),
            pa.list_(pa.struct([("at", pa.timestamp("us")), ("legs", pa.list_(pa.int64()))])),
        ),
    }
    pq.write_table(pa.table(columns), path, row_group_size=701)


def spread(path, rows=6_000, seed=4):
    """Partition values on both sides of every edge: 1970, midnight, the first of a month, short and long strings."""
    rng = np.random.default_rng(seed)
    lat, lon, _ = cities()
    edges = [-1, 0, -86_400_000_000, -86_400_000_001, 86_399_999_999, -3_600_000_000, -3_600_000_001, 3_599_999_999]
    edges += [
        int(np.datetime64(t, "us").astype("int64")) for t in ("1969-12-01", "1968-02-29T23:59:59.999999", "2000-03-01")
    ]
    # A few dozen instants, so that the finest transform still makes few files.
    instants = np.array(edges + rng.integers(-(2**47), 2**47, 13).tolist())
    ts = instants[rng.integers(0, len(instants), rows)]
    names = [
        "",
        "é",
        "ab",
        "abcd",
        "abcde",
        "ÅÄÖåäö",
        "日本語の地名",
        "🌍🌎🌏🗺️",
        "Saint-Denis",
        "Saint-Étienne",
        "a b/c=d%e:f~g",
    ]
    ids = rng.integers(-(2**62), 2**62, 40)
    table = pa.table(
        {
            "id": pa.array(ids[rng.integers(0, len(ids), rows)]),
            "number": pa.array(rng.integers(-25, 25, rows).astype("int32")),
            "lat": lat[rng.integers(0, len(lat), rows)],
            "lon": lon[rng.integers(0, len(lon), rows)],
            "ts": pa.array(ts, pa.timestamp("us")),
            "ts_zoned": pa.array(ts, pa.timestamp("us", "UTC")),
            "day": pa.array((ts // 86_400_000_000).astype("int32")).cast(pa.date32()),
            "name": pa.array(
                [None if i % 11 == 0 else names[int(n)] for i, n in enumerate(rng.integers(0, len(names), rows))]
            ),
            "price": pa.array(
                [decimal.Decimal(int(v)).scaleb(-2) for v in rng.integers(-50, 50, rows)], pa.decimal128(9, 2)
            ),
        }
    )
    pq.write_table(table, path, row_group_size=1_000)


def few(path, rows=5_000):
    """The columns of the smallest tests, in several row groups."""
    lat, lon, _ = cities()
    table = pa.table({"id": pa.array(range(rows), pa.int64()), "lat": lat[:rows], "lon": lon[:rows]})
    pq.write_table(table, path, row_group_size=1_000)


def places(path, rows=5_000):
    """Places around the world as WKB points, described as GeoParquet 1.1 does."""
    lat, lon, names = cities()
    pick = list(range(0, len(lat), len(lat) // rows))[:rows]
    wkb = [struct.pack("<BIdd", 1, 1, lon[i], lat[i]) for i in pick]
    geo = {
        "version": "1.1.0",
        "primary_column": "geometry",
        "columns": {"geometry": {"encoding": "WKB", "geometry_types": ["Point"]}},
    }
    table = pa.table(
        {
            "place": pa.array(pick, pa.int64()),
            "name": pa.array([names[i]["name"] for i in pick]),
            "geometry": pa.array(wkb, pa.binary()),
        }
    ).replace_schema_metadata({"geo": json.dumps(geo)})
    pq.write_table(table, path, row_group_size=2_000)


def parcels(path, wanted=21_253, seed=5):
    """Cells of a Voronoi diagram around clustered points: neighbours share their vertices, a few of which lie every 25 m."""
    import geopandas
    import pyogrio
    import shapely

    rng = np.random.default_rng(seed)
    west, south, east, north = 480_000, 295_000, 510_000, 318_000
    villages = rng.uniform((west, south), (east, north), (60, 2))
    clustered = villages[rng.integers(0, 60, wanted * 4 // 5)] + rng.normal(0, 250, (wanted * 4 // 5, 2))
    scattered = rng.uniform((west, south), (east, north), (wanted * 3 // 10, 2))
    county = shapely.box(west, south, east, north)
    tiles = shapely.voronoi_polygons(shapely.multipoints(np.concatenate([clustered, scattered])), extend_to=county)
    tiles = shapely.segmentize(shapely.intersection(shapely.get_parts(tiles), county), 25.0)
    tiles = shapely.set_precision(tiles, 0.01)
    tiles = tiles[(shapely.area(tiles) > 0) & (shapely.get_type_id(tiles) == 3)][:wanted]
    assert len(tiles) == wanted, len(tiles)
    since = np.datetime64("2003-01-01T00:00:00", "ms") + rng.integers(0, 7_300, wanted).astype("timedelta64[D]")
    frame = geopandas.GeoDataFrame(
        {
            "inspire_id": rng.permutation(np.arange(20_000_000, 20_000_000 + wanted)),
            "label": [str(number) for number in range(wanted)],
            "reference": [f"LT{number:06d}" for number in range(wanted)],
            "valid_from": since,
        },
        geometry=tiles,
        crs="EPSG:27700",
    )
    pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": "2026-03-01T00:00:00Z"})
    made = path + ".gpkg"
    pyogrio.write_dataframe(frame, made, driver="GPKG", layer="parcels")
    os.replace(made, path)


def world(path, size):
    """Features with some properties and a small polygon each, `features` before `type`, and no line break anywhere."""
    rng = np.random.default_rng(6)
    with open(path, "wb") as file:
        file.write(b'{"name":"world","features":[')
        written = number = 0
        while written < size:
            lon, lat = rng.uniform(-179, 178, 1_000), rng.uniform(-89, 88, 1_000)
            features = []
            for x, y in zip(lon.round(6).tolist(), lat.round(6).tolist()):
                ring = f"[[{x},{y}],[{x + 0.5},{y}],[{x + 0.5},{y + 0.5}],[{x},{y + 0.5}],[{x},{y}]]"
                features.append(
                    f'{{"type":"Feature","id":{number},"properties":{{"number":{number},"name":"place {number}","share":{number / 7}}},'
                    f'"geometry":{{"type":"Polygon","coordinates":[{ring}]}}}}'
                )
                number += 1
            chunk = (",".join(features)).encode()
            file.write((b"," if written else b"") + chunk)
            written += len(chunk)
        file.write(b'],"type":"FeatureCollection"}')


# What only benchmarks and tests that are asked for read.
LARGE = {"points_10m.parquet", "points_40m.parquet", "points_shuffled.parquet", "points.csv", "points.geoparquet", "world.geojson"}

MAKERS = {
    "points_1m.parquet": lambda path: points(path, 1_000_000, 1),
    "points_10m.parquet": lambda path: points(path, 10_000_000, 2),
    "points_40m.parquet": lambda path: points(path, 40_000_000, 4),
    "points_shuffled.parquet": lambda path: shuffled(path, _beside(path, "points_10m.parquet")),
    "points.csv": lambda path: as_csv(path, _beside(path, "points_10m.parquet")),
    "points.geoparquet": lambda path: as_geoparquet(path, _beside(path, "points_10m.parquet")),
    "kinds.parquet": kinds,
    "spread.parquet": spread,
    "few.parquet": few,
    "places.geoparquet": places,
    "parcels.gpkg": parcels,
    "world.geojson": lambda path: world(path, 1 << 30),
    "small_world.geojson": lambda path: world(path, 64 << 20),
}


def _beside(path, name):
    """Another of these files, which a file is made from."""
    return make(os.path.dirname(os.path.dirname(path)), name)


def make(folder, name):
    """Makes one file unless it is there; a file that is there is whole, because it got its name last.

    The folder is named after this script, so that a change here makes new files."""
    with open(__file__, "rb") as script:
        folder = os.path.join(folder, hashlib.sha256(script.read()).hexdigest()[:12])
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        partial = f"{path}.{os.getpid()}"
        MAKERS[name](partial)
        os.replace(partial, path)
    return path


if __name__ == "__main__":
    for wanted in sys.argv[2:] or [name for name in MAKERS if name not in LARGE]:
        print(make(sys.argv[1], wanted))
