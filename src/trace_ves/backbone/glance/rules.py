"""The rules behind glance: every stage is answered from what was seen in the frames of a call, and from its words.

Knows nothing of how frames are looked at: whoever makes a `RuleBackbone` brings the look. The same rules serve all.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic import ValidationError

from trace_ves.backbone.glance import anchors, answers, assembly, avp, construction, control, proposal, vca
from trace_ves.backbone.glance.call_context import CallContext
from trace_ves.backbone.glance.lexicon import lexicon
from trace_ves.backbone.glance.parsed_question import Kind, ParsedQuestion, understand
from trace_ves.backbone.glance.pictures import reduction
from trace_ves.backbone.glance.sightings import Moment, SeenClip, View
from trace_ves.backbone.protocol import Generation, ModelFault, R, Request
from trace_ves.core import UnknownStageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trace_ves.backbone.glance.lexicon import Lexicon
    from trace_ves.core import Clip, Frame

STAGES: Final[dict[str, Callable[[CallContext], dict[str, Any]]]] = {
    "claims": assembly.make_claims,
    "temporal-proposal": proposal.propose,
    "anchor-extraction": anchors.extract,
    "anchor-prioritization": anchors.prioritize,
    "evidence-assembly": assembly.assemble,
    "trajectory-reconciler": control.control,
    "final-answer-replay": answers.answer,
    "forced-answer": answers.forced,
    "same-answer": assembly.match_answer,
    "direct-answer": answers.forced,
    "avp-plan": avp.plan,
    "avp-observe": avp.observe,
    "avp-reflect": avp.reflect,
    "avp-answer": avp.answer,
    "vca-reward": vca.rate,
    "vca-explore": vca.explore,
    "vca-answer": answers.forced,
    "dense-caption": construction.caption,
    "item-proposal": construction.propose_items,
    "leave-one-out-probe": answers.answer,
    "language-only-probe": answers.answer,
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
        asked = self._understood(str(variables.get("question", "")), dict(variables.get("options", {})))
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
