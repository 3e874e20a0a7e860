"""What a person can get wrong about a local model, each with its sentence."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from trace_ves.backbone import open_backbone
from trace_ves.core import BackboneConfigError, MissingExtraError

needs_hf = pytest.mark.skipif(not (find_spec("torch") and find_spec("llguidance")), reason="needs the extra hf")


@pytest.mark.skipif(find_spec("torch") is not None, reason="the extra hf is installed")
def test_the_missing_extra_is_named() -> None:
    with pytest.raises(MissingExtraError, match=r"\.\[hf\]"):
        open_backbone("hf:Qwen/Qwen3-VL-8B-Instruct")


def test_torch_is_not_imported_for_other_backbones() -> None:
    code = (
        "import sys, trace_ves, trace_ves.backbone\n"
        "from trace_ves.core import TraceVesError\n"
        "for spec in ('hf:', 'openai:m@http://127.0.0.1:9/v1', 'none'):\n"
        "    try: trace_ves.backbone.open_backbone(spec)\n"
        "    except TraceVesError: pass\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "[]\n"


@needs_hf
def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BackboneConfigError, match=r"there is no folder .*nowhere"):
        open_backbone(f"hf:{tmp_path}/nowhere")


@needs_hf
def test_a_name_that_nobody_has(tmp_path: Path) -> None:
    code = "from trace_ves.backbone import open_backbone; open_backbone('hf:nobody/has-this')"
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", code], check=False, env=environment, capture_output=True, text=True, timeout=120
    )
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("trace_ves.core.errors.BackboneConfigError: hf:nobody/has-this: transformers cannot load")


@pytest.fixture
def copy(checkpoints: dict[str, Path], tmp_path: Path) -> Path:
    return shutil.copytree(checkpoints["qwen3_vl"], tmp_path / "model")


@needs_hf
def test_a_model_larger_than_the_memory(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    config["text_config"] |= {"hidden_size": 65536, "intermediate_size": 262144, "num_hidden_layers": 100}
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(BackboneConfigError, match=r"needs about \d+ GiB of memory and the .* has \d+"):
        open_backbone(f"hf:{copy}")


CONFIGS = ["{", "[]", '{"model_type": "none"}', '{"model_type": "qwen3_vl", "text_config": 7}']
NO_EYES = '{"model_type": "llama"}'


@needs_hf
@pytest.mark.parametrize("config", [None, *CONFIGS, NO_EYES])
def test_weights_that_are_cut_off_and_a_config_that_cannot_be_used(copy: Path, config: str | None) -> None:
    if config is None:
        (copy / "model.safetensors").write_bytes((copy / "model.safetensors").read_bytes()[:1000])
    else:
        (copy / "config.json").write_text(config)
    with pytest.raises(BackboneConfigError, match="transformers cannot load an image-and-text model"):
        open_backbone(f"hf:{copy}")


@needs_hf
def test_a_missing_gpu_is_said(checkpoints: dict[str, Path], caplog: pytest.LogCaptureFixture) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    open_backbone(f"hf:{checkpoints['qwen3_vl']}")
    assert [record.message for record in caplog.records if "CPU" in record.message] == [
        f"hf:{checkpoints['qwen3_vl']} runs on the CPU, because torch sees no GPU; that works, slowly."
    ]


@needs_hf
@pytest.mark.parametrize("part", ["config.json", "preprocessor_config.json", "tokenizer_config.json"])
def test_code_that_a_checkpoint_brings_along_is_never_run(
    copy: Path, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "was-run"
    (copy / "own_code.py").write_text(f"open({str(marker)!r}, 'w').close()\nclass Own: pass\n")
    names = ("AutoConfig", "AutoModelForImageTextToText", "AutoProcessor", "AutoImageProcessor", "AutoTokenizer")
    path = copy / part
    stated = json.loads(path.read_text()) if path.exists() else {}
    stated |= {"auto_map": dict.fromkeys(names, "own_code.Own")}
    if part == "config.json":
        stated["model_type"] = "own_model"
    path.write_text(json.dumps(stated))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    try:
        open_backbone(f"hf:{copy}")
    except BackboneConfigError as error:
        assert "\n" not in str(error)  # noqa: PT017  some parts can be loaded without their code
    assert not marker.exists()


@needs_hf
@pytest.mark.parametrize(
    ("quantization", "share"),
    [
        ({"quant_method": "awq", "bits": 4}, 4 / 32),
        ({"quant_method": "gptq", "bits": 8}, 8 / 32),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4 / 32),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8 / 32),
        ({"quant_method": "fp8"}, 8 / 32),
        ({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 4}}}}, 4 / 32),
        ({"quant_method": "of tomorrow"}, 16 / 32),
    ],
)
def test_quantised_weights_are_counted_by_their_bits(
    checkpoints: dict[str, Path], quantization: dict[str, Any], share: float
) -> None:
    import torch
    import transformers

    from trace_ves.backbone.hf.loading import _count_weight_bytes

    config = transformers.AutoConfig.from_pretrained(checkpoints["qwen3_vl"])
    with torch.device("meta"):
        empty = transformers.AutoModelForImageTextToText.from_config(config)
    linear = sum(
        module.weight.numel()
        for name, module in empty.named_modules()
        if isinstance(module, torch.nn.Linear) and "lm_head" not in name
    )
    whole = _count_weight_bytes(empty, None, torch.float32)
    assert whole == 4 * sum(parameter.numel() for parameter in empty.parameters())
    assert _count_weight_bytes(empty, quantization, torch.float32) == whole - 4 * linear * (1 - share)
    kept = quantization | {"modules_to_not_convert": ["visual", "language_model"]}
    assert _count_weight_bytes(empty, kept, torch.float32) == whole


def test_the_page_about_local_models_says_what_the_code_does() -> None:
    root = Path(__file__).parents[3]
    text = " ".join((root / "docs" / "local-models.md").read_text(encoding="utf-8").split())
    named = re.findall(r"(?:perf|tests)/[\w/]+\.py", text)
    assert named
    assert all((root / name).is_file() for name in named)
    pytest.importorskip("torch", reason="needs the extra hf")
    from trace_ves.backbone.hf import grammar
    from trace_ves.backbone.hf.decoder import MODEL_TYPES

    names = {"qwen3_vl": "Qwen3-VL", "qwen3_vl_moe": "Qwen3-VL", "qwen2_5_vl": "Qwen2.5-VL"}
    assert {names[kind] for kind in MODEL_TYPES} <= set(re.findall(r"Qwen[\d.]+-VL", text))
    assert f"after {grammar.MAX_NEW_TOKENS} tokens" in text
    assert "within a billion" in text
    assert grammar.LARGEST_NUMBER == 1e9
