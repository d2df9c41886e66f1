"""From stored readings to stored runs: what changed is assembled again, and nothing else.

Owns the walk from waiting folders to regions and back into the store. The runs depend on what the store
holds, never on the order in which it came, so that a stopped ingest is finished by the next one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from ingest.folders import Claimed, assemble
from ingest.matching import Piece
from ingest.quality import Answered, judge
from ingest.sites import Region, Sites
from ingest.spans import Find
from ingest.tally import BUSY_UTILIZATION_PCT
from kb.store import Store
from kb.store.claims import claims_by_target, said_of_sources
from kb.store.quality import answers_by_model, put_quality
from kb.store.runs import Assembled, put_runs, runs_joined_from
from kb.store.samples import samples_between
from kb.store.sources import folder_parts, pending_folders, readings_of
from kb.wire import reading_from_wire

FOLDERS_AT_ONCE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Runs in the store after assembly, and which of them are new, changed, or gone since before it."""

    total: int = 0
    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


def assemble_pending(store: Store) -> Change:
    """Assemble every folder that waits, and those that it bears on."""
    before = _digests(store)
    waiting = pending_folders(store)
    if not waiting:
        return Change(total=len(before))
    sites = Sites(folder_parts(store))
    changed = [*waiting, *_lost(store, sites, waiting)]
    regions = sites.regions(changed, runs_joined_from(store, sites.shared))
    claimed = Claimed(links=_links(store), said=said_of_sources(store))
    find = partial(samples_between, store, least=BUSY_UTILIZATION_PCT)
    for some in _batches(regions):
        pieces = _pieces(store, some)
        folders = [one for region in some for one in (*region.folders, *region.sites)]
        found = [one for region in some for one in _assemble(pieces, sites, region, claimed, find)]
        places = [*folders, *_waiting_in(sites, waiting, folders)]
        put_runs(store, places, _wanted(store, found, places))
    with store.transaction():
        put_quality(store, _judged(store))
        store.delete("pending", "folder", waiting)
    return _change(before, _digests(store))


def _judged(store: Store) -> list[dict[str, Any]]:
    """The probes of every model's runs, judged beside each other."""
    found = [
        one
        for answers in answers_by_model(store).values()
        for one in judge([Answered(run=run, probe=probe) for run, probe in answers.items()])
    ]
    return [asdict(one) for one in sorted(found, key=lambda one: one.run)]


def _assemble(
    pieces: Mapping[str, list[Piece]], sites: Sites, region: Region, claimed: Claimed, find: Find
) -> list[Assembled]:
    def lying_in(folders: Iterable[str]) -> list[Piece]:
        return sorted((one for folder in folders for one in pieces.get(folder, ())), key=_place)

    inside = {site: lying_in(folders) for site, folders in region.sites.items()}
    return assemble(inside, lying_in((*region.shared, *region.context)), sites.reach, claimed, find)


def _place(piece: Piece) -> tuple[str, str]:
    return piece.path, piece.identity


def _pieces(store: Store, regions: Iterable[Region]) -> dict[str, list[Piece]]:
    """folder -> its sources, for all folders that the regions look at."""
    found: dict[str, list[Piece]] = {}
    for row in readings_of(store, [one for region in regions for one in (*region.folders, *region.context)]):
        piece = Piece(
            identity=row["identity"],
            path=row["path"],
            folder=row["folder"],
            part=row["part"],
            reading=reading_from_wire(json.loads(row["reading"])),
        )
        found.setdefault(piece.folder, []).append(piece)
    return found


def _lost(store: Store, sites: Sites, waiting: Iterable[str]) -> list[str]:
    """Folders below a waiting one that used to be a site and is none now."""
    was = {site for (site,) in store.rows("SELECT DISTINCT site FROM run")}
    lost = [one for one in waiting if one in was and one not in sites.anchored]
    return [folder for folder in sites.parts for one in lost if folder.startswith(f"{one}/")]


def _waiting_in(sites: Sites, waiting: Iterable[str], folders: Iterable[str]) -> list[str]:
    done = set(folders)
    return [one for one in waiting if (sites.site_of(one) or one) in done]


def _batches(regions: Sequence[Region]) -> Iterator[list[Region]]:
    some: list[Region] = []
    for region in regions:
        some.append(region)
        if sum(len(one.folders) for one in some) >= FOLDERS_AT_ONCE:
            yield some
            some = []
    if some:
        yield some


def _links(store: Store) -> dict[str, dict[str, bool]]:
    claims = claims_by_target(store, ("link", "unlink"))
    return {
        target: {one.value: one.kind == "link" for one in found if one.value}
        for target, found in claims.items()
    }


def _wanted(store: Store, runs: Sequence[Assembled], places: Sequence[str]) -> list[Assembled]:
    """Without runs that the user forgot, and without imported ones that are here as one's own."""
    forgotten = claims_by_target(store, ("forget",))
    imported = [one.experiment.run for one in runs if one.imported]
    sql = "SELECT run FROM run WHERE run IN (SELECT unnest(?)) AND site NOT IN (SELECT unnest(?))"
    own = {run for (run,) in store.rows(sql, [imported, list(places)])} if imported else set()
    own |= {one.experiment.run for one in runs if not one.imported}
    runs = [one for one in runs if not (one.imported and one.experiment.run in own)]
    return [one for one in runs if one.experiment.run not in forgotten]


def _digests(store: Store) -> dict[str, str]:
    return dict(store.rows("SELECT run, digest FROM run"))


def _change(before: dict[str, str], after: dict[str, str]) -> Change:
    return Change(
        total=len(after),
        new=tuple(sorted(after.keys() - before.keys())),
        changed=tuple(sorted(run for run, digest in after.items() if before.get(run, digest) != digest)),
        gone=tuple(sorted(before.keys() - after.keys())),
    )
