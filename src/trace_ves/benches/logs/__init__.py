"""Logs of other evaluation tools as runs that can be audited.

Reads what lmms-eval, VLMEvalKit and inspect_ai leave behind; needs none of them installed.
"""

from trace_ves.benches.logs.reading import LOG_FORMATS, read_log, read_logs

__all__ = ["LOG_FORMATS", "read_log", "read_logs"]
