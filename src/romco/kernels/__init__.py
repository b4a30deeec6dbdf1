"""Hot loops, compiled ahead of time; they know arrays only."""
