"""Coverage-guided fuzzing of a parser family: ``python tests/fuzz/fuzz_formats.py FAMILY [options]``.

The options are libFuzzer's. Needs atheris (``pip install atheris``), which is no dependency of the tests.
Findings become cases of ``tests/test_fuzz_findings.py``. Families: logs, traces, bench_json, bench_text,
config, notes, probes, archives.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parent))

with atheris.instrument_imports(include=["ingest", "kb"]):
    from families import families


def main() -> None:
    """Write the seeds beside a growing corpus and run libFuzzer on the family."""
    family = families()[sys.argv.pop(1)]
    corpus = Path(tempfile.mkdtemp(prefix=f"fuzz-{family.name}-"))
    for number, seed in enumerate(family.seeds()):
        for at in range(len(family.names)):
            if at == number % len(family.names) or len(seed) < 4000:
                (corpus / f"seed{number}-{at}").write_bytes(bytes([at]) + seed)
    sys.argv[1:1] = [str(corpus)]
    atheris.Setup(sys.argv, family.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
