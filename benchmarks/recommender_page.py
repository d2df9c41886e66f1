"""Write the results of ``bench_replay.py`` into ``docs/recommender.md`` and draw its plots.

    python benchmarks/recommender_page.py [--check]

Only what stands between the markers is replaced. ``--check`` fails where the page is out of date.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "recommender.md"
PLOT = HERE.parent / "docs" / "recommender-regret.svg"
BEGIN, END = "<!-- results: make bench-replay -->", "<!-- end of results -->"
Json = Mapping[str, Any]
TUNED = ("convolution", "dedispersion")


def main() -> None:
    results = json.loads((HERE / "replay" / "results.json").read_text("utf-8"))
    page = PAGE.read_text("utf-8")
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    fresh = f"{head}{BEGIN}\n\n{results_text(results)}\n\n{END}{tail}"
    if "--check" in sys.argv:
        sys.exit(0 if fresh == page else f"{PAGE} is not what the results say: make bench-replay")
    PAGE.write_text(fresh, encoding="utf-8")
    PLOT.write_text(plot(results), encoding="utf-8")


def results_text(results: Json) -> str:
    parts = [
        choice(json.loads((HERE / "replay" / "choice.json").read_text("utf-8"))),
        policies("End to end, equal GPUs and concurrency, precision free", results.get("e2e")),
        policies("The same, precision given", results.get("e2e-fixed")),
        policies("The same as the first, trained only on earlier months", results.get("e2e-time")),
        warm(results.get("warm")),
        peer(results.get("aiconfigurator")),
        moe(results.get("moe")),
        attention(results.get("attention")),
        tuner({name: results[name] for name in TUNED if name in results}),
        intervals(results.get("intervals")),
        cost(results.get("cost")),
        answers(results.get("answers")),
        run(results["run"]),
    ]
    return "\n\n".join(part for part in parts if part)


def choice(found: Json) -> str:
    rows = [
        [
            f"**{one['form']}**" if one["form"] == found["taken"] else one["form"],
            f"{one['regret_after_1']:.4f}",
            f"{one['standard_error']:.4f}",
            f"{one['tries']:.3f}",
            f"{one['rms_error']:.4f}",
            f"{one['cpu_s']:.1f}",
        ]
        for one in found["tried"]
    ]
    head = (
        "form",
        "regret after 1 try",
        "error of its lead",
        "tries to within 5 %",
        "rms error (log)",
        "CPU-s",
    )
    said = (
        f"On the half `choose` alone, {found['contexts']} contexts, (GPU, model shape) left out. Taken: the "
        "smallest error among those not worse than the least regret by more than one standard error."
    )
    return f"### How the form was chosen\n\n{said}\n\n{table(head, rows)}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def policies(title: str, found: Json | None) -> str:
    if not found:
        return ""
    report, both = found["report"], found["all"]
    rows = [
        [
            name,
            interval(one["regret_after_1"]),
            f"{one['regret_after_3']['mean']:.3f}",
            interval(one["tries_to_within_5_pct"]),
            f"{both['policies'][name]['regret_after_1']['mean']:.3f}",
        ]
        for name, one in ordered(report["policies"])
    ]
    counts = f"{report['contexts']} contexts in {report['groups']} groups"
    said = f"{counts} on the reported half, {both['contexts']} in all."
    head = ("policy", "regret after 1 try", "after 3", "tries to within 5 %", "regret, both halves")
    return f"### {title}\n\n{said}\n\n{table(head, rows)}"


def ordered(policies_: Json) -> Iterator[tuple[str, Json]]:
    yield from sorted(policies_.items(), key=lambda pair: pair[1]["regret_after_1"]["mean"])


def interval(figure: Json) -> str:
    return f"{figure['mean']:.3f} ({figure['low']:.3f} … {figure['high']:.3f})"


def peer(found: Json | None) -> str:
    if not found:
        return ""
    told = policies("Where AIConfigurator 0.12.0 answers", found)
    p = found["wilcoxon_p"]
    return (
        f"{told}\n\nPaired Wilcoxon on regret after one try, recommender against AIConfigurator: p = {p:.1e}."
    )


def warm(found: Json | None) -> str:
    if not found:
        return ""
    rows = [
        [
            name,
            given,
            str(one["contexts"]),
            f"{one['recommender']:.3f}",
            f"{one['peer']:.3f}",
            interval(one["difference"]),
            f"{one['wilcoxon_p']:.1e}",
            f"{one['wilcoxon_p_reported']:.1e}",
        ]
        for given, peers in found.items()
        for name, one in sorted(peers.items(), key=lambda pair: pair[1]["peer"])
    ]
    head = (
        "against",
        "runs known",
        "contexts",
        "recommender",
        "peer",
        "difference, by groups",
        "p (Wilcoxon)",
        "p, reported half",
    )
    title = "### Tries to within 5 %, with runs of the context known"
    said = (
        "The known runs are drawn among those that are not within 5 %; each peer is told of them too. *Told "
        "of the past*: the peer also gets the runs of the 40 most alike contexts of other groups. The "
        "difference has its 95 % bootstrap interval over (GPU, model shape) groups."
    )
    return f"{title}\n\n{said}\n\n{table(head, rows)}"


def moe(found: Json | None) -> str:
    if not found:
        return ""
    rows = [
        [
            name,
            f"{found[name]['report']['slowdown']:.4f}",
            f"{found[name]['report']['hit']:.1%}",
            f"{found[name]['all']['slowdown']:.4f}",
        ]
        for name in ("recommender", "most frequent best", "best constant")
    ]
    rows.append(["random", "", "", f"{found['random']:.4f}"])
    lacks = found["proposals_sm120_lacks"]
    veto = ""
    if isinstance(lacks, dict):
        veto = (
            f"\n\nOffered every kernel that any GPU has ({lacks['contexts']} contexts), the learned ranking "
            f"alone would send {lacks['without_veto']} of them to kernels that SM120 has no code for; with "
            f"the product's veto {lacks['with_veto']}."
        )
    head = ("policy", "slowdown of the first choice", "within 5 %", "slowdown, both halves")
    title = "### MoE kernel on SM120, SM120 hidden, equal weight type"
    return f"{title}\n\n{found['contexts']} contexts. Geometric means.\n\n{table(head, rows)}{veto}"


def attention(found: Json | None) -> str:
    if not found:
        return ""
    names = ("recommender", "best constant", "most frequent best")
    rows = [
        [
            hidden,
            str(one["contexts"]),
            *(f"{one[name]['all']['slowdown']:.3f}" for name in names),
            f"{one['random']:.3f}",
            f"{one['recommender']['all']['hit']:.0%}",
        ]
        for hidden, one in found.items()
    ]
    head = ("hidden", "contexts", *names, "random", "recommender within 5 %")
    said = (
        "Engine and kernel family at equal phase, heads, cache type, batch and length: slowdown of the first "
        "choice (geometric means, both halves). A whole architecture is hidden, or one card whose sibling "
        "stays known."
    )
    return f"### Attention kernel, architecture hidden\n\n{said}\n\n{table(head, rows)}"


def tuner(found: Json | None) -> str:
    if not found:
        return ""
    rows = []
    for kernel, told in found.items():
        halves = [_tuned(told[half]) for half in ("report", "all")]
        rows += [
            [f"{kernel}: {name}", *(f"{number:.1f}" for half in halves for number in half[name])]
            for name in halves[0]
        ]
    head = (
        "space: policy",
        "valid tries before within 5 %",
        "failed tries before",
        "valid, both halves",
        "failed, both halves",
    )
    title = "### Tuning spaces that are no language models, all GPUs but one known"
    said = (
        "Means over the GPUs, first of the reported half; 100 tries at most. Optuna is told of failures; its "
        "TPE is asked for numbers, of which the most alike configuration is taken, and (*categories*) for "
        "words, drawn again where not on offer."
    )
    return f"{title}\n\n{said}\n\n{table(head, rows)}"


def _tuned(told: Json) -> dict[str, tuple[float, float]]:
    """Policy or peer -> valid and failed tries, of one half."""
    measured = ("valid_tries_to_within_5_pct", "failed_tries_to_within_5_pct")
    mine = {
        name: (one[measured[0]]["mean"], one[measured[1]]["mean"]) for name, one in ordered(told["policies"])
    }
    return {**mine, **{name: (one["valid"], one["failed"]) for name, one in told["peers"].items()}}


def intervals(found: Json | None) -> str:
    if not found:
        return ""
    told, other = found["report"], found["choose"]
    off = {
        gpu: f"×{math.exp(one['rms']):.3f} of {one['steps']}" for gpu, one in found["contradictions"].items()
    }
    rows = [
        [
            gpu,
            str(one["points"]),
            f"{one['coverage']:.1%}",
            f"×{one['median_factor']:.2f}",
            f"{other['per_gpu'][gpu]['coverage'] if gpu != 'all' else other['all']['coverage']:.1%}",
            off.get(gpu, ""),
        ]
        for gpu, one in [*sorted(told["per_gpu"].items()), ("all", told["all"])]
    ]
    head = (
        "GPU",
        "points",
        "inside the 90 % interval",
        "median half-width",
        "inside, other half",
        "contradiction",
    )
    said = (
        "*Contradiction*: with more requests in flight a token cannot get faster. By how much it did within "
        "one batch (root mean square over so many steps) is what its numbers are off by at least."
    )
    return f"### Intervals, each (GPU, model shape) group unseen\n\n{said}\n\n{table(head, rows)}"


def cost(found: Json | None) -> str:
    if not found:
        return ""
    noise = found["noise"]
    return (
        f"### Cost and noise\n\nA fit on {found['samples']} points takes {found['fit_cpu_s']} CPU-seconds, "
        f"on 10,000 points {found['fit_10000_cpu_s']}. Two measurements of one configuration differ by more "
        f"than {noise['p50']:.1%} in half of the cases and by at most {noise['p90']:.1%} in nine of ten."
    )


def answers(found: Json | None) -> str:
    if not found:
        return ""
    rows = [[name, f"{told['least']:.3f}", f"{told['median']:.3f}"] for name, told in found.items()]
    said = (
        "CPU seconds of whole processes, start-up included, each alone on one core; the target is 0.2 for "
        "`recommend`, whatever the number of own configurations (all of them of the model that is asked for)."
    )
    return f"### What an answer costs\n\n{said}\n\n{table(('command', 'least', 'median'), rows)}"


def run(found: Json) -> str:
    """What ``make bench-replay`` itself took."""
    told = ", ".join(f"{name} {seconds:.0f}" for name, seconds in sorted(found["cpu_s"].items()))
    whole = f" {found['wall_s'] / 60:.1f} minutes on {found['cores']} cores," if "wall_s" in found else ""
    return f"All of this took{whole} {sum(found['cpu_s'].values()):.0f} CPU-seconds ({told})."


COLOURS = {"recommender": "#2563eb"}


def plot(results: Json) -> str:
    """Regret after one try with bootstrap intervals, as bars."""
    tasks = [
        ("precision free", "e2e"),
        ("precision given", "e2e-fixed"),
        ("earlier months only", "e2e-time"),
        ("against AIConfigurator", "aiconfigurator"),
    ]
    bars = [
        (title, name, one["regret_after_1"])
        for title, task in tasks
        if results.get(task)
        for name, one in ordered(results[task]["report"]["policies"])
    ]
    height, left, width = 22, 330, 360
    scale = width / (max(one["high"] for _, _, one in bars) or 1)
    body = []
    for row, (title, name, one) in enumerate(bars):
        y = 30 + row * height
        colour = COLOURS.get(name, "#9ca3af")
        end, low, high = (left + scale * one[key] for key in ("mean", "low", "high"))
        body.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{title}: {name}</text>')
        body.append(f'<rect x="{left}" y="{y + 3}" width="{end - left:.1f}" height="13" fill="{colour}"/>')
        body.append(
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y + 9}" y2="{y + 9}" stroke="#111" stroke-width="1"/>'
        )
        body.append(f'<text x="{math.ceil(high) + 6}" y="{y + 13}">{one["mean"]:.3f}</text>')
    size = f'width="{left + width + 70}" height="{50 + len(bars) * height}"'
    title = f'<text x="{left}" y="18">regret after one try (best / chosen − 1), reported half</text>'
    style = 'font-family="sans-serif" font-size="12"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{title}\n' + "\n".join(body) + "\n</svg>\n"
    )


if __name__ == "__main__":
    main()
