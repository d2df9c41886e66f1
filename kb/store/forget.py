"""Take a run out of the store for good: its rows, and the readings that only it rests on.

Owns what forgetting means. Must leave the claim, so that the same files do not bring the run back.
"""

from __future__ import annotations

from kb.store.claims import Claim, add_claims
from kb.store.database import Store
from kb.store.runs import drop_runs
from kb.store.samples import drop_samples
from kb.store.sources import mark_pending


def forget_run(store: Store, run: str, reason: str | None) -> int:
    """Forget one run; returns how many readings went with it. Its sources stay listed as forgotten."""
    with store.transaction():
        mine = "SELECT identity FROM run_source WHERE run = ?"
        others = "SELECT identity FROM run_source WHERE run <> ?"
        sql = f"SELECT DISTINCT identity FROM ({mine}) WHERE identity NOT IN ({others}) ORDER BY identity"  # noqa: S608
        only = [identity for (identity,) in store.rows(sql, [run, run])]
        add_claims(store, [Claim(kind="forget", target=run, reason=reason)])
        mark_pending(store, [site for (site,) in store.rows("SELECT site FROM run WHERE run = ?", [run])])
        drop_runs(store, [run])
        store.delete("reading", "identity", only)
        drop_samples(store, only)
        store.rows(
            "UPDATE source SET status = 'forgotten', reason = ? WHERE identity IN (SELECT unnest(?))",
            [reason or "the user forgot its run", only],
        )
    return len(only)
