"""What all benchmark formats share: names and units of measures, tables, forgiving JSON, building a reading.

Owns nothing that belongs to one tool; those are the modules in ``ingest/formats``.
"""
