"""`vllm:`: a model on the GPUs of this machine, served by vLLM in a separate process and environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trace_ves.backbone.registry import REMOTE_SETTINGS, BackboneOptions, Registration, Spec, add_cache, register
from trace_ves.core import BackboneConfigError

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone


def _open(spec: Spec, options: BackboneOptions) -> Backbone:
    model = spec.model()
    if model.startswith("-"):
        raise BackboneConfigError(f"{spec.text} names no model: {model!r} is an option of vLLM.")
    from trace_ves.backbone.vllm.backbone import VllmBackbone  # the SDK is loaded when used

    backbone = VllmBackbone(spec.text, model, options)
    return add_cache(backbone) if options.cache else backbone


register(
    Registration(
        "vllm", forms=("vllm:MODEL_OR_PATH",), extra="openai", open=_open, settings=REMOTE_SETTINGS - {"reply_format"}
    )
)
