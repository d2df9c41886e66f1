"""Skip the lines that make up most of a log without looking at each closely.

Owns finding bulk lines by where their marker stands: at a fixed distance from a line's start or end, learned
from a few lines of each chunk, which is several times cheaper than searching every line. Lines that no
learned place fits are searched; nothing is ever skipped that does not hold a marker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress, repeat
from operator import itemgetter, ne

SAMPLE_LINES = 160
MAX_PLACES = 5
ENOUGH_SHARE = 0.02

Place = tuple[int, int | None, bytes]
Numbered = list[tuple[int, bytes]]


def without_marked(first: int, lines: list[bytes], markers: Sequence[bytes]) -> Numbered:
    """(number, line) of the lines that hold none of the markers; ``first`` is the first line's number."""
    places = learn_places(lines, markers) if markers else []
    rest: Iterable[int] = range(len(lines))
    if places:
        start, stop, marker = places[0]
        # The commonest place is asked of every line: without a step of Python for each.
        cells = map(itemgetter(slice(start, stop)), lines)
        rest = list(compress(range(len(lines)), map(ne, cells, repeat(marker))))
    for start, stop, marker in places[1:]:
        rest = [at for at in rest if lines[at][start:stop] != marker]
    for marker in markers:
        rest = [at for at in rest if lines[at].find(marker) < 0]
    return [(first + at, lines[at]) for at in rest]


def learn_places(lines: Sequence[bytes], markers: Sequence[bytes]) -> list[Place]:
    """Slices that equal a marker in many of these lines, the commonest first."""
    sample = lines[:: max(1, len(lines) // SAMPLE_LINES)]
    seen = [found for line in sample if (found := _places_in(line, markers))]
    places: list[Place] = []
    while seen and len(places) < MAX_PLACES:
        best, count = Counter(place for found in seen for place in found).most_common(1)[0]
        if count < ENOUGH_SHARE * len(sample):
            break
        places.append(best)
        seen = [found for found in seen if best not in found]
    return places


def _places_in(line: bytes, markers: Sequence[bytes]) -> tuple[Place, ...]:
    """Where the first marker that the line holds stands, from its start and from its end."""
    for marker in markers:
        at = line.find(marker)
        if at >= 0:
            end = at + len(marker)
            return (at, end, marker), (at - len(line), end - len(line) or None, marker)
    return ()
