"""The published recipe for idempotent spatial ingestion, in Python: what Hexfloe is measured against.

PyIceberg on a SQLite catalog and a local warehouse, H3 through h3ronpy (the same Rust library, over Arrow). A batch overwrites
the rows that carry its id, and the id joins the last five hundred in the table property `ingest.completed_batches`, in the same
transaction; a batch whose id is there is skipped.

    recipe.py create LAKE day|none
    recipe.py ingest LAKE FILE SOURCE START END [--force]
    recipe.py fill   LAKE FILE BATCHES ROWS
    recipe.py series LAKE FILE SOURCE FIRST BATCHES
"""

import hashlib
import json
import os
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestampType

TABLE = "ns.events"
COMPLETED = "ingest.completed_batches"
KEPT = 500
RESOLUTION = 9

COLUMNS = [
    ("event_id", LongType()),
    ("event_ts", TimestampType()),
    ("lat", DoubleType()),
    ("lon", DoubleType()),
    ("sensor_id", StringType()),
    ("category", StringType()),
    ("value", DoubleType()),
    ("h3_cell", LongType()),
    ("ingest_batch_id", StringType()),
]
SCHEMA = Schema(*(NestedField(i, name, kind) for i, (name, kind) in enumerate(COLUMNS, start=1)))
BY_DAY = PartitionSpec(PartitionField(2, 1000, DayTransform(), "event_ts_day"))


def catalog(lake):
    lake = os.path.abspath(lake)
    os.makedirs(f"{lake}/warehouse", exist_ok=True)
    return SqlCatalog("lake", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}/warehouse")


def create(lake, partition):
    opened = catalog(lake)
    opened.create_namespace_if_not_exists("ns")
    opened.create_table(TABLE, SCHEMA, partition_spec=BY_DAY if partition == "day" else UNPARTITIONED_PARTITION_SPEC)


def batch_id(source, start, end):
    return hashlib.sha256(f"{source}:0:{start}-{end}".encode()).hexdigest()[:32]


def derive(rows, batch):
    from h3ronpy.vector import coordinates_to_cells

    cells = coordinates_to_cells(pa.array(rows["lat"].to_numpy()), pa.array(rows["lon"].to_numpy()), RESOLUTION)
    rows = rows.append_column("h3_cell", pa.array(cells).view(pa.int64()))
    return rows.append_column("ingest_batch_id", pa.repeat(batch, rows.num_rows))


def ingest(lake, file, source, start, end, force=False):
    batch = batch_id(source, start, end)
    table = catalog(lake).load_table(TABLE)
    completed = json.loads(table.properties.get(COMPLETED, "[]"))
    if not force and batch in completed:
        return {"status": "skipped", "rows": 0}
    rows = derive(pq.read_table(file), batch)
    started = time.process_time()
    with table.transaction() as transaction:
        transaction.overwrite(rows, overwrite_filter=EqualTo("ingest_batch_id", batch))
        transaction.set_properties({COMPLETED: json.dumps([*completed, batch][-KEPT:])})
    return {"status": "committed", "rows": rows.num_rows, "commit_cpu": time.process_time() - started}


def fill(lake, file, batches, rows):
    """A table with many batches, made the cheap way (appends): only what a later no-op replay reads is measured."""
    source = pq.read_table(file)
    table = catalog(lake).load_table(TABLE)
    completed = []
    for number in range(batches):
        batch = batch_id("fill", number, number + 1)
        completed.append(batch)
        with table.transaction() as transaction:
            transaction.append(derive(source.slice(number * rows, rows).combine_chunks(), batch))
            transaction.set_properties({COMPLETED: json.dumps(completed[-KEPT:])})
    return {"status": "committed", "rows": batches * rows}


def series(lake, file, source, first, batches):
    """The same rows as so many batches, one after the other."""
    for number in range(first, first + batches):
        ingest(lake, file, source, number, number + 1)
    return {"status": "committed", "batches": batches}


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["create", lake, partition]:
            create(lake, partition)
        case ["ingest", lake, file, source, start, end, *force]:
            print(json.dumps(ingest(lake, file, source, int(start), int(end), "--force" in force)))
        case ["fill", lake, file, batches, rows]:
            print(json.dumps(fill(lake, file, int(batches), int(rows))))
        case ["series", lake, file, source, first, batches]:
            print(json.dumps(series(lake, file, source, int(first), int(batches))))
        case _:
            sys.exit(__doc__)
