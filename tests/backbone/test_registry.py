"""From a spec to a backbone, and what is said when there is none."""

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, cast

import click.testing
import pytest

from trace_ves.backbone import default_spec, open_backbone, registry
from trace_ves.backbone.model_settings import Detail, ModelSettings, ReplyFormat, ServerKind, ServiceTier, Thinking
from trace_ves.backbone.registry import (
    BackboneOptions,
    Registration,
    Spec,
    is_own_code,
    may_open_unasked,
    registrations,
)
from trace_ves.backbone.remote import RemoteBackbone
from trace_ves.backbone.response_cache import CachedBackbone
from trace_ves.backbone.secret import find_secret, mask_known_keys
from trace_ves.cli.keys import keys_command
from trace_ves.cli.main import SETTINGS
from trace_ves.core import BackboneConfigError, InputError, MissingExtraError

LOCAL = "openai:m@http://127.0.0.1:1/v1"
NO_KEY = "{} needs a key: set {} in the environment, or run `trace-ves keys set {}`."
NO_SETTING = "The backbone {} has no setting {}; leave out --{}."
TWO_SETTINGS = ("thinking or detail", "thinking and --detail")
BAD_URL = "cannot be used: it must look like http://host:port/v1, without user, password or query."
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    *(
        (spec, {}, f"There is no backbone {spec!r}; there are anthropic:MODEL, azure:DEPLOYMENT, gemini:MODEL, ")
        for spec in ("", "qwen", "nobody:x", ":", "OpenAI:gpt-4o")
    ),
    ("gemini:m", {}, NO_KEY.format("gemini:m", "GEMINI_API_KEY or GOOGLE_API_KEY", "GEMINI_API_KEY")),
    ("openai:m", {}, NO_KEY.format("openai:m", "OPENAI_API_KEY", "OPENAI_API_KEY")),
    ("claude-m", {}, NO_KEY.format("anthropic:claude-m", "ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY")),
    ("openrouter/qwen/m", {}, NO_KEY.format("openrouter:qwen/m", "OPENROUTER_API_KEY", "OPENROUTER_API_KEY")),
    ("groq:m", {}, NO_KEY.format("groq:m", "GROQ_API_KEY", "GROQ_API_KEY")),
    ("azure:m", {}, "azure:m needs an address: set AZURE_OPENAI_ENDPOINT to https://RESOURCE.openai.azure.com."),
    ("vertex:m", {}, "vertex:m needs a Google Cloud project: set GOOGLE_CLOUD_PROJECT in the environment."),
    *((f"openai:m@{url}", {}, f"The URL after openai:m@ {BAD_URL}") for url in ("ftp://host/v1", "http://", "host")),
    *((f"openai:m@http://{url}", {}, f"The URL after openai:m@ {BAD_URL}") for url in ("host:99999/v1", "[::1/v1")),
    # What would put a password into run files:
    *((f"openai:m@http://{url}", {}, "The URL after ") for url in ("user:secret@host/v1", "host/v1?key=secret")),
    (LOCAL, {"max_output_tokens": 0}, "--max-output-tokens must be 1 or more, got 0."),
    *((LOCAL, {"timeout": float(n)}, f"The timeout must be more than 0 seconds, got {n}.") for n in ("nan", "inf")),
    (LOCAL, {"concurrency": 0}, "A remote backbone needs concurrency >= 1, got 0."),
    (LOCAL, {"thinking": "hard"}, "There is no thinking 'hard'; there are default, none, low, medium, high."),
    (LOCAL, {"detail": "4k"}, "There is no detail '4k'; there are auto, low, medium, high."),
    (LOCAL, {"service_tier": "fast"}, "There is no service tier 'fast'; there are standard, flex."),
    (LOCAL, {"server": "tgi"}, "There is no server kind 'tgi'; there are auto, vllm, sglang, llama.cpp, other."),
    (LOCAL, {"detail": "medium"}, f"{LOCAL} accepts the details low and high, not medium."),
    ("openai:m", {"server": "vllm"}, "openai:m is not your own server; leave out --server, or name one with @http"),
    ("anthropic:m", {"temperature": 1.5}, "anthropic:m takes a temperature from 0 to 1, got 1.5."),
    ("glance", {"temperature": 0.5}, NO_SETTING.format("glance", "temperature", "temperature")),
    ("glance", {"server": "vllm"}, NO_SETTING.format("glance", "server", "server")),
    ("anthropic:m", {"detail": "low"}, NO_SETTING.format("anthropic:m", "detail", "detail")),
    ("hf:x", {"service_tier": "flex"}, NO_SETTING.format("hf:x", "service-tier", "service-tier")),
    ("json:dumps", {"thinking": "low", "detail": "low"}, NO_SETTING.format("json:dumps", *TWO_SETTINGS)),
]


@pytest.mark.parametrize(("spec", "options", "sentence"), REFUSED)
def test_what_cannot_be_opened_is_a_sentence_that_says_what_to_do(
    spec: str, options: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "  ")
    with pytest.raises(BackboneConfigError) as caught:
        open_backbone(spec, **options)
    assert str(caught.value).startswith(sentence)
    assert "secret" not in str(caught.value)


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("end", ["", ":", ": "])
def test_a_spec_without_a_model(end: str) -> None:
    for spec in (f"{scheme}{end}" for scheme in ("gemini", "vertex", "openai", "anthropic")):
        with pytest.raises(BackboneConfigError, match=f"^The backbone '{spec}' names no model; write it as one of "):
            open_backbone(spec)


PAID = ["openai:m", "openai:m@https://openrouter.ai/api/v1", "openrouter:m", "anthropic:m", "gemini:m"]
ADDRESSES = ["qwen2.5vl:7b@http://127.0.0.1:8000/v1", "org/m@http://gpu-box:8000/v1", "m@http://192.168.1.7:8000/v1"]


@pytest.mark.parametrize("spec", [*PAID, *(f"openai:{each}" for each in ADDRESSES), "ollama:llava", "lmstudio:m"])
@pytest.mark.usefixtures("keys")
def test_replies_are_kept_where_they_cost_money_unless_said_otherwise(spec: str) -> None:
    assert isinstance(open_backbone(spec), CachedBackbone if spec in PAID else RemoteBackbone)
    assert isinstance(open_backbone(spec, cache=True), CachedBackbone)
    uncached = open_backbone(spec, cache=False)
    assert isinstance(uncached, RemoteBackbone)
    assert uncached._attempts._retry.attempt_seconds == (180 if spec in PAID else 600)
    assert open_backbone(spec).name == spec


@pytest.mark.parametrize(
    ("spec", "sdk", "extra"),
    [("gemini:m", "google", "gemini"), ("openai:m", "openai", "openai"), ("anthropic:m", "anthropic", "anthropic")],
)
@pytest.mark.usefixtures("keys")
def test_a_missing_sdk_says_what_to_install(spec: str, sdk: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name == sdk or name.startswith((f"{sdk}.", "trace_ves.backbone."))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, sdk, None)  # Python's own way to make an import fail
    with pytest.raises(MissingExtraError) as caught:
        open_backbone(spec)
    assert str(caught.value) == f"The backbone {spec} needs an optional part: pip install '.[{extra}]' in the checkout."


def test_without_a_key_there_is_no_default_but_a_guide() -> None:
    with pytest.raises(BackboneConfigError) as caught:
        default_spec()
    lines = str(caught.value).splitlines()
    keys = ("GEMINI_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY")
    for name in (*keys, "http://localhost", "hf:", "glance", "doctor"):
        assert sum(name in line for line in lines) == 1, name


def test_the_default_is_the_first_provider_with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, scheme in (("ANTHROPIC", "anthropic"), ("OPENAI", "openai"), ("GOOGLE", "gemini")):
        monkeypatch.setenv(f"{variable}_API_KEY", "k")
        assert default_spec().startswith(f"{scheme}:")


def run_keys(*words: str, secret: str = "sk-stored-0123456789") -> click.testing.Result:
    """`trace-ves keys` in this process."""
    return click.testing.CliRunner().invoke(keys_command, words, input=f"{secret}\n", **SETTINGS)


def test_stored_keys_are_used_masked_and_for_their_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_VES_CONFIG_DIR", str(tmp_path))
    for name in ("gemini", "http://gpu-box:8000/v1"):
        assert run_keys("set", name).exit_code == 0
    assert run_keys("list").output == "GEMINI_API_KEY  file\nTRACE_VES_GPU_BOX_8000_API_KEY  file\n"
    file = tmp_path / "keys.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert open_backbone("gemini:m").name == "gemini:m"
    assert default_spec() == "gemini:gemini-3.8-flash"
    assert "sk-stored" not in mask_known_keys("the key is sk-stored-0123456789")
    assert run_keys("remove", "GEMINI_API_KEY").exit_code == 0
    assert isinstance(run_keys("remove", "gemini").exception, InputError)
    assert "pip install keyring" in str(run_keys("set", "groq", "--keyring").exception)
    file.chmod(0o644)
    with pytest.raises(InputError, match="run chmod 600"):
        open_backbone("gemini:m")


class Keyring:
    """The package keyring: good, locked, or one that forgets."""

    def __init__(self) -> None:
        self.state, self.stored = "good", dict[tuple[str, str], str | None]()

    def set_password(self, service: str, name: str, secret: str) -> None:
        self.stored[service, name] = secret if self.state == "good" else None

    def get_password(self, service: str, name: str) -> str | None:
        if self.state == "locked":
            raise RuntimeError("No recommended backend was available.")
        return self.stored.get((service, name))

    def delete_password(self, service: str, name: str) -> None:
        del self.stored[service, name]


def test_the_system_keyring_keeps_keys_and_its_failures_are_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_VES_CONFIG_DIR", str(tmp_path))
    keyring = Keyring()
    monkeypatch.setitem(sys.modules, "keyring", keyring)  # type: ignore[arg-type]
    keys = partial(run_keys, secret="sk-of-the-ring-0123")
    assert keys("set", "groq", "--keyring").output == "GROQ_API_KEY is stored in the system keyring.\n"
    assert keys("list").output == "GROQ_API_KEY  keyring\n"
    assert "sk-of-the-ring" not in (tmp_path / "keys.json").read_text()
    assert find_secret("GROQ_API_KEY") == "sk-of-the-ring-0123"
    assert "sk-of-the-ring" not in mask_known_keys("it is sk-of-the-ring-0123")
    keyring.state = "locked"
    with pytest.raises(InputError, match=r"cannot be used: No recommended backend was available\. Set the key"):
        find_secret("GROQ_API_KEY")
    keyring.state = "forgets"
    assert "keyring did not keep the key" in str(keys("set", "openai", "--keyring").exception)
    keyring.state = "good"
    assert keys("remove", "groq").output == "GROQ_API_KEY is removed.\n"
    assert ("trace-ves", "GROQ_API_KEY") not in keyring.stored
    assert keys("list").output == "No key is set; `trace-ves keys set NAME` stores one.\n"


def test_only_built_in_backbones_without_an_address_may_be_opened() -> None:
    allowed = ("glance", "glance:64", "gemini:gemini-3-flash-preview", "openai:gpt-4o", "vertex:m")
    addresses = ("openai:m@http://host/v1", "openai:m@host", "openai:@http://host", "gemini:http://host")
    local = ("hf:./folder", "hf:somebody/model", "vllm:somebody/model", "vllm:--help")
    own = ("evil:main", "package.module:callable", "openai.evil:main")
    others = (*addresses, *local, *own, "", "nothing")
    assert [spec for spec in (*allowed, *others) if may_open_unasked(spec)] == [*allowed]
    assert [spec for spec in (*allowed, *local, *own) if is_own_code(spec)] == [*own]


OWN = """
import trace_ves

class Nameless:
    def generate(self, batch):
        return []

class Mine(Nameless):
    name = "mine:Mine"

class Silent:
    name = "mine:Silent"

def needs(argument): ...
def broken(): raise RuntimeError("no weights here")
def refuses(): raise trace_ves.InputError("mine: set MINE_KEY.")
def text(): return "hello"
"""


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("json:dumps", "json:dumps did not make a backbone when it was called without arguments: TypeError: dumps"),
        ("mine_backbones:needs", "called without arguments: TypeError: needs"),
        ("mine_backbones:broken", "called without arguments: RuntimeError: no weights here"),
        ("mine_backbones:refuses", "mine: set MINE_KEY."),
        *(
            (f"mine_backbones:{name}", f"{name} made {made}, which is not a backbone: it needs a `name` and a method")
            for name, made in (("text", "str"), ("Nameless", "Nameless"), ("Silent", "Silent"))
        ),
        ("collections:OrderedDict", "collections:OrderedDict made OrderedDict, which is not a backbone"),
        ("mine_backbones:nothing", "There is no backbone 'mine_backbones:nothing'; there are "),
    ],
)
def test_own_code_that_is_no_backbone_is_a_sentence(
    spec: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_backbones.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError) as caught:
        open_backbone(spec)
    assert sentence in str(caught.value)
    assert open_backbone("mine_backbones:Mine").name == "mine:Mine"


def test_every_kind_of_backbone_is_registered_by_its_own_package_without_its_sdk() -> None:
    heavy = {"openai", "anthropic", "google.genai", "torch", "onnxruntime", "httpx", "httpx2", "sqlite3", "av", "numpy"}
    code = (
        "import sys; from trace_ves.backbone.registry import account_variables, registrations; "
        f"print(*registrations()); print(*account_variables()); print(*{heavy} & {{*sys.modules}})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    schemes, variables, loaded = run.stdout.split("\n")[:3]
    assert (schemes.split(), variables.split()[:2]) == (sorted(KINDS), ["GEMINI_API_KEY", "GOOGLE_API_KEY"])
    assert loaded == ""


EVERYWHERE = {"temperature", "thinking", "reply_format", "max_output_tokens", "timeout"}
CLOUD, DETAIL = EVERYWHERE | {"detail", "service_tier"}, EVERYWHERE | {"detail"}
URL = "openai:MODEL@http://host:port/v1"
KINDS: dict[str, tuple[Any, ...]] = {  # forms, extra, variables, default model, settings, preference
    "anthropic": (("anthropic:MODEL",), "anthropic", ("ANTHROPIC_API_KEY",), "claude-haiku-5-5", EVERYWHERE, 3),
    "azure": (("azure:DEPLOYMENT",), "openai", ("AZURE_OPENAI_API_KEY",), None, DETAIL, 9),
    "gemini": (("gemini:MODEL",), "gemini", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "gemini-3.8-flash", CLOUD, 1),
    "glance": (("glance", "glance:FRAMES", "glance:seed=SEED"), "glance", (), None, set(), 0),
    "groq": (("groq:MODEL",), "openai", ("GROQ_API_KEY",), None, DETAIL, 9),
    "hf": (("hf:MODEL_OR_PATH",), "hf", (), None, {"temperature"}, 0),
    "lab": (("lab", "lab:SEED", "lab:SEED:noise=P"), "glance", (), None, set(), 0),
    "lmstudio": (("lmstudio:MODEL",), "openai", (), None, DETAIL, 9),
    "ollama": (("ollama:MODEL",), "openai", (), None, DETAIL, 9),
    "openai": (("openai:MODEL", URL), "openai", ("OPENAI_API_KEY",), "gpt-6.1-terra", CLOUD | {"server"}, 2),
    "openrouter": (("openrouter:MODEL",), "openai", ("OPENROUTER_API_KEY",), None, DETAIL, 9),
    "replay": (("replay:FILE",), "video", (), None, set(), 0),
    "vertex": (("vertex:MODEL",), "gemini", ("GOOGLE_CLOUD_PROJECT",), None, CLOUD, 2),
    "vllm": (("vllm:MODEL_OR_PATH",), "openai", (), None, EVERYWHERE - {"reply_format"}, 0),
}


def test_what_each_kind_of_backbone_is_registered_with() -> None:
    assert {
        name: (each.forms, each.extra, each.variables, each.default_model, each.settings, each.preference)
        for name, each in registrations().items()
    } == KINDS


def test_a_backbone_is_opened_with_what_was_chosen_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[Spec, BackboneOptions]] = []
    settings = frozenset(CLOUD | {"server"})
    mine = Registration(
        "mine", ("mine:X",), "", lambda *given: opened.append(given) or cast("Any", None), settings=settings
    )
    monkeypatch.setitem(registry._REGISTERED, "mine", mine)
    model = {"temperature": 0.5, "thinking": "low", "detail": "high", "reply_format": "words", "max_output_tokens": 9}
    more = {"service_tier": "flex", "server": "vllm", "timeout": 2.5, "refuse_dropped_frames": True}
    open_backbone("mine:x:y")
    open_backbone("mine/x", cache=False, concurrency=3, **model, **more)  # type: ignore[arg-type]
    none = ModelSettings(None, Thinking.DEFAULT, Detail.AUTO, ReplyFormat.SCHEMA, None)
    words = ModelSettings(0.5, Thinking.LOW, Detail.HIGH, ReplyFormat.WORDS, 9)
    assert opened == [
        (
            Spec("mine:x:y", "x:y"),
            BackboneOptions(None, none, None, ServiceTier.STANDARD, ServerKind.AUTO, None, False),
        ),
        (Spec("mine:x", "x"), BackboneOptions(False, words, 3, ServiceTier.FLEX, ServerKind.VLLM, 2.5, True)),
    ]
    assert BackboneOptions() == opened[0][1]
