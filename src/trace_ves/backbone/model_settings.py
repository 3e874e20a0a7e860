"""The settings of a model: temperature, thinking effort, detail of the frames. See docs/backbones.md."""

from dataclasses import dataclass, fields
from enum import StrEnum

from trace_ves.core import BackboneConfigError


class Thinking(StrEnum):
    """How much a model may think before it answers."""

    DEFAULT = "default"  # what the provider does by default
    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Detail(StrEnum):
    """How many tokens a frame takes."""

    AUTO = "auto"  # by the frame's height
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class ReplyFormat(StrEnum):
    """How a request states the shape of its reply."""

    SCHEMA = "schema"  # as a JSON schema, which the provider enforces
    WORDS = "words"  # as text at the end of the prompt, so that requests of several stages share a prefix


class ServerKind(StrEnum):
    """The software of a self-hosted server."""

    AUTO = "auto"  # detected from the server's responses
    VLLM = "vllm"
    SGLANG = "sglang"
    LLAMA_CPP = "llama.cpp"
    OTHER = "other"


class ServiceTier(StrEnum):
    """How a provider serves requests: immediately at the full price, or later at a lower one."""

    STANDARD = "standard"
    FLEX = "flex"  # the cheaper tier; if it refuses a request or has no capacity, the standard tier answers


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The settings that affect a model's answers."""

    temperature: float | None = None  # None follows the provider's advice for the model
    thinking: Thinking = Thinking.DEFAULT
    detail: Detail = Detail.AUTO
    reply_format: ReplyFormat = ReplyFormat.SCHEMA
    max_output_tokens: int | None = None  # thinking included; None follows the provider

    def __post_init__(self) -> None:
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise BackboneConfigError(f"The temperature must lie between 0 and 2, got {self.temperature:g}.")
        if self.max_output_tokens is not None and self.max_output_tokens < 1:
            raise BackboneConfigError(f"--max-output-tokens must be 1 or more, got {self.max_output_tokens}.")

    @property
    def non_defaults(self) -> dict[str, object]:
        """The settings that differ from the default, by name."""
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits of a provider for one request; None if it states none."""

    images: int | None = None
    payload_bytes: int | None = None  # The whole body, with frames in base64
    longest_side_px: int | None = None  # Of a frame; the provider refuses or shrinks a larger one
