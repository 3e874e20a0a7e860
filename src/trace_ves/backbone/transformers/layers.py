"""The decoder layers of Qwen3-VL (with experts too) and Qwen2.5-VL, over tokens that stand side by side.

The weights are the model's own. Products that read the same input are one product, and what lies between products is
in `pointwise`. Knows nothing of where keys and values are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch.nn import functional

from trace_ves.backbone.transformers import pointwise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Attending(Protocol):
    """Keeps keys and values, and knows which of them each token sees."""

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        """Attention of the tokens, all tokens x heads x size."""


class Deeper(NamedTuple):
    """What the first layers add to the tokens of frames."""

    where: torch.Tensor
    """The numbers of these tokens."""
    levels: Sequence[torch.Tensor]


class DecoderLayers:
    """All layers of a language model."""

    def __init__(self, language_model: Any) -> None:
        self._rotary = language_model.rotary_emb
        self._final_norm = language_model.norm
        is_silu = language_model.config.hidden_act == "silu"
        self._layers = [_Layer(layer, is_silu=is_silu) for layer in language_model.layers]

    def __call__(
        self, tokens: torch.Tensor, positions: torch.Tensor, attending: Attending, deeper: Deeper | None = None
    ) -> torch.Tensor:
        """The last hidden states of embedded tokens (tokens x size) at these positions (3 x tokens)."""
        cos, sin = (one[0] for one in self._rotary(tokens[None], positions[:, None]))
        norms = [layer.first_norm for layer in self._layers[1:]] + [self._final_norm]
        hidden, normed = tokens, pointwise.normed(tokens, *_norm(self._layers[0].first_norm))
        for number, (layer, next_norm) in enumerate(zip(self._layers, norms, strict=True)):
            attended = layer.attention(number, normed, cos, sin, attending)
            hidden, normed = pointwise.added_and_normed(hidden, attended, *_norm(layer.second_norm))
            update = layer.feed_forward(normed)
            if deeper is not None and number < len(deeper.levels):
                update.index_add_(0, deeper.where, deeper.levels[number].to(update.dtype))
            hidden, normed = pointwise.added_and_normed(hidden, update, *_norm(next_norm))
        return normed


class _Layer:
    """One layer: the model's modules, with products over the same input joined."""

    def __init__(self, layer: Any, *, is_silu: bool) -> None:
        self.first_norm, self.second_norm = layer.input_layernorm, layer.post_attention_layernorm
        self._attention = layer.self_attn
        self._query_key_value = _joined([layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj])
        self._mlp = layer.mlp
        is_gated = is_silu and hasattr(layer.mlp, "gate_proj")  # not a layer of experts
        self._gate_up = _joined([layer.mlp.gate_proj, layer.mlp.up_proj]) if is_gated else None

    def attention(
        self, number: int, normed: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, attending: Attending
    ) -> torch.Tensor:
        """What attention adds to the tokens."""
        module = self._attention
        heads = self._query_key_value(normed).view(len(normed), -1, module.head_dim)
        key_heads = heads.shape[1] // (module.num_key_value_groups + 2)
        query, key, value = heads.split([heads.shape[1] - 2 * key_heads, key_heads, key_heads], dim=1)
        query = pointwise.rotated(query, cos, sin, *_norm(getattr(module, "q_norm", None)))
        key = pointwise.rotated(key, cos, sin, *_norm(getattr(module, "k_norm", None)))
        seen = attending.attend(number, query, key, value, module.scaling)
        attended: torch.Tensor = module.o_proj(seen.reshape(len(normed), -1))
        return attended

    def feed_forward(self, normed: torch.Tensor) -> torch.Tensor:
        """What the layer's second half adds to the tokens."""
        if self._gate_up is None:
            fed: torch.Tensor = self._mlp(normed[None])[0]
        else:
            fed = self._mlp.down_proj(pointwise.gated(self._gate_up(normed)))
        return fed


def _norm(module: Any) -> tuple[Any, float]:
    """Weight and epsilon of a norm; none where the model has no such norm."""
    return (None, 0.0) if module is None else (module.weight, module.variance_epsilon)


def _joined(parts: Sequence[Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    """The outputs of several linear layers side by side, by one product where their weights are plain ones."""
    if any(type(part) is not torch.nn.Linear for part in parts):  # a quantised one
        return lambda inputs: torch.cat([part(inputs) for part in parts], dim=-1)
    weight = torch.cat([part.weight.data for part in parts])
    bias = torch.cat([part.bias.data for part in parts]) if parts[0].bias is not None else None
    start = 0
    for part in parts:  # the model keeps its weights, as views: they are not there twice
        part.weight.data = weight[start : start + part.out_features]
        start += part.out_features
    return lambda inputs: functional.linear(inputs, weight, bias)
