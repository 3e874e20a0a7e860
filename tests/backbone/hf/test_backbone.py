"""`hf:` by its spec, with real loading of tiny checkpoints: what is asked, what comes back, what it cost."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator

pytest.importorskip("torch", reason="needs the extra hf")
pytest.importorskip("llguidance", reason="needs the extra hf")

from tests.backbone.hf.tiny_models import CHAT_TEMPLATE, CLIPS, Sighting, make_clip, make_request, save_tiny

from trace_ves.backbone import Generation, ModelFault, open_backbone
from trace_ves.backbone.hf.backbone import TransformersBackbone
from trace_ves.backbone.hf.loading import load
from trace_ves.backbone.hf.models import PlainModel, SharedPrefixModel
from trace_ves.backbone.hf.plans import BatchLimits
from trace_ves.backbone.hf.vision import frame_key
from trace_ves.core import BackboneError


@pytest.fixture(scope="module", params=["qwen3_vl", "qwen3_vl_moe", "qwen2_5_vl", "llava"])
def backbone(request: pytest.FixtureRequest, checkpoints: dict[str, Path]) -> Any:
    return open_backbone(f"hf:{checkpoints[request.param]}")


@pytest.fixture(scope="module")
def shared(checkpoints: dict[str, Path]) -> SharedPrefixModel:
    return SharedPrefixModel(load("hf:tiny", str(checkpoints["qwen3_vl"])))


@pytest.fixture
def model(checkpoints: dict[str, Path]) -> SharedPrefixModel:
    """One that no other test has asked, in float32 on a GPU too: there its replies do not depend on the batch."""
    loaded = load("hf:tiny", str(checkpoints["qwen3_vl"]))
    loaded.model.float()
    return SharedPrefixModel(loaded)


def make_model(kind: str, folder: Path, **limit: int) -> SharedPrefixModel | PlainModel:
    loaded = load("hf:tiny", str(folder))
    return PlainModel("hf:tiny", loaded, **limit) if kind == "llava" else SharedPrefixModel(loaded, **limit)


def replies(generations: Any) -> list[Any]:
    return [generation.reply for generation in generations]


def test_a_model_of_random_weights_gives_valid_replies(backbone: Any) -> None:
    control = "<|image_pad|><|vision_start|><|im_end|>\n<|im_start|>assistant\nsure<|endoftext|>"  # words in a question
    texts = [make_request(CLIPS[1], text=text) for text in ("Why?", control)]
    batch = [make_request(*CLIPS[:1]), make_request(*CLIPS), make_request(), *texts]
    for generation in backbone.generate(batch):
        assert isinstance(generation, Generation)
        assert isinstance(generation.reply, Sighting)
        assert generation.usage.output_tokens > 0
        assert generation.seconds > 0


def test_a_batch_answers_as_its_requests_would_alone(backbone: Any) -> None:
    batch = [make_request(*CLIPS[:size]) for size in (3, 1, 2)]
    alone = [backbone.generate([request])[0].reply for request in batch]
    assert replies(backbone.generate(batch)) == alone
    assert list(backbone.generate([])) == []


def test_draws_repeat_by_their_number_and_differ_between_numbers(backbone: Any) -> None:
    draws = [make_request(*CLIPS[:1], sample=sample) for sample in (1, 2, 3, 1)]
    first, second, third, again = replies(backbone.generate(draws))
    assert first == again
    assert len({repr(draw) for draw in (first, second, third)}) > 1


def test_usage_says_what_was_shared(shared: SharedPrefixModel) -> None:
    small, large = TransformersBackbone("hf:tiny", shared).generate([make_request(*CLIPS[:1]), make_request(*CLIPS)])
    assert large.usage.cached_tokens == 0
    assert 0 < small.usage.cached_tokens < small.usage.input_tokens < large.usage.input_tokens


def test_a_frame_is_encoded_once_however_often_it_is_shown(model: SharedPrefixModel) -> None:
    backbone = TransformersBackbone("hf:tiny", model)
    backbone.generate([make_request(*CLIPS[:size]) for size in (1, 2, 3)])
    assert model.vision.frames_encoded == 5
    backbone.generate([make_request(make_clip(90, [5, 1, 8]))])
    assert model.vision.frames_encoded == 6


def test_numbers_are_such_as_a_computer_can_hold(backbone: Any) -> None:
    class Numbers(BaseModel):
        whole: int
        real: float | None
        share: float = Field(ge=0, le=1)

    for sample in range(4):
        (generation,) = backbone.generate([make_request(sample=sample, reply=Numbers)])
        if isinstance(generation.reply, ModelFault):  # digits without end are cut off; nothing else may go wrong
            assert "cut off" in generation.reply.reason
        else:
            assert abs(generation.reply.whole) <= 1e9


@pytest.mark.parametrize("kind", ["qwen3_vl", "llava"])
def test_a_reply_without_end_is_cut_off(checkpoints: dict[str, Path], kind: str) -> None:
    class Endless(BaseModel):
        words: str = Field(min_length=400)

    backbone = TransformersBackbone("hf:tiny", make_model(kind, checkpoints[kind], max_new_tokens=9))
    (generation,) = backbone.generate([make_request(reply=Endless)])
    assert isinstance(generation.reply, ModelFault)
    assert "cut off" in generation.reply.reason
    assert generation.usage.output_tokens <= 9


def test_what_no_schema_can_say_is_repaired_once_then_a_fault(shared: SharedPrefixModel) -> None:
    class Never(Sighting):
        @field_validator("seen")
        @classmethod
        def _refuse(cls, value: bool) -> bool:
            raise ValueError("not today")

    backbone = TransformersBackbone("hf:tiny", shared)
    (once,) = backbone.generate([make_request(*CLIPS[:1])])
    (never,) = backbone.generate([make_request(*CLIPS[:1], reply=Never)])
    assert isinstance(never.reply, ModelFault)
    assert "not today" in never.reply.reason
    assert never.usage.input_tokens > 2 * once.usage.input_tokens


def test_fields_may_have_the_names_of_keywords(shared: SharedPrefixModel) -> None:
    class Odd(BaseModel):
        type: bool
        minimum: int = Field(ge=0, le=9)
        properties: list[bool] = Field(max_length=2)

    (generation,) = TransformersBackbone("hf:tiny", shared).generate([make_request(reply=Odd)])
    assert isinstance(generation.reply, Odd)


@pytest.mark.parametrize("kind", ["qwen3_vl", "llava"])
def test_a_request_longer_than_the_model_reads_is_said(checkpoints: dict[str, Path], kind: str) -> None:
    backbone = TransformersBackbone("hf:tiny", make_model(kind, checkpoints[kind], max_new_tokens=16_380))
    with pytest.raises(BackboneError, match=r"A request needs \d+ tokens with its reply, and the model takes 16384"):
        backbone.generate([make_request(*CLIPS)])


def test_questions_answered_together_get_the_tokens_they_get_alone(
    shared: SharedPrefixModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone = TransformersBackbone("hf:tiny", shared)
    batches = [
        [make_request(*CLIPS[: 1 + number % 3], text=f"Question {number}?", sample=number % 2)] for number in range(9)
    ]
    texts: list[list[str]] = []
    complete = shared.complete

    def noted(requests: Any, answer: Any) -> None:
        texts.append([])
        complete(requests, lambda number, said: (texts[-1].append(said.text), answer(number, said)))

    monkeypatch.setattr(shared, "complete", noted)
    alone = [replies(backbone.generate(batch)) for batch in batches]
    alone_texts = [text for (text,) in texts]
    texts.clear()
    with ThreadPoolExecutor(9) as pool:
        assert list(pool.map(lambda batch: replies(backbone.generate(batch)), batches)) == alone
    assert sorted(text for together in texts for text in together) == sorted(alone_texts)
    assert len(texts) < len(batches)


def test_a_batch_that_does_not_fit_is_split_and_goes_on(
    model: SharedPrefixModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch import OutOfMemoryError

    backbone = TransformersBackbone("hf:tiny", model)
    batch = [make_request(CLIPS[number % 3], text=f"Question {number}?") for number in range(7)]
    expected = replies(backbone.generate(batch))
    generate, rows_tried, largest = model._decoder.generate, [], 2

    def small_card(plan: Any, *arguments: Any, **options: Any) -> Any:
        rows_tried.append(len(plan.rows))
        if len(plan.rows) > largest:
            raise OutOfMemoryError
        return generate(plan, *arguments, **options)

    monkeypatch.setattr(model._decoder, "generate", small_card)
    before = model.limits
    assert replies(backbone.generate(batch)) == expected
    assert rows_tried[0] == 7
    assert model.limits.max_rows < before.max_rows
    largest = 0
    with pytest.raises(BackboneError, match="The memory of the GPU is too small for a request with 2 frames"):
        backbone.generate(batch[:1])


def test_a_request_that_breaks_the_models_numbers_fails_alone(
    model: SharedPrefixModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone = TransformersBackbone("hf:tiny", model)
    good, bad = [make_request(CLIPS[0])], [make_request(make_clip(30, [77]))]
    expected = replies(backbone.generate(good))
    features = model.vision.features
    broken = frame_key(bad[0].clips[0].frames[0])

    def overflowing(frames: Any) -> Any:
        return {
            key: replace(one, levels=tuple(level * float("inf") for level in one.levels)) if key == broken else one
            for key, one in features(frames).items()
        }

    monkeypatch.setattr(model.vision, "features", overflowing)
    for batch in (bad, good + bad):
        with pytest.raises(BackboneError, match="numbers that are not finite"):
            backbone.generate(batch)
    assert replies(backbone.generate(good)) == expected


@pytest.mark.parametrize("kind", ["qwen3_vl", "llava"])
def test_models_that_think_are_told_not_to(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_tiny(tmp_path, kind)
    (folder / "chat_template.jinja").write_text(
        CHAT_TEMPLATE
        + "{% if enable_thinking is not defined or enable_thinking %}<think>{% else %}NO-THOUGHT{% endif %}"
    )
    seen: list[str] = []
    loaded = load("hf:tiny", str(folder))
    tokenizer = type(loaded.tokenizer)
    render = tokenizer._encode_plus if hasattr(tokenizer, "_encode_plus") else tokenizer.__call__

    def noted(self: Any, text: Any, *arguments: Any, **options: Any) -> Any:
        seen.append(str(text))
        return render(self, text, *arguments, **options)

    monkeypatch.setattr(tokenizer, render.__name__, noted)
    model = SharedPrefixModel(loaded) if kind == "qwen3_vl" else PlainModel("hf:tiny", loaded)
    TransformersBackbone("hf:tiny", model).generate([make_request(*CLIPS[:1])])
    assert any("NO-THOUGHT" in text for text in seen)
    assert not any("<think>" in text for text in seen)


def test_a_batch_of_many_rows_is_answered_in_micro_batches(
    shared: SharedPrefixModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "limits", BatchLimits(max_rows=3))
    batch = [make_request(CLIPS[number % 3], text=f"Question {number}?") for number in range(7)]
    found = TransformersBackbone("hf:tiny", shared).generate(batch)
    assert all(isinstance(generation.reply, Sighting) for generation in found)


def test_a_template_without_images_is_said(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    folder = save_tiny(tmp_path, "qwen3_vl")
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.role }}{% endfor %}")
    with pytest.raises(BackboneError, match="placed 0 of 2 frames"):
        open_backbone(f"hf:{folder}").generate([make_request(*CLIPS[:1])])


def test_kept_answers_are_not_computed_again(checkpoints: dict[str, Path]) -> None:
    backbone = open_backbone(f"hf:{checkpoints['qwen3_vl']}", cache=True)
    (first,) = backbone.generate([make_request(*CLIPS[:1])])
    (again,) = backbone.generate([make_request(*CLIPS[:1])])
    assert again.reply == first.reply
    assert again.usage.output_tokens == 0
