"""What an operator should do next, from where the items of a build are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trace_ves.construction.people import Role, active
from trace_ves.construction.staffing import fewest_annotators, shortages
from trace_ves.construction.stages import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trace_ves.construction.assignments import AssignmentQueue
    from trace_ves.construction.item_index import IndexedItem, ItemIndex
    from trace_ves.construction.ledger import Ledger

NAMED: Final = 5
"""Items and videos that a sentence names at most."""


def next_steps(ledger: Ledger, items: ItemIndex, queue: AssignmentQueue, folder: str) -> list[str]:
    """What is to be done now, the most pressing first, each as a sentence with its command."""
    indexed = items.all(ledger)
    waiting = [standing.waits_at for _, standing in indexed]
    steps: list[str] = []
    if not indexed:
        return [f"Propose items: trace-ves build propose {folder} --captioner SPEC --proposer SPEC"]
    steps += _invitations(ledger, indexed, queue, folder)
    if Stage.ADJUDICATION in waiting:
        count = waiting.count(Stage.ADJUDICATION)
        who = "Let an adjudicator settle" if active(ledger, Role.ADJUDICATOR) else "Invite an adjudicator to settle"
        steps.append(f"{who} {count} disagreement{'s' if count > 1 else ''}: trace-ves build serve {folder}")
    unprobed = [
        judged.id
        for judged, standing in indexed
        if standing.waits_at is Stage.LEAVE_ONE_OUT
        and len(judged.probes_of(standing.evidence)) < len(standing.evidence)
    ]
    if unprobed:
        steps.append(
            f"Ask a vision model about {_items(len(unprobed))}: trace-ves build probe {folder} --backbone SPEC"
        )
    if count := waiting.count(Stage.SHORTCUT):
        steps.append(
            f"Probe {_items(count)} for shortcuts: trace-ves build shortcut {folder} --language SPEC --gist SPEC"
        )
    if people := waiting.count(Stage.VERIFICATION) + waiting.count(Stage.LEAVE_ONE_OUT):
        steps.append(f"Let annotators judge {_items(people)}: trace-ves build serve {folder}")
    if not steps and any(standing.accepted for _, standing in indexed):
        steps.append(f"Export the bench: trace-ves build export {folder} OUT")
    return steps or ["No item was accepted; propose others, or put more footage into the build."]


def _invitations(ledger: Ledger, indexed: list[IndexedItem], queue: AssignmentQueue, folder: str) -> Iterator[str]:
    """Whom to invite: enough people for the largest item, and people who have seen nothing of the videos that wait."""
    annotators = active(ledger, Role.ANNOTATOR)
    queue.exposures.update(ledger)
    short = [] if queue.settings.allow_not_blind else shortages(indexed, queue.exposures, annotators)
    missing = max([fewest_annotators(indexed, queue.settings) - len(annotators), *(each.people for each in short)])
    if missing > 0:
        why = ""
        if short:
            items = _names([item for each in short for item in each.items])
            why = f", who have seen nothing of {_names([each.video for each in short])} (for {items})"
        people = "1 more annotator" if missing == 1 else f"{missing} more annotators"
        yield f"Invite {people}{why}: trace-ves build invite {folder} NAME..."
    covered = {item for each in short for item in each.items}
    if stuck := [item for item, _ in queue.stuck() if item not in covered]:
        yield f"Invite annotators who may judge {_items(len(stuck))} that nobody here may judge: {_names(stuck)}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count} items"
