"""`hf:`: a model on this machine, by transformers. All bundles of a trajectory share one prefill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trace_ves.backbone.registry import BackboneOptions, Registration, Spec, add_cache, register

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone


def _open(spec: Spec, options: BackboneOptions) -> Backbone:
    model = spec.model()
    from trace_ves.backbone.hf.backbone import TransformersBackbone  # torch is large

    backbone = TransformersBackbone.open(spec.text, model, temperature=options.model.temperature or 0.0)
    return add_cache(backbone) if options.cache else backbone


register(Registration("hf", forms=("hf:MODEL_OR_PATH",), extra="hf", open=_open, settings=frozenset({"temperature"})))
