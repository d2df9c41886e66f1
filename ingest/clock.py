"""Times as logs print them to ISO 8601.

Owns their shapes; where no year is printed, the file's date gives it. Must not guess a zone.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from ingest.sources import Source

_ISO = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(Z|[+-]\d\d:?\d\d)?")
_US = re.compile(r"(\d\d)/(\d\d)/(\d{4})-(\d\d:\d\d:\d\d)")
_NO_YEAR = re.compile(r"(\d\d)-(\d\d) (\d\d:\d\d:\d\d)")
_GLOG = re.compile(r"(\d{1,2})(\d\d) (\d\d:\d\d:\d\d)")
_SYSLOG = re.compile(r"([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d:\d\d)")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def year_hint(source: Source) -> datetime | None:
    """When the file was last written (UTC), for logs without a year; None for pipes and archives."""
    try:
        return datetime.fromtimestamp(source.path.stat().st_mtime, UTC)
    except (OSError, ValueError, OverflowError):
        return None


def iso_time(text: str | None, written: datetime | None = None) -> str | None:
    """The time in ISO 8601 with the zone that was printed (none where none was); None where it is no time."""
    if not text:
        return None
    if found := _ISO.match(text):
        zone = found[3] or ""
        zone = f"{zone[:3]}:{zone[3:]}" if re.fullmatch(r"[+-]\d{4}", zone) else zone
        return f"{found[1]}T{found[2].replace(',', '.')}{zone.replace('Z', '+00:00')}"
    if found := _US.match(text):
        return f"{found[3]}-{found[1]}-{found[2]}T{found[4]}"
    return _without_year(text, written)


def _without_year(text: str, written: datetime | None) -> str | None:
    if found := _NO_YEAR.match(text) or _GLOG.match(text):
        return _with_year(int(found[1]), int(found[2]), found[3], written)
    if (found := _SYSLOG.match(text)) and found[1] in _MONTHS:
        return _with_year(_MONTHS.index(found[1]) + 1, int(found[2]), found[3], written)
    return None


def _with_year(month: int, day: int, clock: str, written: datetime | None) -> str | None:
    if written is None or not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    year = written.year if (month, day) <= (written.month, written.day + 1) else written.year - 1
    return f"{year}-{month:02}-{day:02}T{clock}"
