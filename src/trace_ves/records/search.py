"""A method's account of its search, as it stands under `trajectory` in a run file: one of ours, or the method's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Discriminator, Tag, TypeAdapter, ValidationError

from trace_ves.records.avp import AvpRecord
from trace_ves.records.trace import TraceRecord
from trace_ves.records.vca import VcaRecord

SearchRecord = TraceRecord | AvpRecord | VcaRecord


def _kind(record: Any) -> object:
    """What a record says it is; version 0.1.0 did not say, but each of its records has a key of its own."""
    if not isinstance(record, Mapping):
        return getattr(record, "kind", None)
    if "kind" in record:
        return record["kind"] if isinstance(record["kind"], str) else None
    return next((kind for key, kind in _KINDS_BY_KEY.items() if key in record), None)


_KINDS_BY_KEY: Final = {"claims": "trace", "steps": "vca", "rounds": "avp"}
TaggedSearch = Annotated[
    Annotated[TraceRecord, Tag("trace")] | Annotated[AvpRecord, Tag("avp")] | Annotated[VcaRecord, Tag("vca")],
    Discriminator(_kind),
]
_ADAPTER: Final[TypeAdapter[SearchRecord]] = TypeAdapter(TaggedSearch)


def read_search(trajectory: Mapping[str, object]) -> SearchRecord | None:
    """The search in a `trajectory`; None where it is the method's own record, which only the method can read."""
    try:
        return _ADAPTER.validate_python(trajectory)
    except ValidationError:
        return None
