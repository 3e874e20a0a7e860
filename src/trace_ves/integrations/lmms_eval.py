"""A bench as a task of lmms-eval: `python -m trace_ves.integrations.lmms_eval BENCH FOLDER [NAME]` writes it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trace_ves.benches import Bench, load_bench
from trace_ves.benches.logs.letters import read_letter
from trace_ves.core.errors import InputError
from trace_ves.core.files import refuse_inputs, write_atomic
from trace_ves.core.jsonl import dump_line
from trace_ves.core.question import LETTERS, Question

UTILS: Final = '''"""The functions of this task; they live in trace-ves."""

from trace_ves.integrations.lmms_eval import doc_to_text, doc_to_visual, mean_accuracy, process_results

__all__ = ["doc_to_text", "doc_to_visual", "mean_accuracy", "process_results"]
'''
TASK: Final = """\
task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {docs}
test_split: test
output_type: generate_until
doc_to_visual: !function utils.doc_to_visual
doc_to_text: !function utils.doc_to_text
doc_to_target: answer
process_results: !function utils.process_results
generation_kwargs:
  max_new_tokens: 16
  temperature: 0
  do_sample: false
metric_list:
  - metric: ves_accuracy
    aggregation: !function utils.mean_accuracy
    higher_is_better: true
lmms_eval_specific_kwargs:
  default:
    pre_prompt: ""
    post_prompt: "\\nAnswer with the letter of the option only."
metadata:
  - version: 1.0
"""


def write_task(bench: Bench, folder: Path, name: str = "ves") -> None:
    """Write the folder of a task. The videos are not copied, and all of them must exist."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,60}", name):
        raise InputError(f"{name!r} is not a task name; use lower-case letters, digits and underscores.")
    files = dict(zip(dict.fromkeys(item.question.video for item in bench.items), bench.video_files(), strict=True))
    if missing := [file for file in files.values() if not file.is_file()]:
        raise InputError(f"{missing[0]}: this video is missing ({len(missing)} of {len(files)} are).")
    docs = [
        {
            "id": item.question.id,
            "video": str(files[item.question.video].resolve()),
            "question": item.question.text,
            "options": list(item.question.options),
            "answer": item.answer,
            "family": item.question.family,
        }
        for item in bench.items
    ]
    contents: dict[str, bytes | str] = {
        "docs.jsonl": b"".join(map(dump_line, docs)),
        "utils.py": UTILS,
        f"{name}.yaml": TASK.format(name=name, docs=json.dumps(str((folder / "docs.jsonl").resolve()))),
    }
    for file, content in contents.items():
        write_atomic(folder / file, content)


Document = Mapping[str, Any]


def doc_to_visual(doc: Document) -> list[str]:
    """The path of the video, which lmms-eval's models decode."""
    return [str(doc["video"])]


def doc_to_text(doc: Document, lmms_eval_specific_kwargs: Mapping[str, str] | None = None) -> str:
    """The question, its options with their letters, and how to answer."""
    prompts = lmms_eval_specific_kwargs or {}
    options = "\n".join(f"{letter}. {text}" for letter, text in zip(LETTERS, doc["options"], strict=False))
    return f"{prompts.get('pre_prompt', '')}{doc['question']}\n{options}{prompts.get('post_prompt', '')}"


def process_results(doc: Document, results: Sequence[str]) -> dict[str, dict[str, object]]:
    """The log entry of an answer, which `trace-ves audit --format lmms-eval` reads."""
    question = Question(str(doc["id"]), str(doc["video"]), str(doc["question"]), tuple(doc["options"]))
    letter = read_letter(str(results[0]), question).letter if results else None
    return {
        "ves_accuracy": {
            "question_id": question.id,
            "pred_answer": letter or "",
            "answer": str(doc["answer"]),
            "score": float(letter == doc["answer"]),
        }
    }


def mean_accuracy(results: Sequence[Mapping[str, Any]]) -> float:
    """The accuracy in percent."""
    return 100 * sum(float(result["score"]) for result in results) / len(results) if results else 0.0


def main(arguments: list[str]) -> None:
    """Write the folder, and print how to use it."""
    if len(arguments) not in {2, 3} or arguments[0].startswith("-"):
        sys.stderr.write("usage: python -m trace_ves.integrations.lmms_eval BENCH FOLDER [NAME]\n")
        raise SystemExit(2)
    folder, name = Path(arguments[1]), (arguments[2:] or ["ves"])[0]
    try:
        bench = load_bench(arguments[0])
        refuse_inputs([folder, folder / "docs.jsonl"], inputs=[bench.path])
        write_task(bench, folder, name)
    except InputError as error:
        sys.stderr.write(f"trace-ves: {error}\n")
        raise SystemExit(2) from None
    sys.stdout.write(
        f"{folder}: {len(bench.items)} questions as the task {name}. Run it with\n"
        f"  python -m lmms_eval --include_path {folder} --tasks {name} --log_samples --output_path LOGS --model …\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
