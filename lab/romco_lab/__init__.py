"""Reports, data sets, label study, fuzzers and mutation tests; not part of the wheel."""
