"""The cheaper tier: asked for in the provider's words, waited for longer, and left for the standard one as chosen."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.fakes import GEMINI, GOOD, OPENAI, Dialect, Received, Response, Server, make_request, quick_backbone

from trace_ves.backbone import open_backbone
from trace_ves.backbone.model_settings import ServiceTier
from trace_ves.backbone.remote import RemoteBackbone
from trace_ves.backbone.retry import NOTICES
from trace_ves.core import BackboneConfigError

flex_dialects = pytest.mark.parametrize("dialect", [GEMINI, OPENAI], ids=["gemini", "openai"])


def tier_of(body: dict[str, Any]) -> str | None:
    """The tier that a request asks for, where either API has it."""
    found: str | None = body.get("service_tier") or body.get("serviceTier")
    return found.lower() if found else None


def backbone(dialect: Dialect, tier: ServiceTier) -> RemoteBackbone:
    return quick_backbone(dialect.provider(), service_tier=tier)


def answered(dialect: Dialect, tier: str | None) -> Response:
    return Response(body=dialect.ok(GOOD) | ({"service_tier": tier} if dialect.name == "openai" and tier else {}))


def without_flex(dialect: Dialect, refusal: Response) -> Callable[[Received], Response]:
    return lambda received: refusal if tier_of(received.body) == "flex" else answered(dialect, None)


@flex_dialects
def test_the_tier_is_sent_recorded_and_not_sent_by_default(dialect: Dialect, server: Server) -> None:
    server.respond(answered(dialect, "flex"))
    (generation,) = backbone(dialect, ServiceTier.FLEX).generate([make_request()])
    assert generation.service_tier == "flex"
    server.respond(answered(dialect, None))
    (generation,) = backbone(dialect, ServiceTier.STANDARD).generate([make_request()])
    assert generation.service_tier is None
    assert [tier_of(received.body) for received in server.received] == ["flex", None]
    server.respond(answered(dialect, "default"))
    (generation,) = backbone(dialect, ServiceTier.FLEX).generate([make_request()])
    assert generation.service_tier == (None if dialect.name == "openai" else "flex")  # OpenAI says which tier answered


@flex_dialects
@pytest.mark.parametrize("status", [429, 503])
def test_where_the_cheaper_tier_has_no_room_the_standard_one_answers(
    dialect: Dialect, server: Server, status: int
) -> None:
    server.respond(without_flex(dialect, Response(status, dialect.error("resource unavailable"))))
    (generation,) = backbone(dialect, ServiceTier.FLEX).generate([make_request()])
    assert (generation.reply.colour, generation.service_tier) == ("red", None)
    assert [tier_of(received.body) for received in server.received] == ["flex", "flex", "flex", None]


@flex_dialects
def test_a_tier_that_the_service_refuses_is_left_for_good_and_said_once(
    dialect: Dialect, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.respond(without_flex(dialect, Response(400, dialect.error("Invalid service_tier argument: flex"))))
    asked = backbone(dialect, ServiceTier.FLEX)
    for _ in range(2):
        asked.generate([make_request()])
    assert [tier_of(received.body) for received in server.received] == ["flex", None, None]
    assert [record.getMessage() for record in caplog.records if record.name == NOTICES.name] == [
        f"{dialect.name}:m: the service refuses the tier flex; the standard tier is used."
    ]


def test_the_tier_is_no_part_of_the_cache_key() -> None:
    plain, cheap = (backbone(GEMINI, tier) for tier in ServiceTier)
    assert plain.answer_settings == cheap.answer_settings


@pytest.mark.parametrize("spec", ["anthropic:claude-sonnet-5", "glance", "hf:x"])
def test_who_has_no_such_tier_says_so(spec: str) -> None:
    with pytest.raises(BackboneConfigError, match=f"{spec} has no setting service-tier; leave out --service-tier"):
        open_backbone(spec, service_tier="flex")
