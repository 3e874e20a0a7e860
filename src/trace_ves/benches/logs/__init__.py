"""Logs of lmms-eval, VLMEvalKit and inspect_ai as runs that can be audited; none of them needs to be installed."""

from trace_ves.benches.logs.formats import LOG_FORMATS, Fields
from trace_ves.benches.logs.reading import read_log, read_logs

__all__ = ["LOG_FORMATS", "Fields", "read_log", "read_logs"]
