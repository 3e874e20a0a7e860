"""The folder that `--include_path` takes: a task file, its functions, and the questions without their evidence."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from trace_ves.core.atomic import write_atomic
from trace_ves.core.errors import InputError
from trace_ves.core.jsonl import dump_line

if TYPE_CHECKING:
    from pathlib import Path

    from trace_ves.benchmarks import Bench

UTILS: Final = '''"""The functions of this task; they live in trace-ves."""

from trace_ves.integrations.lmms_eval.task import doc_to_text, doc_to_visual, mean_accuracy, process_results

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
    post_prompt: "\\nAnswer with the letter of the option alone."
metadata:
  - version: 1.0
"""


def write_task(bench: Bench, folder: Path, name: str = "ves") -> list[Path]:
    """Write the folder; gives the files. Videos stay where they are, and every one of them must be there."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,60}", name):
        raise InputError(f"{name!r} is no name of a task; write small letters, digits and underscores.")
    files = dict(zip(dict.fromkeys(item.question.video for item in bench.items), bench.video_files(), strict=True))
    if missing := [file for file in files.values() if not file.is_file()]:
        raise InputError(f"{missing[0]}: this video is not there ({len(missing)} of {len(files)} are not).")
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
    return [folder / file for file in contents]
