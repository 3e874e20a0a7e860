"""`openai:`, OpenAI and every server that speaks its chat completions."""

from __future__ import annotations

import ipaddress
import os
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from trace_ves.backbone.model_settings import Detail, ServerKind
from trace_ves.backbone.registry import (
    REMOTE_SETTINGS,
    BackboneOptions,
    Registration,
    Spec,
    find_key,
    open_remote,
    register,
)
from trace_ves.backbone.secret import host_variable
from trace_ves.core import BackboneConfigError

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone

KEY_VARIABLES: Final = ("OPENAI_API_KEY",)
AZURE_ENDPOINT_VARIABLE: Final = "AZURE_OPENAI_ENDPOINT"
_ADDRESSES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {  # by scheme: where it is, and the variable of its key
    "openrouter": ("https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    "groq": ("https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "azure": ("", ("AZURE_OPENAI_API_KEY",)),  # each customer has an address
    "ollama": ("http://localhost:11434/v1", ()),
    "lmstudio": ("http://localhost:1234/v1", ()),
}
_HOSTS: Final = {  # services by the end of their host's name, and the variable of their key
    "api.openai.com": KEY_VARIABLES[0],
    "openrouter.ai": "OPENROUTER_API_KEY",
    "api.groq.com": "GROQ_API_KEY",
    "openai.azure.com": "AZURE_OPENAI_API_KEY",
    "aliyuncs.com": "DASHSCOPE_API_KEY",
    "volces.com": "ARK_API_KEY",
}


def _open(spec: Spec, options: BackboneOptions) -> Backbone:
    scheme = spec.text.partition(":")[0]
    fixed, named = _ADDRESSES.get(scheme, ("", ()))
    model, url = (spec.rest, fixed) if scheme in _ADDRESSES else _split_url(spec.rest)
    if scheme == "azure":
        if not (endpoint := os.environ.get(AZURE_ENDPOINT_VARIABLE, "").rstrip("/")):
            raise BackboneConfigError(
                f"{spec.text} needs an address: set {AZURE_ENDPOINT_VARIABLE} to https://RESOURCE.openai.azure.com."
            )
        url = f"{endpoint.removesuffix('/openai/v1')}/openai/v1"
    if options.model.detail is Detail.MEDIUM:
        raise BackboneConfigError(f"{spec.text} accepts the details low and high, not medium.")
    if url is None and options.server is not ServerKind.AUTO:
        raise BackboneConfigError(
            f"{spec.text} is not your own server; leave out --server, or name one with @http://…."
        )
    host = urlsplit(url).hostname or "" if url else "api.openai.com"
    by_host = [variable for end, variable in _HOSTS.items() if f".{host}".endswith(f".{end}")]
    known = next(iter([*named, *by_host]), None)
    variable = known or host_variable(urlsplit(url or "").netloc)
    key, model = find_key(spec, variable, placeholder=None if known else "none"), spec.model(model)
    from trace_ves.backbone.openai.provider import OpenAIProvider  # the SDK is loaded when used

    server = ServerKind.OTHER if known and url else options.server
    hint = None if known else f"{variable}, since OPENAI_API_KEY is sent only to api.openai.com"
    provider = OpenAIProvider(spec.text, model, key=key, base_url=url, server=server, key_hint=hint)
    return open_remote(provider, options, paid=url is None or not is_local_network(url))


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


def is_local_network(url: str) -> bool:
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
        default_model="gpt-6.1-terra",
        preference=2,
    )
)
for _scheme, (_, _variables) in _ADDRESSES.items():
    register(
        Registration(
            _scheme,
            forms=(f"{_scheme}:{'DEPLOYMENT' if _scheme == 'azure' else 'MODEL'}",),
            extra="openai",
            open=_open,
            variables=_variables,
            settings=REMOTE_SETTINGS | {"detail"},
            preference=9,
        )
    )
