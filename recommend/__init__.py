"""Evidence to advice. Pure: no clock, no files, no database. Imports kb only."""
