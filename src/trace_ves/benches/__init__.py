"""Benches: their file format, importers of published ones, logs of other tools, and recorded frames."""

from trace_ves.benches.bench import Bench, BenchProblem, load_bench, write_bench

__all__ = ["Bench", "BenchProblem", "load_bench", "write_bench"]
