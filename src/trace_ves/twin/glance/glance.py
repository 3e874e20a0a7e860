"""`glance`: the embedded backbone. A detector sees the pixels of a call's frames; fixed rules answer every stage.

It simulates reasoning over real detections and says nothing about vision-language models.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic import ValidationError

from trace_ves.backbone.protocol import Generation, ModelFault, R, Request
from trace_ves.core import Clip, UnknownStageError
from trace_ves.twin.glance import proposal, stage_rules, trace_rules
from trace_ves.twin.glance.eyes import TrainedEyes, cache_views, reduction_factor
from trace_ves.twin.glance.judgement import UNDETERMINED
from trace_ves.twin.glance.parsed_question import understand
from trace_ves.twin.glance.prompt_reading import CallContext
from trace_ves.twin.glance.sightings import Eyes, Moment, SeenClip, View

if TYPE_CHECKING:
    from trace_ves.core.observation import Picture

STAGES: Final[dict[str, Callable[[CallContext], dict[str, Any]]]] = {
    "claims": trace_rules.make_claims,
    "temporal-proposal": proposal.propose,
    "anchor-extraction": trace_rules.extract,
    "anchor-prioritization": trace_rules.prioritize,
    "evidence-assembly": trace_rules.assemble,
    "trajectory-reconciler": trace_rules.control,
    "final-answer-replay": trace_rules.answer,
    "forced-answer": trace_rules.forced,
    "same-answer": lambda _: {"same_as": None},  # glance always words the same answer in the same way
    "direct-answer": trace_rules.forced,
    "avp-plan": stage_rules.plan,
    "avp-observe": stage_rules.observe,
    "avp-reflect": stage_rules.reflect,
    "avp-answer": stage_rules.answer,
    "vca-reward": stage_rules.rate,
    "vca-explore": stage_rules.explore,
    "vca-answer": trace_rules.forced,
    "dense-caption": stage_rules.caption,
    "item-proposal": stage_rules.propose_items,
    "leave-one-out-probe": trace_rules.answer,
    "language-only-probe": trace_rules.answer,
    "gist-probe": stage_rules.answer_from_summary,
}
"""The rule for each stage, the same for every method."""

Look: TypeAlias = "Callable[[Picture, float], View]"
"""Maps a picture and the factor that divides its sides to a view."""


class RuleBackbone:
    """A backbone of fixed rules over detections, without state between calls."""

    def __init__(self, name: str, look: Look, *, sharp_frames: int | None = None, seed: int = 0) -> None:
        """`sharp_frames` is the number of frames that a call sees at full size; `seed` decides forced choices."""
        self.name = name
        self._seed = seed
        self._look = look
        self._sharp_frames = sharp_frames

    def generate(self, batch: Sequence[Request[R]]) -> Sequence[Generation[R]]:
        """Answer every request with the rule of its stage."""
        return [self._answer(request) for request in batch]

    def _answer(self, request: Request[R]) -> Generation[R]:
        began = time.monotonic()
        content = self.reply_to(request.stage, request.variables, request.clips, sample=request.sample)
        undetermined = bool(content.pop(UNDETERMINED, False))
        reply: R | ModelFault
        try:
            reply = request.reply.model_validate(content)
        except ValidationError as error:
            reply = ModelFault(
                f"{self.name}'s reply does not fit this stage: {error.errors()[0]['msg']}", raw=str(content)[:2000]
            )
        return Generation(reply, seconds=time.monotonic() - began, undetermined=undetermined)

    def reply_to(
        self, stage: str, variables: Mapping[str, Any], clips: Sequence[Clip], *, sample: int = 0
    ) -> dict[str, Any]:
        """The reply of a stage's rule to these variables and clips, as the JSON object that a model would write."""
        rule = STAGES.get(stage)
        if rule is None:
            raise UnknownStageError(f"{self.name} has no rule for the stage {stage!r}; it knows {', '.join(STAGES)}.")
        options = variables.get("options")  # text if the question is open
        asked = understand(str(variables.get("question", "")), dict(options) if isinstance(options, dict) else {})
        factor = reduction_factor((frame for clip in clips for frame in clip.frames), self._sharp_frames)
        seen = tuple(self._look_at(clip, factor) for clip in clips)
        return rule(self.read(stage, CallContext(asked, variables, seen, sample, self._seed)))

    def read(self, stage: str, context: CallContext) -> CallContext:  # noqa: ARG002  subclasses use it
        """The context for the rule; a subclass may misread the frames."""
        return context

    def _look_at(self, clip: Clip, factor: float) -> SeenClip:
        moments = [
            Moment(f.seconds, self._look(f.picture, factor), f.picture.width / max(1, f.picture.height))
            for f in clip.frames
        ]
        return SeenClip(clip.span, tuple(sorted(moments, key=lambda moment: moment.seconds)))


class Glance(RuleBackbone):
    """The offline backbone: no key, no GPU, no network. Its detector gets only pixels."""

    def __init__(self, eyes: Eyes | None = None, *, sharp_frames: int | None = None, seed: int = 0) -> None:
        """The default `eyes` are those of this package.

        With `sharp_frames`, a call sees as many pixels as that many frames of 640 x 360; more frames are scaled down.
        """
        name = ["glance", *([str(sharp_frames)] if sharp_frames else []), *([f"seed={seed}"] if seed else [])]
        super().__init__(":".join(name), cache_views(eyes or TrainedEyes()), sharp_frames=sharp_frames, seed=seed)
