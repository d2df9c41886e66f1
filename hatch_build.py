"""Build hook: an editable install gets its bytecode compiled, as an installed wheel does.

Owns nothing else. Without it, where ``PYTHONDONTWRITEBYTECODE`` is set, every command would compile its
sources anew, which takes several times as long as an answer.
"""

from __future__ import annotations

import compileall
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES = ("kb", "ingest", "recommend")


class CompiledSources(BuildHookInterface):
    """Compile the packages of a checkout in place, for the Python that installs it."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's names
        """Compile when the install is editable; a source that does not compile is told when it is run."""
        if version == "editable":
            for package in PACKAGES:
                compileall.compile_dir(Path(self.root) / package, quiet=2)
