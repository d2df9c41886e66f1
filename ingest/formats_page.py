"""docs/formats.md: one paragraph per format, out of the format modules themselves.

Owns the page's text: ``python -m ingest.formats_page > docs/formats.md`` (``make docs``) writes it. Must not
say anything about a format that its module does not.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ingest.formats import Format, all_formats

SAMPLES = Path(__file__).parent.parent / "tests" / "formats"
TITLES = {
    "server_log": "Server logs",
    "trace": "GPU traces and what the machine says of itself",
    "benchmark": "Benchmarks",
    "metrics": "Metrics of a running server",
    "config": "Configuration beside them",
    "probe": "Answers to fixed prompts",
    "note": "Notes and tables",
    "import": "Other stores",
    "unknown": "Text around a failure",
}
INTRO = """# Formats that are read

Written by `make docs` out of the format modules; change a paragraph there, not here. Every format names
itself in `parse --json` and in the store as it is named here. Files may come in archives or compressed (gzip,
zstd, bzip2, xz), in UTF-8 or UTF-16, with CRLF, ANSI colours and carriage-return frames, and behind what
docker, compose, kubectl, journald or systemd put before each line. The surest format of a file reads it; a
file that none knows is listed as such.

A sample is a pair of files under `tests/formats/<name>/`: the input, and what must come out of it. Every
format has at least three, which differ in what people meet: the release, the options, the number of cards, a
part that failed, an end that is cut. Beside them lies `near-miss.*`, which looks like the format and must not
be read as it.
"""


def samples_of(name: str, folder: Path = SAMPLES) -> int:
    """How many golden samples a format has."""
    return len(list((folder / name).glob("*.expected.json")))


def page(folder: Path = SAMPLES) -> str:
    """The whole page as Markdown, sections by kind. Raises KeyError for a kind without a title."""
    formats = all_formats()
    kinds = sorted({one.kind for one in formats}, key=list(TITLES).index)
    sections = [_section(kind, [one for one in formats if one.kind == kind], folder) for kind in kinds]
    return "\n".join([INTRO, *sections])


def _section(kind: str, formats: Sequence[Format], folder: Path) -> str:
    return "\n".join([f"## {TITLES[kind]}\n", *(_paragraph(one, folder) for one in formats)])


def _paragraph(one: Format, folder: Path) -> str:
    count = samples_of(one.name, folder)
    told = f"{count} sample{'' if count == 1 else 's'}"
    return f"**`{one.name}`** ({told}). {one.docs.strip()}\n"


if __name__ == "__main__":
    sys.stdout.write(page())
