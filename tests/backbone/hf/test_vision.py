"""Frames through the vision tower: many at once give what the stock model gives for each."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra hf")
transformers = pytest.importorskip("transformers", reason="needs the extra hf")

from tests.backbone.hf.tiny_models import Noise  # noqa: E402

from trace_ves.backbone.hf.vision import FrameFeatures, VisionEncoder  # noqa: E402  after the skip
from trace_ves.core import Frame  # noqa: E402


class Small(Noise):
    """Of another size."""

    width, height = 48, 48


FRAMES = [Frame(number, float(number), (Small if number % 3 == 2 else Noise)(number)) for number in range(37)]


@pytest.mark.parametrize("kind", ["qwen3_vl", "qwen2_5_vl"])
def test_frames_of_several_sizes_at_once_are_what_the_stock_model_sees(kind: str, checkpoints: dict[str, Path]) -> None:
    load = transformers.AutoModelForImageTextToText.from_pretrained
    stock: Any = load(checkpoints[kind])
    images = transformers.AutoImageProcessor.from_pretrained(checkpoints[kind])
    vision = VisionEncoder(load(checkpoints[kind]), images)
    keys = vision.keys(FRAMES)
    found = vision.features(vision.begin(dict(zip(keys, FRAMES, strict=True))))
    seen = images(images=[frame.rgb() for frame in FRAMES], return_tensors="pt")
    with torch.inference_mode():
        expected = stock.model.get_image_features(seen["pixel_values"], seen["image_grid_thw"], return_dict=True)
    assert len({one.grid for one in found.values()}) == 2
    assert list(found) == keys
    for key, embeddings in zip(keys, expected.pooler_output, strict=True):
        torch.testing.assert_close(found[key].levels[0], embeddings, atol=1e-4, rtol=0)


def test_the_features_used_longest_ago_are_dropped_first(checkpoints: dict[str, Path]) -> None:
    model = transformers.AutoModelForImageTextToText.from_pretrained(checkpoints["qwen3_vl"])
    images = transformers.AutoImageProcessor.from_pretrained(checkpoints["qwen3_vl"])

    def see(encoder: VisionEncoder, number: int) -> FrameFeatures:
        begun = encoder.begin({str(number): FRAMES[number]})
        features = encoder.features(begun)[str(number)]
        assert begun[str(number)].tokens == features.tokens
        return features

    size = see(VisionEncoder(model, images), 0).bytes
    encoder = VisionEncoder(model, images, max_bytes=2 * size)
    for number in (0, 1, 0, 3, 0):
        see(encoder, number)
    assert encoder.frames_encoded == 3
    see(encoder, 1)
    assert encoder.frames_encoded == 4
    tiny = VisionEncoder(model, images, max_bytes=1)
    assert [see(tiny, 0).tokens for _ in range(2)] == [see(encoder, 0).tokens] * 2
    assert tiny.frames_encoded == 2
