"""``nvidia-smi topo -m`` and ``-p2p``: how GPUs and network cards reach each other, and whether they may.

Owns the matrix and the few words that a machine's topology comes down to (``NV18 all-to-all``, ``SYS x4``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.machine import hardware
from ingest.sources import Source
from ingest.traces import line_count, trace_reading
from kb.model import Problem, Reading

_LINK = re.compile(r"^(?:X|NV\d+|NODE|SYS|PHB|PXB|PIX|SOC|PIXB|N/A|XGMI|PCIE)$")
_PEER = re.compile(r"^(?:OK|CNS|GNS|TNS|NS|DR|U)$")  # whether one GPU may read or write another's memory
_HEADER = re.compile(r"^[ \t]*+(?:\x1b\[\d*m)?[ \t]*+GPU0\b.*(?:Affinity|GPU1|NIC0|mlx5_0)", re.MULTILINE)
_QUERIED = re.compile(r"^\w.*, [\w.]+ \[(?:MiB|%|W|MHz)\]", re.MULTILINE)
_NIC_NAME = re.compile(r"^\s*(NIC\d+):\s*(\S+)\s*$")
# From near to far; the farthest pair is what a collective over all GPUs feels.
_FAR = ("PIX", "PXB", "PHB", "NODE", "SOC", "SYS")


def sniff(source: Source) -> float:
    """The header of the matrix and a row of link words."""
    if not _HEADER.search(source.head[:4000]):
        return 0.0
    if "| NVIDIA-SMI " in source.head or _QUERIED.search(source.head):
        return 0.5  # a session with the plain table or a query in it, which those formats read together
    return 0.97 if any(_row(line) for line in source.head.split("\n")[:80]) else 0.3


def read(source: Source) -> Reading:
    """The matrix: rows by name, links among GPUs, the nearest network card of each, NUMA nodes."""
    numbered = list(source.lines())
    lines = sum(1 for _, line in numbered if line.strip())
    starts = [at for at, (_, line) in enumerate(numbered) if _HEADER.search(line)]
    some = [matrix(line for _, line in numbered[at:]) for at in starts]
    some = [one for one in some if one[0]]
    if not some:
        raise Unreadable("the topology matrix has no row")
    peers = next((one[0] for one in some if _is_of_peers(one[0])), {})
    some = [one for one in some if not _is_of_peers(one[0])] or some[:1]
    links, nics = some[0]
    gpus = [name for name in links if name.startswith("GPU")]
    alike = all(one[0] == links for one in some)
    what = f"{len(some)} matrices that differ, so of several machines: none is taken for the machine's"
    return trace_reading(
        str(source.path),
        "nvidia_smi_topo",
        None,
        hardware(count=len(gpus) or None, topology=describe(links)) if alike else None,
        tool="nvidia-smi",
        lines=line_count(lines),
        problems=() if alike else (Problem(line=numbered[starts[1]][0], what=what),),
        extra=(_extra(links, gpus, nics) if links is not peers else {}) | ({"p2p": peers} if peers else {}),
    )


def _is_of_peers(links: Mapping[str, Mapping[str, str]]) -> bool:
    return any(_PEER.match(word) for row in links.values() for word in row.values())


def matrix(lines: Iterable[str]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """(links by row and column, device behind each NIC) of the first matrix among these lines, if any."""
    columns, rows, nics = list[str](), dict[str, list[str]](), dict[str, str]()
    for line in lines:
        text = re.sub(r"\x1b\[\d*m", "", line)
        if _HEADER.search(text):
            if rows:
                break
            columns = _cells(text)
        elif columns and (row := _row(text)):
            rows[row[0]] = row[1]
        elif nic := _NIC_NAME.match(text):
            nics[nic[1]] = nic[2]
    return {name: dict(zip(columns, cells, strict=False)) for name, cells in rows.items()}, nics


def describe(links: Mapping[str, Mapping[str, str]]) -> str | None:
    """The topology in a few words: the kinds of link between GPUs, commonest first; None for one GPU."""
    gpus = [name for name in links if name.startswith("GPU")]
    pairs = Counter(links[a][b] for i, a in enumerate(gpus) for b in gpus[i + 1 :] if b in links[a])
    if not pairs or _is_of_peers(links):
        return None
    if len(pairs) == 1:
        return f"{next(iter(pairs))} all-to-all"
    return ", ".join(f"{kind} x{times}" for kind, times in pairs.most_common())


def _extra(
    links: Mapping[str, Mapping[str, str]], gpus: list[str], nics: Mapping[str, str]
) -> dict[str, Any]:
    cards = [name for name in links if not name.startswith("GPU")]
    near = {gpu: _nearest(links[gpu], cards) for gpu in gpus}
    numa = {gpu: word for gpu in gpus if (word := links[gpu].get("NUMA Affinity"))}
    return {
        "links": {name: dict(row) for name, row in links.items()},
        "numa": {gpu: int(word) if word.isdecimal() else word for gpu, word in numa.items()},
        "nic_near": {gpu: nic for gpu, nic in near.items() if nic},
        "nics": dict(nics) or {name: name for name in cards},
    }


def _nearest(row: Mapping[str, str], cards: list[str]) -> str | None:
    ranked = [(_FAR.index(row[nic]), nic) for nic in cards if row.get(nic) in _FAR]
    return min(ranked)[1] if ranked else None


def _row(line: str) -> tuple[str, list[str]] | None:
    text = re.sub(r"\x1b\[\d*m", "", line)
    name = re.match(r"^ ?(GPU\d+|NIC\d+|mlx\d+_\d+|\w*bond\w*|ib\w*|rocep\w+)[\t ]", text)
    if not name:
        return None
    cells = _cells(text)[1:]
    return (
        (name[1], cells)
        if cells and any(_LINK.match(cell) or _PEER.match(cell) for cell in cells[:3])
        else None
    )


def _cells(line: str) -> list[str]:
    """Cells by tabs; a double tab before the last column is one separator (as the tool prints it)."""
    if "\t" in line:
        cells = [cell.strip() for cell in line.strip("\n").split("\t")]
        named = cells[1:] if not cells[0] else cells
        return [cell for at, cell in enumerate(named) if cell or at < len(named) - 2]
    joined = re.sub(r"(CPU|NUMA|GPU NUMA) (Affinity|ID)", lambda one: one[0].replace(" ", "\x01"), line)
    return [cell.replace("\x01", " ") for cell in joined.split()]


FORMAT = Format(
    name="nvidia_smi_topo",
    kind="trace",
    sniff=sniff,
    read=read,
    docs="Output of `nvidia-smi topo -m`: links between GPUs, the nearest network card of each, NUMA nodes. "
    "Of `topo -p2p` whether GPUs may reach each other's memory.",
)
