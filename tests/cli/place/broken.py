"""A model of one's own that is down."""

from typing import Any

from trace_ves.core import BackboneError


class Model:
    """Answers nothing."""

    name = "broken:Model"

    def generate(self, batch: Any) -> Any:
        raise BackboneError(f"{len(batch)} requests, and the service is down")
