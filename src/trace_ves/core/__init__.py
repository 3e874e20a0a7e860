"""The nouns of the paper as plain values, and general helpers. Imports no other package."""

from trace_ves.core.errors import (
    BackboneConfigError,
    BackboneError,
    BudgetError,
    FormatError,
    InputError,
    MissingExtraError,
    PromptError,
    TraceVesError,
    UnknownStageError,
    VideoError,
)
from trace_ves.core.interval import Interval, centred_uniform
from trace_ves.core.observation import Clip, Frame, ObservationStrategy, VideoSource
from trace_ves.core.question import EVENT_COUNTING, TEMPORAL_ORDERING, Answer, Question, Termination

__all__ = [
    "EVENT_COUNTING",
    "TEMPORAL_ORDERING",
    "Answer",
    "BackboneConfigError",
    "BackboneError",
    "BudgetError",
    "Clip",
    "FormatError",
    "Frame",
    "InputError",
    "Interval",
    "MissingExtraError",
    "ObservationStrategy",
    "PromptError",
    "Question",
    "Termination",
    "TraceVesError",
    "UnknownStageError",
    "VideoError",
    "VideoSource",
    "centred_uniform",
]
