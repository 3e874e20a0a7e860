"""Registers `glance` and `lab`, the offline backbones for the twin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trace_ves.backbone.registry import BackboneOptions, Registration, Spec, register
from trace_ves.core import BackboneConfigError

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone


def _open_glance(spec: Spec, _: BackboneOptions) -> Backbone:
    match = re.fullmatch(r"glance(?::([1-9]\d{0,5}))?(?::seed=([1-9]\d{0,8}))?", spec.text)
    if match is None:
        raise BackboneConfigError(
            f"Unknown backbone {spec.text!r}; write glance, or glance:N, where N is the number of frames that one call "
            "sees at full size; add :seed=S for other forced choices."
        )
    from trace_ves.twin.glance.glance import Glance  # loads onnxruntime

    return Glance(sharp_frames=int(match[1]) if match[1] else None, seed=int(match[2] or 0))


register(
    Registration("glance", forms=("glance", "glance:FRAMES", "glance:seed=SEED"), extra="glance", open=_open_glance)
)


def _open_lab(spec: Spec, _: BackboneOptions) -> Backbone:
    match = re.fullmatch(r"lab(?::([1-9]\d{0,8}))?(?::noise=(0?\.\d{1,4}|1))?", spec.text)
    if match is None:
        raise BackboneConfigError(
            f"Unknown backbone {spec.text!r}; write lab, or lab:SEED with a whole number from 1; add :noise=P for the "
            "probability, up to 1, that a call misreads a fact."
        )
    from trace_ves.twin.lab import Lab  # loads the twin's vocabulary

    return Lab(seed=int(match[1] or 0), noise=float(match[2] or 0))


register(Registration("lab", forms=("lab", "lab:SEED", "lab:SEED:noise=P"), extra="glance", open=_open_lab))
