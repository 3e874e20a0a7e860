"""Fake models: replies by stage with a valid default for every other stage, and a backbone that counts its requests."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from trace_ves.backbone import Generation, ModelFault, Request
from trace_ves.core import BackboneError
from trace_ves.records import Usage
from trace_ves.records.transcript import ModelText


def default_reply(reply: type[BaseModel]) -> BaseModel:
    """A valid reply that says as little as the type allows."""
    return reply.model_validate(default_value(reply.model_json_schema()))


def default_value(schema: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> Any:
    """A value that a JSON schema allows: null, the default, the first choice, or nearly nothing."""
    definitions = schema.get("$defs", {}) if definitions is None else definitions
    if "$ref" in schema:
        return default_value(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return None if {"type": "null"} in choices else default_value(choices[0], definitions)
    for fixed in ("default", "const"):
        if fixed in schema:
            return schema[fixed]
    if "enum" in schema:
        return schema["enum"][0]
    required = {name: schema["properties"][name] for name in schema.get("required", ())}
    least = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
    return {
        "object": {name: default_value(part, definitions) for name, part in required.items()},
        "array": [default_value(schema["items"], definitions) for _ in range(schema.get("minItems", 0))],
        "string": "x" * max(1, schema.get("minLength", 0)),
        "number": least,
        "integer": least,
        "boolean": False,
    }[schema["type"]]


class StageModel:
    """Answers by stage and records its requests; a stage that it does not know gets a default reply.

    What it says for a stage comes from `replies` or from the method of that name: a mapping, a `ModelFault`, a list of
    them for one call after another, or a function of the request.
    """

    def __init__(self, replies: Mapping[str, Any] | None = None) -> None:
        self.replies = {
            stage: list(said) if isinstance(said, list) else said for stage, said in (replies or {}).items()
        }
        self.requests: list[Request[Any]] = []

    def __call__(self, request: Request[Any]) -> Any:
        assert request.text  # every variable of the prompt is filled in
        self.requests.append(request)
        method = getattr(self, request.stage.replace("-", "_"), None)
        said = self.replies.get(request.stage, method)
        if said is None:
            return default_reply(request.reply)
        if isinstance(said, list):
            said = said.pop(0)
        return said(request) if callable(said) else said

    def of(self, stage: str) -> list[Request[Any]]:
        """The requests of one stage."""
        return [request for request in self.requests if request.stage == stage]


EMPTY: dict[str, dict[str, Any]] = {
    "temporal-proposal": {"notes": [], "candidates": []},
    "anchor-extraction": {"seen": "", "spans": [], "look_between": []},
    "anchor-prioritization": {"seen": []},
    "evidence-assembly": {"seen": "", "facts_supported": [], "unmet_needs": []},
    "trajectory-reconciler": {"target_anchors": [], "target_intervals": [], "observation_strategy": None},
}
"""What a reply says where a test has nothing to say."""


def full(request: Request[Any], said: Any) -> Any:
    """The reply that a test means, with the fields that it left out."""
    return complete(request.stage, said) if isinstance(said, dict) else said


def complete(stage: str, said: dict[str, Any]) -> dict[str, Any]:
    """The same for a stage."""
    said = EMPTY.get(stage, {}) | said
    if stage == "temporal-proposal":
        said["notes"] = [{"promising": True} | note for note in said["notes"]]
        said["candidates"] = [
            {"moment": None, "claims": [], "look_for": "general"} | candidate for candidate in said["candidates"]
        ]
    if stage == "claims":
        said["claims"] = [{"kind": "fact", "values": []} | claim for claim in said["claims"]]
    return said


class Counting:
    """A backbone that counts what it is asked, and answers with the question."""

    name = "counting:m"

    def __init__(self, *, fail: str | None = None, fault: bool = False) -> None:
        self.asked: list[str] = []
        self.answer_settings: dict[str, object] = {}
        self._fail, self._fault = fail, fault

    def generate_as_completed(self, batch: Any) -> Any:
        return enumerate(self.generate(batch))

    def generate(self, batch: Any) -> Any:
        answers = []
        for request in batch:
            question = request.variables["question"]
            self.asked.append(question)
            if question == self._fail:
                raise BackboneError("counting:m: the service is down.")
            reply = ModelFault("It would not.") if self._fault else request.reply(colour=question)
            answers.append(Generation(reply, Usage(100, 0, 10), 1.0, texts=(ModelText(f"I say {question}"),)))
        return answers
