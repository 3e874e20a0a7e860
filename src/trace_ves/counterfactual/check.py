"""One prediction, answered again from its clips: as they are, without one evidence interval, and without as much else.

The three go out as one batch through the same backbone and the prompt of final answer replay, so that nothing but the
masked frames differs between them.
"""

from __future__ import annotations

import hashlib
from contextlib import closing
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Final

from trace_ves.agent.final_answer_replay import PROMPT
from trace_ves.backbone.protocol import ModelFault, Request
from trace_ves.backbone.replies import answer_reply, question_variables, same_answer
from trace_ves.core import Clip, Interval
from trace_ves.counterfactual.masking import choose, is_evidence, outward
from trace_ves.observer import Observer
from trace_ves.recorded import recorded_bundle, recorded_clip, recorded_frames, refuse_other_video
from trace_ves.records.counterfactual import Masked, Outcome
from trace_ves.running.answering import opener_of
from trace_ves.running.video_pool import SharedVideo

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trace_ves.backbone.protocol import Backbone
    from trace_ves.counterfactual.masking import Mask
    from trace_ves.records import Item, Prediction

CHUNK: Final = 16
"""Moments that are decoded at a time in search of stand-ins."""


def is_reproduced(outcome: Outcome) -> bool:
    """Whether the clips alone give the prediction's answer; if not, a change says nothing about the mask."""
    return same_answer(outcome.answer, outcome.replayed)


def check(item: Item, prediction: Prediction, path: Path, backbone: Backbone, *, seed: int) -> Outcome:
    """Answer one question three times: unmasked, evidence masked, control masked."""
    opener = opener_of(backbone)
    if opener is None:
        refuse_other_video(prediction, path)
    with closing(SharedVideo(path, opener)) as video:
        observer = Observer(video, backbone)
        clips = tuple(recorded_clip(video, clip) for clip in recorded_bundle(prediction))
        clip_frames = sorted({frame.seconds for clip in clips for frame in clip.frames})
        supplied = sorted({*prediction.timestamps, *clip_frames})
        masks = choose(clip_frames, supplied, item.evidence, _draw(seed, item.question.id))
        swaps = {
            mask: swap
            for mask in (masks.evidence, masks.control)
            if mask is not None and (swap := _swap(observer, mask, item, clip_frames)) is not None
        }
        versions = [clips, *(_without(observer, clips, swap) for swap in swaps.values())]
        replayed, *answers = _answers(observer, item, versions)
        masked = {
            mask: _masked(mask, swap, answer, replayed)
            for (mask, swap), answer in zip(swaps.items(), answers, strict=True)
        }
        return Outcome(
            item.question.id,
            prediction.answer,
            replayed,
            evidence=masked.get(masks.evidence) if masks.evidence else None,
            control=masked.get(masks.control) if masks.control else None,
            observations=observer.log.calls,
            backbone=backbone.name,
            seed=seed,
        )


Swap = dict[float, float]
"""The timestamp of the frame that stands in for each masked one."""


def _draw(seed: int, question_id: str) -> Random:
    """Chance that depends on the seed and the question alone, not on the order of work."""
    return Random(hashlib.sha256(f"{seed}:{question_id}".encode()).digest())  # noqa: S311  chance, not a secret


def _swap(observer: Observer, mask: Mask, item: Item, clip_frames: Sequence[float]) -> Swap | None:
    """As many frames as are masked, from outside all evidence and not among the clips' own; None if there are not."""
    taken, wanted = set(clip_frames), len(mask.timestamps)
    found: set[float] = set()
    moments = outward(mask, observer.whole)
    while len(found) < wanted and (chunk := list(islice(moments, CHUNK))):
        for frame in observer.video.frames_at(chunk):
            usable = frame.seconds not in taken and not is_evidence(frame.seconds, (*item.evidence, mask.span))
            if usable and len(found) < wanted:
                found.add(frame.seconds)
    return dict(zip(mask.timestamps, sorted(found), strict=True)) if len(found) == wanted else None


def _without(observer: Observer, clips: Sequence[Clip], swap: Swap) -> tuple[Clip, ...]:
    """The clips with their stand-ins, each at the height of its clip."""
    return tuple(_without_frames(observer, clip, swap) for clip in clips)


def _without_frames(observer: Observer, clip: Clip, swap: Swap) -> Clip:
    """The clip with its stand-ins in order of time; its span follows its frames, so that it tells nothing untrue."""
    if not any(frame.seconds in swap for frame in clip.frames):
        return clip
    moments = sorted(swap.get(frame.seconds, frame.seconds) for frame in clip.frames)
    frames = recorded_frames(observer.video, moments, clip.strategy.height)
    return Clip(Interval(moments[0], moments[-1]), clip.strategy, frames)


def _answers(observer: Observer, item: Item, versions: Sequence[tuple[Clip, ...]]) -> list[str | None]:
    question = item.question
    requests = [Request(PROMPT, question_variables(question), answer_reply(question), clips) for clips in versions]
    return [None if isinstance(reply, ModelFault) else reply.answer for reply in observer.ask(requests)]


def _masked(mask: Mask, swap: Swap, answer: str | None, replayed: str | None) -> Masked:
    changed = answer is not None and not same_answer(answer, replayed)
    return Masked(mask.span, mask.timestamps, tuple(swap.values()), answer, changed=changed)
