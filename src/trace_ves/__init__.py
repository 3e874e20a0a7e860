"""TRACE answers questions about long videos; VES-Bench audits what any method really looked at.

>>> from trace_ves import ask
>>> result = ask("movie.mp4", "Who opens the window?", options=["the woman", "the hunter"], backbone="gemini:...")

Everything named here is loaded when it is first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module

from trace_ves._version import __version__

TYPE_CHECKING = False  # `typing` takes long to import, and Ctrl-C would print a traceback until then
if TYPE_CHECKING:
    from typing import Any

    from trace_ves.agent import TRACE, Trace, TraceSettings
    from trace_ves.backbone import Backbone, Generation, ModelFault, Prompt, R, Request, open_backbone
    from trace_ves.backbone.replies import answer_reply, question_variables
    from trace_ves.benches.frame_log import Recording, recording
    from trace_ves.core import (
        Answer,
        Clip,
        Frame,
        InputError,
        Interval,
        ObservationStrategy,
        Question,
        Termination,
        TraceVesError,
        centred_uniform,
    )
    from trace_ves.observer import Method, Observer
    from trace_ves.records import Call, Item, ObservationLog, Prediction, Usage
    from trace_ves.runs.asking import AskResult, AskSession, ask
    from trace_ves.runs.evaluate import Results, evaluate
    from trace_ves.runs.methods import open_method
    from trace_ves.ves import audit
    from trace_ves.video import open as open_video

_CORE = "Answer Clip Frame InputError Interval ObservationStrategy Question Termination TraceVesError centred_uniform"
_BACKBONE = "Backbone Generation ModelFault Prompt R Request open_backbone"
_HOMES = {
    **{name: ("trace_ves.core", name) for name in _CORE.split()},
    **{name: ("trace_ves.records", name) for name in ("Call", "Item", "ObservationLog", "Prediction", "Usage")},
    **{name: ("trace_ves.backbone", name) for name in _BACKBONE.split()},
    **{name: ("trace_ves.backbone.replies", name) for name in ("answer_reply", "question_variables")},
    **{name: ("trace_ves.agent", name) for name in ("TRACE", "Trace", "TraceSettings")},
    **{name: ("trace_ves.observer", name) for name in ("Method", "Observer")},
    **{name: ("trace_ves.runs.asking", name) for name in ("AskResult", "AskSession", "ask")},
    "open_method": ("trace_ves.runs.methods", "open_method"),
    "open_video": ("trace_ves.video", "open"),
    "audit": ("trace_ves.ves", "audit"),
    **{name: ("trace_ves.benches.frame_log", name) for name in ("Recording", "recording")},
    "evaluate": ("trace_ves.runs.evaluate", "evaluate"),
    "Results": ("trace_ves.runs.evaluate", "Results"),
}

__all__ = [  # noqa: RUF022  in groups, as a reader looks for them
    "__version__",
    # ask
    "ask",
    "AskResult",
    "AskSession",
    "open_video",
    "open_backbone",
    "open_method",
    # run and audit
    "evaluate",
    "Results",
    "audit",
    "recording",
    "Recording",
    "Item",
    "Prediction",
    # extend
    "Observer",
    "Method",
    "Question",
    "Answer",
    "Termination",
    "Prompt",
    "Request",
    "R",
    "answer_reply",
    "question_variables",
    "Generation",
    "ModelFault",
    "Backbone",
    "Usage",
    "Trace",
    "TraceSettings",
    "TRACE",
    # observe
    "Interval",
    "Frame",
    "Clip",
    "ObservationStrategy",
    "ObservationLog",
    "Call",
    "centred_uniform",
    # errors
    "TraceVesError",
    "InputError",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'trace_ves' has no attribute {name!r}")
    home, attribute = _HOMES[name]
    value = getattr(import_module(home), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
