"""`glance`: the embedded backbone. Trained eyes see the pixels of a call's frames; stated rules answer every stage.

A simulation of reasoning over true recognition of pixels, never a claim about VLMs. It keeps nothing between calls.
"""

from __future__ import annotations

import time
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic import ValidationError

from trace_ves.backbone.protocol import Generation, ModelFault, R, Request
from trace_ves.core import UnknownStageError
from trace_ves.twin.glance import baseline_rules, construction, proposal, trace_rules
from trace_ves.twin.glance.eyes import MOST_PICTURES, PictureCache, reduction
from trace_ves.twin.glance.parsed_question import Kind, ParsedQuestion, lexicon, understand
from trace_ves.twin.glance.prompt_reading import CallContext
from trace_ves.twin.glance.reading import ScreenReader, can_read, sightings_of
from trace_ves.twin.glance.sightings import Moment, SeenClip, View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trace_ves.core import Clip, Frame
    from trace_ves.twin.glance.parsed_question import Lexicon
    from trace_ves.twin.glance.reading import Line, Reader
    from trace_ves.twin.glance.sightings import Eyes

STAGES: Final[dict[str, Callable[[CallContext], dict[str, Any]]]] = {
    "claims": trace_rules.make_claims,
    "temporal-proposal": proposal.propose,
    "anchor-extraction": trace_rules.extract,
    "anchor-prioritization": trace_rules.prioritize,
    "evidence-assembly": trace_rules.assemble,
    "trajectory-reconciler": trace_rules.control,
    "final-answer-replay": trace_rules.answer,
    "forced-answer": trace_rules.forced,
    "same-answer": trace_rules.match_answer,
    "direct-answer": trace_rules.forced,
    "avp-plan": baseline_rules.plan,
    "avp-observe": baseline_rules.observe,
    "avp-reflect": baseline_rules.reflect,
    "avp-answer": baseline_rules.answer,
    "vca-reward": baseline_rules.rate,
    "vca-explore": baseline_rules.explore,
    "vca-answer": trace_rules.forced,
    "dense-caption": construction.caption,
    "item-proposal": construction.propose_items,
    "leave-one-out-probe": trace_rules.answer,
    "language-only-probe": trace_rules.answer,
    "gist-probe": construction.answer_from_summary,
}
"""The rule for each stage. The same rules serve every method."""

Look: TypeAlias = "Callable[[Frame, ParsedQuestion, float], View]"
"""What is seen in a frame, for what is asked, with the sides of its picture divided by a factor first."""


class RuleBackbone:
    """A backbone of stated rules over what a look reports. It keeps nothing between calls."""

    def __init__(
        self,
        name: str,
        look: Look,
        *,
        reads: bool = False,
        words: Lexicon | None = None,
        sharp_frames: int | None = None,
    ) -> None:
        """`reads` says whether the look can read words; `sharp_frames`, how many frames a call sees at full size."""
        self.name = name
        self._look = look
        self._reads = reads
        self._lexicon = words or lexicon()
        self._sharp_frames = sharp_frames

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer every request by the rule of its stage, from its own frames and words."""
        return [self._answered(request) for request in batch]

    def _answered(self, request: Request[R]) -> Generation[R]:
        began = time.monotonic()
        reply = self._reply(request)
        return Generation(reply, seconds=time.monotonic() - began)

    def _reply(self, request: Request[R]) -> R | ModelFault:
        said = self.reply_to(request.stage, request.variables, request.clips, sample=request.sample)
        try:
            return request.reply.model_validate(said)
        except ValidationError as error:
            return ModelFault(
                f"{self.name}'s reply does not fit this stage: {error.errors()[0]['msg']}", raw=str(said)[:2000]
            )

    def reply_to(
        self, stage: str, variables: Mapping[str, Any], clips: Sequence[Clip], *, sample: int = 0
    ) -> dict[str, Any]:
        """What the rule of a stage replies to these variables and clips: the JSON object that a model would write."""
        rule = STAGES.get(stage)
        if rule is None:
            raise UnknownStageError(f"{self.name} has no rule for the stage {stage!r}; it knows {', '.join(STAGES)}.")
        options = variables.get("options")  # words where there are none
        asked = self._understood(str(variables.get("question", "")), dict(options) if isinstance(options, dict) else {})
        smaller = reduction((frame for clip in clips for frame in clip.frames), self._sharp_frames)
        seen = tuple(self._looked_at(clip, asked, smaller) for clip in clips)
        return rule(CallContext(asked, variables, seen, self._lexicon, sample))

    def _understood(self, question: str, options: dict[str, str]) -> ParsedQuestion:
        """What is asked; a question about words on the screen is not understood where nobody can read them."""
        asked = understand(question, options, self._lexicon)
        return ParsedQuestion(question, options, Kind.UNKNOWN) if asked.written and not self._reads else asked

    def _looked_at(self, clip: Clip, asked: ParsedQuestion, smaller: float) -> SeenClip:
        moments = [
            Moment(frame.seconds, self._look(frame, asked, smaller), frame.picture.width / max(1, frame.picture.height))
            for frame in clip.frames
        ]
        return SeenClip(clip.span, tuple(sorted(moments, key=lambda moment: moment.seconds)))


class Glance(RuleBackbone):
    """The embedded backbone: no key, no GPU, no network."""

    def __init__(
        self,
        eyes: Eyes,
        *,
        reader: Reader | None = None,
        words: Lexicon | None = None,
        sharp_frames: int | None = None,
        remembered_pictures: int = 0,
    ) -> None:
        """`remembered_pictures` says for how many pictures it is kept what was found, which only saves time."""
        look = PixelLook(
            PictureCache(eyes, remembered_pictures), PictureCache(reader, remembered_pictures) if reader else None
        )
        super().__init__(_name(sharp_frames), look, reads=reader is not None, words=words, sharp_frames=sharp_frames)

    @classmethod
    def shipped(cls, *, sharp_frames: int | None = None) -> Glance:
        """With the eyes that come with this package, and a reader of words where the extra `ocr` is installed.

        With `sharp_frames`, a call has the pixels of so many frames of 640 x 360: of more frames, each is seen smaller.
        """
        from trace_ves.twin.glance.eyes import TrainedEyes  # needs the extra `glance`

        reader = ScreenReader() if can_read() else None
        return cls(TrainedEyes(), reader=reader, sharp_frames=sharp_frames, remembered_pictures=MOST_PICTURES)

    def with_sharp_frames(self, sharp_frames: int | None) -> Glance:
        """The same eyes, with so many frames of a call seen at full size."""
        other = copy(self)
        other.name = _name(sharp_frames)
        other._sharp_frames = sharp_frames
        return other


def _name(sharp_frames: int | None) -> str:
    return "glance" if sharp_frames is None else f"glance:{sharp_frames}"


@dataclass(frozen=True, slots=True)
class PixelLook:
    """Looks at the pixels of a frame. Nothing but the pixels is handed on."""

    eyes: PictureCache[View]
    reader: PictureCache[tuple[Line, ...]] | None = None

    def __call__(self, frame: Frame, asked: ParsedQuestion, smaller: float) -> View:
        """What this frame's pixels show: things and scene, and the words that are asked for."""
        view = self.eyes(frame.picture, smaller)
        if asked.written and self.reader is not None:
            read = sightings_of(asked.written, self.reader(frame.picture, smaller))
            view = replace(view, sightings=view.sightings + read)
        return view
