"""The store: the only place that opens DuckDB."""
