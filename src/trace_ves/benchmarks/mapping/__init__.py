"""Any annotations as a bench: a mapping file says where each field of a question stands in somebody's own table."""

from trace_ves.benchmarks.mapping.mapping_file import Mapping, read_mapping
from trace_ves.benchmarks.mapping.reading import read

__all__ = ["Mapping", "read", "read_mapping"]
