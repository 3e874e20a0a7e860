"""`trace-ves doctor`: what is installed, which backbones are ready, what to do next. Only --try calls a model."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from importlib import metadata
from typing import TYPE_CHECKING, Final, NamedTuple

import click
from pydantic import BaseModel, Field

from trace_ves._version import __version__
from trace_ves.backbone.protocol import ModelFault, Prompt, Request
from trace_ves.backbone.registry import account_variables, default_spec, open_backbone, registrations, setup_guide
from trace_ves.backbone.replies import answer_reply, question_variables
from trace_ves.backbone.secret import find_secret
from trace_ves.cli.options import requires_extra
from trace_ves.core import BackboneConfigError, Clip, Frame, Interval, ObservationStrategy, Question, UnknownStageError
from trace_ves.core.errors import install_command
from trace_ves.core.files import cache_dir

if TYPE_CHECKING:
    from trace_ves.video.picture import YuvPicture


class Part(NamedTuple):
    """An extra of the package: its purpose and the distributions it needs."""

    extra: str
    purpose: str
    distributions: tuple[str, ...]

    def versions(self) -> str:
        """The installed versions; empty if a distribution is missing."""
        try:
            return ", ".join(f"{name} {metadata.version(name)}" for name in self.distributions)
        except metadata.PackageNotFoundError:
            return ""


SMI_SECONDS: Final = 10.0  # longer than nvidia-smi takes on a busy machine

PARTS: Final = (
    Part("video", "decode videos", ("av", "httpx", "simplejpeg", "pillow")),
    Part("glance", "the embedded backbone glance, and the demo", ("onnxruntime",)),
    Part("gemini", "backbones gemini: and vertex:", ("google-genai",)),
    Part("openai", "backbone openai:, also for vLLM and other compatible servers", ("openai",)),
    Part("anthropic", "backbone anthropic:", ("anthropic",)),
    Part("hf", "backbone hf:, a local model", ("torch", "transformers")),
    Part("ray", "run --engine ray", ("ray",)),
    Part("figures", "audit --figures", ("matplotlib",)),
    Part("web", "view, studio, ask --view, build serve", ("fastapi", "uvicorn", "jinja2")),
    Part("build", "build a bench of your own", ("sqlalchemy", "psycopg")),
    Part("youtube", "ask about a YouTube video by its address", ("yt-dlp",)),
    Part("inspect", "inspect eval trace_ves/ves", ("inspect-ai",)),
    Part("mcp", "mcp: videos for an assistant", ("mcp",)),
    Part("logs", "read logs of VLMEvalKit and inspect_ai", ("openpyxl", "zstandard")),
    Part("parquet", "import benchmarks that come as parquet", ("pyarrow",)),
)


def missing_extras(*extras: str) -> list[str]:
    """The extras in this list that are not installed."""
    return [part.extra for part in PARTS if part.extra in extras and not part.versions()]


class Finding(NamedTuple):
    """One line of the report."""

    name: str
    present: bool
    detail: str


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--try", "spec", metavar="SPEC", help="Make one real call to this backbone; it may cost a little.")
def doctor_command(as_json: bool, spec: str | None) -> int:
    """Show what is installed, which keys are set (never the keys), which backbones are ready, and what to do next."""
    if spec is not None:
        trial = try_backbone(spec)
        click.echo(json.dumps(trial._asdict()) if as_json else trial.sentence)
        return int(not trial.passed)
    sections = {
        "package": _package(),
        "extras": _extras(),
        "keys": _keys(),
        "backbones": _backbones(),
        "decoders": _decoders(),
        "machine": _machine(),
    }
    if as_json:
        report = {title: [finding._asdict() for finding in findings] for title, findings in sections.items()}
        click.echo(json.dumps(report))
        return 0
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    for title, findings in sections.items():
        table = Table.grid(padding=(0, 4, 0, 0))
        for finding in findings:
            mark = "[green]yes[/]" if finding.present else "[yellow]no[/]"
            table.add_row(f"  {mark}", escape(finding.name), escape(finding.detail))
        console.print(f"[bold]{title}[/]", table, "", sep="\n")
    click.echo(_next_step())
    return 0


def _next_step() -> str:
    """What to do next, in one sentence."""
    if missing_extras("video"):
        return f"Next: {install_command('video')}, without which no video can be opened."
    try:
        spec = default_spec()
    except BackboneConfigError:
        return f"Next: trace-ves ask --sample shows an answer without a model. For your own videos,\n{setup_guide()}"
    return f"Next: trace-ves doctor --try {spec}, then trace-ves ask VIDEO QUESTION; it will use {spec}."


def _package() -> list[Finding]:
    cache = cache_dir()
    existing = next(folder for folder in (cache, *cache.absolute().parents) if folder.is_dir())
    writable = os.access(existing, os.W_OK)
    return [
        Finding("trace-ves", True, __version__),
        Finding("python", True, f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        Finding("cache", writable, str(cache) if writable else f"{cache} cannot be written; set TRACE_VES_CACHE_DIR"),
    ]


def _extras() -> list[Finding]:
    return [
        Finding(part.extra, bool(known := part.versions()), f"{part.purpose} ({known or install_command(part.extra)})")
        for part in PARTS
    ]


def _backbones() -> list[Finding]:
    """Which kinds of backbone are ready, and what the others need."""
    findings = []
    for registration in registrations().values():
        needs = [install_command(extra) for extra in missing_extras(registration.extra or "")]
        if registration.variables and not any(find_secret(variable) for variable in registration.variables):
            needs.append(f"set {' or '.join(registration.variables)}")
        if registration.scheme == "vllm" and shutil.which(os.environ.get("TRACE_VES_VLLM") or "vllm") is None:
            needs.append("vLLM is not installed: set TRACE_VES_VLLM to the bin/vllm of a separate environment")
        findings.append(Finding(registration.forms[0], not needs, ", ".join(needs) or "ready"))
    return findings


def _keys() -> list[Finding]:
    return [
        Finding(key, bool(find_secret(key)), "set" if find_secret(key) else f"not set: trace-ves keys set {key}")
        for key in account_variables()
    ]


def _decoders() -> list[Finding]:
    try:
        import av
    except ModuleNotFoundError:
        return [Finding("ffmpeg libraries", False, "come with the extra video; no ffmpeg program is needed")]

    libraries = ", ".join(f"{name} {'.'.join(map(str, version))}" for name, version in av.library_versions.items())
    codecs = {"H.264": "h264", "HEVC": "hevc", "VP9": "vp9", "AV1": "libdav1d"}
    codec_findings = [Finding(name, codec in av.codecs_available, "can be decoded") for name, codec in codecs.items()]
    return [Finding("ffmpeg libraries", True, libraries), *codec_findings]


def _machine() -> list[Finding]:
    count = os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count()
    cores = Finding("cores", True, str(count))
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return [cores, Finding("GPU", False, "none found; only local models (hf:, vllm:) need one")]
    query = [tool, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        completed = subprocess.run(query, capture_output=True, text=True, timeout=SMI_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return [cores, Finding("GPU", False, "nvidia-smi does not respond; restart the driver")]
    names = completed.stdout.strip().replace("\n", "; ")
    return [cores, Finding("GPU", completed.returncode == 0 and bool(names), names or "nvidia-smi reports no GPU")]


PROMPT: Final = Prompt("test-call", "The frame above shows one square on a white ground. Which colour is the square?")


class Square(BaseModel):
    """The reply to the test call."""

    colour: str = Field(description="the colour of the square, in one word", max_length=40)


@requires_extra("A test call", "video")
def _draw_red_square() -> YuvPicture:
    """Draw the picture of the test call: a red square of 48 x 48 pixels on white."""
    import numpy as np

    from trace_ves.video.picture import YuvPicture

    luma, (blue, red) = np.full((96, 128), 255, np.uint8), np.full((2, 48, 64), 128, np.uint8)
    luma[24:72, 40:88], blue[12:36, 20:44], red[12:36, 20:44] = 81, 99, 213
    return YuvPicture(luma, blue, red)


class Trial(NamedTuple):
    """The outcome of a test call."""

    passed: bool
    sentence: str


def try_backbone(spec: str) -> Trial:
    """Ask a backbone about one picture. A failing service raises a `BackboneError`, as it does in a run."""
    clip = Clip(Interval(0, 1), ObservationStrategy(), (Frame(0, 0.0, _draw_red_square()),))
    backbone = open_backbone(spec, cache=False)
    try:
        [generation] = backbone.generate([Request(PROMPT, {}, Square, (clip,))])
    except UnknownStageError:  # a rule-based backbone only knows the stages of methods
        question = Question("test", "", "Which colour is the square?", ("red", "blue"))
        prompt = Prompt("direct-answer", "$question $options")
        request = Request(prompt, question_variables(question), answer_reply(question), (clip,))
        passed = not isinstance(backbone.generate([request])[0].reply, ModelFault)
        return Trial(passed, f"{spec} {'works' if passed else 'fails'}; it answers about synthetic videos only.")
    reply, usage = generation.reply, generation.usage
    note = f"{generation.seconds:.1f} s, {usage.input_tokens} tokens in, {usage.output_tokens} out"
    if isinstance(reply, ModelFault):
        quote = f' It said: "{" ".join(reply.raw.split())[:200]}".' if reply.raw.strip() else ""
        return Trial(False, f"{spec} replied, but the reply cannot be used: {reply.reason}{quote} ({note})")
    if "red" not in reply.colour.lower():
        return Trial(False, f"{spec} called a red square {reply.colour!r}: this model may not see pictures. ({note})")
    return Trial(True, f"{spec} works: it saw that the square is {reply.colour}. ({note})")
