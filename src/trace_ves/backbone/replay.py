"""`replay:FILE`: a backbone that returns the recorded replies of an earlier search.

A recording is a file of transcripts: from `ask --record FILE`, the `transcript.json` of `ask --save`, or the
`.transcripts` of a run. It has the stage, the times of the frames, the prompt and the reply of each call.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final

from trace_ves.backbone.protocol import Backbone, Generation, ModelFault, R, Request
from trace_ves.backbone.registry import BackboneOptions, Registration, Spec, register
from trace_ves.backbone.replies import InvalidReplyError, parse_reply
from trace_ves.core import BackboneConfigError, BackboneError
from trace_ves.records.transcript import CallTranscript, Transcript, read_recording

FrameKey = tuple[str, tuple[int, ...]]  # A stage, and the times of its frames in milliseconds


class Replay:
    """Matches requests by stage, frames and order, so that the wording of prompts may change.

    In a recording of several questions, the prompt must be equal too: their storyboards have the same frames.
    """

    def __init__(self, transcripts: Sequence[Transcript], *, name: str = "replay") -> None:
        self.name: Final = name
        self.recorded_from: Final = sorted(
            {each.backbone for each in transcripts if each.backbone and each.backbone.isprintable()}
        )
        self._is_one = len(transcripts) == 1
        self._unused: dict[FrameKey, list[tuple[str, CallTranscript]]] = defaultdict(list)
        self._calls: dict[tuple[FrameKey, str, int], CallTranscript] = {}  # An equal request gets an equal reply
        self._lock = Lock()
        for transcript in transcripts:
            for call in transcript.calls:
                if call.replies:  # a remembered call sent nothing
                    moments = (moment for clip in call.clips for moment in clip.timestamps)
                    self._unused[_frame_key(call.stage, moments)].append((transcript.prompt_of(call), call))

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """The recorded reply to each request. Raises `BackboneError` if there is none."""
        return [self._answer(request) for request in batch]

    def _answer(self, request: Request[R]) -> Generation[R]:
        call = self._find(request)
        last = call.replies[-1]
        if last.problem is not None:
            return Generation(ModelFault(last.problem, last.text), texts=call.replies)
        try:
            return Generation(parse_reply(last.text, request.reply), texts=call.replies)
        except InvalidReplyError as error:
            raise BackboneError(
                f"{self.name}: the recorded reply to the stage {request.stage!r} does not fit this version ({error}); "
                "record the search again with --record."
            ) from None

    def _find(self, request: Request[Any]) -> CallTranscript:
        frame_key = _frame_key(request.stage, (frame.seconds for clip in request.clips for frame in clip.frames))
        key = (frame_key, request.text, request.sample)
        with self._lock:
            if key not in self._calls:
                unused = self._unused[frame_key]
                same_prompt = [at for at, (prompt, _) in enumerate(unused) if prompt == request.text]
                if not same_prompt and not (self._is_one and unused):
                    raise BackboneError(
                        f"{self.name}: there is no recorded reply to the stage {request.stage!r} with these "
                        f"{request.frames_supplied} frames; the question, the video, the method or its rules differ "
                        "from those that were recorded."
                    )
                _, self._calls[key] = unused.pop(same_prompt[0] if same_prompt else 0)
            return self._calls[key]


def _frame_key(stage: str, moments: Iterable[float]) -> FrameKey:
    return stage, tuple(round(1000 * moment) for moment in moments)


def _open_replay(spec: Spec, _: BackboneOptions) -> Backbone:
    path = Path(spec.rest)
    if not spec.rest.strip():
        raise BackboneConfigError("replay needs a recording: write replay:FILE, with a file that --record wrote.")
    return Replay(read_recording(path), name=f"replay:{path.name}")


register(Registration("replay", forms=("replay:FILE",), extra="video", open=_open_replay))
