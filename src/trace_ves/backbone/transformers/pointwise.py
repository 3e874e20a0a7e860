"""What a decoder layer does between its matrix products, each as one function of plain torch operations.

On a GPU they are compiled: one kernel then does what takes ten otherwise, and a step of a few rows is mostly waiting
for one small kernel after the other. Where that is not possible (no C compiler, no Triton), they run as they are.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

_LOG: Final = logging.getLogger(__name__)


def _compiled_on_gpu(work: Callable[P, R]) -> Callable[P, R]:
    """The function, compiled at its first call with a tensor on a GPU."""
    compiled: Callable[P, R] | None = None

    @functools.wraps(work)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        nonlocal compiled
        first: Any = args[0]
        if not first.is_cuda or compiled is work:
            return work(*args, **kwargs)
        if compiled is None:
            compiled = torch.compile(work, dynamic=True)
        try:
            return compiled(*args, **kwargs)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # noqa: BLE001  whatever a compiler may lack, the answer is the same without it
            _LOG.warning("Steps are slower than they could be: torch cannot compile here (%s).", type(error).__name__)
            compiled = work
            return work(*args, **kwargs)

    return call


@_compiled_on_gpu
def normed(hidden: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """The tokens over their root mean square, times the weight."""
    return _normed(hidden, weight, epsilon)


@_compiled_on_gpu
def added_and_normed(
    hidden: torch.Tensor, update: torch.Tensor, weight: torch.Tensor, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of both, and that sum normed."""
    total = hidden + update
    return total, _normed(total, weight, epsilon)


@_compiled_on_gpu
def gated(both: torch.Tensor) -> torch.Tensor:
    """The second half of each token times the sigmoid-weighted first half."""
    gate, value = both.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * value


@_compiled_on_gpu
def rotated(
    heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, weight: torch.Tensor | None, epsilon: float
) -> torch.Tensor:
    """Queries or keys, tokens x heads x size, normed where there is a weight, at their positions."""
    if weight is not None:
        heads = _normed(heads, weight, epsilon)
    left, right = heads.chunk(2, dim=-1)
    turned = torch.cat([-right, left], dim=-1)
    return (heads * cos[:, None] + turned * sin[:, None]).to(heads.dtype)


@_compiled_on_gpu
def merged(parts: torch.Tensor, logs: torch.Tensor, places: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Attention over several parts of the keys, from that over each and its log-sum-exp.

    `parts` is places x groups x key heads x size, `logs` the same without the size; each row has its parts at
    `places`, rows x parts. Gives rows x key heads x groups x size.
    """
    shares = torch.softmax(logs[places] + counted[:, :, None, None], dim=1)
    return (parts[places] * shares[..., None]).sum(dim=1).transpose(1, 2).to(parts.dtype)


def _normed(hidden: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    exact = hidden.float()
    scale = torch.rsqrt(exact.square().mean(dim=-1, keepdim=True) + epsilon)
    return weight * (exact * scale).to(hidden.dtype)
