"""The Qwen3-VL-8B architecture with random weights, for measuring without a download; a tiny one to try a script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from trace_ves.backbone.hf.loading import Loaded

if TYPE_CHECKING:
    from collections.abc import Iterable

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% for part in message.content %}{% if part.type == 'text' %}{{ part.text }}"
    "{% else %}<|vision_start|><|image_pad|><|vision_end|>{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
SIZES: dict[bool, dict[str, Any]] = {
    False: {
        "vocabulary": 151_936,
        "text": {
            "hidden_size": 4096,
            "intermediate_size": 12288,
            "num_hidden_layers": 36,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [24, 20, 20]},
        },
        "vision": {
            "depth": 27,
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "num_heads": 16,
            "out_hidden_size": 4096,
            "patch_size": 16,
            "num_position_embeddings": 2304,
            "deepstack_visual_indexes": [8, 16, 24],
        },
    },
    True: {
        "vocabulary": 9_000,
        "text": {
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [4, 2, 2]},
        },
        "vision": {
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "out_hidden_size": 64,
            "patch_size": 16,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0],
        },
    },
}


def build(texts: Iterable[str], *, tiny: bool, device: str, dtype: torch.dtype | None = None) -> Loaded:
    """A model of random weights, with a tokenizer that is trained on these texts."""
    size = SIZES[tiny]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=8000, initial_alphabet=alphabet, special_tokens=SPECIAL, show_progress=False, min_frequency=2
        ),
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=CHAT_TEMPLATE
    )
    ids = {name: tokenizer.convert_tokens_to_ids(f"<|{name}|>") for name in ("image_pad", "vision_start", "vision_end")}
    config = transformers.Qwen3VLConfig(
        text_config={"vocab_size": size["vocabulary"], "max_position_embeddings": 262_144, "tie_word_embeddings": False}
        | size["text"],
        vision_config=size["vision"],
        image_token_id=ids["image_pad"],
        video_token_id=size["vocabulary"] - 1,
        vision_start_token_id=ids["vision_start"],
        vision_end_token_id=ids["vision_end"],
    )
    torch.manual_seed(0)
    torch.set_default_dtype(dtype or (torch.float32 if device == "cpu" else torch.bfloat16))
    with torch.device(device):
        model = transformers.Qwen3VLForConditionalGeneration(config)
    torch.set_default_dtype(torch.float32)
    images = transformers.Qwen2VLImageProcessorPil(
        patch_size=16, merge_size=2, size={"shortest_edge": 32 * 32, "longest_edge": 2048 * 2048}
    )
    return Loaded(model.eval().to(device), tokenizer, images, None)
