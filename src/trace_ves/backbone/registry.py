"""Opens backbones by spec, such as `openai:gpt-4o`. An SDK is imported only when a spec needs it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeVar

from trace_ves.backbone.model_settings import Detail, ModelSettings, ReplyFormat, ServerKind, ServiceTier, Thinking
from trace_ves.backbone.secret import Key, find_secret
from trace_ves.core import BackboneConfigError, InputError, MissingExtraError
from trace_ves.core.plugins import import_callable, names_own_code

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone, CacheableBackbone
    from trace_ves.backbone.provider import Provider

OWN_CODE: Final = "package.module:callable"  # The spec of a user's own backbone


@dataclass(frozen=True, slots=True)
class BackboneOptions:
    """The options of a backbone besides its spec; None for the backbone's default."""

    cache: bool | None = None  # Whether to cache answers; None: if the backbone costs money
    model: ModelSettings = field(default_factory=ModelSettings)
    concurrency: int | None = None  # Concurrent requests, over all threads that share the backbone
    service_tier: ServiceTier = ServiceTier.STANDARD
    server: ServerKind = ServerKind.AUTO
    timeout_seconds: float | None = None  # For one attempt
    refuses_dropped_frames: bool = False


@dataclass(frozen=True, slots=True)
class Spec:
    """A spec: `scheme:rest`, or only the scheme."""

    text: str
    rest: str

    def model(self, name: str | None = None) -> str:
        """The model's name: `name`, or the part after the colon. Raises `BackboneConfigError` if it is empty."""
        model = self.rest if name is None else name
        if not model.strip():
            raise BackboneConfigError(
                f"The backbone {self.text!r} names no model; write it as one of {', '.join(spec_forms())}."
            )
        return model


@dataclass(frozen=True, slots=True)
class Registration:
    """One kind of backbone: its scheme, its requirements, and the function that opens it."""

    scheme: str  # The part of a spec before the colon
    forms: tuple[str, ...]  # The forms of its specs, for messages and documentation
    extra: str  # The extra of this package that installs its dependencies
    open: Callable[[Spec, BackboneOptions], Backbone]
    variables: tuple[str, ...] = ()  # Environment variables of its key or account; one is enough
    default_model: str | None = None  # Used if no backbone is named and one of the variables is set
    settings: frozenset[str] = frozenset()  # Fields of `ModelSettings`, `service_tier`, `server` and `timeout`
    preference: int = 0  # If the variables of several kinds are set, the smallest number is the default


REMOTE_SETTINGS: Final = frozenset({"temperature", "thinking", "reply_format", "max_output_tokens", "timeout"})
"""The settings of every backbone behind an API."""

C = TypeVar("C", bound=StrEnum)
_REGISTERED: dict[str, Registration] = {}
BACKBONE_MODULES: Final = (  # Modules that register backbones; imported when a spec is first looked up
    "backbone.anthropic",
    "backbone.gemini",
    "backbone.hf",
    "backbone.openai",
    "backbone.replay",
    "backbone.vllm",
    "twin.backbones",
)


def register(registration: Registration) -> None:
    """Register a kind of backbone. The module that defines it calls this when it is imported."""
    _REGISTERED[registration.scheme] = registration


def registrations() -> dict[str, Registration]:
    """Every kind of backbone by its scheme."""
    for name in BACKBONE_MODULES:
        import_module(f"trace_ves.{name}")
    return dict(sorted(_REGISTERED.items()))


def spec_forms() -> list[str]:
    """The forms that a spec may have, for messages."""
    return [*(form for each in registrations().values() for form in each.forms), OWN_CODE]


def _by_preference() -> list[Registration]:
    return sorted(registrations().values(), key=lambda registration: registration.preference)


def account_variables() -> list[str]:
    """Every environment variable that holds a key or names an account, in order of preference."""
    return list(dict.fromkeys(variable for each in _by_preference() for variable in each.variables))


def open_backbone(
    spec: str,
    *,
    cache: bool | None = None,
    concurrency: int | None = None,
    temperature: float | None = None,
    thinking: str = Thinking.DEFAULT,
    detail: str = Detail.AUTO,
    reply_format: str = ReplyFormat.SCHEMA,
    service_tier: str = ServiceTier.STANDARD,
    server: str = ServerKind.AUTO,
    max_output_tokens: int | None = None,
    timeout: float | None = None,
    refuse_dropped_frames: bool = False,
) -> Backbone:
    """Open the backbone of a spec. Sends nothing yet.

    `detail` may set a level for each kind of backbone, as in `gemini=low,openai=high`. `timeout` is the seconds of one
    attempt; a request with its retries may take three times as long, and at least ten minutes.
    """
    spec = canonical_spec(spec)
    scheme, _, rest = spec.partition(":")
    model = ModelSettings(
        temperature,
        _choice(Thinking, thinking),
        _choice(Detail, detail_of(spec, detail)),
        _choice(ReplyFormat, reply_format),
        max_output_tokens,
    )
    if timeout is not None and not 0 < timeout < math.inf:
        raise BackboneConfigError(f"The timeout must be more than 0 seconds, got {timeout:g}.")
    options = BackboneOptions(
        cache,
        model,
        concurrency,
        _choice(ServiceTier, service_tier),
        _choice(ServerKind, server),
        timeout,
        refuse_dropped_frames,
    )
    registration = registrations().get(scheme)
    supported = registration.settings if registration else frozenset()
    others = {"service_tier": options.service_tier != "standard", "server": server != "auto", "timeout": timeout}
    requested = [*model.non_defaults, *(name for name, is_requested in others.items() if is_requested)]
    if unknown := [name.replace("_", "-") for name in requested if name not in supported]:
        raise BackboneConfigError(
            f"The backbone {spec} has no setting {' or '.join(unknown)}; leave out --{' and --'.join(unknown)}."
        )
    if registration is None:
        return _open_own_code(spec)
    try:
        return registration.open(Spec(spec, rest), options)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("trace_ves"):
            raise
        raise MissingExtraError(f"The backbone {spec}", registration.extra) from None


def canonical_spec(spec: str) -> str:
    """The full spec for a short form: `gpt-4o`, `claude-…`, `gemini-…`, or `ollama/llava` with a slash."""
    for names, scheme in _BARE_NAMES.items():
        if re.match(names, spec) and ":" not in spec:
            return f"{scheme}:{spec}"
    scheme, slash, rest = spec.partition("/")
    return f"{scheme}:{rest}" if slash and scheme in registrations() else spec


_BARE_NAMES: Final = {r"(?:chat)?gpt-|o\d\b": "openai", r"claude-": "anthropic", r"gemini-": "gemini"}


def detail_of(spec: str, detail: str) -> str:
    """The level of detail for a backbone: `detail` itself, or its entry in a list such as `gemini=low,openai=high`."""
    if "=" not in detail:
        return _choice(Detail, detail).value
    levels = dict(part.partition("=")[::2] for part in detail.replace(" ", "").split(","))
    with_detail = [name for name, each in registrations().items() if "detail" in each.settings]
    if unknown := [name for name in levels if name not in with_detail]:
        raise BackboneConfigError(
            f"--detail {detail}: {unknown[0]!r} is not a backbone with a detail; choose from {', '.join(with_detail)}."
        )
    for level in levels.values():
        _choice(Detail, level)
    return levels.get(spec.partition(":")[0], Detail.AUTO.value)


def _choice(kind: type[C], value: str) -> C:
    try:
        return kind(value)
    except ValueError:
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).lower()
        raise BackboneConfigError(f"There is no {words} {value!r}; there are {', '.join(kind)}.") from None


def _open_own_code(spec: str) -> Backbone:
    """Call `package.module:callable` and return the user's backbone."""
    unknown = f"There is no backbone {spec!r}; there are {', '.join(spec_forms())}."
    if not names_own_code(spec):
        raise BackboneConfigError(unknown)
    try:
        make = import_callable(spec)
    except InputError as error:
        raise BackboneConfigError(f"{unknown} {error}") from error
    try:
        backbone: Backbone = make()
    except InputError:
        raise
    except Exception as error:
        raise BackboneConfigError(
            f"{spec} did not make a backbone when it was called without arguments: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(getattr(backbone, "name", None), str) or not callable(getattr(backbone, "generate", None)):
        raise BackboneConfigError(
            f"{spec} made {type(backbone).__name__}, which is not a backbone: it needs a `name` and a method "
            "`generate(batch)`."
        )
    return backbone


def is_own_code(spec: str) -> bool:
    """Whether opening a spec imports the user's own code."""
    return names_own_code(spec) and spec.partition(":")[0] not in registrations()


def may_open_unasked(spec: str) -> bool:
    """Whether a spec from a file may be opened although the user did not name it: a known service or glance.

    A file must not choose code to run, a model file on this machine, or an address that gets a key.
    """
    scheme, _, rest = spec.partition(":")
    return scheme in OPENED_UNASKED and scheme in registrations() and "@" not in rest and "://" not in rest


OPENED_UNASKED: Final = frozenset({"glance", "lab", "gemini", "vertex", "openai", "anthropic"})


def default_spec() -> str:
    """The spec of the first provider whose key is set. Raises `BackboneConfigError` if none is."""
    for each in _by_preference():  # not glance, which has no default model: it cannot recognise real footage
        if each.default_model and any(find_secret(variable) for variable in each.variables):
            return f"{each.scheme}:{each.default_model}"
    raise BackboneConfigError(f"no model is set up to look at the video; {setup_guide()}")


def setup_guide() -> str:
    """How to set up a model, in lines of at most 80 columns."""
    keys = [
        f"  export {each.variables[0] + '=…':20}for {each.scheme}:{each.default_model}, extra {each.extra}"
        for each in _by_preference()
        if each.default_model
    ]
    specs = {
        "openai:MODEL@http://localhost:8000/v1": "your own server, extra openai",
        "hf:Qwen/Qwen3-VL-8B-Instruct": "this machine, extra hf",
        "vllm:Qwen/Qwen3-VL-8B-Instruct": "run by vLLM, extra openai",
        "glance": "videos of `trace-ves synth`",
    }
    lines = "\n".join([*keys, *(f"  --backbone {spec:39}{purpose}" for spec, purpose in specs.items())])
    return f"set a key or name a model:\n{lines}\n`trace-ves doctor --try SPEC` makes one test call."


def open_remote(provider: Provider, options: BackboneOptions, *, paid: bool) -> Backbone:
    """Make a backbone from a provider, with the response cache if it is enabled."""
    from trace_ves.backbone.remote import RemoteBackbone  # loaded when used

    backbone = RemoteBackbone(provider, options, is_local=not paid)
    return add_cache(backbone) if (paid if options.cache is None else options.cache) else backbone


def add_cache(backbone: CacheableBackbone) -> Backbone:
    """Put a backbone behind the response cache of this machine."""
    from trace_ves.backbone.response_cache import CachedBackbone, default_path  # loaded when used

    return CachedBackbone(backbone, default_path())


def find_key(spec: Spec, *variables: str, placeholder: str | None = None) -> Key:
    """The first key in these variables, in the environment or stored by `trace-ves keys`."""
    for variable in variables:
        if secret := find_secret(variable):
            return Key(variable, secret)
    if placeholder is not None:
        return Key(variables[0], placeholder)
    raise BackboneConfigError(
        f"{spec.text} needs a key: set {' or '.join(variables)} in the environment, "
        f"or run `trace-ves keys set {variables[0]}`."
    )
