"""Recording: which frames decord, PyAV, OpenCV or torchcodec hand to other people's code, with exact timestamps.

`trace_ves.recording(question_id)` records in a program; `python -m trace_ves.benches.frame_log` records a whole one.
"""

from trace_ves.benches.frame_log.recorder import Recording, recording

__all__ = ["Recording", "recording"]
