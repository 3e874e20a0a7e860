"""The operator's next steps: whom to invite, which command to run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from trace_ves.construction.assignments import AssignmentQueue, judges_of
from trace_ves.construction.judged_item import VERDICTS_NEEDED, JudgedItem, list_items
from trace_ves.construction.ledger import Ledger, Stage
from trace_ves.construction.people import Role, active_names
from trace_ves.construction.probes import needs_probe
from trace_ves.core.display import count_words

if TYPE_CHECKING:
    from trace_ves.construction.exposure import Exposures
    from trace_ves.construction.project import BuildSettings

MOST_NAMES: Final = 5  # items and videos named in a sentence
_items: Final = partial(count_words, noun="item")


def next_steps(ledger: Ledger, queue: AssignmentQueue, folder: str) -> list[str]:
    """The next steps, the most urgent first, each as a sentence with its command."""
    waiting = list_items(ledger)
    stages = [judged.state.waits_at for judged in waiting]
    if not waiting:
        return [f"Propose items: trace-ves build propose {folder} --captioner SPEC --proposer SPEC"]
    steps = list(_invitations(ledger, waiting, queue, folder))
    if count := stages.count(Stage.ADJUDICATION):
        what = f"settle {count_words(count, 'disagreement')}: trace-ves build"
        if active_names(ledger, Role.ADJUDICATOR):
            steps.append(f"Let an adjudicator {what} serve {folder}")
        else:
            steps.append(f"Invite an adjudicator to {what} invite {folder} NAME --adjudicator")
    if count := sum(map(needs_probe, waiting)):
        steps.append(f"Ask a vision model about {_items(count)}: trace-ves build probe {folder} --backbone SPEC")
    if count := stages.count(Stage.SHORTCUT):
        steps.append(
            f"Probe {_items(count)} for shortcuts: trace-ves build shortcut {folder} --language SPEC --gist SPEC"
        )
    if count := stages.count(Stage.VERIFICATION) + stages.count(Stage.LEAVE_ONE_OUT):
        steps.append(f"Let annotators judge {_items(count)}: trace-ves build serve {folder}")
    if not steps and any(judged.state.accepted for judged in waiting):
        steps.append(f"Export the bench: trace-ves build export {folder} OUT")
    return steps or ["No item was accepted; propose others, or add more videos to the build."]


def fewest_annotators(items: Iterable[JudgedItem], settings: BuildSettings) -> int:
    """The number of annotators that the undecided items need: the maximum over videos.

    Two annotators watch a whole video. Each partial set of it needs two others who have seen nothing of it, and who
    cannot judge another one of the video afterwards. With `allow_not_blind`, two others are enough for all of them.
    """
    needs: dict[str, int] = defaultdict(int)
    waiting: set[str] = set()
    for judged in items:
        state, video = judged.state, judged.proposal.video
        if state.waits_at in {Stage.VERIFICATION, Stage.ADJUDICATION, Stage.LEAVE_ONE_OUT}:
            waiting.add(video)
        if state.rejected_at is not Stage.VERIFICATION:
            needs[video] += VERDICTS_NEEDED * len(state.evidence or judged.proposal.evidence)
    others = dict.fromkeys(waiting, VERDICTS_NEEDED) if settings.allow_not_blind else needs
    return max((VERDICTS_NEEDED + others[video] for video in waiting), default=0)


def find_shortages(
    items: Iterable[JudgedItem], exposures: Exposures, annotators: Sequence[str]
) -> Iterator[tuple[str, list[str], int]]:
    """Yield each video with too few annotators who have not seen it, its waiting items, and how many are missing."""
    needed: dict[str, dict[str, int]] = defaultdict(dict)
    for judged in items:
        if judged.state.waits_at is Stage.LEAVE_ONE_OUT:
            judges = [judges_of(judged, left_out) for left_out in range(len(judged.state.evidence))]
            if count := sum(max(0, VERDICTS_NEEDED - len(each)) for each in judges):
                needed[judged.proposal.video][judged.id] = count
    for video, counts in needed.items():
        fresh = sum(not exposures.has_seen(name, video) for name in annotators)
        if (missing := sum(counts.values()) - fresh) > 0:
            yield video, list(counts), missing


def _invitations(ledger: Ledger, items: list[JudgedItem], queue: AssignmentQueue, folder: str) -> Iterator[str]:
    """Suggest invitations, so that every waiting item has annotators who may judge it."""
    annotators = active_names(ledger, Role.ANNOTATOR)
    shortages = [] if queue.settings.allow_not_blind else [*find_shortages(items, queue.exposures, annotators)]
    needed = fewest_annotators(items, queue.settings)
    missing = max([needed - len(annotators), *(people for _, _, people in shortages)])
    names = [name for _, waiting, _ in shortages for name in waiting]
    if missing > 0:
        videos = _names([video for video, _, _ in shortages])
        why = f", who have seen nothing of {videos} (for {_names(names)})" if shortages else ""
        yield f"Invite {count_words(missing, 'more annotator')}{why}: trace-ves build invite {folder} NAME..."
        if not queue.settings.allow_not_blind:
            yield (
                f"To need fewer annotators, propose fewer items per video, use more videos, or set allow_not_blind ="
                f" true in {folder}/build.toml (then {2 * VERDICTS_NEEDED} are enough, and the report counts the"
                " answers of annotators who had seen other clips of the video)"
            )
    if stuck := [item for item, _ in queue.stuck() if item not in names]:
        yield f"Invite annotators for {_items(len(stuck))} that no current annotator may judge: {_names(stuck)}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")
