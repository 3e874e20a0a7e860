"""Loads a model by name or folder, without running its code, and explains failures in one sentence."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
import transformers

from trace_ves.core import BackboneConfigError, MissingExtraError

_LOG: Final = logging.getLogger(__name__)
_FIXED_BITS: Final = {"fp8": 8, "fbgemm_fp8": 8, "finegrained_fp8": 8, "mxfp4": 4, "compressed-tensors": 8}
"""Bits per weight by quantisation method, if the checkpoint does not state `bits`."""
_SKIPPED_KEYS: Final = ("modules_to_not_convert", "llm_int8_skip_modules", "ignore")  # Modules without quantisation
_NO_CODE: Final = {"trust_remote_code": False}  # Otherwise transformers asks, and "y" runs the checkpoint's code
_MEMORY_FACTOR: Final = 1.1  # A model whose weights just fit has no room for a single frame


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model, its tokenizer and its image processor."""

    model: Any
    tokenizer: Any
    image_processor: Any
    processor: Any  # The whole processor; None if its part for videos, which is not needed, cannot be loaded


def load(spec: str, name: str) -> Loaded:
    """Load the model of this name or in this folder, on the GPU if there is one."""
    folder = Path(name).expanduser()
    if name.startswith((".", "/", "~")) and not folder.is_dir():
        raise BackboneConfigError(f"{spec}: there is no folder {folder}; give a model's name or the folder of one.")
    source = str(folder) if folder.is_dir() else name
    transformers.utils.logging.disable_progress_bar()
    kind = transformers.AutoModelForImageTextToText
    device, dtype = ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)
    if device == "cpu":
        _LOG.warning("%s runs on the CPU, because torch sees no GPU; that works, slowly.", spec)
    with _explain_failure(spec):
        config = transformers.AutoConfig.from_pretrained(source, **_NO_CODE)
        with torch.device("meta"):
            empty = kind.from_config(config, **_NO_CODE)
    # before any weights are read, because the kernel kills a process without a message if memory runs out
    needed = _count_weight_bytes(empty, getattr(config, "quantization_config", None), dtype) * _MEMORY_FACTOR
    has = torch.cuda.mem_get_info()[0] if device == "cuda" else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > has:
        raise BackboneConfigError(
            f"{spec} needs about {needed / 2**30:.0f} GiB of memory and the {'GPU' if device == 'cuda' else 'machine'} "
            f"has {has / 2**30:.0f}; choose a smaller model, or serve it elsewhere and use openai:MODEL@URL."
        )
    with _explain_failure(spec):
        processors = _load_processors(source)
        model = kind.from_pretrained(source, dtype=dtype, device_map=device, **_NO_CODE)
    return Loaded(model.eval(), *processors)


def _load_processors(source: str) -> tuple[Any, Any, Any]:
    """Tokenizer, image processor, and the whole processor if all its parts can be loaded."""
    try:
        processor = transformers.AutoProcessor.from_pretrained(source, **_NO_CODE)
    except ImportError:  # the part for videos needs torchvision; frames do not
        images = transformers.AutoImageProcessor.from_pretrained(source, **_NO_CODE)
        return transformers.AutoTokenizer.from_pretrained(source, **_NO_CODE), images, None
    return processor.tokenizer, processor.image_processor, processor


@contextmanager
def _explain_failure(spec: str) -> Iterator[None]:
    """Raise a `BackboneConfigError` of one sentence for any failure to load a checkpoint."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise BackboneConfigError(f"{spec}: the model does not fit into the memory of the GPU that is free.") from None
    except Exception as error:  # noqa: BLE001  a checkpoint may cause any exception
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = (lines[0] if lines else type(error).__name__)[:300]
        if isinstance(error, ImportError):
            raise MissingExtraError(f"The backbone {spec} ({reason})", "hf") from None
        sentence = f"{spec}: transformers cannot load an image-and-text model of that name: {reason}"
        raise BackboneConfigError(sentence) from None


def _count_weight_bytes(empty: Any, quantization: Any, dtype: torch.dtype) -> float:
    """Bytes of a model's weights. In a quantised checkpoint, linear layers take fewer."""
    total: float = sum(parameter.numel() for parameter in empty.parameters()) * dtype.itemsize
    if quantization is None:
        return total
    config = quantization if isinstance(quantization, dict) else quantization.to_dict()
    bits = _read_bits(config)
    skipped = [str(name) for key in _SKIPPED_KEYS for name in config.get(key) or ()] + ["lm_head"]
    linear: int = sum(
        module.weight.numel()
        for name, module in empty.named_modules()
        if isinstance(module, torch.nn.Linear) and not any(part in name for part in skipped)
    )
    return float(total - linear * (dtype.itemsize - bits / 8))


def _read_bits(config: dict[str, Any]) -> int:
    """Bits of a quantised weight, which checkpoints state in several ways."""
    if isinstance(config.get("bits"), int):
        return int(config["bits"])
    for bits in (4, 8):
        if config.get(f"load_in_{bits}bit") or config.get(f"_load_in_{bits}bit"):
            return bits
    groups = config.get("config_groups")
    weights = [group.get("weights") or {} for group in groups.values()] if isinstance(groups, dict) else []
    group_bits = [weight["num_bits"] for weight in weights if isinstance(weight.get("num_bits"), int)]
    return max(group_bits, default=_FIXED_BITS.get(str(config.get("quant_method")), 16))
