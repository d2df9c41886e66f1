"""Where the samples of one trace go until the store takes them: files of numbers in a folder.

Owns those files and the times in them. Must not parse a trace, nor open the store.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import IO

from ingest.traces import iso_time, seconds_of
from kb.store.samples import METRICS

_CARD = re.compile(r"[\w:.-]{1,80}")
_LONGEST_S = 1e10


class Samples:
    """The samples of the source with this trace number. ``files`` are complete once closed."""

    def __init__(self, folder: Path, trace: int) -> None:
        self.folder, self.trace = folder, trace
        self.files: list[str] = []
        self._open: IO[str] | None = None

    def next_file(self, suffix: str) -> Path:
        """The path of a further file, which the caller writes."""
        path = self.folder / f"{self.trace}-{len(self.files)}{suffix}"
        self.files.append(str(path))
        return path

    def add(
        self,
        times: Sequence[str],
        cards: Sequence[tuple[int | None, str | None]],
        values: dict[str, Sequence[float | None]],
        masks: Sequence[Sequence[int | None]] = (),
    ) -> None:
        """Rows by columns: time as printed, (index, UUID or bus) of the card, metrics in our units.

        ``masks`` hold bits of throttle reasons, row by row; several are united.
        """
        rows = len(times)
        columns = [
            [str(self.trace)] * rows,
            [moment(one) for one in times],
            ["" if index is None else str(index) for index, _ in cards],
            [card if card and _CARD.fullmatch(card) else "" for _, card in cards],
            *(_texts(values.get(name), rows) for name in METRICS),
            _united(masks, rows),
        ]
        if self._open is None:
            self._open = self.next_file(".csv").open("w", encoding="utf-8")
        self._open.writelines(",".join(row) + "\n" for row in zip(*columns, strict=True))

    def close(self) -> tuple[str, ...]:
        """Finish writing; the files."""
        if self._open is not None:
            self._open.close()
            self._open = None
        return tuple(self.files)


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


def _texts(values: Sequence[float | None] | None, rows: int) -> list[str]:
    return [""] * rows if values is None else ["" if one is None else repr(one) for one in values]


def _united(masks: Sequence[Sequence[int | None]], rows: int) -> list[str]:
    if not masks:
        return [""] * rows
    told = [[one for one in row if one is not None] for row in zip(*masks, strict=True)]
    return [str(_or(row)) if row else "" for row in told]


def _or(bits: Sequence[int]) -> int:
    whole = 0
    for one in bits:
        whole |= one
    return whole
