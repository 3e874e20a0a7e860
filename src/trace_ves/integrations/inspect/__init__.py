"""VES-Bench and the methods for inspect_ai: `inspect eval trace_ves/ves -T bench=BENCH --model MODEL`.

inspect_ai finds the task, the solvers and the scorer through the entry point `trace_ves`, which loads this module.
"""

from trace_ves.integrations.inspect.task import audit, avp, method, trace, uniform, vca, ves

__all__ = ["audit", "avp", "method", "trace", "uniform", "vca", "ves"]
