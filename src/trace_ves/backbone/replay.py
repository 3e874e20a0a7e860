"""`replay:FILE`: a backbone that gives the recorded replies of an earlier search, and looks at nothing.

A recording is what transcripts already are: `ask --record FILE`, the `transcript.json` of `ask --save`, or the
`.transcripts` of a run. It holds the stage, the times of the frames, the prompt and the reply of each call; no frames.
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

Place = tuple[str, tuple[int, ...]]  # a stage, and the frames it was given, in milliseconds


class Replay:
    """Matches requests by stage, frames and order, so that a recording survives changes of the prompts' wording.

    Where a recording has several questions, the prompt must be the same too: their storyboards show the same frames.
    """

    def __init__(self, transcripts: Sequence[Transcript], *, name: str = "replay") -> None:
        self.name: Final = name
        self.recorded_from: Final = sorted(
            {each.backbone for each in transcripts if each.backbone and each.backbone.isprintable()}
        )
        self._is_one = len(transcripts) == 1
        self._left: dict[Place, list[tuple[str, CallTranscript]]] = defaultdict(list)
        self._calls: dict[tuple[Place, str, int], CallTranscript] = {}  # what a request got, it gets again
        self._lock = Lock()
        for transcript in transcripts:
            for call in transcript.calls:
                if call.replies:  # a call that was remembered sent nothing
                    moments = (moment for clip in call.clips for moment in clip.timestamps)
                    self._left[_place(call.stage, moments)].append((transcript.prompt_of(call), call))

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """The recorded reply to each request; a `BackboneError` where there is none."""
        return [self._answer(request) for request in batch]

    def _answer(self, request: Request[R]) -> Generation[R]:
        call = self._find(request)
        said = call.replies[-1]
        if said.problem is not None:
            return Generation(ModelFault(said.problem, said.text), said=call.replies)
        try:
            return Generation(parse_reply(said.text, request.reply), said=call.replies)
        except InvalidReplyError as error:
            raise BackboneError(
                f"{self.name}: the recorded reply to the stage {request.stage!r} does not fit this version ({error}); "
                "record the search again with --record."
            ) from None

    def _find(self, request: Request[Any]) -> CallTranscript:
        place = _place(request.stage, (frame.seconds for clip in request.clips for frame in clip.frames))
        asked = (place, request.text, request.sample)
        with self._lock:
            if asked not in self._calls:
                left = self._left[place]
                same = [at for at, (prompt, _) in enumerate(left) if prompt == request.text]
                if not same and not (self._is_one and left):
                    raise BackboneError(
                        f"{self.name}: there is no recorded reply to the stage {request.stage!r} with these "
                        f"{request.frames_supplied} frames; the question, the video, the method or its rules differ "
                        "from those that were recorded."
                    )
                _, self._calls[asked] = left.pop(same[0] if same else 0)
            return self._calls[asked]


def _place(stage: str, moments: Iterable[float]) -> Place:
    return stage, tuple(round(1000 * moment) for moment in moments)


def _open_replay(spec: Spec, _: BackboneOptions) -> Backbone:
    path = Path(spec.rest)
    if not spec.rest.strip():
        raise BackboneConfigError("replay needs a recording: write replay:FILE, with a file that --record wrote.")
    return Replay(read_recording(path), name=f"replay:{path.name}")


register(Registration("replay", forms=("replay:FILE",), extra="video", open=_open_replay))
