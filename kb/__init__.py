"""The knowledge base: words, storage, records. Imports nothing of ingest or recommend (kb.cli excepted)."""
