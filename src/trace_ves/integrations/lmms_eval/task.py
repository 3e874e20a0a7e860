"""What lmms-eval calls for each document of a bench; imports nothing of lmms-eval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trace_ves.core.question import LETTERS, Question
from trace_ves.logs.letters import letter_in

Document = Mapping[str, Any]


def doc_to_visual(doc: Document) -> list[str]:
    """The path of the video; lmms-eval's models decode it as they like."""
    return [str(doc["video"])]


def doc_to_text(doc: Document, lmms_eval_specific_kwargs: Mapping[str, str] | None = None) -> str:
    """The question, its options with their letters, and how to answer."""
    words = lmms_eval_specific_kwargs or {}
    options = "\n".join(f"{letter}. {text}" for letter, text in zip(LETTERS, doc["options"], strict=False))
    return f"{words.get('pre_prompt', '')}{doc['question']}\n{options}{words.get('post_prompt', '')}"


def process_results(doc: Document, results: Sequence[str]) -> dict[str, dict[str, object]]:
    """What is logged of an answer: `trace-ves audit --format lmms-eval` reads it."""
    question = Question(str(doc["id"]), str(doc["video"]), str(doc["question"]), tuple(doc["options"]))
    found = letter_in(str(results[0]), question) if results else None
    return {
        "ves_accuracy": {
            "question_id": question.id,
            "pred_answer": found or "",
            "answer": str(doc["answer"]),
            "score": float(found == doc["answer"]),
        }
    }


def mean_accuracy(results: Sequence[Mapping[str, Any]]) -> float:
    """Correct answers in percent."""
    return 100 * sum(float(result["score"]) for result in results) / len(results) if results else 0.0
