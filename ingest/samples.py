"""Where the samples of one trace go until the store takes them: files of numbers in a folder.

Owns those files and the times in them. Must not parse a trace, nor open the store.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta
from functools import lru_cache, reduce
from operator import or_
from pathlib import Path
from typing import IO

from ingest.tally import OUT_OF_SCALE
from ingest.traces import iso_time, seconds_of
from kb.store import Store
from kb.store.samples import TABLES, tables_of

_CARD = re.compile(r"[\w:.-]{1,80}")
_LONGEST_S = 1e10


class Samples:
    """The samples of the source with this trace number. ``files`` are complete once closed.

    ``store`` is an open store, in a transaction, into which those of a large trace go at once; ``loaded`` is
    whether they did.
    """

    def __init__(self, folder: Path, trace: int, store: Store | None = None) -> None:
        self.folder, self.trace, self.store = folder, trace, store
        self.loaded = False
        self.files: list[str] = []
        self._open: dict[str, IO[str]] = {}
        self._meant: dict[str, tuple[str, float]] = {}

    def add(
        self,
        times: Sequence[str],
        cards: Sequence[tuple[int | None, str | None]],
        values: Mapping[str, Sequence[float | None]],
        masks: Sequence[Sequence[int | None]] = (),
        vague: Iterable[str] = (),
    ) -> None:
        """Rows by columns: time as printed, (index, UUID or bus) of the card, metrics in our units.

        ``masks`` hold bits of throttle reasons, row by row; several are united. ``vague`` are metrics whose
        unit nobody named: numbers too large for ours are taken as what they must be.
        """
        rows = len(times)
        where = [
            [str(self.trace)] * rows,
            [moment(one) for one in times],
            ["" if index is None else str(index) for index, _ in cards],
            [card if card and _CARD.fullmatch(card) else "" for _, card in cards],
        ]
        told: dict[str, Sequence[float | int | None]] = {
            **self._in_scale(values, set(vague)),
            **({"throttle": _united(masks)} if masks else {}),
        }
        for table in tables_of(told):
            columns = [_texts(told.get(name), rows) for name in TABLES[table]]
            lines = (",".join(row) + "\n" for row in zip(*where, *columns, strict=True))
            if table not in self._open:
                self._open[table] = self._next(table).open("w", encoding="utf-8")
            self._open[table].writelines(lines)

    def close(self) -> tuple[str, ...]:
        """Finish writing; the files."""
        for stream in self._open.values():
            stream.close()
        self._open.clear()
        return tuple(self.files)

    def _in_scale(
        self, values: Mapping[str, Sequence[float | None]], vague: Set[str]
    ) -> dict[str, Sequence[float | None]]:
        found = dict(values)
        for metric, limit, meant, factor in OUT_OF_SCALE:
            numbers = found.get(metric) if metric in vague else None
            if numbers is None:
                continue
            if max((one for one in numbers if one is not None), default=0.0) > limit:
                self._meant[metric] = meant, factor
            if self._meant.get(metric) == (meant, factor):
                del found[metric]
                found[meant] = [None if one is None else one * factor for one in numbers]
        return found

    def _next(self, table: str) -> Path:
        path = self.folder / f"{self.trace}-{table}.csv"
        self.files.append(str(path))
        return path


@lru_cache(maxsize=4096)
def moment(text: str) -> str:
    """A printed time as the store keeps it: in UTC where a zone was printed; bare seconds from 1970."""
    iso = iso_time(text)
    if iso is not None:
        at = datetime.fromisoformat(iso)
        return (at.astimezone(UTC).replace(tzinfo=None) if at.tzinfo else at).isoformat(" ")
    seconds = seconds_of(text)
    if seconds is None or not 0 <= seconds < _LONGEST_S:
        return ""
    return (datetime(1970, 1, 1) + timedelta(seconds=seconds)).isoformat(" ")  # noqa: DTZ001 - elapsed, no clock


def _texts(values: Sequence[float | int | None] | None, rows: int) -> list[str]:
    return [""] * rows if values is None else ["" if one is None else repr(one) for one in values]


def _united(masks: Sequence[Sequence[int | None]]) -> list[int | None]:
    told = ([one for one in row if one is not None] for row in zip(*masks, strict=True))
    return [reduce(or_, row) if row else None for row in told]
