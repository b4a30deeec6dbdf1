"""Text to numbers: cells of tables to sparse rows, names kept once."""
