"""Tokens paid for with each provider's prompt cache, for the recorded calls of twin questions, before and after.

    python -m perf.prompt_caches [--questions 24] [--methods trace,vote-5] [--spec SPEC …]

The calls are recorded once, in the laboratory, and sent again through each provider's SDK to a server on loopback that
counts by the provider's published cache rules (tests/cache_rules.py). "Before": the bundles of a round leave at the
same moment, Anthropic's last four clips are marked in every call of several clips, OpenAI gets neither key nor marks.
"Words": after, with the reply's schema in words (`--reply-format words`). "Paid" weighs cached and written tokens by
their price. "Estimate": what `--estimate` says beforehand, from other questions, and how far it is from "after".
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.cache_servers import cache_server, environment
from tests.lab_over_http import Replies, drawn

from trace_ves.backbone.model_settings import ModelSettings, ReplyFormat
from trace_ves.backbone.prompt_caches import PrefixCache
from trace_ves.backbone.provider import CompletionRequest, ImagePart
from trace_ves.backbone.registry import BackboneOptions
from trace_ves.backbone.remote import RemoteBackbone
from trace_ves.backbone.secret import Key
from trace_ves.observer import Observer
from trace_ves.records import Usage
from trace_ves.runs.estimate import estimate
from trace_ves.runs.methods import default_budget, open_method
from trace_ves.runs.prices import load_prices
from trace_ves.twin.lab import Lab, WorldVideo
from trace_ves.twin.synthetic.bench import make_twin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trace_ves.backbone.protocol import Request
    from trace_ves.twin.synthetic.bench import TwinVideo

SPECS = (
    "anthropic:claude-sonnet-5",
    "openai:gpt-5.4-mini",
    "openai:gpt-5.6-terra",
    "gemini:gemini-3.8-flash",
)
CONCURRENCY = 8
NEW_FEATURES = {"cache_key", "cache_marks"}
SEED = 20_261_116


class Recorder:
    """The laboratory, with a copy of every batch and of what was answered."""

    def __init__(self) -> None:
        self._lab = Lab()
        self.name = self._lab.name
        self.batches: list[list[tuple[Request[Any], str]]] = []

    def generate(self, batch):
        """Answer, and write down."""
        generations = self._lab.generate(batch)
        replies = [generation.reply.model_dump_json() for generation in generations]
        self.batches.append(list(zip([drawn(request) for request in batch], replies, strict=True)))
        return generations


class AllTogether(RemoteBackbone):
    """As it was before: no request waits, and Anthropic's last four clips are marked where there are several."""

    def _detect_prefix_cache(self) -> PrefixCache:
        return PrefixCache()

    def _completion_request(self, request: Request[Any], shared_ends: tuple[int, ...]) -> CompletionRequest:  # noqa: ARG002
        call = super()._completion_request(request, ())
        ends = [place for place, part in enumerate(call.parts, 1) if isinstance(part, ImagePart) and part.ends_clip]
        marks = tuple(ends[-4:]) if len(ends) > 1 and self.name.startswith("anthropic") else ()
        return replace(call, shared_ends=marks)


def record(method: str, videos: Sequence[TwinVideo]) -> list[list[tuple[Request[Any], str]]]:
    """The batches of a method, question after question."""
    opened, recorder = open_method(method), Recorder()
    for video in videos:
        opened(video.items[0].question, Observer(WorldVideo(video.truth), recorder, budget=default_budget(opened)))
    return recorder.batches


def send(spec: str, batches: list[list[tuple[Request[Any], str]]], *, mode: str) -> Usage:
    """Send the batches to the loopback server of a provider, and add up what it counts."""
    replies = Replies()
    with cache_server(spec, replies.answer) as server:
        os.environ.update(environment(server))
        made = AllTogether if mode == "before" else RemoteBackbone
        settings = ModelSettings(reply_format=ReplyFormat.WORDS if mode == "words" else ReplyFormat.SCHEMA)
        adapter = provider(spec)
        if mode == "before":
            adapter.optional = {name: words for name, words in adapter.optional.items() if name not in NEW_FEATURES}
        backbone = made(adapter, BackboneOptions(model=settings, concurrency=CONCURRENCY))
        total = Usage()
        for batch in batches:
            replies.clear()
            replies.update({request.text: reply for request, reply in batch})
            server.expect_together(min(len(batch), CONCURRENCY) if mode == "before" else 1)
            total = sum((each.usage for each in backbone.generate([request for request, _ in batch])), total)
        return total


def provider(spec: str) -> Any:
    """The adapter of a provider, with a key that opens nothing."""
    scheme, _, model = spec.partition(":")
    key = Key(f"{scheme.upper()}_API_KEY", "sk-test-loopback")
    if scheme == "anthropic":
        from trace_ves.backbone.anthropic.provider import AnthropicProvider

        return AnthropicProvider(spec, model, key=key)
    if scheme == "openai":
        from trace_ves.backbone.openai.provider import OpenAIProvider

        return OpenAIProvider(spec, model, key=key)
    from trace_ves.backbone.gemini.provider import GeminiProvider

    return GeminiProvider(spec, model, key=key)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--methods", default="trace,vote-5")
    parser.add_argument("--spec", action="append")
    options = parser.parse_args()
    prices = load_prices()
    for method in options.methods.split(","):
        videos = make_twin(5 * options.questions, SEED)[: options.questions]
        durations = [video.items[0].duration for video in videos]
        batches = record(method, videos)
        calls = sum(len(batch) for batch in batches)
        print(f"\n{method}: {calls} calls of {options.questions} questions; tokens and dollars for one question")
        print(f"{'':28}{'':9}{'input':>9}{'cached':>9}{'written':>9}{'paid':>9}{'dollars':>10}")
        for spec in options.spec or SPECS:
            price = prices.of(spec)
            first = after = None
            for mode in ("before", "after", "words"):
                usage = send(spec, batches, mode=mode)
                written = usage.cache_write_tokens or 0
                dollars = price.of(usage) / options.questions
                paid = price.of(replace(usage, output_tokens=0)) / price.input * 1e6 / options.questions
                first = first or paid
                numbers = (usage.input_tokens, usage.cached_tokens, written)
                shown = "".join(f"{number / options.questions:>9,.0f}" for number in numbers)
                change = f"{paid / first - 1:+.1%}" if mode != "before" else ""
                print(f"{spec:28}{mode:9}{shown}{paid:>9,.0f}{dollars:>10.4f}  {change}", flush=True)
                after = dollars if mode == "after" else after
            expected = estimate(method, spec, durations, price).dollars() / options.questions
            print(f"{spec:28}{'estimate':9}{'':36}{expected:>10.4f}  {expected / after - 1:+.1%}", flush=True)


if __name__ == "__main__":
    main()
