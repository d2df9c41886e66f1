"""The store: what was read, the runs assembled from it, and what the user said about them.

Owns the DuckDB file and its SQL; nothing else opens DuckDB. Must not parse sources nor decide what belongs to
which run. Opening waits while another process writes.
"""

from kb.store.database import Store, default_path, existing, open_store

__all__ = ["Store", "default_path", "existing", "open_store"]
