"""What can be set about a model: temperature, thinking effort, detail of the frames. docs/backbones.md has more."""

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
    """How many tokens of its picture a frame becomes."""

    AUTO = "auto"  # by the frame's height
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class ReplyFormat(StrEnum):
    """How a model learns the shape of its reply."""

    SCHEMA = "schema"  # by a JSON schema beside the request, which the provider holds it to
    WORDS = "words"  # by the schema as text at the end of the prompt, so that requests of several stages begin alike


class ServerKind(StrEnum):
    """The software of a self-hosted server."""

    AUTO = "auto"  # recognised from what the server says of itself
    VLLM = "vllm"
    SGLANG = "sglang"
    LLAMA_CPP = "llama.cpp"
    OTHER = "other"


class ServiceTier(StrEnum):
    """How a provider serves requests: at once for the full price, or when it has room for less."""

    STANDARD = "standard"
    FLEX = "flex"  # the cheaper tier; where it refuses a request or has no room, the standard tier answers


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What decides how a model answers, beside the request."""

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
    def chosen(self) -> dict[str, object]:
        """The settings that differ from the default, by name."""
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What a provider accepts in one request; None where it states no limit."""

    images: int | None = None
    payload_bytes: int | None = None  # the whole body, frames in base64
    longest_side_px: int | None = None  # of a frame; a larger one is refused, or shrunk by the provider
