"""Everything about engines in one place: names, settings, spellings, command lines.

Owns nothing itself: it gathers ``dialects`` (names and settings), ``spellings`` (settings ↔ kernels),
``labels`` (what logs print → kernels), ``commands`` and ``rendering`` (command lines ↔ settings), so that the
rest of the program has one module to import.
"""

from kb.vocab.commands import Launch, parse_command, parse_shell
from kb.vocab.dialects import (
    ENGINES,
    VARIABLES,
    canonical_dest,
    canonical_engine,
    canonical_settings,
    common_settings,
    kv_dtype_of,
    setting,
    speculation_of,
)
from kb.vocab.labels import kernel_of_label, roles_of_label
from kb.vocab.rendering import CONFIG_FILE, render_command, render_config
from kb.vocab.spellings import (
    canonical_kernel,
    is_known,
    kernels,
    role_names,
    roles_of,
    spell,
)

__all__ = [
    "CONFIG_FILE",
    "ENGINES",
    "VARIABLES",
    "Launch",
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
