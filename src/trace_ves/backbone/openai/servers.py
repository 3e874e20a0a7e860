"""Servers of one's own that speak OpenAI's chat completions: what each keeps of requests it has read, and who is who.

Pure rules over what a server says of itself; knows no HTTP. Read from the servers' own sources:

vLLM       shares the blocks of everything it reads, also between requests that come together; finds a frame by its uuid
SGLang     shares by a radix tree, and holds queued requests that begin alike back until the first of them was read
llama.cpp  keeps what each of its slots read last; a request is put where most of its beginning is
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from trace_ves.backbone.model_settings import ServerKind
from trace_ves.backbone.prefix_plan import PrefixCache, SendOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MODELS_PATH: Final = "/v1/models"
MOST_SLOTS: Final = 1024


@dataclass(frozen=True, slots=True)
class ServerProfile:
    """How one kind of server is asked."""

    kind: ServerKind
    prefix_cache: PrefixCache = field(default_factory=PrefixCache)
    takes_uuid: bool = False
    """Whether a frame is sent with a name by which the server finds it again."""


PROFILES: Final = {
    profile.kind: profile
    for profile in (
        ServerProfile(ServerKind.VLLM, takes_uuid=True),
        ServerProfile(ServerKind.SGLANG),
        ServerProfile(ServerKind.LLAMA_CPP, PrefixCache(SendOrder.GROWING, parallel=1)),
        ServerProfile(ServerKind.OTHER, takes_uuid=True),
    )
}

_OWNERS: Final = {
    "vllm": ServerKind.VLLM,
    "sglang": ServerKind.SGLANG,
    "llamacpp": ServerKind.LLAMA_CPP,
}
"""What each writes into `owned_by` of its models."""


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What a server said when it was asked about itself; both empty where it said nothing that can be used."""

    body: object = None
    headers: Mapping[str, str] | None = None


def recognise(ask: Callable[[str], ServerAnswer]) -> ServerProfile:
    """The profile of a server, from its answers to GET requests; `ask` gets a path under the server's root."""
    models = ask(MODELS_PATH)
    kind = _kind_of_models(models.body) or _kind_of_headers(models.headers or {})
    if kind is None and _has(ask("/version").body, "version"):
        kind = ServerKind.VLLM
    if kind in {None, ServerKind.LLAMA_CPP}:
        props = ask("/props").body
        if kind is ServerKind.LLAMA_CPP or _has(props, "total_slots"):
            return profile_of_llama_cpp(props)
    return PROFILES[kind or ServerKind.OTHER]


def profile_of_llama_cpp(props: object) -> ServerProfile:
    """llama.cpp with as many requests at once as it has slots, where it says how many."""
    profile = PROFILES[ServerKind.LLAMA_CPP]
    slots = props.get("total_slots") if isinstance(props, dict) else None
    if type(slots) is not int or not 1 <= slots <= MOST_SLOTS:
        return profile
    return replace(profile, prefix_cache=replace(profile.prefix_cache, parallel=slots))


def _kind_of_models(body: object) -> ServerKind | None:
    models: Any = body.get("data") if isinstance(body, dict) else None
    for model in models if isinstance(models, list) else []:
        owner = model.get("owned_by") if isinstance(model, dict) else None
        if isinstance(owner, str) and owner in _OWNERS:
            return _OWNERS[owner]
    return None


def _kind_of_headers(headers: Mapping[str, str]) -> ServerKind | None:
    return ServerKind.LLAMA_CPP if headers.get("server", "").startswith("llama.cpp") else None


def _has(body: object, key: str) -> bool:
    return isinstance(body, dict) and key in body
