"""Log which frames decord, PyAV, OpenCV or torchcodec hand to a program, with exact timestamps.

`trace_ves.recording(question_id)` logs inside a program; `python -m trace_ves.frame_log` logs a whole program.
"""

from trace_ves.benches.frame_log.recorder import Recording, recording

__all__ = ["Recording", "recording"]
