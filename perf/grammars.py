"""What it costs to hold a model to our largest reply: llguidance, which `hf:` uses, against xgrammar.

Trains a tokenizer of Qwen's size on the Python files of this environment, compiles the schema of an evidence record as
narrowed for one question, and follows a reply token by token on the CPU.

    python perf/grammars.py            needs the extra hf, and xgrammar for the comparison
"""

from __future__ import annotations

import json
import statistics
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llguidance
import llguidance.hf
import llguidance.numpy
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from trace_ves.agent.evidence_assembly import AssemblyReply, FactReply
from trace_ves.backbone.hf.grammar import KEPT_KEYWORDS, STYLE
from trace_ves.backbone.replies import make_strict_schema

if TYPE_CHECKING:
    from collections.abc import Callable

VOCABULARY = 150_000
REPLY = {
    "seen": "a red ball rolls over the table",
    "facts_supported": [
        {"claim": "c1", "value": "red", "spans": []},
        {"claim": "c3", "value": "2", "spans": [{"start": 12.5, "end": 14.0}, {"start": 40.0, "end": 42.5}]},
    ],
    "unmet_needs": ["c2", "c4"],
    "status": "answerable",
    "answer": "C",
}


def tokenizer() -> Any:
    files = [str(path) for path in sorted(Path(sysconfig.get_paths()["purelib"]).rglob("*.py"))[:6000]]
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|endoftext|>", "<|im_end|>"]
    trained.train(
        files,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY, initial_alphabet=alphabet, special_tokens=special, show_progress=False
        ),
    )
    return PreTrainedTokenizerFast(tokenizer_object=trained, eos_token="<|im_end|>")


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def follow(
    name: str, compiled: tuple[float, Any], fill: Callable[[Any], Any], accept: Callable[[Any, int], Any]
) -> None:
    seconds, matcher = compiled
    steps = []
    for token in IDS:
        step, taken = timed(lambda token=token: (fill(matcher), accept(matcher, token))[1])
        assert taken, f"{name} refuses token {token}"
        steps.append(step)
    print(f"{name:12} compile {seconds * 1000:9.1f} ms   a token {statistics.median(steps) * 1e6:6.0f} us (median)")


TOKENIZER = tokenizer()
IDS = TOKENIZER(json.dumps(REPLY)).input_ids
SCHEMA = make_strict_schema(AssemblyReply.model_json_schema(), keep=KEPT_KEYWORDS)


def main() -> None:
    print(f"{len(TOKENIZER)} tokens in the vocabulary, {len(IDS)} in the reply, {FactReply.__name__} up to 64 times")
    words = llguidance.hf.from_tokenizer(TOKENIZER)
    bits: Any = llguidance.numpy.allocate_token_bitmask(1, len(TOKENIZER))

    def by_llguidance() -> Any:
        return llguidance.LLMatcher(words, llguidance.LLMatcher.grammar_from_json_schema(SCHEMA, overrides=STYLE))

    by_llguidance()  # the first of a process also starts the library
    follow(
        "llguidance",
        timed(by_llguidance),
        lambda matcher: llguidance.numpy.fill_next_token_bitmask(matcher, bits),
        lambda matcher, token: matcher.consume_token(token),
    )
    try:
        import xgrammar
    except ModuleNotFoundError:
        print("xgrammar is not installed")
        return
    compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo.from_huggingface(TOKENIZER), max_threads=2)
    mask = xgrammar.allocate_token_bitmask(1, len(TOKENIZER))
    follow(
        "xgrammar",
        timed(lambda: xgrammar.GrammarMatcher(compiler.compile_json_schema(json.dumps(SCHEMA)))),
        lambda matcher: matcher.fill_next_token_bitmask(mask),
        lambda matcher, token: matcher.accept_token(token),
    )


if __name__ == "__main__":
    main()
