"""Every task is handed out once, a worker stays with its group, and none shares one while another is untouched."""

from __future__ import annotations

from itertools import cycle

from hypothesis import given
from hypothesis import strategies as st

from trace_ves.core.threads import GroupedQueue


@given(st.lists(st.integers(0, 4)), st.lists(st.integers(0, 3), min_size=1))
def test_groups_are_kept_together(groups: list[int], turns: list[int]) -> None:
    queue = GroupedQueue((group, place) for place, group in enumerate(groups))
    left = {group: [place for place, each in enumerate(groups) if each == group] for group in groups}
    own: dict[int, object] = {}
    begun: set[object] = set()
    for worker in cycle(turns):
        taken = queue.take(own.get(worker))
        if taken is None:
            break
        group, place = taken
        untouched = [each for each in left if each not in begun]
        if own.get(worker) in left:
            assert group == own[worker]
        elif untouched:
            assert group == untouched[0]
        else:
            assert len(left[group]) == max(map(len, left.values()))
        assert place == left[group].pop(0)
        own[worker] = group
        begun.add(group)
        if not left[group]:
            del left[group]
    assert not left
    assert not queue


def test_nothing_waits_in_an_empty_queue() -> None:
    assert GroupedQueue[str](()).take(None) is None
