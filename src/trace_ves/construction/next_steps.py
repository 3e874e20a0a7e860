"""What an operator should do next: whom to invite, which command to run."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from trace_ves.construction.assignments import judges_of
from trace_ves.construction.judged_item import VERDICTS_NEEDED
from trace_ves.construction.leave_one_out import needs_probe
from trace_ves.construction.ledger import Stage
from trace_ves.construction.people import Role, active_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trace_ves.construction.assignments import AssignmentQueue
    from trace_ves.construction.exposure import Exposures
    from trace_ves.construction.judged_item import ItemIndex, JudgedItem
    from trace_ves.construction.ledger import Ledger
    from trace_ves.construction.project import BuildSettings

MOST_NAMES: Final = 5  # items and videos that a sentence names at most


def next_steps(ledger: Ledger, items: ItemIndex, queue: AssignmentQueue, folder: str) -> list[str]:
    """What to do now, the most pressing first, each as a sentence with its command."""
    waiting = items.all(ledger)
    stages = [judged.state.waits_at for judged in waiting]
    if not waiting:
        return [f"Propose items: trace-ves build propose {folder} --captioner SPEC --proposer SPEC"]
    steps = list(_invitations(ledger, waiting, queue, folder))
    if count := stages.count(Stage.ADJUDICATION):
        has_adjudicator = bool(active_names(ledger, Role.ADJUDICATOR))
        who = "Let an adjudicator settle" if has_adjudicator else "Invite an adjudicator to settle"
        steps.append(f"{who} {count} disagreement{'s' if count > 1 else ''}: trace-ves build serve {folder}")
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
    return steps or ["No item was accepted; propose others, or put more footage into the build."]


def fewest_annotators(items: Iterable[JudgedItem], settings: BuildSettings) -> int:
    """Two who verify, and two for each partial set of the largest undecided item, or for all if not kept blind."""
    sizes = [
        len(judged.state.evidence or judged.proposal.evidence)
        for judged in items
        if judged.state.waits_at in {Stage.VERIFICATION, Stage.ADJUDICATION, Stage.LEAVE_ONE_OUT}
    ]
    pairs = 1 if settings.allow_not_blind else max(sizes, default=0)
    return VERDICTS_NEEDED * (1 + pairs) if sizes else 0


def find_shortages(
    items: Iterable[JudgedItem], exposures: Exposures, annotators: Sequence[str]
) -> Iterator[tuple[str, list[str], int]]:
    """Videos with too few people who have seen nothing of them, the items that wait, and how many more are needed."""
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
    """Whom to invite: enough people for the largest item, and people who have seen nothing of the videos that wait."""
    annotators = active_names(ledger, Role.ANNOTATOR)
    queue.exposures.update(ledger)
    shortages = [] if queue.settings.allow_not_blind else [*find_shortages(items, queue.exposures, annotators)]
    missing = max([fewest_annotators(items, queue.settings) - len(annotators), *(people for _, _, people in shortages)])
    names = [name for _, waiting, _ in shortages for name in waiting]
    if missing > 0:
        videos = _names([video for video, _, _ in shortages])
        why = f", who have seen nothing of {videos} (for {_names(names)})" if shortages else ""
        people = "1 more annotator" if missing == 1 else f"{missing} more annotators"
        yield f"Invite {people}{why}: trace-ves build invite {folder} NAME..."
    if stuck := [item for item, _ in queue.stuck() if item not in names]:
        yield f"Invite annotators who may judge {_items(len(stuck))} that no one here may judge: {_names(stuck)}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count} items"
