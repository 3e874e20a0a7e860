"""Registers `glance` and `lab`, the offline backbones for the twin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trace_ves.backbone.registry import Registration, register
from trace_ves.core import BackboneConfigError

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone
    from trace_ves.backbone.registry import BackboneOptions, Spec


def _open_glance(spec: Spec, _: BackboneOptions) -> Backbone:
    if ":" in spec.text and not re.fullmatch(r"[1-9]\d{0,5}", spec.rest):
        raise BackboneConfigError(
            f"The backbone {spec.text!r} cannot be used: write glance, or glance:N with the number of frames that one "
            "call sees at full size."
        )
    from trace_ves.twin.glance.glance import Glance  # its runtime is loaded when used

    return Glance.shipped(sharp_frames=int(spec.rest) if spec.rest else None)


register(Registration("glance", forms=("glance", "glance:FRAMES"), extra="glance", open=_open_glance))


def _open_lab(spec: Spec, _: BackboneOptions) -> Backbone:
    if ":" in spec.text and not re.fullmatch(r"[1-9]\d{0,8}", spec.rest):
        raise BackboneConfigError(
            f"There is no backbone {spec.text!r}: write lab, or lab:SEED with a whole number from 1 for its draws."
        )
    from trace_ves.twin.lab import Lab  # the twin's vocabulary is loaded when used

    return Lab(seed=int(spec.rest or 0))


register(Registration("lab", forms=("lab", "lab:SEED"), extra="glance", open=_open_lab))
