"""`openai:`, OpenAI and every server that speaks its chat completions."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from trace_ves.backbone.model_settings import Detail, ServerKind
from trace_ves.backbone.registry import REMOTE_SETTINGS, Registration, find_key, open_remote, register
from trace_ves.core import BackboneConfigError

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone
    from trace_ves.backbone.registry import BackboneOptions, Spec

KEY_VARIABLES: Final = ("OPENAI_API_KEY",)


def _open(spec: Spec, options: BackboneOptions) -> Backbone:
    model, url = _split_url(spec.rest)
    if options.model.detail is Detail.MEDIUM:
        raise BackboneConfigError(f"{spec.text} knows the details low and high, not medium.")
    if url is None and options.server is not ServerKind.AUTO:
        raise BackboneConfigError(
            f"{spec.text} is no server of your own; leave out --server, or name one with @http://…."
        )
    key, model = find_key(spec, *KEY_VARIABLES, placeholder="none" if url else None), spec.model(model)
    from trace_ves.backbone.openai.provider import OpenAIProvider  # the SDK is loaded when used

    provider = OpenAIProvider(spec.text, model, key=key, base_url=url, server=options.server)
    return open_remote(provider, options, paid=url is None or not _is_local_network(url))


def _split_url(rest: str) -> tuple[str, str | None]:
    """Model and base URL. Specs are written into run files, so the URL may hold no password."""
    match = re.fullmatch(r"(.*?)@(\w+://.*)", rest)
    if not match and "@" not in rest:
        return rest, None
    model, url = match.groups() if match else rest.rsplit("@", 1)
    try:
        split = urlsplit(url)
        usable = bool(split.hostname) and split.port != 0 and split.scheme in {"http", "https"}
        usable = usable and not ("@" in split.netloc or split.query or split.fragment)
    except ValueError:
        usable = False
    if not usable:
        allowed = "it must look like http://host:port/v1, without user, password or query"
        raise BackboneConfigError(f"The URL after openai:{model}@ cannot be used: {allowed}.")
    return model, url


def _is_local_network(url: str) -> bool:
    """Whether a server is this machine or one of the local network, and so costs nothing per call."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".internal", ".lan"))


register(
    Registration(
        "openai",
        forms=("openai:MODEL", "openai:MODEL@http://host:port/v1"),
        extra="openai",
        open=_open,
        variables=KEY_VARIABLES,
        settings=REMOTE_SETTINGS | {"detail", "service_tier", "server"},
        default_model="gpt-5.4-mini",
        preference=2,
    )
)
