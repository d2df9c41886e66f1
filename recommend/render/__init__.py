"""Renderers of advice."""
