"""Where events come from: simulated worlds, real data sets, files."""
