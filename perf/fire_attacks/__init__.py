"""The attacks of `perf/fire.py`, by kind: kills, disks and clocks, mutants, model servers."""
