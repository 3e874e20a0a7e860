"""What an operator should do next, from where the items of a build are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trace_ves.construction.people import Role, active
from trace_ves.construction.stages import Stage

if TYPE_CHECKING:
    from trace_ves.construction.assignments import AssignmentQueue
    from trace_ves.construction.item_index import ItemIndex
    from trace_ves.construction.ledger import Ledger

FEWEST_ANNOTATORS: Final = 4
"""Two who verify a video, and two others who judge its partial sets."""


def next_steps(ledger: Ledger, items: ItemIndex, queue: AssignmentQueue, folder: str) -> list[str]:
    """What is to be done now, the most pressing first, each as a sentence with its command."""
    indexed = items.all(ledger)
    waiting = [standing.waits_at for _, standing in indexed]
    steps: list[str] = []
    if not indexed:
        return [f"Propose items: trace-ves build propose {folder} --captioner SPEC --proposer SPEC"]
    annotators = active(ledger, Role.ANNOTATOR)
    if len(annotators) < FEWEST_ANNOTATORS and any(stage is not None for stage in waiting):
        missing = FEWEST_ANNOTATORS - len(annotators)
        steps.append(f"Invite {missing} more annotators: trace-ves build invite {folder} NAME...")
    if stuck := queue.stuck():
        names = ", ".join(item for item, _ in stuck[:5]) + (", …" if len(stuck) > 5 else "")
        steps.append(
            f"Invite annotators who have not seen the videos of {len(stuck)} items that nobody may judge: {names}"
        )
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


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count} items"
