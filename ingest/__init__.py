"""Bytes to experiments: find, open, recognise, parse, assemble. Imports kb only."""
