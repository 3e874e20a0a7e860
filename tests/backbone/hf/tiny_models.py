"""Tiny checkpoints with random weights, written to disk as real ones are: config, weights, tokenizer, processor."""

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, Field

from trace_ves.backbone import Prompt, Request
from trace_ves.core import Clip, Frame, Interval, ObservationStrategy

if find_spec("torch") and find_spec("transformers"):  # else every test that needs them is skipped
    import torch
    import transformers

    torch.set_num_threads(1)  # the models are tiny: threads would wait for each other
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

SPECIAL_TOKENS = [
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    *("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"),
]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'text' %}{{ part.text }}"
    "{% else %}<|vision_start|><|image_pad|><|vision_end|>{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WORDS = "Clip t= s the of a question answer answerable insufficient conflicted facts_supported unmet_needs status null"


def tiny_tokenizer() -> Any:
    """A byte-level BPE tokenizer with a few merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=alphabet, special_tokens=SPECIAL_TOKENS, show_progress=False
    )
    tokenizer.train_from_iterator([WORDS] * 10, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=CHAT_TEMPLATE
    )


def token_ids(tokenizer: Any) -> dict[str, int]:
    names = {"image": "<|image_pad|>", "video": "<|video_pad|>"}
    edges = {"vision_start": "<|vision_start|>", "vision_end": "<|vision_end|>"}
    return {f"{name}_token_id": tokenizer.convert_tokens_to_ids(token) for name, token in (names | edges).items()}


TEXT = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 16384,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}
VISION = {
    "depth": 3,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_heads": 2,
    "out_hidden_size": 64,
    "patch_size": 8,
}


def rope(*section: int, **more: bool) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [*section]} | more}


EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48, "decoder_sparse_step": 1}
QWEN3_TEXT = TEXT | {"head_dim": 32} | rope(8, 4, 4, mrope_interleaved=True)
QWEN3_VISION = VISION | {"num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1]}
QWEN2_VISION = VISION | {"window_size": 64, "fullatt_block_indexes": [2]}


def qwen(name: str, text: dict[str, Any], vision: dict[str, Any], vocabulary: int, ids: dict[str, int]) -> Any:
    make_config = getattr(transformers, f"{name}Config")
    config = make_config(text_config=text | {"vocab_size": vocabulary}, vision_config=vision, **ids)
    return getattr(transformers, f"{name}ForConditionalGeneration")(config)


def llava(vocabulary: int, ids: dict[str, int]) -> Any:
    config = transformers.LlavaConfig(
        text_config=TEXT | {"model_type": "llama", "vocab_size": vocabulary},
        vision_config={
            "model_type": "clip_vision_model",
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "image_size": 32,
            "patch_size": 8,
        },
        image_token_index=ids["image_token_id"],
    )
    return transformers.LlavaForConditionalGeneration(config)


MODELS = {
    "qwen3_vl": partial(qwen, "Qwen3VL", QWEN3_TEXT, QWEN3_VISION),
    "qwen3_vl_moe": partial(qwen, "Qwen3VLMoe", QWEN3_TEXT | EXPERTS, QWEN3_VISION),
    "qwen2_5_vl": partial(qwen, "Qwen2_5_VL", TEXT | rope(4, 2, 2), QWEN2_VISION),
    "llava": llava,
}


def save_reader(folder: Path, kind: str, tokenizer: Any) -> None:
    """Tokenizer and image processor. The video part of Qwen's processors is left out: it needs torchvision."""
    tokenizer.save_pretrained(folder)
    if kind == "llava":
        size = {"height": 32, "width": 32}
        images = transformers.CLIPImageProcessorPil(size=size, crop_size=size)
        transformers.LlavaProcessor(
            images,
            tokenizer,
            patch_size=8,
            vision_feature_select_strategy="default",
            chat_template=CHAT_TEMPLATE,
            image_token="<|image_pad|>",
            num_additional_image_tokens=1,
        ).save_pretrained(folder)
        return
    size = {"shortest_edge": 16 * 16, "longest_edge": 64 * 64}
    transformers.Qwen2VLImageProcessorPil(patch_size=8, merge_size=2, size=size).save_pretrained(folder)


def make_parrot(model: Any, tokenizer: Any, says: str) -> None:
    """Weights by which the model says one thing whatever it is shown: the token of it after a line break, then the end.

    Layers add nothing to the embedding of the last token, and the head answers each embedding with the next token.
    """
    said, line_break = tokenizer.convert_tokens_to_ids(says), tokenizer("\n").input_ids[-1]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                parameter.zero_()
        embeddings, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
        head.zero_()
        head[said] = embeddings[line_break]
        head[tokenizer.eos_token_id] = embeddings[said]


def save_tiny(folder: Path, kind: str, *, says: str | None = None) -> Path:
    """Write a checkpoint of this kind; nothing comes from a hub. With `says`, it says that and nothing else."""
    torch.manual_seed(7)
    tokenizer = tiny_tokenizer()
    if says is not None:
        tokenizer.add_tokens([says])
    model = MODELS[kind](len(tokenizer), token_ids(tokenizer))
    for parameter in model.parameters():  # the usual small weights would make every row say the same
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.12)
    if says is not None:
        make_parrot(model, tokenizer, says)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    save_reader(folder, kind, tokenizer)
    return folder


class Noise:
    """A picture that no other number gives."""

    width, height = 64, 40

    def __init__(self, number: int) -> None:
        self._number = number

    def rgb(self) -> Any:
        return np.random.default_rng(self._number).integers(0, 256, (self.height, self.width, 3), dtype=np.uint8)

    def jpeg(self, quality: int = 90) -> bytes:
        import simplejpeg

        return bytes(simplejpeg.encode_jpeg(self.rgb(), quality=quality))


class Sighting(BaseModel):
    """A short reply with most kinds of fields: even random weights come to its end."""

    seen: bool
    times: list[int] = Field(default_factory=list, max_length=2)
    colour: str | None = Field(max_length=6)


def make_clip(start: float, numbers: list[int]) -> Clip:
    frames = tuple(Frame(number, start + i / 2, Noise(number)) for i, number in enumerate(numbers))
    return Clip(Interval(start, start + len(numbers)), ObservationStrategy(), frames)


CLIPS = (make_clip(10, [1, 2]), make_clip(5, [3]), make_clip(7, [4, 5]))


def make_request(*clips: Clip, text: str = "Which colour?", sample: int = 0, reply: Any = Sighting) -> Request[Any]:
    return Request(Prompt("look", "Look.\n$question"), {"question": text}, reply, clips, sample)
