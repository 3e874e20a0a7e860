"""Recording: which frames decord, PyAV, OpenCV or torchcodec hand to other people's code, with exact timestamps.

`trace_ves.recording(question_id)` records in a program; `python -m trace_ves.record` records a whole one.
"""

from trace_ves.record.recorder import Recording, recording

__all__ = ["Recording", "recording"]
