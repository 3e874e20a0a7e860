"""`gemini:` and `vertex:`: Google's models, by API key or by cloud project."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from trace_ves.backbone.registry import (
    REMOTE_SETTINGS,
    BackboneOptions,
    Registration,
    Spec,
    find_key,
    open_remote,
    register,
)
from trace_ves.core import BackboneConfigError

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone

KEY_VARIABLES: Final = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
PROJECT_VARIABLE: Final = "GOOGLE_CLOUD_PROJECT"


def _open(spec: Spec, options: BackboneOptions) -> Backbone:
    project, model = os.environ.get(PROJECT_VARIABLE), spec.model()
    is_vertex = spec.text.startswith("vertex")
    if is_vertex and not project:
        raise BackboneConfigError(
            f"{spec.text} needs a Google Cloud project: set {PROJECT_VARIABLE} in the environment."
        )
    key = None if is_vertex else find_key(spec, *KEY_VARIABLES)
    from trace_ves.backbone.gemini.provider import GeminiProvider  # the SDK is loaded when used

    return open_remote(GeminiProvider(spec.text, model, key=key, project=project), options, paid=True)


for _scheme, _variables, _default_model, _preference in (
    ("gemini", KEY_VARIABLES, "gemini-3.8-flash", 1),
    ("vertex", (PROJECT_VARIABLE,), None, 2),
):
    register(
        Registration(
            _scheme,
            forms=(f"{_scheme}:MODEL",),
            extra="gemini",
            open=_open,
            variables=_variables,
            settings=REMOTE_SETTINGS | {"detail", "service_tier"},
            default_model=_default_model,
            preference=_preference,
        )
    )
