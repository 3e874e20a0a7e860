"""The desk's HTTP interface fuzzed from its own OpenAPI description: whatever is sent, no answer is a server error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

schemathesis = pytest.importorskip("schemathesis")

if TYPE_CHECKING:
    from tests.web.desk.conftest import Client, World

EXAMPLES = 40
"""Requests for each address and person: enough to meet every check, and short."""


def fuzz(client: Client) -> int:
    """Send generated requests to every address with this person's session; gives how many were sent."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    cookies = {name: value for name, value in client.http.cookies.items()}
    sent = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path == "/api/sign-out":
            continue  # it works, and then nobody is signed in

        @given(case=operation.as_strategy())
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def attempt(case: Any) -> None:
            nonlocal sent
            sent += 1
            headers = {"X-CSRF-Token": client.csrf} if sent % 4 else {}
            response = case.call(base_url=client.address, headers=headers, cookies=cookies)
            case.validate_response(response, checks=checks)
            assert "Traceback" not in response.text

        attempt()
    return sent


@pytest.mark.parametrize("who", ["ann", "dora"])
def test_no_request_is_a_server_error(world: World, who: str) -> None:
    client = world.client(who)
    if who == "ann":
        client.post("/api/next")
    assert fuzz(client) > 15 * EXAMPLES / 2
    assert world.client("bob").get("/").status_code == 200
