"""What is compiled on a GPU, where it cannot be compiled."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra hf")

from trace_ves.backbone.hf import layers  # noqa: E402  after the skip


class OnGpu:
    """What a function sees of a tensor on a GPU before it is called."""

    is_cuda = True


def test_without_a_compiler_the_functions_run_as_they_are(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[Any] = []

    def no_compiler(work: Any, **_: Any) -> Any:
        def fail(*_: Any) -> None:
            asked.append(work)
            raise RuntimeError("Failed to find C compiler")

        return fail

    monkeypatch.setattr(torch, "compile", no_compiler)
    call = layers.compile_on_gpu(lambda _: "as it is")
    assert [call(OnGpu()), call(OnGpu())] == ["as it is"] * 2
    assert len(asked) == 1
    assert "torch cannot compile here (RuntimeError)" in caplog.text


def test_too_little_memory_is_no_failure_of_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(torch, "compile", lambda _, **__: full)
    call = layers.compile_on_gpu(lambda _: "as it is")
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError):
            call(OnGpu())
