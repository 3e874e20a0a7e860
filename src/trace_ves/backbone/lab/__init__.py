"""`lab`, a laboratory for policies: the true world of a twin, simulated eyes, and glance's rules. No pixels."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trace_ves.backbone.registry import Registration, register
from trace_ves.core import BackboneConfigError

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone
    from trace_ves.backbone.registry import BackboneOptions, Spec


def _open(spec: Spec, _: BackboneOptions) -> Backbone:
    if ":" in spec.text and not re.fullmatch(r"[1-9]\d{0,8}", spec.rest):
        raise BackboneConfigError(
            f"There is no backbone {spec.text!r}: write lab, or lab:SEED with a whole number from 1 for its draws."
        )
    from trace_ves.backbone.lab.lab import Lab  # noqa: PLC0415  the twin's vocabulary is loaded when used

    return Lab(seed=int(spec.rest or 0))


register(Registration("lab", forms=("lab", "lab:SEED"), extra="glance", open=_open))
