"""From the store to the snapshot that the answering commands read.

Owns which part of a snapshot is stale: only configurations with a changed run are folded again. Must not
decide what folding means (kb.fold) nor the file's form (kb.snapshot).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kb import snapshot
from kb.errors import StoreError
from kb.fold import fold, key_of
from kb.snapshot import Packed
from kb.store.database import Store
from kb.store.runs import Kept, digests, kept_runs, line_index
from kb.wire import experiment_to_wire

RUNS_AT_ONCE = 2000


def publish(store: Store) -> bool:
    """Bring the snapshot up to the store as it is; whether anything had changed."""
    current = digests(store)
    state = _state(current)
    known = snapshot.stamp(store.path)
    if known is not None and known["made_from"] == state:
        snapshot.touch(store.path)
        return False
    old = snapshot.packed_runs(store.path)
    stale = {run for run, digest in current.items() if run not in old or old[run].digest != digest}
    gone = old.keys() - current.keys()
    try:
        _rewrite(store, current, old, stale, gone, state)
    except OSError as error:
        where = str(snapshot.path_of(store.path))
        raise StoreError(f"the snapshot cannot be written: {error.strerror or error}", where=where) from None
    return True


def state_of(store: Store) -> str:
    """A digest of all that a snapshot is made from."""
    return _state(digests(store))


def _state(current: Mapping[str, str]) -> str:
    told = hashlib.blake2b(str(snapshot.FORMAT).encode(), digest_size=12)
    for run in sorted(current):
        told.update(f"{run} {current[run]}\n".encode())
    return told.hexdigest()


def _rewrite(  # noqa: PLR0913, PLR0917 - the three sets are one difference
    store: Store,
    current: Mapping[str, str],
    old: Mapping[str, Packed],
    stale: set[str],
    gone: Iterable[str],
    state: str,
) -> None:
    keys: dict[str, str] = {}
    with snapshot.rewriting(store.path, keep=bool(old)) as draft:
        draft.drop_runs(gone)
        for kept, lines in _batches(store, stale):
            keys |= {one.experiment.run: "" if one.invalid else key_of(one.experiment) for one in kept}
            draft.put_runs(
                (_detail(one, lines), keys[one.experiment.run], current[one.experiment.run]) for one in kept
            )
        touched = ({old[run].key for run in (*stale, *gone) if run in old} | set(keys.values())) - {""}
        members = {
            run for run, one in old.items() if one.key in touched and run in current and run not in stale
        }
        members |= {run for run, key in keys.items() if key}
        draft.drop_tried(touched)
        by_key = {run: keys.get(run) or old[run].key for run in members}
        for some in _whole_keys(by_key):
            draft.put_tried(fold(one.experiment for kept, _ in _batches(store, some) for one in kept))
        draft.stamp(len(current), state)


def _whole_keys(by_key: Mapping[str, str]) -> Iterator[list[str]]:
    """Runs in groups that never part the runs of one configuration."""
    some: list[str] = []
    last = ""
    for run, key in sorted(by_key.items(), key=lambda item: (item[1], item[0])):
        if len(some) >= RUNS_AT_ONCE and key != last:
            yield some
            some = []
        some.append(run)
        last = key
    if some:
        yield some


def _batches(
    store: Store, runs: Iterable[str]
) -> Iterator[tuple[list[Kept], dict[str, list[dict[str, Any]]]]]:
    wanted = sorted(runs)
    for at in range(0, len(wanted), RUNS_AT_ONCE):
        some = wanted[at : at + RUNS_AT_ONCE]
        yield list(kept_runs(store, "run IN (SELECT unnest(?))", [some])), line_index(store, some)


def _detail(one: Kept, lines: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    wire = experiment_to_wire(one.experiment)
    answers = dict(zip(("verdict", "detail"), one.answers, strict=True)) if one.answers else None
    said = {"invalid": one.invalid, "notes": list(one.notes), "answers": answers}
    return {**wire, **said, "lines": lines.get(wire["run"], [])}
