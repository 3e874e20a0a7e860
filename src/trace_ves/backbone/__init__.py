"""The one seam to a VLM, and what stands behind it."""

from trace_ves.backbone.protocol import Backbone, Generation, ModelFault, Prompt, Request

__all__ = ["Backbone", "Generation", "ModelFault", "Prompt", "Request"]
