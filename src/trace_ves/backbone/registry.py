"""From a spec such as `openai:gpt-4o` to a backbone.

Knows which specs exist and what each needs. An SDK is imported only when a spec that needs it is opened.
"""

from __future__ import annotations

import ipaddress
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from trace_ves.core import BackboneConfigError, InputError, MissingExtraError
from trace_ves.core.plugins import import_callable, names_own_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from trace_ves.backbone.protocol import Backbone
    from trace_ves.backbone.provider import Key, Provider


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may set about a backbone beside its spec; None leaves it to the backbone."""

    cache: bool | None = None
    """Whether answers are kept and used again; None: for backbones that cost money."""
    temperature: float | None = None
    concurrency: int | None = None


def open_backbone(
    spec: str, *, cache: bool | None = None, temperature: float | None = None, concurrency: int | None = None
) -> Backbone:
    """The backbone that a spec names, ready to be asked. Nothing is sent yet."""
    scheme, _, rest = spec.partition(":")
    if scheme not in FACTORIES:
        if names_own_code(spec):
            return _own(spec)
        raise BackboneConfigError(f"There is no backbone {spec!r}; there are {', '.join(SPECS)}.")
    return FACTORIES[scheme](spec, rest, Options(cache=cache, temperature=temperature, concurrency=concurrency))


def _own(spec: str) -> Backbone:
    """Somebody's own backbone: what the callable `package.module:callable` gives back."""
    try:
        backbone: Backbone = import_callable(spec)()
    except InputError as error:
        raise BackboneConfigError(f"There is no backbone {spec!r}; there are {', '.join(SPECS)}. {error}") from error
    return backbone


def default_spec() -> str:
    """The spec of the first provider whose key is set, with a model that looks at frames well; glance where none is."""
    keyed = (spec for spec, variables in DEFAULTS.items() if any(os.environ.get(name) for name in variables))
    return next(keyed, EMBEDDED)


def _gemini(spec: str, model: str, options: Options) -> Backbone:
    key = _key(spec, "GEMINI_API_KEY", "GOOGLE_API_KEY")
    with _extra("gemini", spec):
        from trace_ves.backbone.gemini import GeminiProvider  # noqa: PLC0415  the SDK is loaded only when used
    return _remote(GeminiProvider.with_key(spec, _model(spec, model), key=key), options, paid=True)


def _vertex(spec: str, model: str, options: Options) -> Backbone:
    project = os.environ.get("GOOGLE_CLOUD_PROJECT")
    if not project:
        raise BackboneConfigError(f"{spec} needs a Google Cloud project: set GOOGLE_CLOUD_PROJECT in the environment.")
    with _extra("gemini", spec):
        from trace_ves.backbone.gemini import DEFAULT_LOCATION, GeminiProvider  # noqa: PLC0415  as above
    location = os.environ.get("GOOGLE_CLOUD_LOCATION") or DEFAULT_LOCATION
    provider = GeminiProvider.with_project(spec, _model(spec, model), project=project, location=location)
    return _remote(provider, options, paid=True)


def _anthropic(spec: str, model: str, options: Options) -> Backbone:
    key = _key(spec, "ANTHROPIC_API_KEY")
    with _extra("anthropic", spec):
        from trace_ves.backbone.anthropic import AnthropicProvider  # noqa: PLC0415  as above
    return _remote(AnthropicProvider(spec, _model(spec, model), key=key), options, paid=True)


def _openai(spec: str, rest: str, options: Options) -> Backbone:
    model, url = _split_url(rest)
    key = _key(spec, "OPENAI_API_KEY", placeholder="none" if url else None)
    with _extra("openai", spec):
        from trace_ves.backbone.openai import OpenAIProvider  # noqa: PLC0415  as above
    provider = OpenAIProvider(spec, _model(spec, model), key=key, base_url=url)
    return _remote(provider, options, paid=url is None or not _is_nearby(url))


def _glance(spec: str, rest: str, options: Options) -> Backbone:  # noqa: ARG001  one signature for all; it never samples
    if ":" in spec and not re.fullmatch(r"[1-9]\d{0,5}", rest):
        raise BackboneConfigError(
            f"The backbone {spec!r} cannot be used: write glance, or glance:N with the number of frames that one call "
            "sees at full size."
        )
    with _extra("glance", spec):
        from trace_ves.backbone.glance.glance import Glance  # noqa: PLC0415  as above

        return Glance.shipped(sharp_frames=int(rest) if rest else None)


def _hf(spec: str, rest: str, options: Options) -> Backbone:
    model = _model(spec, rest)
    with _extra("hf", spec):
        from trace_ves.backbone.transformers.backbone import TransformersBackbone  # noqa: PLC0415  torch is large
    backbone = TransformersBackbone.open(spec, model, temperature=options.temperature or 0.0)
    return _cached(backbone, backbone.answer_settings) if options.cache else backbone


FACTORIES: Final[dict[str, Callable[[str, str, Options], Backbone]]] = {
    "glance": _glance,
    "gemini": _gemini,
    "vertex": _vertex,
    "openai": _openai,
    "anthropic": _anthropic,
    "hf": _hf,
}
"""What opens the specs that begin with each word: called with the spec, what follows the colon, and the options."""

SPECS: Final = [
    "glance",
    "glance:FRAMES",
    "gemini:MODEL",
    "vertex:MODEL",
    "openai:MODEL",
    "openai:MODEL@http://host:port/v1",
    "anthropic:MODEL",
    "hf:MODEL_OR_PATH",
    "package.module:callable",
]
"""The forms a spec may have, for messages."""

EMBEDDED: Final = "glance"
"""The backbone that needs no key."""

DEFAULTS: Final = {
    "gemini:gemini-3-flash-preview": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "openai:gpt-5.4-mini": ("OPENAI_API_KEY",),
    "anthropic:claude-sonnet-5": ("ANTHROPIC_API_KEY",),
}
"""What `default_spec` chooses from, with the variables that hold a key for it. The first is the paper's backbone."""


def _remote(provider: Provider, options: Options, *, paid: bool) -> Backbone:
    """The provider with the batch machinery around it, and the response cache where it is wanted."""
    from trace_ves.backbone.remote import RemoteBackbone, RemoteSettings  # noqa: PLC0415  loaded when used

    settings = RemoteSettings()
    if options.temperature is not None:
        settings = replace(settings, temperature=options.temperature)
    if options.concurrency is not None:
        settings = replace(settings, concurrency=options.concurrency)
    backbone = RemoteBackbone(provider, settings)
    wanted = paid if options.cache is None else options.cache
    return _cached(backbone, backbone.answer_settings) if wanted else backbone


def _cached(backbone: Backbone, answer_settings: Mapping[str, object]) -> Backbone:
    from trace_ves.backbone.response_cache import CachedBackbone, default_path  # noqa: PLC0415  loaded when used

    return CachedBackbone(backbone, default_path(), answer_settings=answer_settings)


def _key(spec: str, *variables: str, placeholder: str | None = None) -> Key:
    from trace_ves.backbone.provider import Key  # noqa: PLC0415  loaded when used

    for variable in variables:
        if secret := os.environ.get(variable, "").strip():
            return Key(variable, secret)
    if placeholder is not None:
        return Key(variables[0], placeholder)
    raise BackboneConfigError(f"{spec} needs a key: set {' or '.join(variables)} in the environment.")


def _model(spec: str, model: str) -> str:
    if not model.strip():
        raise BackboneConfigError(f"The backbone {spec!r} names no model; write it as one of {', '.join(SPECS)}.")
    return model


def _split_url(rest: str) -> tuple[str, str | None]:
    """Model and base URL. A spec stands in run files, so its URL may hold no password."""
    found = re.fullmatch(r"(.*?)@(\w+://.*)", rest)
    if not found:
        return rest, None
    model, url = found.groups()
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


def _is_nearby(url: str) -> bool:
    """Whether a server is this machine or one of the local network, and so costs nothing per call."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".internal", ".lan"))


@contextmanager
def _extra(extra: str, spec: str) -> Iterator[None]:
    """Turns a missing SDK into the sentence that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("trace_ves"):
            raise
        raise MissingExtraError(f"The backbone {spec}", extra) from None
