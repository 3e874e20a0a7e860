"""A key that a service echoes, in whatever form, is in no message and in no file."""

import base64
import html
import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.fakes import Dialect, Response, Server, ask_once, make_request

from trace_ves.backbone import open_backbone
from trace_ves.backbone.secret import Key, redact
from trace_ves.core import BackboneError

SECRET = "gk+Q7v/xT2m-Zr9K_b4Wn8Jd5Ls1Hc6Py3"

FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "quoted": repr,
    "as JSON": json.dumps,
    "as JSON in JSON": lambda key: json.dumps(json.dumps({"key": key})),
    "escaped": lambda key: "".join(f"\\u{ord(char):04x}" for char in key),
    "in a URL": lambda key: f"https://x.test/v1?key={quote(key, safe='')}&alt=json",
    "percent-encoded": lambda key: "".join(f"%{ord(char):02X}" for char in key),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "URL-safe base64": lambda key: base64.urlsafe_b64encode(key.encode()).decode().rstrip("="),
    "basic authentication": lambda key: "Basic " + base64.b64encode(f"user:{key}".encode()).decode(),
    "inside base64": lambda key: base64.b64encode(f"authorization: Bearer {key}; more".encode()).decode(),
    "hex": lambda key: key.encode().hex(),
    "reversed": lambda key: key[::-1],
    "hex escapes": lambda key: "".join(f"\\x{ord(char):02x}" for char in key),
    "HTML entities": lambda key: "".join(f"&#{ord(char)};" for char in key),
    "HTML entities in hex": lambda key: "".join(f"&#x{ord(char):x};" for char in key),
    "escaped for HTML": lambda key: "".join(char if char.isalnum() else f"&#{ord(char)};" for char in key),
    "base32": lambda key: base64.b32encode(key.encode()).decode(),
    "inside base32": lambda key: base64.b32encode(f"abc {key}".encode()).decode(),
    "wrapped": lambda key: "\n  ".join(textwrap.wrap(key, 5)),
    "letter by letter": " ".join,
    "concatenated": lambda key: f"'{key[:12]}' + '{key[12:]}'",
    "in two pieces": lambda key: f"begins {key[: len(key) // 2]}, ends {key[len(key) // 2 :]}",
    "cut off": lambda key: key[: len(key) // 2] + "...",
    "upper case": str.upper,
}


def leaks(text: str, secret: str = SECRET) -> bool:
    """Whether eight characters of the key in a row can be read from a text, directly or by undoing an encoding."""
    plain = re.sub(r"\W|_", "", secret).lower()
    pieces = {plain[i : i + 8] for i in range(len(plain) - 7)}
    readings = [text]
    for blob in re.findall(r"[\w+/\-]{12,}", text, re.ASCII):
        for cut in range(4):
            padded = blob[cut:].replace("-", "+").replace("_", "/")
            readings.append(base64.b64decode(padded[: len(padded) // 4 * 4]).decode("latin-1"))
        if re.fullmatch(r"(?:[0-9a-fA-F]{2})+", blob):
            readings.append(bytes.fromhex(blob).decode("latin-1"))
    readings += [text[::-1], html.unescape(text)]
    for escape in (r"%([0-9a-fA-F]{2})", r"\\+u([0-9a-fA-F]{4})", r"\\x([0-9a-fA-F]{2})"):
        readings.append(re.sub(escape, lambda match: chr(int(match[1], 16)), text))
    for blob in re.findall(r"[A-Z2-7]{16,}", text):
        for cut in range(8):
            whole = blob[cut : cut + (len(blob) - cut) // 8 * 8]
            readings.append(base64.b32decode(whole).decode("latin-1"))
    compact = [re.sub(r"\W|_", "", reading).lower() for reading in readings]
    return any(piece in reading for reading in compact for piece in pieces)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_of_a_key_is_masked_and_the_rest_stays(form: Callable[[str], str]) -> None:
    message = f"the request with {form(SECRET)} was refused: quota of project 12345678 is used up"
    assert leaks(message)
    shown = Key("X_API_KEY", SECRET).redact(message)
    assert not leaks(shown)
    assert "[key]" in shown
    assert shown.startswith("the request with ")
    assert shown.endswith("was refused: quota of project 12345678 is used up")


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=20, max_size=60), st.sampled_from([*FORMS]))
@example("sk-ant-api03-0000000000000000000000", "inside base64")
def test_any_key_in_any_form(secret: str, form: str) -> None:
    shown = Key("X_API_KEY", secret).redact(f"refused: {FORMS[form](secret)} !")
    assert not leaks(shown, secret)


@given(st.text())
def test_a_text_without_the_key_is_left_alone(text: str) -> None:
    assert Key("X_API_KEY", SECRET).mask(text) == text
    assert Key("X_API_KEY", "none").mask(f"none of it: {text}") == f"none of it: {text}"  # a server without a key


def test_a_message_is_one_line_of_bounded_length_without_what_looks_like_a_key() -> None:
    said = redact("bad\nkey sk-proj-****abcd, or AIzaSyD-123456, or ya29.a0Af_x-1, or Bearer abcdef1")
    assert said == "bad key [key], or [key], or [key], or [key]"
    assert redact("x" * 10_000) == "x" * 4000 + "…"
    parts = {"8 5678-abcd": "8 [key]", "5678_abcd 8": "[key] 8", "678abcd": "678abcd", "78ABCDEF9": "[key]9"}
    assert {part: Key("X_API_KEY", "12345678-abcdef").mask(part) for part in parts} == parts
    request = f"{SECRET}: " + "/9j/4AAQSkZJRg" * 300_000  # frames and all
    quoted = Key("X_API_KEY", SECRET).redact(request)
    assert (quoted[:11], len(quoted)) == ("[key]: /9j/", 4001)
    assert Key("X_API_KEY", SECRET).redact(f"the key {SECRET[::-1]} is wrong") == "the key [key] is wrong"


QUESTIONS = [
    {"id": form, "video": "v.mp4", "question": f"{form}?", "options": ["a", "b"], "answer": "A", "duration": 9.0}
    for form in FORMS
]


@pytest.mark.parametrize("status", [401, 500])
def test_no_file_that_a_run_writes_holds_the_key_that_a_service_echoes(
    dialect: Dialect, server: Server, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_VES_CACHE_DIR", str(tmp_path / "cache"))
    echoes = [f"the header with {form(SECRET)} is not known" for form in FORMS.values()]
    server.respond(*(Response(status, dialect.error(echo), {"retry-after": "3600"}) for echo in echoes))
    variable = next(name for name in dialect.environment(server.url) if name.endswith("_API_KEY"))
    monkeypatch.setenv(variable, SECRET)
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, QUESTIONS)) + "\n")

    from trace_ves import evaluate

    evaluate(tmp_path / "questions.jsonl", ["blind"], f"{dialect.name}:m", out=tmp_path / "runs")
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "questions.jsonl"]
    run = next(path for path in written if path.suffix == ".jsonl")
    assert [bool(json.loads(line)["error"]) for line in run.read_text().splitlines()] == [True] * len(FORMS)
    for path in written:
        assert not leaks(path.read_bytes().decode("latin-1")), path.name


def test_a_reply_that_echoes_the_key_is_kept_without_it(dialect: Dialect, server: Server) -> None:
    echo = json.dumps({"colour": f"red, and {dialect.environment('')}"})
    assert "[key]" in ask_once(dialect, server, Response(body=dialect.ok(echo))).reply.colour
    response = Response(body=dialect.ok(f"no JSON but {dialect.environment('')}"))
    assert "never-to-be-seen" not in ask_once(dialect, server, response).reply.raw


def test_the_placeholder_key_of_a_local_server_is_no_secret(server: Server) -> None:
    server.respond(Response(status=400, body={"error": {"message": "none of the models fits"}}))
    with pytest.raises(BackboneError, match="none of the models fits"):
        open_backbone(f"openai:m@{server.url}/v1").generate([make_request()])
