"""Presentation of results: tables, pages, charts, the terminal."""
