"""Blind fuzzing without atheris: cut, spliced and mangled samples of a parser family.

``python tests/fuzz/splice.py FAMILY SECONDS [SEED [FOLDER]]``. Goes on after a finding; prints each
distinct one with the input that made it.
"""

from __future__ import annotations

import hashlib
import random
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from families import Family, families
from other_values import documents, with_another_value

_OTHER_VALUES = 0.4
PIECES = (
    b"\0",
    b"\xff\xfe",
    b"\r",
    b"\n\n",
    b"{" * 300,
    b"[" * 3000,
    b"(" * 300,
    b'"',
    b"'",
    b"\x1b[",
    b"9" * 400,
    b"nan",
    b"NaN",
    b"Infinity",
    b"-1e999",
    b"null",
    b"\xef\xbb\xbf",
    b"|" * 200,
    b"," * 500,
    b"\t",
    b" " * 900,
    b"=" * 60,
    b"\xf0\x9f\x98\x80",
    b"1,234,567.8",
    b"\\u0000",
    b"]}",
    b"---\n",
    b": ",
    b"- ",
    b"%",
    b"0x",
    b"1e400",
    b"\xe2\x80\xa8",
    b"\x85",
    b"\x0c",
    b"-0",
    b"1" * 5000,
    b"&a *a",
    b"<<: *a",
    b"!!python/object:os.system x",
)


def mangled(seeds: list[bytes], chance: random.Random) -> bytes:
    """A seed with one to eight changes, or, where it is JSON, at times with one value of another kind."""
    data = chance.choice(seeds)
    if chance.random() < _OTHER_VALUES and (found := documents(data)):
        return with_another_value(found, chance)
    for _ in range(chance.randint(1, 8)):
        at, length = chance.randint(0, len(data)), chance.choice((0, 0, 1, 5, 80, 2000))
        other = chance.choice(seeds)
        start = chance.randint(0, len(other))
        piece = chance.choice(
            (
                chance.choice(PIECES),
                chance.randbytes(chance.randint(0, 12)),
                other[start : start + 600],
                data[at : at + 50],
            )
        )
        data = data[:at] + piece + data[at + length :]
    return data[: chance.randint(0, len(data))] if chance.random() < 0.15 else data


def run(family: Family, seconds: float, seed: int, out: Path) -> None:
    """Read mangled samples for some CPU seconds; every distinct finding is written to ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    chance, seeds = random.Random(seed), list(family.seeds())
    ended, count, seen = time.process_time() + seconds, 0, set[str]()
    while time.process_time() < ended:
        data = bytes([chance.randrange(256)]) + mangled(seeds, chance)
        count += 1
        try:
            family.check(data)
        except Exception as error:  # a finding of any kind
            last = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} {Path(last.filename).name}:{last.lineno}"
            if kind not in seen:
                seen.add(kind)
                name = hashlib.sha256(data).hexdigest()[:12]
                (out / f"{family.name}-{name}.bin").write_bytes(data)
                print(f"FINDING {family.name} {kind} {str(error)[:300]!r} -> {name}", flush=True)
    print(f"DONE {family.name}: {count} inputs, {seconds:.0f} CPU s, {len(seen)} findings", flush=True)


if __name__ == "__main__":
    folder = Path(sys.argv[4]) if len(sys.argv) > 4 else Path()
    run(families()[sys.argv[1]], float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0, folder)
