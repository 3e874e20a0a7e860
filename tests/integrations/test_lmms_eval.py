"""A bench run by the real lmms-eval, with its model `dummy`, recorded and audited.

lmms-eval brings torch and an older PyAV, so it has its own environment: tools/test_lmms_eval.sh.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tests.benches.frame_log import footage

import trace_ves
from trace_ves.benches import load_bench
from trace_ves.benches.logs import read_logs
from trace_ves.benches.logs.recorded_frames import read_recorded
from trace_ves.integrations.lmms_eval import write_task

pytestmark = pytest.mark.skipif(find_spec("lmms_eval") is None, reason="lmms-eval is not installed here")


def test_the_dummy_model_of_lmms_eval_is_audited_with_the_frames_it_decoded(tmp_path: Path) -> None:
    (tmp_path / "bench" / "videos").mkdir(parents=True)
    footage.make(tmp_path / "bench" / "videos" / "film.mp4")
    line = {"video": "videos/film.mp4", "duration": 3.0, "question": "?", "options": ["x", "y"]}
    line["evidence"] = [[0.1, 0.9]]
    lines = [line | {"id": "q1", "answer": "A"}, line | {"id": "q2", "answer": "B"}]
    (tmp_path / "bench" / "questions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    bench = load_bench(tmp_path / "bench")
    write_task(bench, tmp_path / "task")
    command = [sys.executable, "-m", "lmms_eval", "--include_path", "task", "--tasks", "ves", "--log_samples"]
    command += ["--output_path", "logs", "--model", "dummy", "--model_args", "response=B,decode_num_frames=5"]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    environment = os.environ | offline | {"TRACE_VES_RECORD": "frames"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    recorded = read_recorded(tmp_path / "frames", bench.items)
    [run] = read_logs([tmp_path / "logs"], "lmms-eval", bench.items, recorded=recorded)
    # Without our decoder, which needs a newer PyAV than lmms-eval allows, the library's own timestamps are recorded.
    first, *others = run.predictions
    assert [(each.question_id, each.answer) for each in run.predictions] == [("q1", "B"), ("q2", "B")]
    start = first.timestamps[0]
    assert [round(1000 * (moment - start)) + footage.TICKS[0] for moment in first.timestamps] == [
        footage.TICKS[place] for place in np.linspace(0, len(footage.TICKS) - 1, 5, dtype=int)
    ]
    assert all(each.timestamps == first.timestamps for each in others)
    assert trace_ves.audit(bench.items, [run], resamples=10).runs[0].metrics["Acc"] == 50.0
