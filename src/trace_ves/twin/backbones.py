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
    found = re.fullmatch(r"glance(?::([1-9]\d{0,5}))?(?::seed=([1-9]\d{0,8}))?", spec.text)
    if found is None:
        raise BackboneConfigError(
            f"The backbone {spec.text!r} cannot be used: write glance, or glance:N with the number of frames that one "
            "call sees at full size; :seed=S behind it draws the forced choices again."
        )
    from trace_ves.twin.glance.glance import Glance  # its runtime is loaded when used

    return Glance.shipped(sharp_frames=int(found[1]) if found[1] else None, seed=int(found[2] or 0))


register(
    Registration("glance", forms=("glance", "glance:FRAMES", "glance:seed=SEED"), extra="glance", open=_open_glance)
)


def _open_lab(spec: Spec, _: BackboneOptions) -> Backbone:
    found = re.fullmatch(r"lab(?::([1-9]\d{0,8}))?(?::noise=(0?\.\d{1,4}|1))?", spec.text)
    if found is None:
        raise BackboneConfigError(
            f"There is no backbone {spec.text!r}: write lab, or lab:SEED with a whole number from 1 for its draws; "
            ":noise=P behind it, up to 1, is the chance that a call misreads a fact."
        )
    from trace_ves.twin.lab import Lab  # the twin's vocabulary is loaded when used

    return Lab(seed=int(found[1] or 0), noise=float(found[2] or 0))


register(Registration("lab", forms=("lab", "lab:SEED", "lab:SEED:noise=P"), extra="glance", open=_open_lab))
