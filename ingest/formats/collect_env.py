"""Reports of the environment: ``python -m torch.utils.collect_env``, vLLM's ``collect_env.py``, SGLang's
``check_env``.

Owns these reports, which issues carry as text. Topology tables inside are left to their own format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ingest.formats import Format, Unreadable
from ingest.launches import plain_version
from ingest.machine import hardware, known, supplies
from ingest.packages import component, split_packages
from ingest.sources import Source
from ingest.traces import line_count
from kb.model import Backend, Hardware, Reading

_PAIR = re.compile(r"^\s{0,6}([A-Za-z][\w .()/#-]*?)\s*:\s*(.*?)\s*$")
_GPU = re.compile(r"^\s*(?:GPU models and configuration\s*:\s*)?GPU ([\d,\s-]+):\s*(.+?)\s*$")
_PACKAGE = re.compile(r"^\s*\[(?:pip3?|conda)\]\s+([\w.-]+)(?:==|\s+)(\d\S*)")
_VARIABLE = re.compile(r"^((?:VLLM|SGLANG|SGL|NCCL|CUDA|TORCH|HF|OMP|LD|PYTORCH|TRTLLM|NVIDIA|HIP)\w*)=(.*)$")
_MARKS = (
    "Collecting environment information",
    "Is CUDA available",
    "PyTorch version:",
    "GPU models and configuration",
    "Nvidia driver version",
    "CUDA runtime version",
    "CUDA Driver Version",
    "Versions of relevant libraries",
    "sglang:",
    "sgl_kernel:",
    "flashinfer_python:",
    "vLLM Version",
)
_NAMES = {
    "driver": ("nvidia driver version", "cuda driver version", "driver version", "nvidia_driver_version"),
    "cuda": ("cuda used to build pytorch", "cuda runtime version", "cuda version"),
    "engine_vllm": ("vllm version", "vllm"),
    "engine_sglang": ("sglang", "sglang version"),
    "engine_tensorrt-llm": ("tensorrt-llm", "tensorrt_llm version", "tensorrt-llm version"),
    "torch": ("pytorch version", "torch", "torch version"),
    "python": ("python version", "python"),
    "rocm": ("rocm version", "rocm used to build pytorch"),
}


def sniff(source: Source) -> float:
    """Three or more of the reports' own labels."""
    if source.head.lstrip("\ufeff \t\r\n")[:1] in ("{", "["):
        return 0.0
    hits = sum(1 for mark in _MARKS if mark in source.head)
    whole = hits >= 5 and _MARKS[0] in source.head  # a topology table stands in it
    return 0.985 if whole else min(0.62 + 0.1 * hits, 0.95) if hits >= 3 else 0.0


def read(source: Source) -> Reading:
    """Versions, GPUs, driver, environment variables."""
    report = _Report()
    for _, line in source.lines():
        report.take(line)
    if not report.pairs and not report.packages:
        raise Unreadable("no line of a known report was found")
    backend = report.backend()
    return Reading(
        path=str(source.path),
        format="collect_env",
        kind="config",
        tool="collect_env",
        experiments=supplies(report.hardware(), backend),
        lines=line_count(report.lines, report.odd),
        extra={"os": os} if (os := report.pairs.get("os")) else {},
    )


class _Report:
    """Pairs by lower-case label, GPUs by index, packages and variables."""

    def __init__(self) -> None:
        self.pairs: dict[str, str] = {}
        self.gpus: dict[str, str] = {}
        self.packages: dict[str, str] = {}
        self.variables: dict[str, str] = {}
        self.lines = self.odd = 0

    def take(self, line: str) -> None:
        """One line."""
        if not line.strip():
            return
        self.lines += 1
        package, card, variable = _PACKAGE.match(line), _GPU.match(line), _VARIABLE.match(line.strip())
        if package:
            self.packages[package[1]] = package[2]
        elif card:
            self.gpus |= dict.fromkeys(_indices(card[1]), card[2])
        elif variable:
            self.variables[variable[1]] = variable[2]
        elif pair := _PAIR.match(line):
            self.pairs.setdefault(pair[1].lower(), pair[2])
        else:
            self.odd += 1

    def hardware(self) -> Hardware:
        """GPUs, their count, driver and CUDA."""
        # ROCm's report names the one kind of card, not each of them: their count is then unknown.
        kind = _first(self.pairs, ("gpu models and configuration",)) or ""
        names = [re.sub(r"\s*\(.*\)$|,.*$", "", name) for name in self.gpus.values() or (kind,)]
        capability = self.pairs.get("gpu 0 compute capability") or ""
        return hardware(
            names,
            None,
            known(re.sub(r"[^\d.].*$", "", capability)),
            count=len(self.gpus) or None,
            driver=_first_line(self._value("driver")),
            cuda=plain_version(self._value("cuda")),
        )

    def backend(self) -> Backend:
        """The engine, if one is named, and its libraries."""
        packages = dict(self.packages)
        for label, value in self.pairs.items():
            if component(label) and re.match(r"v?\d+\.\d", value):
                packages.setdefault(label, value.split()[0])
        found, engine, version = split_packages(packages)
        for name in ("vllm", "sglang", "tensorrt-llm"):
            word = plain_version(self._value(f"engine_{name}"))
            if word and re.match(r"\d", word) and not engine:
                engine, version = name, word
        told = {name: plain_version(self._value(name)) for name in ("torch", "python", "rocm")}
        base = {name: word for name, word in told.items() if word}
        return Backend(
            engine=engine,
            engine_version=version,
            dependencies={**base, **found},
            environment=self.variables,
        )

    def _value(self, name: str) -> str | None:
        return _first(self.pairs, _NAMES[name])


def _first(pairs: Mapping[str, str], labels: tuple[str, ...]) -> str | None:
    words = (known(pairs.get(label)) for label in labels)
    return next((word for word in words if word and word.lower() != "could not collect"), None)


def _first_line(text: str | None) -> str | None:
    return text.split(",")[0].strip() if text else None


def _indices(text: str) -> list[str]:
    found: list[str] = []
    for part in re.split(r"[,\s]+", text.strip()):
        span = re.fullmatch(r"(\d+)-(\d+)", part)
        found += [str(at) for at in range(int(span[1]), min(int(span[2]), 64) + 1)] if span else [part]
    return [one for one in found if one]


FORMAT = Format(
    name="collect_env",
    kind="config",
    version=2,
    sniff=sniff,
    read=read,
    docs="Reports of the environment as issues carry them (PyTorch's and vLLM's `collect_env`, SGLang's "
    "`check_env`): GPUs, driver, CUDA, versions of the engine and its libraries, environment variables.",
)
