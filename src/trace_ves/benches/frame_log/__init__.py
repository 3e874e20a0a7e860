"""Log the frames that decord, PyAV, OpenCV or torchcodec return to a program, with exact timestamps.

Use `trace_ves.recording(question_id)` inside a program, or `python -m trace_ves.frame_log` for a whole program.
"""

from trace_ves.benches.frame_log.recorder import Recording, recording

__all__ = ["Recording", "recording"]
