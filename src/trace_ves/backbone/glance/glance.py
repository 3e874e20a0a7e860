"""`glance`: the embedded backbone. Trained eyes see the pixels of a call's frames; stated rules answer every stage.

A simulation of reasoning over true recognition of pixels, never a claim about VLMs. It keeps nothing between calls.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from trace_ves.backbone.glance import anchors, answers, assembly, avp, construction, control, proposal, vca
from trace_ves.backbone.glance.asked import Asked, Kind, understand
from trace_ves.backbone.glance.case import Case
from trace_ves.backbone.glance.lexicon import lexicon
from trace_ves.backbone.glance.memory import Remembering
from trace_ves.backbone.glance.pictures import reduced, reduction
from trace_ves.backbone.glance.reading import ScreenReader, can_read, sightings_of
from trace_ves.backbone.glance.sightings import Moment, SeenClip, View
from trace_ves.backbone.protocol import Generation, ModelFault, R, Request
from trace_ves.core import UnknownStageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trace_ves.backbone.glance.lexicon import Lexicon
    from trace_ves.backbone.glance.reading import Reader
    from trace_ves.backbone.glance.sightings import Eyes
    from trace_ves.core import Clip, Frame

STAGES: Final[dict[str, Callable[[Case], dict[str, Any]]]] = {
    "claims": assembly.make_claims,
    "temporal-proposal": proposal.propose,
    "anchor-extraction": anchors.extract,
    "anchor-prioritization": anchors.prioritize,
    "evidence-assembly": assembly.assemble,
    "trajectory-reconciler": control.control,
    "final-answer-replay": answers.answer,
    "direct-answer": answers.answer,
    "avp-plan": avp.plan,
    "avp-observe": avp.observe,
    "avp-reflect": avp.reflect,
    "avp-answer": avp.answer,
    "vca-reward": vca.rate,
    "vca-explore": vca.explore,
    "vca-answer": answers.answer,
    "dense-caption": construction.caption,
    "item-proposal": construction.propose_items,
    "leave-one-out-probe": answers.answer,
    "language-only-probe": answers.answer,
    "gist-probe": construction.answer_from_summary,
}
"""The rule for each stage. The same rules serve every method."""


class Glance:
    """The embedded backbone: no key, no GPU, no network."""

    def __init__(
        self,
        eyes: Eyes,
        *,
        reader: Reader | None = None,
        words: Lexicon | None = None,
        sharp_frames: int | None = None,
    ) -> None:
        self.name = "glance" if sharp_frames is None else f"glance:{sharp_frames}"
        self._sharp_frames = sharp_frames
        self._eyes = eyes
        self._reader = reader
        self._lexicon = words or lexicon()

    @classmethod
    def shipped(cls, *, sharp_frames: int | None = None) -> Glance:
        """With the eyes that come with this package, and a reader of words where the extra `ocr` is installed.

        With `sharp_frames`, a call has the pixels of so many frames of 640 x 360: of more frames, each is seen smaller.
        """
        from trace_ves.backbone.glance.eyes import TrainedEyes  # noqa: PLC0415  needs the extra `glance`

        reader = Remembering(ScreenReader()) if can_read() else None
        return cls(Remembering(TrainedEyes()), reader=reader, sharp_frames=sharp_frames)

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer every request by the rule of its stage, from its own frames and words."""
        return [self._answered(request) for request in batch]

    def _answered(self, request: Request[R]) -> Generation[R]:
        began = time.monotonic()
        reply = self._reply(request)
        return Generation(reply, seconds=time.monotonic() - began)

    def _reply(self, request: Request[R]) -> R | ModelFault:
        rule = STAGES.get(request.stage)
        if rule is None:
            raise UnknownStageError(
                f"{self.name} has no rule for the stage {request.stage!r}; it knows {', '.join(STAGES)}."
            )
        said = rule(self._case(request))
        try:
            return request.reply.model_validate(said)
        except ValidationError as error:
            return ModelFault(
                f"glance's reply does not fit this stage: {error.errors()[0]['msg']}", raw=str(said)[:2000]
            )

    def _case(self, request: Request[Any]) -> Case:
        variables = request.variables
        asked = self._understood(str(variables.get("question", "")), dict(variables.get("options", {})))
        smaller = reduction((frame for clip in request.clips for frame in clip.frames), self._sharp_frames)
        clips = tuple(self._looked_at(clip, asked, smaller) for clip in request.clips)
        return Case(asked, variables, clips, self._lexicon, request.sample)

    def _understood(self, question: str, options: dict[str, str]) -> Asked:
        """What is asked; a question about words on the screen is not understood where nobody can read them."""
        asked = understand(question, options, self._lexicon)
        return Asked(question, options, Kind.UNKNOWN) if asked.written and self._reader is None else asked

    def _looked_at(self, clip: Clip, asked: Asked, smaller: float) -> SeenClip:
        moments = [Moment(frame.seconds, self._view(frame, asked, smaller)) for frame in clip.frames]
        return SeenClip(clip.span, tuple(sorted(moments, key=lambda moment: moment.seconds)))

    def _view(self, frame: Frame, asked: Asked, smaller: float) -> View:
        """What this frame's pixels show. Nothing but the pixels is handed on."""
        pixels = reduced(frame.rgb(), smaller)
        view = self._eyes(pixels)
        if asked.written and self._reader is not None:
            read = sightings_of(asked.written, self._reader(pixels))
            view = replace(view, sightings=view.sightings + read)
        return view
