"""`anthropic:`, Anthropic's API."""

from __future__ import annotations

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

KEY_VARIABLES: Final = ("ANTHROPIC_API_KEY",)
MOST_TEMPERATURE: Final = 1.0


def _open(spec: Spec, options: BackboneOptions) -> Backbone:
    if (options.model.temperature or 0) > MOST_TEMPERATURE:
        raise BackboneConfigError(f"{spec.text} takes a temperature from 0 to 1, got {options.model.temperature:g}.")
    key, model = find_key(spec, *KEY_VARIABLES), spec.model()
    from trace_ves.backbone.anthropic.provider import AnthropicProvider  # the SDK is loaded when used

    return open_remote(AnthropicProvider(spec.text, model, key=key), options, paid=True)


register(
    Registration(
        "anthropic",
        forms=("anthropic:MODEL",),
        extra="anthropic",
        open=_open,
        variables=KEY_VARIABLES,
        settings=REMOTE_SETTINGS,
        default_model="claude-haiku-5-5",
        preference=3,
    )
)
