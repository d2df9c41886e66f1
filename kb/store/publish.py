"""From the store to the snapshot that the answering commands read.

Owns when a snapshot is stale. Must not decide what folding means (kb.fold) nor the file's form (kb.snapshot).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from kb import snapshot
from kb.errors import StoreError
from kb.fold import fold
from kb.store.database import Store
from kb.store.runs import Kept, kept_runs, line_index
from kb.wire import experiment_to_wire


def publish(store: Store) -> bool:
    """Write the snapshot unless it was made from the store as it is; whether it was written."""
    state = state_of(store)
    known = snapshot.stamp(store.path)
    if known is not None and known["made_from"] == state:
        return False
    kept = list(kept_runs(store))
    tried = fold(one.experiment for one in kept if one.invalid is None)
    try:
        snapshot.write(store.path, tried, _details(store, kept), made_from=state)
    except OSError as error:
        where = str(snapshot.path_of(store.path))
        raise StoreError(f"the snapshot cannot be written: {error.strerror or error}", where=where) from None
    return True


def state_of(store: Store) -> str:
    """A digest of all that a snapshot is made from."""
    runs = store.rows("SELECT count(*), md5(string_agg(md5(run || experiment), '' ORDER BY run)) FROM run")
    claims = store.rows("SELECT count(*), md5(string_agg(claim, '' ORDER BY claim)) FROM claim")
    quality = store.rows(
        "SELECT count(*), md5(string_agg(run || verdict || detail, '' ORDER BY run)) FROM quality"
    )
    return hashlib.blake2b(
        repr((runs, claims, quality, snapshot.FORMAT)).encode(), digest_size=12
    ).hexdigest()


def _details(store: Store, kept: list[Kept]) -> Iterator[dict[str, Any]]:
    lines = line_index(store)
    for one in kept:
        wire = experiment_to_wire(one.experiment)
        told = {"invalid": one.invalid, "notes": list(one.notes), "lines": lines.get(one.experiment.run, [])}
        yield {**wire, **told}
