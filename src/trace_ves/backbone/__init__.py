"""The interface to a vision-language model, and its implementations."""

from trace_ves.backbone.protocol import Backbone, Generation, ModelFault, Prompt, R, Request
from trace_ves.backbone.registry import default_spec, open_backbone

__all__ = ["Backbone", "Generation", "ModelFault", "Prompt", "R", "Request", "default_spec", "open_backbone"]
