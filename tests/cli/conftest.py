"""The command line as a person runs it, and a model behind a real HTTP server."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import program
from tests.fake_models import default_value
from tests.fakes import OPENAI, Received, Response, Server
from tests.films import write_film

Call = Callable[..., program.Done]


@pytest.fixture
def call() -> Call:
    """Run `trace-ves` in this process. What depends on how a process starts or ends is in test_process.py."""
    return program.run


def run_to(*arguments: object, status: int = 0, **options: Any) -> program.Done:
    """The same for a command that must end with `status`."""
    done = program.run(*arguments, **options)
    assert done.returncode == status, done.stderr
    return done


@pytest.fixture
def cli() -> Call:
    return run_to


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes, red before and blue after the middle."""
    colours = [(255, 0, 0)] * 300 + [(0, 0, 255)] * 300
    return write_film(tmp_path_factory.mktemp("ask") / "colours.mp4", colours, fps=5, size=(96, 64))


class Model:
    """Answers requests in OpenAI's protocol as a model that sees red would."""

    said = ""

    def answer(self, text: str, images: int) -> dict[str, Any]:
        """The reply, told from the words of the prompt."""
        if "List what has to be seen" in text:
            return {"claims": [{"claim": "the colour", "kind": "fact", "values": []}]}
        if "candidates: up to" in text:
            candidate = {"start": 10, "end": 26, "moment": 18, "claims": ["c1"], "look_for": "general"}
            return {"notes": [], "candidates": [candidate] if images else []}
        if "a short stretch" in text:
            span = {"start": 12, "end": 20, "claims": ["c1"]}
            return {"seen": "red", "relevant": "yes", "spans": [span], "look_between": []}
        if "one square" in text:
            return {"colour": "red"}
        if "facts_supported" in text:
            facts = [{"claim": "c1", "value": "red", "spans": []}]
            return {"seen": "red", "facts_supported": facts, "unmet_needs": [], "status": "answerable", "answer": "A"}
        return {"answer": "A" if "letter of an option" in text and '"A"' in text else "red"}

    def __call__(self, received: Received) -> Response:
        parts = [part for _, content in OPENAI.content(received.body) for part in content]
        text = "\n".join(part for kind, part in parts if kind == "text")
        images = sum(kind == "image" for kind, _ in parts)
        images = 0 if "Say nothing." in text else images  # it does not say what a frame takes
        schema = OPENAI.schema(received.body)
        default = default_value(schema) if schema else {}  # for stages that `answer` does not know
        said = self.said or json.dumps(default | self.answer(text, images))
        return Response(body=OPENAI.ok(said, read=100 * images, output=10))


class Chatterbox(Model):
    """A model that talks and never gives JSON."""

    said = "Sure! I would be happy to describe the video for you."


def serving(model: type[Model]) -> Iterator[str]:
    server = Server()
    server.respond(model())
    yield f"openai:red@{server.url}/v1"
    server.close()


@pytest.fixture
def backbone() -> Iterator[str]:
    yield from serving(Model)


@pytest.fixture
def chatterbox() -> Iterator[str]:
    yield from serving(Chatterbox)
