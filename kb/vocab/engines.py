"""Everything about engines in one place: names, settings, spellings, command lines.

Owns nothing itself: it gathers ``dialects`` (names and settings), ``spellings`` (settings ↔ kernels),
``labels`` (what logs print → kernels), ``commands`` and ``rendering`` (command lines ↔ settings), so that the
rest of the program has one module to import. What only reading takes is loaded when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kb.vocab.dialects import (
    ENGINES,
    VARIABLES,
    build_of,
    canonical_dest,
    canonical_engine,
    canonical_settings,
    common_settings,
    kv_dtype_of,
    setting,
    speculation_of,
)
from kb.vocab.rendering import CONFIG_FILE, render_command, render_config
from kb.vocab.spellings import (
    canonical_kernel,
    is_known,
    kernels,
    role_names,
    roles_of,
    spell,
)

if TYPE_CHECKING:
    from kb.vocab.commands import Launch, parse_command, parse_shell
    from kb.vocab.labels import kernel_of_label, roles_of_label

__all__ = [
    "CONFIG_FILE",
    "ENGINES",
    "VARIABLES",
    "Launch",
    "build_of",
    "canonical_dest",
    "canonical_engine",
    "canonical_kernel",
    "canonical_settings",
    "common_settings",
    "is_known",
    "kernel_of_label",
    "kernels",
    "kv_dtype_of",
    "parse_command",
    "parse_shell",
    "render_command",
    "render_config",
    "role_names",
    "roles_of",
    "roles_of_label",
    "setting",
    "speculation_of",
    "spell",
]

_READING = {
    "Launch": "commands",
    "parse_command": "commands",
    "parse_shell": "commands",
    "kernel_of_label": "labels",
    "roles_of_label": "labels",
}


def __getattr__(name: str) -> Any:
    if name not in _READING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"kb.vocab.{_READING[name]}"), name)
