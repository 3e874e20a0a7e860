"""`gemini:` and `vertex:`, Google's models by key or by cloud project."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.registry import REMOTE_SETTINGS, Registration, find_key, open_remote, register
from trace_ves.core import BackboneConfigError

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone
    from trace_ves.backbone.registry import BackboneOptions, Spec

KEY_VARIABLES: Final = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
PROJECT_VARIABLE: Final = "GOOGLE_CLOUD_PROJECT"


def _open_gemini(spec: Spec, options: BackboneOptions) -> Backbone:
    key, model = find_key(spec, *KEY_VARIABLES), spec.model()
    from trace_ves.backbone.gemini.provider import GeminiProvider  # the SDK is loaded when used

    return open_remote(GeminiProvider(spec.text, model, key=key), options, paid=True)


def _open_vertex(spec: Spec, options: BackboneOptions) -> Backbone:
    project, model = os.environ.get(PROJECT_VARIABLE), spec.model()
    if not project:
        raise BackboneConfigError(
            f"{spec.text} needs a Google Cloud project: set {PROJECT_VARIABLE} in the environment."
        )
    from trace_ves.backbone.gemini.provider import GeminiProvider  # as above

    location = os.environ.get("GOOGLE_CLOUD_LOCATION") or "global"
    return open_remote(GeminiProvider(spec.text, model, project=project, location=location), options, paid=True)


register(
    Registration(
        "gemini",
        forms=("gemini:MODEL",),
        extra="gemini",
        open=_open_gemini,
        variables=KEY_VARIABLES,
        settings=REMOTE_SETTINGS | {"detail", "service_tier"},
        default_model="gemini-3.8-flash",
        preference=1,
    )
)
register(
    Registration(
        "vertex",
        forms=("vertex:MODEL",),
        extra="gemini",
        open=_open_vertex,
        variables=(PROJECT_VARIABLE,),
        settings=REMOTE_SETTINGS | {"detail", "service_tier"},
        preference=2,
    )
)
