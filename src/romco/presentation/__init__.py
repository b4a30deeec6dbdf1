"""Presentation of results: tables, pages, figures, the terminal."""
