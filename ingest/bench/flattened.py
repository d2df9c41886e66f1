"""Headers of flattened objects: a unit in a column of its own, and the object's name before a field.

Owns renaming the labels of such tables ("ttft-avg" beside "ttft-unit", "inputs-model"). Must not read cells
for anything but units.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from ingest.bench.places import place
from ingest.bench.quantities import understand
from ingest.bench.tables import Table

_UNIT = re.compile(r"(?P<of>\w.*?)(?P<mark>[-_. ])units?", re.IGNORECASE)
_MEMBER = re.compile(r"(?P<group>[A-Za-z][A-Za-z_ ]*)[-./](?P<field>[A-Za-z].*)")
_FEWEST_FIELDS = 2


def unflattened(table: Table) -> Table:
    """The table with units in its labels, and with plain labels for who was measured and under which load."""
    return _without_groups(_with_units(table))


def _with_units(table: Table) -> Table:
    header, told = list(table.header), set[int]()
    for at, label in enumerate(table.header):
        found = _UNIT.fullmatch(label.strip())
        units = {row[at].strip() for _, row in table.rows if len(row) > at and row[at].strip()}
        if found is None or len(units) != 1:
            continue
        unit, start = units.pop(), found["of"] + found["mark"]
        mine = [i for i, other in enumerate(table.header) if i != at and other.strip().startswith(start)]
        for i in mine:
            header[i] = f"{table.header[i].strip()} ({unit})"
        told |= {at} if mine else set()
    if not told:
        return table
    kept = [at for at in range(len(header)) if at not in told]
    rows = [(line, [row[at] for at in kept if at < len(row)]) for line, row in table.rows]
    return replace(table, header=[header[at] for at in kept], rows=rows)


def _without_groups(table: Table) -> Table:
    members = [_MEMBER.fullmatch(label.strip()) for label in table.header]
    sizes = Counter(one["group"] for one in members if one)
    header = list(table.header)
    for at, one in enumerate(members):
        if one is None or sizes[one["group"]] < _FEWEST_FIELDS or understand(one["group"]) is not None:
            continue
        named = place(header[at]) is None and understand(header[at]) is None
        if named and place(one["field"]) is not None and one["field"] not in header:
            header[at] = one["field"]
    return replace(table, header=header)
