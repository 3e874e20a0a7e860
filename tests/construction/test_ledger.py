"""The history and what follows from it, whatever is written and taken back in whatever order."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_ves.construction.ledger import Change, Ledger, StaleError

ACTIONS = st.lists(
    st.tuples(st.sampled_from(["write", "undo"]), st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 9)),
    max_size=40,
)


@given(ACTIONS)
def test_what_stands_is_what_a_plain_stack_says(actions: list[tuple[str, str, str, int]]) -> None:
    ledger, stacks = Ledger(), {}
    for what, subject, slot, value in actions:
        stack = stacks.setdefault((subject, slot), [])
        number = ledger.last_number + 1
        if what == "write":
            stack.append(value)
            change = Change(subject, slot, "ann", {"value": value})
            ledger.add(ledger.next_entry(change, number=number, at=0.0))
        elif stack:
            stack.pop()
            ledger.add(ledger.undo_entry(subject, slot, "ann", number=number, at=0.0))
        else:
            with pytest.raises(StaleError, match=f"{subject}: there is nothing to undo"):
                ledger.undo_entry(subject, slot, "ann", number=number, at=0.0)
    for (subject, slot), stack in stacks.items():
        if stack:
            with pytest.raises(StaleError, match="by another annotator"):
                ledger.undo_entry(subject, slot, "bob", number=99, at=0.0)
        assert ledger.value(subject, slot) == ({"value": stack[-1]} if stack else None)
        entries = [entry for entry in ledger.entries if (entry.subject, entry.slot) == (subject, slot)]
        assert [entry.revision for entry in entries] == list(range(1, len(entries) + 1))
        assert all(later.before == earlier.after for earlier, later in pairwise(entries))
