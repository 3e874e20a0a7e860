"""`openai:`, `openrouter:`, `groq:`, `azure:`, `ollama:` and `lmstudio:`: APIs compatible with OpenAI's."""

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
_ADDRESSES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {  # By scheme: its URL, and the variable of its key
    "openrouter": ("https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    "groq": ("https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "azure": ("", ("AZURE_OPENAI_API_KEY",)),  # Each customer has another address
    "ollama": ("http://localhost:11434/v1", ()),
    "lmstudio": ("http://localhost:1234/v1", ()),
}
_HOSTS: Final = {  # The variable of the key, by the end of the host name
    "api.openai.com": KEY_VARIABLES[0],
    "openrouter.ai": "OPENROUTER_API_KEY",
    "api.groq.com": "GROQ_API_KEY",
    "openai.azure.com": "AZURE_OPENAI_API_KEY",
    "aliyuncs.com": "DASHSCOPE_API_KEY",
    "volces.com": "ARK_API_KEY",
}


def _open(spec: Spec, options: BackboneOptions) -> Backbone:
    scheme = spec.text.partition(":")[0]
    address, variables = _ADDRESSES.get(scheme, ("", ()))
    model, url = (spec.rest, address) if scheme in _ADDRESSES else _split_url(spec.rest)
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
    service_variable = next(iter([*variables, *by_host]), None)
    variable = service_variable or host_variable(urlsplit(url or "").netloc)
    key, model = find_key(spec, variable, placeholder=None if service_variable else "none"), spec.model(model)
    from trace_ves.backbone.openai.provider import OpenAIProvider  # the SDK is loaded when used

    server = ServerKind.OTHER if service_variable and url else options.server
    hint = None if service_variable else f"{variable}, since OPENAI_API_KEY is sent only to api.openai.com"
    provider = OpenAIProvider(spec.text, model, key=key, base_url=url, server=server, key_hint=hint)
    return open_remote(provider, options, paid=url is None or not is_local_network(url))


def _split_url(rest: str) -> tuple[str, str | None]:
    """Model and base URL. The URL must not contain a password, because specs are written into run files."""
    match = re.fullmatch(r"(.*?)@(\w+://.*)", rest)
    if not match and "@" not in rest:
        return rest, None
    model, url = match.groups() if match else rest.rsplit("@", 1)
    try:
        split = urlsplit(url)
        is_usable = bool(split.hostname) and split.port != 0 and split.scheme in {"http", "https"}
        is_usable = is_usable and not ("@" in split.netloc or split.query or split.fragment)
    except ValueError:
        is_usable = False
    if not is_usable:
        advice = "it must look like http://host:port/v1, without user, password or query"
        raise BackboneConfigError(f"The URL after openai:{model}@ cannot be used: {advice}.")
    return model, url


def is_local_network(url: str) -> bool:
    """Whether a server is on this machine or the local network, so that calls cost nothing."""
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
