"""What the models of a build were asked and used, call by call, as the history keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trace_ves.records import Call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trace_ves.backbone.protocol import Backbone
    from trace_ves.construction.ledger import Ledger
    from trace_ves.observer import Observer


def calls_of(observer: Observer, backbone: Backbone) -> tuple[dict[str, Any], ...]:
    """The calls of an observer, each with the spec that it went to."""
    return tuple({"backbone": backbone.name} | call.to_json() for call in observer.log.calls)


def calls_in(ledger: Ledger) -> Iterator[tuple[str, Call]]:
    """Every call of the history, with its backbone."""
    for entry in ledger.entries:
        for call in entry.calls:
            yield str(call["backbone"]), Call.from_json(call)
