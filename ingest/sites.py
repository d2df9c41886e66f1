"""Which folders belong together, from their paths and from what lies in them alone.

Owns the words *site* (a folder with an anchor of runs in it, and the folders below it that have none) and
*reach* (the sites that a folder outside every site may speak about). Must not look at readings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import PurePosixPath

from ingest.homes import NOBODYS, home

ANCHORS = frozenset({"anchor", "metadata"})
CHOOSY = frozenset({"measurement", "trace", "probe", "config"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Folders whose runs are assembled together.

    ``sites`` maps each site to its folders; ``shared`` are folders outside every site, whose sources belong
    to one of these sites or to none; ``context`` are folders that only tell about the sites' machines.
    """

    sites: Mapping[str, tuple[str, ...]]
    shared: tuple[str, ...]
    context: tuple[str, ...] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """Every folder whose runs this region makes."""
        return (*(one for folders in self.sites.values() for one in folders), *self.shared)


class Sites:
    """The sites among the folders of a store. ``parts`` maps a folder to what its sources are used for."""

    def __init__(self, parts: Mapping[str, Set[str]]) -> None:
        self.parts = parts
        self.anchored = {folder for folder, found in parts.items() if found & ANCHORS}
        self.folders: dict[str, list[str]] = {site: [] for site in self.anchored}
        self.shared: list[str] = []
        for folder in sorted(parts):
            site = self.site_of(folder)
            (self.shared if site is None else self.folders[site]).append(folder)
        self._below: dict[str, list[str]] = {}
        for site in sorted(self.anchored):
            for above in _above(site):
                self._below.setdefault(above, []).append(site)

    def site_of(self, folder: str) -> str | None:
        """The nearest folder at or above this one that anchors runs."""
        return next((one for one in (folder, *_above(folder)) if one in self.anchored), None)

    def reach(self, folder: str) -> tuple[str, ...]:
        """The sites below a shared folder, else below the one above it, else below the next.

        A folder that only describes a machine does not speak about the last.
        """
        steps = 2 if self._is_choosy(folder) else 1
        for place in (folder, *_above(folder)[:steps]):
            if place in self._below and place not in NOBODYS:
                return tuple(self._below[place])
        return ()

    def _is_choosy(self, folder: str) -> bool:
        return bool(self.parts.get(folder, frozenset[str]()) & CHOOSY)

    def regions(self, changed: Iterable[str], joined: Mapping[str, Set[str]]) -> list[Region]:
        """What must be assembled again when these folders changed, as regions that do not touch.

        ``joined`` maps a site to the shared folders that its stored runs have sources from.
        """
        neighbours = self._neighbours(joined)
        of: dict[str, set[str]] = {}
        for start in dict.fromkeys(self.site_of(one) or one for one in changed):
            if start not in of:  # what is reached from a member is in its group already
                _unite(_spread(start, neighbours), of)
        return [self._region(group) for group in {id(group): group for group in of.values()}.values()]

    def _region(self, group: Set[str]) -> Region:
        sites = group & self.anchored
        context = (one for one in self.shared if one not in group and not sites.isdisjoint(self.reach(one)))
        return Region(
            sites={site: tuple(self.folders[site]) for site in sorted(sites)},
            shared=tuple(sorted(group - self.anchored)),
            context=tuple(context),
        )

    def _neighbours(self, joined: Mapping[str, Set[str]]) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for folder in self.shared:
            sites = self.reach(folder)
            for site in sites:
                found.setdefault(folder, set()).add(site)
                if self._is_choosy(folder):
                    found.setdefault(site, set()).add(folder)
        homes: dict[str, str] = {}
        for folder in self.shared:  # what is at home in one place is looked at together
            first = homes.setdefault(home(folder), folder)
            if first != folder:
                found.setdefault(folder, set()).add(first)
                found.setdefault(first, set()).add(folder)
        for site, folders in joined.items():
            for folder in folders - self.anchored:
                found.setdefault(site, set()).add(folder)
                found.setdefault(folder, set()).add(site)
        return found


def _above(folder: str) -> list[str]:
    return [str(one) for one in PurePosixPath(folder).parents]


def _unite(group: set[str], of: dict[str, set[str]]) -> None:
    """Add a group to those known by member, together with every one that it shares a member with."""
    touched = {id(of[one]): of[one] for one in group if one in of}
    whole = group.union(*touched.values())
    of.update(dict.fromkeys(whole, whole))


def _spread(start: str, neighbours: Mapping[str, Set[str]]) -> set[str]:
    group, todo = {start}, [start]
    while todo:
        for one in neighbours.get(todo.pop(), ()):
            if one not in group:
                group.add(one)
                todo.append(one)
    return group
