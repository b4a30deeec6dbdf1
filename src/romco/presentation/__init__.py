"""How results look: tables, pages, figures, the terminal."""
