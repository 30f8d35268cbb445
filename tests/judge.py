"""What other engines say about a table that Hexfloe wrote.

Reads one JSON object a line from standard input, `{"ask": NAME, ...}`, and answers each with one line: `{"answer": ...}` or
`{"error": ...}`. A request names the `lake`, which is a folder with a SQLite catalog, or the `catalog`, which is an object of
PyIceberg's properties: a REST catalog or one in PostgreSQL, with the warehouse on S3. PyIceberg opens tables through the catalog,
DuckDB through their metadata file, PyArrow reads single files. Every function below whose name does not begin with an underscore is
a question. Questions only read; what begins with `do_` does what somebody with another engine might do to a table.
"""

import collections
import csv
import datetime as dt
import decimal
import glob
import gzip
import hashlib
import inspect
import json
import math
import os
import re
import sqlite3
import struct
import sys
import time
import tomllib
import traceback
import uuid
import xml.etree.ElementTree as xml
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import psycopg2
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntryStatus
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures"))
import headers  # noqa: E402
import make  # noqa: E402
import reader  # noqa: E402
import spatial  # noqa: E402

# ---------------------------------------------------------------- how tables are opened


def _rows_of_catalog(lake):
    """The catalog's own rows, read with nothing but a client of its database: [namespace, table, metadata location, previous one]."""
    if isinstance(lake, dict):
        return _rows_of_postgres(lake) if lake["type"] == "sql" else _rows_of_rest(lake)
    path = os.path.join(lake, "catalog.db")
    if not os.path.exists(path):
        return []
    # Not `immutable`: the write-ahead log has to be seen.
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'iceberg_tables'").fetchone():
            return []
        return [
            list(row)
            for row in connection.execute(
                "SELECT table_namespace, table_name, metadata_location, previous_metadata_location"
                " FROM iceberg_tables ORDER BY 1, 2"
            )
        ]


def _rows_of_postgres(lake):
    import psycopg2

    connection = psycopg2.connect(lake["uri"])
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT to_regclass('iceberg_tables')")
            if cursor.fetchone()[0] is None:
                return []
            cursor.execute(
                "SELECT table_namespace, table_name, metadata_location, previous_metadata_location"
                " FROM iceberg_tables ORDER BY 1, 2"
            )
            return [list(row) for row in cursor.fetchall()]
    finally:
        connection.close()


def _rows_of_rest(lake):
    """A REST catalog has no rows to look at: what it answers, in the same form."""
    catalog = _catalog(lake)
    tables = [name for namespace in catalog.list_namespaces() for name in catalog.list_tables(namespace)]
    rows = []
    for name in sorted(tables):
        t = catalog.load_table(name)
        log = t.metadata.metadata_log
        previous = log[-1].metadata_file if log else None
        rows.append([".".join(name[:-1]), name[-1], t.metadata_location, previous])
    return rows


def _catalog(lake):
    """The catalog in PyIceberg."""
    if not isinstance(lake, dict):
        return SqlCatalog(
            "lake",
            uri=f"sqlite:///{lake}/catalog.db",
            warehouse=f"file://{lake}/warehouse",
            init_catalog_tables="false",
        )
    properties = {name: value for name, value in lake.items() if name not in ("name", "type")}
    if lake["type"] == "rest":
        return RestCatalog(lake["name"], **properties)
    # The driver that is installed, whichever one is the default.
    properties["uri"] = properties["uri"].replace("postgresql://", "postgresql+psycopg2://", 1)
    return SqlCatalog(lake["name"], init_catalog_tables="false", **properties)


def _table(lake, table):
    """The table in PyIceberg, or None where there is none."""
    sql = not isinstance(lake, dict) or lake["type"] == "sql"
    # A catalog can be cut off before it has its tables.
    if sql and not _rows_of_catalog(lake):
        return None
    catalog = _catalog(lake)
    try:
        return catalog.load_table(table)
    except NoSuchTableError:
        return None
    finally:
        if sql:
            catalog.engine.dispose()


def _local(location):
    """The path of a `file:` location, however its slashes are written."""
    return re.sub(r"^file:(//)?(?=/)", "", location)


def _remote(location):
    return location.startswith("s3:")


def _readable(t, location):
    """What PyArrow reads a file of the table from: its path, or the object, opened."""
    return t.io.new_input(location).open() if _remote(location) else _local(location)


def _content(t, location):
    """The bytes of a file of the table."""
    if _remote(location):
        with t.io.new_input(location).open() as file:
            return file.read()
    with open(_local(location), "rb") as file:
        return file.read()


def _s3(lake, service="s3"):
    """A client of the catalog's store that tries once."""
    import boto3
    from botocore.config import Config

    return boto3.client(
        service,
        endpoint_url=lake["s3.endpoint"],
        aws_access_key_id=lake["s3.access-key-id"],
        aws_secret_access_key=lake["s3.secret-access-key"],
        region_name=lake["s3.region"],
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, proxies={}),
    )


def _bucket_and_prefix(lake):
    bucket, _, prefix = lake["warehouse"].removeprefix("s3://").partition("/")
    return bucket, prefix


_duck = None


def _duckdb(lake=None):
    """DuckDB with all that it needs to read this lake."""
    duck = _loaded_duckdb()
    if isinstance(lake, dict):

        def text(name):
            return "'" + lake[name].replace("'", "''") + "'"

        endpoint = lake["s3.endpoint"].removeprefix("http://")
        duck.execute(
            f"CREATE OR REPLACE SECRET store (TYPE s3, KEY_ID {text('s3.access-key-id')}, SECRET {text('s3.secret-access-key')},"
            f" REGION {text('s3.region')}, ENDPOINT '{endpoint}', URL_STYLE 'path', USE_SSL false)"
        )
    return duck


def _loaded_duckdb():
    global _duck
    if _duck is None:
        import duckdb

        _duck = duckdb.connect()
        _duck.execute("SET TimeZone = 'UTC'")
        # A WKB column is binary to Iceberg. DuckDB would make a geometry of it, and then find that the two do not fit.
        _duck.execute("SET enable_geoparquet_conversion = false")
        _load_extensions(_duck, "avro", "httpfs", "iceberg", "spatial")
    return _duck


def _load_extensions(connection, *extensions):
    for extension in extensions:
        [file] = glob.glob(
            f"{sys.prefix}/lib/python*/site-packages/duckdb_extension_{extension}/extensions/*/*.duckdb_extension"
        )
        connection.execute(f"LOAD '{file}'")


def _arrow(lake, table, engine, columns=None, where=None, snapshot=None):
    """A table as Arrow, through one of the engines; `where` is in the engine's own words."""
    opened = _table(lake, table)
    if opened is None:
        raise ValueError(f"there is no table {table}")
    if engine == "pyiceberg":
        scan = opened.scan(
            snapshot_id=snapshot, selected_fields=tuple(columns or ["*"]), **({"row_filter": where} if where else {})
        )
        return scan.to_arrow()
    assert engine == "duckdb", engine
    wanted = ", ".join(f'"{c}"' for c in columns) if columns else "*"
    at = f", snapshot_from_id => {snapshot}" if snapshot else ""
    query = f"SELECT {wanted} FROM iceberg_scan('{opened.metadata_location}'{at})"
    return _duckdb(lake).execute(query + (f" WHERE {where}" if where else "")).to_arrow_table()


def _plain(value):
    """A value as JSON can hold it, the same whichever engine read it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, dt.datetime):
        return (value if value.tzinfo is None else value.astimezone(dt.timezone.utc)).isoformat()
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return str(value)


def _sum_up(column):
    """What a column holds, whatever the order of its rows: nulls, the exact sum of its numbers, and a digest of its values."""
    kind = column.type
    values = column.to_pylist()
    held = [v for v in values if v is not None]
    if pa.types.is_integer(kind):
        total = str(sum(held))
    elif pa.types.is_floating(kind):
        total = repr(math.fsum(held))
    else:
        total = None
    digest = 0
    for text, count in collections.Counter(json.dumps(_plain(v), sort_keys=True) for v in held).items():
        digest += count * int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return {"nulls": len(values) - len(held), "sum": total, "digest": f"{digest % 2**64:016x}"}


# ---------------------------------------------------------------- questions about a catalog and a table


def catalog(lake):
    """Every table the catalog names, with where its metadata is."""
    return _rows_of_catalog(lake)


def objects(lake):
    """What is in the warehouse on S3: length and SHA-256 by key."""
    s3 = _s3(lake)
    bucket, prefix = _bucket_and_prefix(lake)
    held = {}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for item in page.get("Contents", []):
            # Some servers list folders as well.
            if item["Key"].endswith("/"):
                continue
            body = s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
            held[item["Key"].removeprefix(prefix).lstrip("/")] = [len(body), hashlib.sha256(body).hexdigest()]
    return held


def open_uploads(lake):
    """The keys of multipart uploads in the warehouse's bucket that nobody completed or aborted."""
    bucket, prefix = _bucket_and_prefix(lake)
    pages = _s3(lake).get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=prefix)
    return [upload["Key"] for page in pages for upload in page.get("Uploads", [])]


def table(lake, table):
    """The table's metadata, or null."""
    t = _table(lake, table)
    if t is None:
        return None
    schema = t.schema()
    return {
        "location": t.location(),
        "metadata_location": t.metadata_location,
        "format_version": t.format_version,
        "uuid": str(t.metadata.table_uuid),
        "properties": dict(t.properties),
        "fields": [
            {"id": f.field_id, "name": f.name, "type": str(f.field_type), "required": f.required} for f in schema.fields
        ],
        "spec": [
            {"source": schema.find_column_name(f.source_id), "transform": str(f.transform), "name": f.name}
            for f in t.spec().fields
        ],
        "current_snapshot_id": t.metadata.current_snapshot_id,
        "refs": {name: ref.snapshot_id for name, ref in t.refs().items()},
        "snapshots": [
            {
                "id": s.snapshot_id,
                "parent": s.parent_snapshot_id,
                "sequence_number": s.sequence_number,
                "operation": s.summary.operation.value,
                "summary": dict(s.summary.additional_properties),
            }
            # A writer may list them in any order.
            for s in sorted(t.snapshots(), key=lambda s: s.sequence_number)
        ],
    }


def ledger(lake, table):
    """The completed batches, as anybody reads them."""
    text = _table(lake, table).properties.get("ingest.completed_batches")
    return None if text is None else {"batches": json.loads(text), "bytes": len(text.encode())}


def columns(lake, table, engine, columns=None, where=None, snapshot=None):
    """The number of rows, and what each column holds."""
    read = _arrow(lake, table, engine, columns, where, snapshot)
    return {"rows": read.num_rows, "columns": {name: _sum_up(read[name]) for name in read.column_names}}


def rows(lake, table, engine="pyiceberg", columns=None, where=None, order=None, snapshot=None):
    """The rows themselves, for small tables."""
    read = _arrow(lake, table, engine, columns, where, snapshot)
    listed = read.to_pylist()
    if order:
        listed.sort(key=lambda r: [(r[c] is not None, r[c]) for c in order])
    return [_plain(r) for r in listed]


def count(lake, table, engine="pyiceberg", key=None):
    """How many rows there are, and how many different values of `key`; null where there is no table."""
    t = _table(lake, table)
    if t is None:
        return None
    if engine == "duckdb":
        distinct = f', count(DISTINCT "{key}")' if key else ", NULL"
        n, d = _duckdb(lake).execute(f"SELECT count(*){distinct} FROM iceberg_scan('{t.metadata_location}')").fetchone()
        return {"rows": n, "distinct": d}
    read = t.scan(selected_fields=(key or "ingest_batch_id",)).to_arrow()
    return {"rows": read.num_rows, "distinct": len(read[key].unique()) if key else None}


def per_batch(lake, table):
    """Rows by batch id."""
    read = _arrow(lake, table, "pyiceberg", ["ingest_batch_id"])
    return {v["values"]: v["counts"] for v in read["ingest_batch_id"].value_counts().to_pylist()}


def files(lake, table, snapshot=None):
    """The live data files: where, how large, which rows, which partition, and the bounds the manifests state."""
    t = _table(lake, table)
    schema = t.schema()
    listed = []
    for task in t.scan(snapshot_id=snapshot).plan_files():
        file = task.file
        spec = t.specs()[file.spec_id]

        def bounds(encoded):
            return {
                schema.find_column_name(i): _plain(from_bytes(schema.find_type(i), b))
                for i, b in (encoded or {}).items()
            }

        listed.append(
            {
                "path": _local(file.file_path),
                "bytes": file.file_size_in_bytes,
                "rows": file.record_count,
                "sha256": hashlib.sha256(_content(t, file.file_path)).hexdigest(),
                "format": file.file_format.value,
                "partition": {f.name: _plain(file.partition[i]) for i, f in enumerate(spec.fields)},
                "lower": bounds(file.lower_bounds),
                "upper": bounds(file.upper_bounds),
                "nulls": {schema.find_column_name(i): n for i, n in (file.null_value_counts or {}).items()},
                "values": {schema.find_column_name(i): n for i, n in (file.value_counts or {}).items()},
            }
        )
    return sorted(listed, key=lambda f: f["path"])


# ---------------------------------------------------------------- questions whose right answer is an empty list


def _size(t, location):
    """The bytes of a file, or None where there is none."""
    if _remote(location):
        file = t.io.new_input(location)
        return len(file) if file.exists() else None
    return os.path.getsize(_local(location)) if os.path.exists(_local(location)) else None


def unsound(lake, table, head_only=False):
    """Everything that is wrong with the table's files and numbers, in every snapshot or in the current one."""
    t = _table(lake, table)
    if t is None:
        return []
    wrong, sizes = [], {}

    def whole(location, length=None):
        path = _local(location)
        if "//" in path.removeprefix("s3://"):
            wrong.append(f"{location} is recorded with an empty path segment")
        if path not in sizes:
            sizes[path] = _size(t, location)
        if sizes[path] is None:
            wrong.append(f"{path} is referenced and does not exist")
            return None
        if length is not None and sizes[path] != length:
            wrong.append(f"{path} has {sizes[path]} bytes, recorded are {length}")
        return path

    whole(t.metadata_location)
    for entry in t.metadata.metadata_log:
        whole(entry.metadata_file)
    footers = {}
    for snapshot in [t.current_snapshot()] if head_only else t.snapshots():
        whole(snapshot.manifest_list)
        live = collections.Counter()
        total = collections.Counter()
        vectors = False
        for manifest in snapshot.manifests(t.io):
            whole(manifest.manifest_path, manifest.manifest_length)
            counted = collections.Counter()
            for entry in manifest.fetch_manifest_entry(t.io, discard_deleted=False):
                counted[entry.status] += 1
                file = entry.data_file
                if entry.status == ManifestEntryStatus.DELETED:
                    continue
                # A Puffin file holds vectors for many data files, with an entry for each.
                vector = file.file_format == FileFormat.PUFFIN
                live[file.file_path] += not vector
                path = whole(file.file_path, file.file_size_in_bytes)
                if file.content == DataFileContent.DATA:
                    total["total-records"] += file.record_count
                    total["total-data-files"] += 1
                else:
                    total["total-delete-files"] += 1
                    kind = "position" if file.content == DataFileContent.POSITION_DELETES else "equality"
                    total[f"total-{kind}-deletes"] += file.record_count
                total["total-files-size"] += file.file_size_in_bytes
                if vector:
                    vectors = True
                    continue
                if path and path not in footers:
                    try:
                        footers[path] = pq.read_metadata(_readable(t, file.file_path)).num_rows
                    except Exception as error:  # a torn file is the very thing looked for
                        wrong.append(f"{path} does not read: {error}")
                        footers[path] = None
                if path and footers[path] not in (None, file.record_count):
                    wrong.append(f"{path} holds {footers[path]} rows, recorded are {file.record_count}")
            stated = {
                ManifestEntryStatus.ADDED: manifest.added_files_count,
                ManifestEntryStatus.EXISTING: manifest.existing_files_count,
                ManifestEntryStatus.DELETED: manifest.deleted_files_count,
            }
            for status, n in stated.items():
                if n is not None and n != counted[status]:
                    wrong.append(
                        f"{manifest.manifest_path} states {n} {status.name} entries and holds {counted[status]}"
                    )
        for path, n in live.items():
            if n > 1:
                wrong.append(f"{path} is live {n} times in snapshot {snapshot.snapshot_id}")
        for name in (
            "total-records",
            "total-data-files",
            "total-delete-files",
            "total-position-deletes",
            "total-equality-deletes",
            "total-files-size",
        ):
            said = snapshot.summary.additional_properties.get(name)
            if vectors and name == "total-files-size":
                # Of a file with several vectors, some writers count all of it for each, some the vector's own bytes.
                continue
            if said is not None and int(said) != total[name]:
                wrong.append(f"snapshot {snapshot.snapshot_id} says {name} is {said}, counted are {total[name]}")
            if said is None and name in ("total-records", "total-data-files"):
                wrong.append(f"snapshot {snapshot.snapshot_id} does not say {name}")
    return wrong


def wrong_cells(lake, table, lat, lon, cell, resolution, parents=None):
    """Rows whose cell is not what the H3 library computes. `parents` maps a column to its resolution.

    A parent is the parent of the cell: near an edge it is not the cell of the point at that resolution."""
    import h3.api.basic_int as h3

    parents = parents or {}
    read = _arrow(lake, table, "pyiceberg", [lat, lon, cell, *parents])
    wrong = []
    for row in read.to_pylist():
        fine = h3.latlng_to_cell(row[lat], row[lon], resolution)
        expected = {cell: fine} | {column: h3.cell_to_parent(fine, r) for column, r in parents.items()}
        for column, value in expected.items():
            value = f"{value:x}" if isinstance(row[column], str) else value
            if row[column] != value:
                wrong.append(f"{column} of ({row[lat]}, {row[lon]}) is {row[column]}, expected {value}")
    return wrong[:20] if read.num_rows else ["no row to compare"]


def differences(lake, table, engine, source, key, columns):
    """Where the table's values differ from those of the Parquet file it was made from."""
    expected = pq.read_table(source, columns=[key, *[c for c in columns if c != key]])
    got = _arrow(lake, table, engine, [key, *[c for c in columns if c != key]])

    def by_key(read):
        return {row[key]: row for row in read.to_pylist()}

    if got.num_rows != expected.num_rows:
        return [f"{got.num_rows} rows, expected {expected.num_rows}"]
    a, b = by_key(got), by_key(expected)

    def same(value):
        # Engines spell a map as a list of pairs or as a dictionary; what it holds is compared.
        if isinstance(value, dict):
            return {k: same(v) for k, v in value.items()}
        if isinstance(value, list):
            if value and all(isinstance(v, tuple) and len(v) == 2 for v in value):
                return {k: same(v) for k, v in value}
            return [same(v) for v in value]
        if hasattr(value, "to_pydatetime"):
            value = value.to_pydatetime(warn=False)
        return _plain(value)

    wrong = []
    for column in columns:
        for k, row in b.items():
            x, y = same(a[k][column]) if k in a else "missing", same(row[column])
            if x != y and not (x in ([], {}) and y in ([], {})):
                wrong.append(f"{column} of {key} {k} is {x!r}, expected {y!r}")
    return wrong[:20]


def wrong_partitions(lake, table):
    """Files whose partition values are not PyIceberg's transforms of each of their rows."""
    t = _table(lake, table)
    schema = t.schema()
    wrong, compared = [], 0
    for task in t.scan().plan_files():
        spec = t.specs()[task.file.spec_id]
        read = pq.read_table(_readable(t, task.file.file_path), partitioning=None)
        for position, field in enumerate(spec.fields):
            source = schema.find_field(field.source_id)
            transform = field.transform.transform(source.field_type)
            # A date is a day number; PyIceberg reads partition values of some transforms as dates.
            stated = _number(task.file.partition[position])
            for value in set(_internal(read[source.name])):
                compared += 1
                expected = transform(value)
                if expected != stated:
                    wrong.append(
                        f"{task.file.file_path}: {field.name} of {value!r} is recorded as {stated!r}, expected {expected!r}"
                    )
    return wrong[:20] if compared else ["nothing to compare"]


def _number(value):
    return (value - dt.date(1970, 1, 1)).days if type(value) is dt.date else value


def _internal(column):
    """Values as Iceberg's transforms take them: days and microseconds as integers."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    elif pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    return column.to_pylist()


def wrong_filters(lake, table, engine, filters):
    """Filters that give another number of rows than the same test on all rows: a wrong bound or partition value hides rows.

    `filters` maps a condition in the engine's words to one in Python's, over the row `r`."""
    everything = _arrow(lake, table, engine).to_pylist()
    names = {"dt": dt, "decimal": decimal, "utc": dt.timezone.utc}
    wrong = []
    for condition, test in filters.items():
        expected = sum(bool(eval(test, names, {"r": row})) for row in everything)
        got = _arrow(lake, table, engine, where=condition).num_rows
        if got != expected:
            wrong.append(f"{condition} finds {got} rows, expected {expected}")
        if expected == 0 or expected == len(everything):
            wrong.append(f"{condition} selects {expected} of {len(everything)} rows: it tests nothing")
    return wrong


def wrong_bounds(lake, table):
    """Column bounds and null counts that do not hold for the rows of their file."""
    t = _table(lake, table)
    schema = t.schema()
    wrong, compared = [], 0
    for task in t.scan().plan_files():
        file = task.file
        read = pq.read_table(_readable(t, file.file_path), partitioning=None)
        for field in schema.fields:
            column = read[field.name]
            if not field.field_type.is_primitive:
                continue
            nulls = (file.null_value_counts or {}).get(field.field_id)
            if nulls is not None and nulls != column.null_count:
                wrong.append(f"{field.name}: {nulls} nulls stated, {column.null_count} found in {file.file_path}")
            # Not a number is in no bound.
            held = [v for v in _internal(column) if v is not None and not (isinstance(v, float) and math.isnan(v))]
            if not held:
                continue
            if pa.types.is_time(column.type):
                continue
            # Strings are ordered by their UTF-8 bytes.
            ordered = [v.encode() if isinstance(v, str) else v for v in held]
            for side, encoded, extreme in (
                ("lower", file.lower_bounds, min(ordered)),
                ("upper", file.upper_bounds, max(ordered)),
            ):
                raw = (encoded or {}).get(field.field_id)
                if raw is None:
                    continue
                compared += 1
                bound = from_bytes(field.field_type, raw)
                bound = bound.encode() if isinstance(bound, str) else bound
                if (bound > extreme) if side == "lower" else (bound < extreme):
                    wrong.append(
                        f"{field.name}: {side} bound {bound!r} does not hold for {extreme!r} in {file.file_path}"
                    )
    return wrong[:20] if compared else ["no bound is stated"]


# ---------------------------------------------------------------- what others do to a table


def junit(file):
    """The cases of a JUnit file: their names, and what came of them."""
    outcomes = {"failure": "failed", "error": "error", "skipped": "skipped"}
    return [
        {"name": case.get("name"), "outcome": next((outcomes[child.tag] for child in case), "passed")}
        for case in xml.parse(file).getroot().iter("testcase")
    ]


def do_compact(lake, table):
    """Rewrites all rows, whatever their batch, into as few files as PyIceberg makes of them."""
    t = _table(lake, table)
    t.overwrite(t.scan().to_arrow())
    return len(list(_table(lake, table).scan().plan_files()))


def do_append(lake, table, rows):
    """Adds rows; columns that a row does not name are null."""
    t = _table(lake, table)
    t.append(pa.Table.from_pylist(rows, schema=t.schema().as_arrow()))


def do_make_catalog(lake, namespace):
    """Makes the tables of a SQL catalog, and a namespace."""
    catalog = _catalog(lake)
    catalog.create_tables()
    catalog.create_namespace(namespace)
    catalog.engine.dispose()


def do_start_upload(lake, key):
    """Begins a multipart upload and leaves it open."""
    bucket, prefix = _bucket_and_prefix(lake)
    _s3(lake).create_multipart_upload(Bucket=bucket, Key="/".join(part for part in (prefix, key) if part))


def do_delete(lake, table, where):
    """Deletes rows by rewriting the files they are in."""
    _table(lake, table).delete(where)


def do_set(lake, table, name, value):
    """Sets a table property, or removes it."""
    with _table(lake, table).transaction() as transaction:
        transaction.remove_properties(name) if value is None else transaction.set_properties({name: value})


def do_rollback(lake, table, snapshot):
    """Makes an earlier snapshot the current one."""
    _table(lake, table).manage_snapshots().rollback_to_snapshot(snapshot).commit()


def do_expire(lake, table, snapshots):
    """Forgets snapshots."""
    _table(lake, table).maintenance.expire_snapshots().by_ids(snapshots).commit()


def do_add_column(lake, table, name):
    """Adds an optional column of text."""
    with _table(lake, table).update_schema() as update:
        update.add_column(name, StringType())


# ---------------------------------------------------------------- what cleaning up is compared with


def _place(location):
    """One spelling for each file: a path, or `s3://bucket/key`."""
    return re.sub(r"^s3[an]:", "s3:", _local(location.replace("file://localhost/", "file:///")))


def _below(lake, location):
    """Length by place of everything below a location, whatever its name."""
    if not _remote(_place(location)):
        folders = os.walk(_local(location), followlinks=True)
        paths = [os.path.join(folder, name) for folder, _, names in folders for name in names]
        return {re.sub("/+", "/", path): os.path.getsize(path) for path in paths}
    bucket, _, prefix = _place(location).removeprefix("s3://").partition("/")
    pages = _s3(lake).get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix.rstrip("/") + "/")
    items = [item for page in pages for item in page.get("Contents", [])]
    return {f"s3://{bucket}/{item['Key']}": item["Size"] for item in items if not item["Key"].endswith("/")}


def _reachable(t, live=False):
    """Every file that a table's metadata leads to, from all of its snapshots; with entries of files that were removed, or only
    what is live."""
    metadata = t.metadata
    named = {t.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    named.update(file.statistics_path for file in [*metadata.statistics, *metadata.partition_statistics])
    for snapshot in t.snapshots():
        named.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(t.io):
            named.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(t.io, discard_deleted=live)
            named.update(entry.data_file.file_path for entry in entries)
    return {re.sub("(?<!:)/+", "/", _place(name)) for name in named}


def below(lake, location):
    """What lies below a location: length by place."""
    return _below(lake, location)


def tags(lake, files):
    """The tags of objects: value by name, by location."""
    def tagged(location):
        bucket, _, key = location.removeprefix("s3://").partition("/")
        return {tag["Key"]: tag["Value"] for tag in _s3(lake).get_object_tagging(Bucket=bucket, Key=key)["TagSet"]}

    return {location: tagged(location) for location in files}


def referenced(lake, table):
    """The places of all files that some snapshot of a table has, and of those that describe it."""
    return sorted(_reachable(_table(lake, table), live=True))


def unreferenced(lake, table, places=()):
    """What lies in a table's location, and in other places, and is not its own: length by place."""
    t = _table(lake, table)
    found = {}
    for place in [t.location(), *places]:
        found |= _below(lake, place)
    own = _reachable(t)
    return {path: size for path, size in sorted(found.items()) if path not in own}


def snapshot_files(lake, table, snapshot):
    """The manifest list of a snapshot, and one of its manifests."""
    t = _table(lake, table)
    chosen = t.snapshot_by_id(snapshot)
    return {"manifest_list": chosen.manifest_list, "manifest": chosen.manifests(t.io)[0].manifest_path}


def metadata(lake, table):
    """The table's metadata file, as it is."""
    t = _table(lake, table)
    content = _content(t, t.metadata_location)
    return json.loads(gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content)


def do_write(lake, files):
    """Writes files: text, or bytes as a list of numbers, by location."""
    s3 = _s3(lake) if isinstance(lake, dict) else None

    def write(location, content):
        content = bytes(content) if isinstance(content, list) else content.encode()
        if _remote(location):
            bucket, _, key = location.removeprefix("s3://").partition("/")
            s3.put_object(Bucket=bucket, Key=key, Body=content)
            return
        os.makedirs(os.path.dirname(_local(location)), exist_ok=True)
        with open(_local(location), "wb") as file:
            file.write(content)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, files.keys(), files.values()))


def do_copy(lake, source, target, cut=None, packed=False):
    """Copies a file on the store: whole, or the first bytes of it, or packed by gzip."""
    place = _place(source)
    if _remote(place):
        bucket, _, key = place.removeprefix("s3://").partition("/")
        content = _s3(lake).get_object(Bucket=bucket, Key=key)["Body"].read()
    else:
        with open(place, "rb") as file:
            content = file.read()
    do_write(lake, {target: list(gzip.compress(content) if packed else content)[:cut]})


def do_remove(lake, location):
    """Deletes a file, if it is there."""
    place = _place(location)
    if not _remote(place):
        if os.path.exists(place):
            os.remove(place)
        return
    bucket, _, key = place.removeprefix("s3://").partition("/")
    _s3(lake).delete_object(Bucket=bucket, Key=key)


def do_age(lake, hours, below=None):
    """Sets the time of all local files back, or of those below a location."""
    then = time.time() - hours * 3600
    for path in _below(lake, below or os.path.join(lake, "warehouse")):
        os.utime(path, (then, then), follow_symlinks=False)


def do_put_metadata(lake, table, metadata, name=None):
    """Makes this the table's metadata, in a file of this name, and lets the catalog point to it."""
    t = _table(lake, table)
    old = t.metadata_location
    number = int(re.search(r"/v?(\d+)[^/]*$", old).group(1)) + 1
    new = f"{old.rsplit('/', 1)[0]}/{name or f'{number:05d}-{uuid.uuid4()}.metadata.json'}"
    text = json.dumps(metadata)
    do_write(lake, {new: list(gzip.compress(text.encode())) if ".gz" in new else text})
    namespace, name = table.rsplit(".", 1)
    catalog = _catalog(lake)
    statement = (
        "UPDATE iceberg_tables SET metadata_location = :new, previous_metadata_location = :old"
        " WHERE table_namespace = :namespace AND table_name = :name"
    )
    with catalog.engine.begin() as connection:
        connection.execute(sqlalchemy.text(statement), {"new": new, "old": old, "namespace": namespace, "name": name})
    catalog.engine.dispose()
    return new


def do_make_table(lake, table, version=2, location=None, properties=None, rows=()):
    """Makes a table as PyIceberg does, with a commit for each list of ids."""
    catalog = _catalog(lake)
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "kind", StringType(), required=False))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "_kind"))
    properties = {"format-version": str(version)} | (properties or {})
    catalog.create_namespace_if_not_exists(table.rsplit(".", 1)[0])
    t = catalog.create_table(table, schema, location=location, partition_spec=spec, properties=properties)
    for ids in rows:
        t.append(pa.Table.from_pylist([{"id": i, "kind": f"{i % 2}"} for i in ids], schema=t.schema().as_arrow()))
    return t.location()


def do_drop(lake, table):
    """Forgets a table, and leaves its files."""
    _catalog(lake).drop_table(table)


def do_forget(lake, table):
    """Forgets a table in SQLite that PyIceberg cannot load."""
    with sqlite3.connect(os.path.join(lake, "catalog.db"), timeout=30) as connection:
        connection.execute("DELETE FROM iceberg_tables WHERE table_name = ?", (table.rsplit(".", 1)[1],))


def do_register(lake, table, metadata_location):
    """Takes a table into the catalog that has its metadata already."""
    _catalog(lake).register_table(table, metadata_location)


def do_adopt(lake, table, path):
    """Adds a data file where it lies, whatever its columns, as a file of no partition value."""
    t = _table(lake, table)
    with t.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(
            DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=path,
                file_format=FileFormat.PARQUET,
                partition=Record(None),
                record_count=1,
                file_size_in_bytes=os.path.getsize(path),
            )
        )


def batch_of(places, attempt):
    """The batch that names of data files with this attempt begin with, and how many there are."""
    named = [os.path.basename(place).split("-", 1) for place in places]
    found = [batch for batch, rest in (name for name in named if len(name) == 2) if rest.replace("-", "").startswith(attempt)]
    [batch] = set(found)
    return [batch, len(found)]


def do_ref(lake, table, snapshot, tag=None, branch=None, **retention):
    """Makes a tag or a branch."""
    manage = _table(lake, table).manage_snapshots()
    made = manage.create_tag(snapshot, tag, **retention) if tag else manage.create_branch(snapshot, branch, **retention)
    made.commit()


# ---------------------------------------------------------------- fixture tables


def do_make_fixture(lake, name, hexfloe):
    """Makes a fixture table; tells its batches, each with the arguments of an ingest and its rows as the table is now."""
    made = make.make(name, os.path.dirname(lake), hexfloe)
    batches = [
        {"name": batch, "arguments": made.arguments(batch), "rows": len(rows)} for batch, rows in made.batches.items()
    ]
    return {"batches": batches, "counted": made.counted(), "snapshots": len(made.table().snapshots())}


def fixture_names():
    """The fixtures that there are."""
    return sorted(make.FIXTURES)


def wrong_replay(lake, table, replayed, snapshots):
    """What is wrong with a fixture table once some of its batches were replayed: rows, engine by engine, files and numbers.

    `snapshots` is how many the table must have, or null for any number."""
    with open(os.path.join(os.path.dirname(lake), "expected.json"), encoding="utf-8") as file:
        model = json.load(file)
    expected = collections.Counter()
    for batch in model["batches"]:
        expected.update(map(_canonical, batch["whole" if batch["name"] in replayed else "now"]))
    expected.update(map(_canonical, model["others"]))
    t = _table(lake, table)
    wrong = []
    for engine in model["engines"]:
        read = reader.rows(t) if engine == "by_hand" else _arrow(lake, table, engine).to_pylist()
        got = collections.Counter(_canonical(_plain(row)) for row in read)
        wrong += [f"{engine} does not find {n} of {row}" for row, n in (expected - got).items()]
        wrong += [f"{engine} finds {n} too many of {row}" for row, n in (got - expected).items()]
    if snapshots is not None and len(t.snapshots()) != snapshots:
        wrong.append(f"there are {len(t.snapshots())} snapshots, expected {snapshots}")
    dangling = [path for path in reader.dangling(t) if path not in model["dangling"]]
    wrong += [f"{path} deletes from data files of which none is live" for path in dangling]
    # Earlier snapshots were looked at when they were current.
    return wrong[:20] + unsound(lake, table, head_only=bool(replayed))


def _canonical(row):
    return json.dumps(row, sort_keys=True)


def avro_headers(lake, table):
    """The headers of the manifest list of the current snapshot and of those of its manifests that Hexfloe wrote."""
    t = _table(lake, table)
    ours = {
        s.snapshot_id for s in t.snapshots() if any(k.startswith("ingest.") for k in s.summary.additional_properties)
    }
    manifests = [m for m in t.current_snapshot().manifests(t.io) if m.added_snapshot_id in ours]
    entries = [entry for m in manifests for entry in m.fetch_manifest_entry(t.io, discard_deleted=False)]
    return {
        "manifest_list": headers.header(_local(t.current_snapshot().manifest_list)),
        "manifests": [headers.header(_local(manifest.manifest_path)) for manifest in manifests],
        # Entries of other writers are carried on as they are; deletes by position have no order of rows of their own.
        "sort_order_ids": [
            entry.data_file.sort_order_id
            for entry in entries
            if entry.status == ManifestEntryStatus.ADDED and entry.data_file.content == DataFileContent.DATA
        ],
    }


def annotations(lake, table):
    """What belongs to the table and to no batch: refs other than main, main's retention, statistics, sort orders, properties."""
    metadata = json.loads(_table(lake, table).metadata.model_dump_json())
    properties = {k: v for k, v in metadata["properties"].items() if not k.startswith("ingest.")}
    metadata["refs"].get("main", {}).pop("snapshot-id", None)
    kept = {
        name: metadata.get(name) for name in ("refs", "statistics", "sort-orders", "default-sort-order-id", "location")
    }
    return kept | {"properties": properties}


def row_ids(lake, table):
    """The first row id of each live data file of a table of format version 3, and what is wrong with them."""
    return reader.row_ids(_table(lake, table))


def wrong_field_ids(lake, table):
    """Columns of live data files, nested ones too, whose field id is not that of the table's column, and leaves without any."""
    t = _table(lake, table)
    wrong, compared = [], 0

    def compare(path, field, mine):
        nonlocal compared
        compared += 1
        stated = (field.metadata or {}).get(b"PARQUET:field_id")
        if stated is None or int(stated) != mine.field_id:
            wrong.append(f"{path} has the field id {stated}, expected {mine.field_id}")
        kind, my_kind = field.type, mine.field_type
        if pa.types.is_struct(kind):
            for child, my_child in zip(kind, my_kind.fields, strict=True):
                compare(f"{path}.{child.name}", child, my_child)
        elif pa.types.is_map(kind):
            compare(f"{path}.key", kind.key_field, my_kind.key_field)
            compare(f"{path}.value", kind.item_field, my_kind.value_field)
        elif pa.types.is_list(kind):
            compare(f"{path}.element", kind.value_field, my_kind.element_field)

    for task in t.scan().plan_files():
        schema = pq.read_schema(_readable(t, task.file.file_path))
        for field, mine in zip(schema, t.schema().fields, strict=True):
            compare(f"{task.file.file_path}: {field.name}", field, mine)
    return wrong[:20] if compared else ["nothing to compare"]


def wrong_decimal_bounds(lake, table):
    """Bounds of decimal columns that are not the least and the greatest value in as few bytes as two's complement needs."""
    t = _table(lake, table)
    wrong, compared = [], 0
    for task in t.scan().plan_files():
        read = pq.read_table(_readable(t, task.file.file_path), partitioning=None)
        for field in t.schema().fields:
            column = read[field.name]
            if not pa.types.is_decimal(column.type):
                continue
            values = [
                int(v.scaleb(column.type.scale, decimal.Context(prec=38))) for v in column.to_pylist() if v is not None
            ]
            for side, bounds, end in (
                ("lower", task.file.lower_bounds, min(values)),
                ("upper", task.file.upper_bounds, max(values)),
            ):
                compared += 1
                bits = (end if end >= 0 else ~end).bit_length() + 1
                expected = end.to_bytes(-(-bits // 8), "big", signed=True)
                got = (bounds or {}).get(field.field_id)
                if got != expected:
                    got = got and got.hex()
                    wrong.append(f"{field.name}: the {side} bound of {end} is {got}, expected {expected.hex()}")
    return wrong[:20] if compared else ["no decimal column"]


# ---------------------------------------------------------------- questions about single files


def csv_columns(path, numbers):
    """What a CSV file holds, read by Python's own reader; empty fields are null."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        listed = list(csv.DictReader(file))
    answer = {}
    for name in listed[0]:
        values = [None if row[name] == "" else float(row[name]) if name in numbers else row[name] for row in listed]
        answer[name] = _sum_up(pa.chunked_array([pa.array(values, pa.float64() if name in numbers else pa.string())]))
    return {"rows": len(listed), "columns": answer}


def geometry(lake, table, column):
    """How the geometry column of each data file looks to PyArrow (its `geo` metadata) and to DuckDB's spatial functions."""
    answer = []
    connection = _duckdb(lake).cursor()
    connection.execute("SET enable_geoparquet_conversion = true")
    t = _table(lake, table)
    for task in t.scan().plan_files():
        path = _local(task.file.file_path)
        geo = (pq.read_schema(_readable(t, task.file.file_path)).metadata or {}).get(b"geo")
        kind = connection.execute(f"SELECT typeof({column}) FROM read_parquet('{path}') LIMIT 1").fetchone()[0]
        answer.append(
            {
                "geo": None if geo is None else json.loads(geo),
                "duckdb_type": kind,
                "points": connection.execute(
                    f"SELECT count(*), sum(ST_X({column})), sum(ST_Y({column})) FROM read_parquet('{path}')"
                ).fetchone(),
            }
        )
    return answer


def wkb_of(path, column):
    """The sums of the coordinates in a Parquet file of WKB points, read with nothing but struct."""
    points = [struct.unpack("<BIdd", v)[2:] for v in pq.read_table(path, columns=[column])[column].to_pylist()]
    return [len(points), math.fsum(p[0] for p in points), math.fsum(p[1] for p in points)]


def do_sql(uri, statement):
    """Runs a statement in a PostgreSQL database; its rows, if it has any."""
    connection = psycopg2.connect(uri)
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return _plain(cursor.fetchall()) if cursor.description else []
    finally:
        connection.close()


def schema_errors(schema, toml):
    """Where a TOML file does not follow a JSON schema."""
    with open(schema) as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    with open(toml, "rb") as file:
        value = tomllib.load(file)
    return [f"{error.json_path}: {error.message}" for error in jsonschema.Draft202012Validator(schema).iter_errors(value)]


def aws_signature(method, url, headers, body, key, secret, region, service):
    """The signature (version 4) of a request, over the headers that it says are signed, at the time it gives."""
    held = {name.lower(): value for name, value in headers}
    names = re.search(r"SignedHeaders=([^,]+)", held["authorization"]).group(1).split(";")
    request = AWSRequest(method=method, url=url, data=body.encode(), headers={name: held[name] for name in names})
    request.context["timestamp"] = held["x-amz-date"]
    auth = SigV4Auth(Credentials(key, secret), service, region)
    return auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)


def batch_id(text):
    """The published formula."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def batch_id_of_files(source, folder, paths):
    """The formula for files: sorted lines of path, size and digest."""
    lines = []
    for path in paths:
        with open(os.path.join(folder, path), "rb") as file:
            content = file.read()
        lines.append(f"{path}\t{len(content)}\t{hashlib.sha256(content).hexdigest()}")
    return batch_id(f"{source}:files:" + "\n".join(sorted(lines)))


def truncate(path, to, length):
    """A copy of a file without its end."""
    with open(path, "rb") as source, open(to, "wb") as copy:
        copy.write(source.read()[:length])


# ---------------------------------------------------------------- the conversation

_QUESTIONS = {
    name: value
    for name, value in [*globals().items(), *vars(spatial).items()]
    if inspect.isfunction(value) and value.__module__ in ("__main__", "spatial") and name[0] != "_"
}


def _answer(line):
    request = json.loads(line)
    if "catalog" in request:
        request["lake"] = request.pop("catalog")
    try:
        return {"answer": _QUESTIONS[request.pop("ask")](**request)}
    except Exception:
        return {"error": traceback.format_exc()}


if __name__ == "__main__":
    for question in sys.stdin:
        print(json.dumps(_answer(question)), flush=True)
