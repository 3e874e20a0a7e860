"""VES-Bench for inspect_ai, which loads this module through the entry point `trace_ves`."""

from trace_ves.integrations.inspect.task import audit, avp, method, trace, uniform, vca, ves

__all__ = ["audit", "avp", "method", "trace", "uniform", "vca", "ves"]
