#!/usr/bin/env python3
"""Makes what the crate knows of coordinate reference systems, from the EPSG database that comes with pyproj.

    target/venv/bin/python crates/crs/data/make.py             writes systems.tsv.zst and projjson.zst, and prints how many codes there are of which kind
    target/venv/bin/python crates/crs/data/make.py --measure   measures again the systems of docs/crs.md, and writes nothing

Needs pyproj, numpy and zstandard, and `cargo build --workspace --features sql --locked --example measure` before. Same pyproj, same bytes.

systems.tsv has a line for each code; its fields, between tabs:

    code        AUTHORITY:CODE
    name
    kind        `ok`, `no` (known and refused), `as` (another code says where its points are) or `old` (deprecated)
    what        the PROJ string that proj4rs executes; why it is refused; the other code; what replaces it, or nothing
    accuracy    metres: what PROJ states of the datum shift, plus the largest difference measured between proj4rs and PROJ
    reach       west,south,east,north in degrees on WGS 84: where a result is believed; west is larger than east across the antimeridian
    hashes      of its well-known texts, of 12 hexadecimal digits, between blanks

projjson.zst has the PROJJSON of the same line, or nothing.
"""

import collections
import hashlib
import json
import math
import pathlib
import re
import subprocess
import sys
import warnings

import numpy
import pyproj
import zstandard
from pyproj import CRS, Geod, Transformer
from pyproj.database import query_crs_info
from pyproj.enums import PJType, TransformDirection, WktVersion
from pyproj.transformer import TransformerGroup

warnings.simplefilter("ignore")
pyproj.network.set_network_enabled(False)

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LIMIT = 5.0  # metres
# How far beyond the area of use a result is believed: degrees of longitude and latitude. Where datum and WGS 84 differ by nothing
# that depends on the place, zones are used far beyond their edges (all Norway in UTM 33); a datum shift is worth little outside its area.
MARGIN_NULL = (15.0, 5.0)
MARGIN_SHIFT = (1.0, 1.0)
COVERED = 0.95  # how much of the area of use an operation must be stated for
STEPS = 9
GEOD = Geod(ellps="WGS84")


# Areas: (west, south, east, north)


def width(west, east):
    return east - west if east >= west else east + 360 - west


def covered(area, by):
    """The share of `area` that is in `by`."""
    height = max(0, min(area[3], by[3]) - max(area[1], by[1]))
    parts = lambda west, east: [(west, east)] if west <= east else [(west, 180), (-180, east)]
    across = sum(
        max(0, min(e1, e2) - max(w1, w2)) for w1, e1 in parts(area[0], area[2]) for w2, e2 in parts(by[0], by[2])
    )
    whole = width(area[0], area[2]) * (area[3] - area[1])
    return across * height / whole if whole else 1.0


def widened(area, margin):
    lon, lat = margin
    west, south, east, north = area
    if width(west, east) + 2 * lon >= 360:
        west, east = -180.0, 180.0
    else:
        west, east = (west - lon + 540) % 360 - 180, (east + lon + 540) % 360 - 180
        east = 180.0 if east == -180.0 else east
    return tuple(round(v, 4) for v in (west, max(-90.0, south - lat), east, min(90.0, north + lat)))


def grid(area):
    """Points all over an area, its edges a little inside."""
    west, south, east, north = area
    inset = numpy.linspace(0.0005, 0.9995, STEPS)
    lon = west + inset * width(west, east)
    lat = south + inset * (north - south)
    lon, lat = numpy.meshgrid(lon, lat)
    return (lon.ravel() + 540) % 360 - 180, lat.ravel()


# Operations


def steps_of(definition):
    """[(is inverse, name, {parameter: value})]"""
    if not definition.startswith("proj=pipeline"):
        definition = "proj=pipeline step " + definition
    found = []
    for step in definition.split(" step ")[1:]:
        words = step.split()
        pairs = dict(word.split("=", 1) if "=" in word else (word, "") for word in words)
        found.append(("inv" in pairs, pairs["proj"], pairs))
    return found


def affine_of(inverse, name, pairs):
    """What a Helmert or Molodensky-Badekas step does to geocentric coordinates: (matrix, vector)."""
    number = lambda key: float(pairs.get(key, 0))
    second = math.pi / 180 / 3600
    rx, ry, rz = (number(key) * second for key in ("rx", "ry", "rz"))
    if pairs.get("convention") == "coordinate_frame":
        rx, ry, rz = -rx, -ry, -rz
    rotation = numpy.array([[1, -rz, ry], [rz, 1, -rx], [-ry, rx, 1]])
    matrix = (1 + number("s") * 1e-6) * rotation
    vector = numpy.array([number("x"), number("y"), number("z")])
    if name == "molobadekas":
        pivot = numpy.array([number("px"), number("py"), number("pz")])
        vector = vector + pivot - matrix @ pivot
    if inverse:
        matrix = numpy.linalg.inv(matrix)
        vector = -matrix @ vector
    return matrix, vector


def towgs84_of(definition):
    """The parameters of the datum shift, [] if there is none, or a word that says what stands in the way."""
    matrix, vector, shifts = numpy.eye(3), numpy.zeros(3), 0
    for inverse, name, pairs in steps_of(definition):
        if name in ("helmert", "molobadekas"):
            if any(pairs.get(key, "0") != "0" for key in ("dx", "dy", "dz", "drx", "dry", "drz", "ds", "theta", "exact")):
                return "it depends on time"
            m, v = affine_of(inverse, name, pairs)
            matrix, vector, shifts = m @ matrix, m @ vector + v, shifts + 1
        elif name not in ("push", "pop", "cart", "unitconvert", "axisswap", "noop", "longlat"):
            return f"it needs PROJ's method {name}"
    if not shifts:
        return []
    scale = numpy.trace(matrix) / 3
    second = math.pi / 180 / 3600
    rotation = [(matrix[2, 1] - matrix[1, 2]), (matrix[0, 2] - matrix[2, 0]), (matrix[1, 0] - matrix[0, 1])]
    rotation = [value / 2 / scale / second for value in rotation]
    values = [*(round(v, 5) for v in vector), *(round(v, 8) for v in rotation), round((scale - 1) * 1e6, 8)]
    return [0.0 if v == 0 else v for v in (values if any(values[3:]) else values[:3])]


class Base:
    """A geographic system, and the operations from it to WGS 84."""

    def __init__(self, crs):
        self.crs = crs
        self.operations, self.unavailable = [], []
        try:
            group = TransformerGroup(crs, "OGC:CRS84", always_xy=True, allow_ballpark=False)
        except (IndexError, pyproj.exceptions.ProjError):
            return  # pyproj's way to say that there is nothing
        for transformer in group.transformers:
            area = transformer.area_of_use.bounds if transformer.area_of_use else (-180.0, -90.0, 180.0, 90.0)
            self.operations.append((transformer, area, towgs84_of(transformer.definition)))
        self.unavailable = [
            (op.accuracy, op.name, [g.short_name for g in op.grids if not g.available], op.area_of_use.bounds)
            for op in group.unavailable_operations
            if op.area_of_use
        ]

    def best(self, area):
        """The operation of the best stated accuracy that covers an area: (transformer, shift), or why there is none."""
        stated = [(t, a, s) for t, a, s in self.operations if t.accuracy >= 0]
        usable = [(t, s) for t, a, s in stated if s == [] or covered(area, a) >= COVERED]
        better = [(o, covered(area, o[3])) for o in self.unavailable if 0 <= o[0] <= LIMIT and 1 <= len(o[2]) <= 2]
        better = [(o, share) for o, share in better if share > 0.1]
        if not usable:
            if stated:
                t = min(stated, key=lambda o: o[0].accuracy)[0]
                return f"no single datum shift is stated for its whole area of use (for a part of it {name_of(t)}, to {t.accuracy:g} m)"
            return "no datum shift to WGS 84 is known" + grid_of(better)
        transformer, shift = min(usable, key=lambda o: o[0].accuracy)
        if transformer.accuracy > LIMIT:
            return f"the best datum shift without a grid, {name_of(transformer)}, is stated to {transformer.accuracy:g} m" + grid_of(better)
        if isinstance(shift, str):
            return f"the datum shift {name_of(transformer)} cannot be done: {shift}"
        return transformer, shift


def name_of(transformer):
    parts = [p for p in transformer.description.split(" + ") if not p.startswith("axis order")]
    return " + ".join(p.removesuffix(" + axis order change (2D)") for p in parts)


def grid_of(better):
    if not better:
        return ""
    (accuracy, _, grids, _), share = min(better, key=lambda o: (-round(o[1], 1), o[0][0], o[0][2]))
    where = "" if share >= COVERED else " in a part of it"
    return f"; to {accuracy:g} m it needs the grid {grids[0]}{where}"


ELLIPSOIDS = {"WGS84": "WGS84", "NAD83": "GRS80", "GGRS87": "GRS80", "NAD27": "clrk66", "potsdam": "bessel", "carthage": "clrk80ign",
              "hermannskogel": "bessel", "ire65": "mod_airy", "nzgd49": "intl", "OSGB36": "airy"}  # fmt: skip


def operation_of(crs, shift):
    """The PROJ string of the projection, with the datum shift."""
    words = crs.to_proj4().split()
    drop = {"+type=crs", "+no_defs", "+wktext", "+nadgrids=@null"}
    kept = []
    pseudo = "+nadgrids=@null" in words
    for word in words:
        if word in drop or word.startswith("+towgs84") or (pseudo and word.split("=")[0] in ("+a", "+b", "+lat_ts")):
            continue
        if word.startswith("+datum="):
            word = "+ellps=" + ELLIPSOIDS[word.removeprefix("+datum=")]
        kept.append("+proj=webmerc" if pseudo and word == "+proj=merc" else word)
    if pseudo:
        kept.append("+ellps=WGS84")
    if shift:
        kept.append("+towgs84=" + ",".join(f"{v:.8f}".rstrip("0").rstrip(".") for v in shift))
    elif any(word in kept for word in ("+ellps=WGS84", "+ellps=GRS80")):
        kept.append("+towgs84=0,0,0")
    return " ".join(kept)


# Texts


def token_lists(text):
    """The tokens of a well-known text: what `wkt.rs` reads, in the same spelling."""
    for text_, word, number, mark in re.findall(r'"((?:[^"]|"")*)"|([A-Za-z_]\w*)|([-+]?[\d.][\d.eE+-]*)|([\[\](),])', text):
        if mark:
            yield {"(": "[", ")": "]"}.get(mark, mark)
        elif number:
            mantissa, exponent = f"{float(number):.9e}".split("e")
            yield "0" if float(number) == 0 else f"{mantissa}e{int(exponent)}"
        elif word:
            yield word.upper()
        else:
            yield '"' + " ".join(text_.replace('""', '"').split()).upper() + '"'


NOT_PART = {"AUTHORITY", "ID", "USAGE", "SCOPE", "AREA", "BBOX", "REMARK", "METADATA"}


def tree_of(tokens):
    """[keyword, child, …]: a child is a token or such a list."""
    stack = [[]]
    for token in tokens:
        if token == "[":
            node = [stack[-1].pop()]
            stack[-1].append(node)
            stack.append(node)
        elif token == "]":
            stack.pop()
        elif token != ",":
            stack[-1].append(token)
    return stack[0][0]


def spelled(node):
    if isinstance(node, str):
        return node
    if node[0] in NOT_PART or (node[0] == "AXIS" and len(node) == 3 and node[2] in ("EAST", "NORTH")):
        return None
    return node[0] + "[" + ",".join(s for s in map(spelled, node[1:]) if s is not None) + "]"


def hash_of(text):
    return hashlib.sha256(spelled(tree_of(token_lists(text))).encode()).hexdigest()[:12]


DIALECTS = [WktVersion.WKT1_ESRI, WktVersion.WKT1_GDAL, WktVersion.WKT2_2019, WktVersion.WKT2_2015]


def hashes_of(crs):
    found = []
    for dialect in DIALECTS:
        try:
            text = crs.to_wkt(dialect)
        except Exception:
            continue
        if text:
            found.append(hash_of(text))
    return list(dict.fromkeys(found))


def plain(value):
    """PROJJSON without areas, scopes and remarks."""
    if isinstance(value, dict):
        drop = ("usages", "scope", "area", "bbox", "remarks")
        return {k: plain(v) for k, v in value.items() if k not in drop}
    return [plain(v) for v in value] if isinstance(value, list) else value


# Measuring


def measure(lines):
    """Longitudes and latitudes by proj4rs; not a number where it has none."""
    binary = ROOT / "target/debug/examples/measure"
    run = subprocess.run([binary], input="".join(lines), capture_output=True, text=True, check=True)
    rows = [(math.nan, math.nan) if line == "-" else tuple(map(float, line.split("\t"))) for line in run.stdout.splitlines()]
    return numpy.array(rows).reshape(-1, 2)


def differences(operation, to_base, transformer, area, code):
    """The differences in metres between proj4rs and PROJ all over an area; infinite where only proj4rs has no result. And how much of the
    area each point stands for."""
    lon, lat = grid(area)
    x, y = transformer.transform(lon, lat, direction=TransformDirection.INVERSE)
    x, y = to_base.transform(x, y, direction=TransformDirection.INVERSE)
    want = transformer.transform(*to_base.transform(x, y))
    there = numpy.isfinite(want[0]) & numpy.isfinite(want[1]) & numpy.isfinite(x) & numpy.isfinite(y)
    x, y, lon, lat = x[there], y[there], lon[there], lat[there]
    want = want[0][there], want[1][there]
    # Where PROJ itself does not come back there is nothing to compare with.
    away = GEOD.inv(lon, lat, *want)[2]
    good = numpy.abs(away) < 1
    x, y, want = x[good], y[good], (want[0][good], want[1][good])
    if not len(x):
        return numpy.array([]), numpy.array([])
    got = measure([f"{code}\t{operation}\t{a!r}\t{b!r}\n" for a, b in zip(x.tolist(), y.tolist())])
    missing = ~numpy.isfinite(got[:, 0])
    got[missing] = 0
    away = numpy.abs(GEOD.inv(*want, got[:, 0], got[:, 1])[2])
    away[missing] = math.inf
    return away, numpy.cos(numpy.radians(lat[good]))


def method_of(crs):
    return crs.coordinate_operation.method_name if crs.coordinate_operation else "geographic"


BASES = {}


def base_of(crs):
    base = crs
    while base.source_crs is not None:
        base = base.source_crs
    key = ":".join(base.to_authority(min_confidence=100) or ()) or base.to_wkt()
    if key not in BASES:
        BASES[key] = Base(base)
    return BASES[key]


def known(crs):
    """(kind, what, accuracy, reach) of a system."""
    no = lambda why: ("no", why, "", "")
    if crs.area_of_use is None:
        return no("its area of use is not known")
    area = crs.area_of_use.bounds
    if crs.is_geographic and abs(crs.axis_info[0].unit_conversion_factor - math.pi / 180) > 1e-12:
        return no(f"its unit is the {crs.axis_info[0].unit_name}, not the degree")
    base = base_of(crs)
    best = base.best(area)
    if isinstance(best, str):
        return no(best)
    transformer, shift = best
    try:
        operation = operation_of(crs, shift)
    except pyproj.exceptions.CRSError:
        return no(f"PROJ has no string for its projection ({method_of(crs)})")
    try:
        to_base = Transformer.from_crs(crs, base.crs, always_xy=True)
    except pyproj.exceptions.ProjError:
        return no(f"PROJ does not do its projection ({method_of(crs)})")
    code = ":".join(crs.to_authority())
    inside, weight = differences(operation, to_base, transformer, area, code)
    if not len(inside):
        return no("PROJ has no result in its area of use")
    if (share := weight[numpy.isinf(inside)].sum() / weight.sum()) > 0.05:
        return no(f"proj4rs does not do its projection ({method_of(crs)})" if share == 1 else f"proj4rs has no result in {share:.0%} of its area of use")
    error = inside[numpy.isfinite(inside)].max()
    if rounded(transformer.accuracy + error) > LIMIT:
        return no(f"proj4rs and PROJ differ by up to {error:.3g} m, and PROJ states {transformer.accuracy:g} m")
    # The margin is as wide as the two still agree.
    for margin in (MARGIN_SHIFT if shift else MARGIN_NULL, MARGIN_SHIFT, (0.01, 0.01)):
        reach = widened(area, margin)
        beyond, _ = differences(operation, to_base, transformer, reach, code)
        beyond = beyond[numpy.isfinite(beyond)]
        if not len(beyond) or rounded(transformer.accuracy + beyond.max()) <= LIMIT and beyond.max() < max(0.1, 2 * error):
            break
    error = max(error, beyond.max() if len(beyond) else 0.0)
    return "ok", operation, f"{rounded(transformer.accuracy + error):g}", ",".join(f"{v:g}" for v in reach)


def rounded(metres):
    """Up to a millimetre; tenths of one are nothing."""
    return math.ceil(metres * 1000 - 0.1) / 1000


def codes(kinds, deprecated=False):
    rows = query_crs_info(pj_types=kinds, allow_deprecated=deprecated)
    wanted = [row for row in rows if row.auth_name in ("EPSG", "ESRI", "OGC") and row.auth_name + row.code != "OGCCRS84"]
    wanted = {(row.auth_name, row.code): row for row in wanted}.values()
    return sorted(wanted, key=lambda row: (row.auth_name, not row.code.isdigit(), row.code.zfill(12)))


FLAT = [PJType.PROJECTED_CRS, PJType.GEOGRAPHIC_2D_CRS]


def rows():
    """Every line, and its PROJJSON."""
    wanted = codes(FLAT)
    flat = {(row.auth_name, row.code) for row in wanted}
    for number, row in enumerate(wanted):
        crs = CRS.from_authority(row.auth_name, row.code)
        kind, what, accuracy, reach = known(crs)
        projjson = json.dumps(plain(crs.to_json_dict()), separators=(",", ":"), ensure_ascii=False)
        yield [f"{row.auth_name}:{row.code}", row.name, kind, what, accuracy, reach, " ".join(hashes_of(crs))], projjson
        if number % 500 == 0:
            print(f"{number} of {len(wanted)}", file=sys.stderr, flush=True)
    for row in codes([PJType.COMPOUND_CRS, PJType.GEOGRAPHIC_3D_CRS]):
        crs = CRS.from_authority(row.auth_name, row.code)
        part = (crs.sub_crs_list[0] if crs.sub_crs_list else crs).to_2d().to_authority(min_confidence=100)
        if part and tuple(part) in flat:
            yield [f"{row.auth_name}:{row.code}", row.name, "as", ":".join(part), "", "", ""], ""
    for row in codes(FLAT, deprecated=True):
        if row.deprecated:
            crs = CRS.from_authority(row.auth_name, row.code)
            new = [":".join(c.to_authority()) for c in crs.get_non_deprecated() if c.to_authority()]
            yield [f"{row.auth_name}:{row.code}", row.name, "old", " or ".join(new), "", "", ""], ""


def main():
    lines, texts, classes = [], [], collections.Counter()
    for fields, projjson in rows():
        assert not any("\t" in f or "\n" in f for f in fields), fields
        lines.append("\t".join(fields))
        texts.append(projjson)
        if fields[2] == "ok":
            metres = float(fields[4])
            classes[next(f"ok to {top} m" for top in (0.01, 0.1, 1.1, 2.1, 3.1, 5) if metres <= top)] += 1
        else:
            reason = re.sub(r"EPSG:\S+|ESRI:\S+|[\d.]+(e[-+]\d+)? m|\d+%|\(.*?\)|shift \S.* is stated|grid \S+|shift \S.* cannot|the \S+, not", "…", fields[3])
            classes[f"{fields[2]} {reason}" if fields[2] == "no" else fields[2]] += 1
    for name, content in (("systems.tsv.zst", lines), ("projjson.zst", texts)):
        raw = "\n".join(content).encode()
        packed = zstandard.ZstdCompressor(level=19, write_checksum=True).compress(raw)
        (HERE / name).write_bytes(packed)
        print(name, len(raw), "bytes, packed", len(packed), file=sys.stderr)
    for name, count in sorted(classes.items(), key=lambda item: (not item[0].startswith("ok"), item[0])):
        print(f"{count}\t{name}")


MEASURED = [27700, 3857, 2154, 32633, 4326, 3031, 3035, 5070, 28992, 31370, 2056, 3067, 25832]


def table():
    """The differences of docs/crs.md, on a fine grid all over the area of use: to the same operation, and to PROJ's own choice
    (`Transformer.from_crs`), which may be another one from place to place."""
    global STEPS
    STEPS = 61
    print("| code | points | largest difference to the same operation, m | stated by EPSG, m | where pyproj chooses another operation |")
    print("|---|---|---|---|---|")
    for code in MEASURED:
        crs = CRS.from_epsg(code)
        base, area = base_of(crs), crs.area_of_use.bounds
        transformer, shift = base.best(area)
        to_base = Transformer.from_crs(crs, base.crs, always_xy=True)
        operation = operation_of(crs, shift)
        same, _ = differences(operation, to_base, transformer, area, code)
        lon, lat = grid(area)
        x, y = to_base.transform(*transformer.transform(lon, lat, direction=TransformDirection.INVERSE), direction=TransformDirection.INVERSE)
        there = numpy.isfinite(x) & numpy.isfinite(y)
        x, y = x[there], y[there]
        own = Transformer.from_crs(crs, "OGC:CRS84", always_xy=True).transform(x, y)
        got = measure([f"{code}\t{operation}\t{a!r}\t{b!r}\n" for a, b in zip(x.tolist(), y.tolist())])
        both = numpy.isfinite(own[0]) & numpy.isfinite(got[:, 0])
        away = GEOD.inv(own[0][both], own[1][both], got[both, 0], got[both, 1])[2]
        other = away > 0.1
        choice = f"{other.mean():.1%} of the points, up to {away.max():.0f} m" if other.any() else "nowhere"
        print(f"| EPSG:{code} | {len(same)} | {same[numpy.isfinite(same)].max():.1e} | {transformer.accuracy:g} | {choice} |")


if __name__ == "__main__":
    if "--measure" in sys.argv:
        table()
    else:
        main()
