"""The desk's HTTP interface fuzzed from its own OpenAPI description: whatever is sent, no answer is a server error."""

import os
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from tests.web.desk.conftest import Client, World

schemathesis = pytest.importorskip("schemathesis")

EXAMPLES = 40 if os.environ.get("HYPOTHESIS_PROFILE") == "random" else 6
"""Requests for each address and person; the long search belongs to `make new-examples`."""


OPERATORS = {"/api/invite", "/api/revoke", "/api/end-sessions", "/api/release", "/api/assign", "/export", "/status"}
"""Addresses that only an operator gets further with."""


def fuzz(client: Client, mode: str, only: set[str]) -> int:
    """Send generated requests to every address with this person's session; gives how many were sent.

    In the mode `positive` they are as described, in `negative` they break the description somewhere.
    """
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import response_schema_conformance

    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    cookies = dict(client.http.cookies)
    sent = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path == "/api/sign-out" or (only and operation.path not in only):
            continue  # signing out works, and then nobody is signed in

        @given(case=operation.as_strategy(generation_mode=GenerationMode(mode)))
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=os.environ.get("HYPOTHESIS_PROFILE") != "random",
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def attempt(case: Any) -> None:
            nonlocal sent
            sent += 1
            headers = {"X-CSRF-Token": client.csrf} if sent % 4 else {}
            response = case.call(base_url=client.address, headers=headers, cookies=cookies)
            case.validate_response(response, checks=[not_a_server_error, response_schema_conformance])
            assert "Traceback" not in response.text

        with suppress(Unsatisfiable):  # an address that takes nothing cannot be called wrongly
            attempt()
    return sent


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize(("who", "only"), [("ann", set()), ("dora", set()), ("olga", OPERATORS)])
def test_no_request_is_a_server_error(world: World, who: str, only: set[str], mode: str) -> None:
    world.client("ann").post("/api/next")
    assert fuzz(world.client(who), mode, only) > 4 * EXAMPLES  # most addresses take something
    assert world.client("bob").get("/").status_code == 200
