"""Benchmarks: the bench format, and importers from the published ones. Imports `trace_ves.core` alone."""

from trace_ves.benches.bench import Bench, BenchScan, Problem, load_bench, scan_bench, write_bench

__all__ = ["Bench", "BenchScan", "Problem", "load_bench", "scan_bench", "write_bench"]
