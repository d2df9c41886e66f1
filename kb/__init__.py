"""The knowledge base: words, storage, records. Imports nothing of ingest or recommend (kb.cli excepted)."""

from collections.abc import Mapping
from typing import Any

# What a value that holds nothing shares with the others; never written to.
EMPTY: Mapping[str, Any] = {}
