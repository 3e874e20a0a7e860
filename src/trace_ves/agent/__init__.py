"""TRACE: `trace.py` is Algorithm 1, and each module of the paper has a file with its name."""

from trace_ves.agent.ablations import TRACE, VARIANTS
from trace_ves.agent.settings import DEFAULT_BUDGET, TraceSettings
from trace_ves.agent.trace import Trace

__all__ = ["DEFAULT_BUDGET", "TRACE", "VARIANTS", "Trace", "TraceSettings"]
