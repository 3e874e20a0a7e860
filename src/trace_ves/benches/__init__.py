"""Benchmarks: the bench format, and importers from the published ones. Imports `trace_ves.core` alone."""

from trace_ves.benches.bench import Bench, Problem, load_bench, write_bench

__all__ = ["Bench", "Problem", "load_bench", "write_bench"]
