"""GPU metrics as exporters publish them: DCGM's, nvidia_gpu_exporter's, AMD's, Triton Inference Server's.

Owns their metric names. One scrape is one sample of each card; several scrapes in one file are several.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ingest.formats import Format, Unreadable
from ingest.gpu_csv import to_number
from ingest.machine import hardware, known
from ingest.prometheus import Sample, parse_sample
from ingest.sources import Source
from ingest.tally import Cards, reasons_of_mask
from ingest.traces import hardware_of, line_count, telemetry_of, trace_reading
from kb.model import Hardware, Reading, Telemetry

if TYPE_CHECKING:
    from ingest.samples import Samples

# name -> (metric, factor to our unit)
_DCGM: Mapping[str, tuple[str, float]] = {
    "DCGM_FI_DEV_GPU_UTIL": ("utilization_pct", 1.0),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("memory_utilization_pct", 1.0),
    "DCGM_FI_DEV_POWER_USAGE": ("power_w", 1.0),
    "DCGM_FI_DEV_POWER_MGMT_LIMIT": ("power_limit_w", 1.0),
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": ("power_limit_w", 1.0),
    "DCGM_FI_DEV_SM_CLOCK": ("sm_clock_mhz", 1.0),
    "DCGM_FI_DEV_MAX_SM_CLOCK": ("sm_clock_max_mhz", 1.0),
    "DCGM_FI_DEV_MEM_CLOCK": ("memory_clock_mhz", 1.0),
    "DCGM_FI_DEV_GPU_TEMP": ("temperature_c", 1.0),
    "DCGM_FI_DEV_MEMORY_TEMP": ("memory_temperature_c", 1.0),
    "DCGM_FI_DEV_FB_USED": ("memory_used_mib", 1.0),
    "DCGM_FI_DEV_FB_FREE": ("memory_free_mib", 1.0),
    "DCGM_FI_DEV_FB_TOTAL": ("memory_total_mib", 1.0),
    "DCGM_FI_DEV_FB_RESERVED": ("memory_reserved_mib", 1.0),
    "DCGM_FI_PROF_SM_ACTIVE": ("sm_active_pct", 100.0),
    "DCGM_FI_PROF_SM_OCCUPANCY": ("sm_occupancy_pct", 100.0),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("tensor_active_pct", 100.0),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("dram_active_pct", 100.0),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("graphics_active_pct", 100.0),
}
_EXPORTER: Mapping[str, tuple[str, float]] = {
    "nvidia_smi_utilization_gpu_ratio": ("utilization_pct", 100.0),
    "nvidia_smi_utilization_memory_ratio": ("memory_utilization_pct", 100.0),
    "nvidia_smi_power_draw_watts": ("power_w", 1.0),
    "nvidia_smi_power_limit_watts": ("power_limit_w", 1.0),
    "nvidia_smi_enforced_power_limit_watts": ("power_enforced_limit_w", 1.0),
    "nvidia_smi_clocks_current_sm_clock_hz": ("sm_clock_mhz", 1e-6),
    "nvidia_smi_clocks_max_sm_clock_hz": ("sm_clock_max_mhz", 1e-6),
    "nvidia_smi_clocks_current_memory_clock_hz": ("memory_clock_mhz", 1e-6),
    "nvidia_smi_temperature_gpu": ("temperature_c", 1.0),
    "nvidia_smi_temperature_memory": ("memory_temperature_c", 1.0),
    "nvidia_smi_memory_used_bytes": ("memory_used_mib", 2.0**-20),
    "nvidia_smi_memory_free_bytes": ("memory_free_mib", 2.0**-20),
    "nvidia_smi_memory_total_bytes": ("memory_total_mib", 2.0**-20),
    "nvidia_smi_memory_reserved_bytes": ("memory_reserved_mib", 2.0**-20),
}
_AMD: Mapping[str, tuple[str, float]] = {
    "gpu_gfx_activity": ("utilization_pct", 1.0),
    "gpu_umc_activity": ("memory_utilization_pct", 1.0),
    "gpu_package_power": ("power_w", 1.0),
    "gpu_average_package_power": ("power_w", 1.0),
    "gpu_edge_temperature": ("temperature_c", 1.0),
    "gpu_junction_temperature": ("temperature_c", 1.0),
    "gpu_memory_temperature": ("memory_temperature_c", 1.0),
    "gpu_used_vram": ("memory_used_mib", 1.0),
    "gpu_total_vram": ("memory_total_mib", 1.0),
    "gpu_free_vram": ("memory_free_mib", 1.0),
}
_AMD_OLD: Mapping[str, tuple[str, float]] = {
    "gpu_usage": ("utilization_pct", 1.0),
    "gpu_power_usage": ("power_w", 1.0),
    "gpu_total_memory": ("memory_total_mib", 1.0),
}
_OMNISTAT: Mapping[str, tuple[str, float]] = {
    "rocm_utilization_percentage": ("utilization_pct", 1.0),
    "rocm_vram_busy_percentage": ("memory_utilization_pct", 1.0),
    "rocm_vram_total_bytes": ("memory_total_mib", 2.0**-20),
    "rocm_average_socket_power_watts": ("power_w", 1.0),
    "rocm_temperature_celsius": ("temperature_c", 1.0),
    "rocm_temperature_hbm_celsius": ("memory_temperature_c", 1.0),
    "rocm_sclk_clock_mhz": ("sm_clock_mhz", 1.0),
    "rocm_mclk_clock_mhz": ("memory_clock_mhz", 1.0),
}
_NVML: Mapping[str, tuple[str, float]] = {
    "nvidia_gpu_duty_cycle": ("utilization_pct", 1.0),
    "nvidia_gpu_power_usage_milliwatts": ("power_w", 1e-3),
    "nvidia_gpu_temperature_celsius": ("temperature_c", 1.0),
    "nvidia_gpu_fanspeed_percent": ("fan_pct", 1.0),
    "nvidia_gpu_memory_used_bytes": ("memory_used_mib", 2.0**-20),
    "nvidia_gpu_memory_total_bytes": ("memory_total_mib", 2.0**-20),
}
_TRITON: Mapping[str, tuple[str, float]] = {
    "nv_gpu_utilization": ("utilization_pct", 100.0),
    "nv_gpu_power_usage": ("power_w", 1.0),
    "nv_gpu_power_limit": ("power_limit_w", 1.0),
    "nv_gpu_memory_used_bytes": ("memory_used_mib", 2.0**-20),
    "nv_gpu_memory_total_bytes": ("memory_total_mib", 2.0**-20),
}
_ALL_SMI: Mapping[str, tuple[str, float]] = {
    "all_smi_gpu_utilization": ("utilization_pct", 1.0),
    "all_smi_gpu_memory_used_bytes": ("memory_used_mib", 2.0**-20),
    "all_smi_gpu_memory_total_bytes": ("memory_total_mib", 2.0**-20),
    "all_smi_gpu_temperature_celsius": ("temperature_c", 1.0),
    "all_smi_gpu_power_consumption_watts": ("power_w", 1.0),
    "all_smi_gpu_frequency_mhz": ("sm_clock_mhz", 1.0),
}
_METRICS = {**_ALL_SMI, **_DCGM, **_EXPORTER, **_AMD, **_AMD_OLD, **_OMNISTAT, **_NVML, **_TRITON}
_PREFIXES = ("DCGM_", "all_smi_gpu_", "nvidia_smi_", "nvidia_gpu_", "gpu_", "rocm_", "nv_gpu_", "nv_energy_")
# What no other page of metrics has: a name's beginning in each exporter.
_MARKS = (
    "nvidia_smi_",
    "all_smi_gpu_",
    "nvidia_gpu_",
    "nv_gpu_",
    *_AMD,
    *_OMNISTAT,
    "gpu_power_usage{",
    "gpu_total_memory{",
)
_TOOLS = {
    "DCGM_": "dcgm-exporter",
    "all_smi_": "all-smi",
    "nv_": "triton",
    "nvidia_smi_": "nvidia_gpu_exporter",
    "nvidia_gpu_": "nvidia_gpu_prometheus_exporter",
    "rocm_": "omnistat",
}
_REASON = "nvidia_smi_clocks_event_reasons_"
_REASON_OLD = "nvidia_smi_clocks_throttle_reasons_"
_MASKS = ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS")
_OTHER = ("_active", "_supported")
_JSON = re.compile(r"\s*(?:\{|\[\s*[\[{\]])")
_CARD_LABELS = (
    "gpu", "uuid", "UUID", "gpu_uuid", "GPU_UUID", "gpu_id", "minor_number", "card", "device", "GPU_I_ID",
)  # fmt: skip


def sniff(source: Source) -> float:
    """Metric names of one of these exporters, in samples or in their comments."""
    head = source.head
    if _JSON.match(head):
        return 0.0  # an answer of Prometheus: ingest.formats.prometheus_answer
    if "DCGM_FI_" in head:
        return 0.95 if "DCGM_FI_DEV_" in head and "{" in head else 0.5
    return 0.95 if any(f"\n{name}" in f"\n{head}" for name in _MARKS) else 0.0


def read(source: Source) -> Reading:
    """Every scrape of the file."""
    reader = _Scrapes(source.samples)
    for number, line in source.lines():
        reader.take(number, line)
    reader.close()
    if not reader.families:
        raise Unreadable("metric names stand here, but no sample of a GPU")
    found = telemetry_of(
        reader.cards.by_key.values(),
        first=reader.first,
        last=reader.last,
        extra={"families": sorted(reader.families)},
    )
    return trace_reading(
        str(source.path),
        "prometheus_gpu",
        found if reader.cards.rows else None,
        reader.hardware(found),
        tool=reader.tool(),
        lines=line_count(reader.lines, reader.odd),
        status="parsed" if reader.cards.rows else "partial",
        extra=reader.extra(),
    )


def meaning(name: str) -> tuple[str, float] | None:
    """(metric of ours, factor to our unit) of an exporter's metric; None for what is none of these."""
    return _METRICS.get(name)


def facts_of(labels: Mapping[str, str]) -> dict[str, str]:
    """What labels tell of a card and its machine: index, uuid, name, driver, cuda, compute_cap, Hostname …"""
    told = {
        key: [word for name in names if (word := known(labels.get(name)))] for key, names in _FACTS.items()
    }
    numbers = [word for word in told["index"] if word.isdecimal()]
    if numbers and told["index"][0] != numbers[0]:  # its first label says what the card is, not which
        told["name"], told["index"] = told["name"] or told["index"], numbers
    return {key: words[0] for key, words in told.items() if words}


class _Scrapes:
    """Samples by card until one comes again: then a new scrape has begun."""

    def __init__(self, keep: Samples | None) -> None:
        self.cards = Cards(keep)
        self.families: set[str] = set()
        self.info: dict[str, dict[str, str]] = defaultdict(dict)
        self.lines = self.odd = 0
        self.first = self.last = ""
        self._open: dict[str, dict[str, float]] = {}
        self._seen: set[tuple[str, str]] = set()
        self._reasons: dict[str, dict[str, int]] = defaultdict(dict)

    def take(self, number: int, line: str) -> None:
        """One line: a comment that names a family, a sample, or neither."""
        text = line.strip()
        if not text:
            return
        self.lines += 1
        if text[:1] == "#":
            self._comment(text)
            return
        sample = parse_sample(text, number)
        if sample is None:
            self._config(text)
        elif card := card_of(sample):
            self.families.add(sample.name)
            self._sample(card, sample)
        elif sample.name.startswith(_PREFIXES):
            self.families.add(sample.name)

    def close(self) -> None:
        """The end of a scrape or of the file."""
        for card, values in self._open.items():
            info = self.info[card]
            index = info.get("index", "")
            who: dict[str, Any] = {
                "index": int(index) if index.isdecimal() else None,
                "name": known(info.get("name")),
                "uuid": known(info.get("uuid")),
            }
            self.cards.add(card, with_total(values), self._reasons.get(card), at=self.last, **who)
        self._open, self._reasons, self._seen = {}, defaultdict(dict), set()

    def hardware(self, found: Telemetry) -> Hardware:
        """The machine, with what labels tell; parts of one card (MIG) are one."""
        told = list(self.info.values())
        names = ("driver", "cuda", "compute_cap")
        facts = {name: next((one[name] for one in told if name in one), None) for name in names}
        if not found.gpus:  # cards are named, none of their metrics is one of ours
            products = [one.get("name") for one in told]
            cap, *versions = (facts[name] for name in ("compute_cap", "driver", "cuda"))
            count, (driver, cuda) = len(told) or None, versions
            return hardware(products, None, cap, count=count, driver=driver, cuda=cuda)
        cards = {gpu.uuid or gpu.index for gpu in found.gpus}
        machine = hardware_of(found, **facts)
        return machine if machine.count is None else machine._replace(count=len(cards))

    def tool(self) -> str:
        """Which exporter it is."""
        told = (tool for mark, tool in _TOOLS.items() if any(name.startswith(mark) for name in self.families))
        return next(told, "amd-device-metrics-exporter")

    def extra(self) -> dict[str, Any]:
        """Which metrics there were, and which pods and hosts the cards served where labels say so."""
        names = ("Hostname", "pod", "namespace")
        labels = {key: one[key] for one in self.info.values() for key in names if key in one}
        return {"families": sorted(self.families)} | ({"labels": labels} if labels else {})

    def _comment(self, text: str) -> None:
        words = text.split()
        if len(words) > 2 and words[1] in ("HELP", "TYPE") and words[2].startswith(("DCGM_", "nvidia_smi_")):
            self.families.add(words[2])

    def _config(self, text: str) -> None:
        """A line of the exporter's own list of counters (``DCGM_FI_DEV_SM_CLOCK, gauge, …``), or neither."""
        if text.startswith("DCGM_FI_") and "," in text:
            self.families.add(text.split(",", maxsplit=1)[0].strip())
        else:
            self.odd += 1

    def _sample(self, card: str, sample: Sample) -> None:
        self._inform(card, sample)
        if not math.isfinite(sample.value):
            return
        reason = _reason(sample.name)
        if reason:
            self._reasons[card][reason] = int(sample.value > 0)
        if sample.name in _MASKS:
            self._reasons[card] |= dict.fromkeys(reasons_of_mask(int(sample.value)), 1)
        if sample.name not in _METRICS:
            return
        metric, factor = _METRICS[sample.name]
        if (card, sample.name) in self._seen:
            self.close()
        self._seen.add((card, sample.name))
        self.last = sample.stamp or self.last
        self.first = self.first or self.last
        value = to_number(repr(sample.value), metric)
        if value is not None:
            self._open.setdefault(card, {}).setdefault(metric, value * factor)

    def _inform(self, card: str, sample: Sample) -> None:
        info = self.info[card]
        for key, word in facts_of(sample.labels).items():
            info.setdefault(key, word)
        if sample.name == "nvidia_smi_index" and math.isfinite(sample.value):
            info["index"] = str(int(sample.value))


_FACTS = {
    "index": ("gpu", "index", "gpu_id", "minor_number", "card"),
    "uuid": ("UUID", "uuid", "gpu_uuid", "GPU_UUID"),
    "name": ("modelName", "name", "card_series", "card_model"),
    "driver": ("DCGM_FI_DRIVER_VERSION", "driver_version"),
    "cuda": ("cuda_version",),
    "compute_cap": ("compute_cap",),
    "Hostname": ("Hostname", "hostname"),
    "pod": ("pod", "exported_pod"),
    "namespace": ("namespace", "exported_namespace"),
}


def card_of(sample: Sample) -> str | None:
    """The card that a sample's labels name; None where they name none."""
    parts = [sample.labels[name] for name in _CARD_LABELS if sample.labels.get(name)]
    if not parts or not sample.name.startswith(_PREFIXES):
        return None
    return "/".join(dict.fromkeys(parts))


def _reason(name: str) -> str | None:
    for prefix in (_REASON, _REASON_OLD):
        if name.startswith(prefix) and not name.endswith(_OTHER) and "counters" not in name:
            return name.removeprefix(prefix)
    return None


def with_total(values: dict[str, float]) -> dict[str, float]:
    """Values of one card with the whole of its memory, where its parts tell that."""
    if "memory_total_mib" not in values and {"memory_used_mib", "memory_free_mib"} <= values.keys():
        parts = ("memory_used_mib", "memory_free_mib", "memory_reserved_mib")
        values["memory_total_mib"] = sum(values.get(part, 0.0) for part in parts)
    return values


FORMAT = Format(
    name="prometheus_gpu",
    kind="trace",
    version=4,
    sniff=sniff,
    read=read,
    docs="Metrics of GPUs from an exporter (dcgm-exporter, nvidia_gpu_exporter, AMD's device metrics "
    "exporter, Omnistat, Triton Inference Server): one scrape or several, even pasted with the command that "
    "fetched them.",
)
