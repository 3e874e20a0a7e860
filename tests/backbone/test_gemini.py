"""What is particular to the Gemini API and to Vertex AI."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.fakes import GEMINI, GOOD, Response, Server, ask_once, make_clip, make_request, quick_backbone

from trace_ves.backbone import open_backbone
from trace_ves.backbone.gemini.provider import GeminiProvider
from trace_ves.backbone.secret import Key
from trace_ves.core import BackboneError


def levels(body: dict[str, Any]) -> list[str | None]:
    return [
        part.get("mediaResolution", {}).get("level") for part in body["contents"][0]["parts"] if "inlineData" in part
    ]


def test_how_closely_a_frame_is_looked_at_follows_from_its_height(server: Server) -> None:
    clips = [make_clip(start, [1], height=height) for start, height in ((0.0, 360), (5.0, 720), (9.0, 1080))]
    ask_once(GEMINI, server, Response(body=GEMINI.ok(GOOD)), request=make_request("Which?", *clips))
    received = server.received[0]
    assert received.path == "/v1beta/models/m:generateContent"
    assert levels(received.body) == [f"MEDIA_RESOLUTION_{level}" for level in ("LOW", "MEDIUM", "HIGH")]
    assert "mediaResolution" not in received.body["generationConfig"]


def test_a_model_that_knows_one_resolution_for_all_frames_gets_the_closest_that_any_frame_needs(server: Server) -> None:
    refusal = Response(status=400, body=GEMINI.error("Per-part media resolution is not enabled for models/m"))
    server.respond(refusal, Response(body=GEMINI.ok(GOOD)))
    backbone = quick_backbone(GEMINI.provider())
    request = make_request("Which?", make_clip(0.0, [1], height=240), make_clip(5.0, [1], height=480))
    for _ in range(2):
        backbone.generate([request])
    assert [levels(received.body)[0] is None for received in server.received] == [False, True, True]
    assert server.received[1].body["generationConfig"]["mediaResolution"] == "MEDIA_RESOLUTION_MEDIUM"


def test_a_reply_with_free_keys_has_its_whole_schema_sent(server: Server) -> None:
    class Facts(BaseModel):
        facts: dict[str, str | None]

    response = Response(body=GEMINI.ok('{"facts": {"a": null}}'))
    generation = ask_once(GEMINI, server, response, request=make_request(reply=Facts))
    assert generation.reply.facts == {"a": None}
    assert GEMINI.schema(server.received[0].body) == Facts.model_json_schema()


def test_the_delay_that_google_writes_into_the_body_is_waited(server: Server) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3600s"}]
    body = {"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": details}}
    with pytest.raises(BackboneError, match=r"after 1 attempt; the last ended with HTTP 429, rate limit: quota"):
        ask_once(GEMINI, server, Response(status=429, body=body))


@pytest.mark.filterwarnings("ignore:SOMETHING_NEW")
def test_a_reply_that_ended_for_a_reason_we_do_not_know_is_kept(server: Server) -> None:
    response = Response(body=GEMINI.ok(GOOD, finishReason="SOMETHING_NEW"))
    assert ask_once(GEMINI, server, response).reply.colour == "red"


def test_a_wrong_key_which_this_api_answers_with_400_is_said_to_be_one(server: Server) -> None:
    response = Response(status=400, body=GEMINI.error("API key not valid. Please pass a valid API key."))
    with pytest.raises(BackboneError, match=r"refused the key .*GEMINI_API_KEY"):
        ask_once(GEMINI, server, response)


def test_the_environment_of_the_sdk_cannot_turn_the_key_into_a_project(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    assert ask_once(GEMINI, server, Response(body=GEMINI.ok(GOOD))).reply.colour == "red"


def service_account(folder: Path, token_uri: str) -> Path:
    """Credentials as Google hands them out, but with a token service of our own."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    path = folder / "account.json"
    account = {"type": "service_account", "client_email": "a@b", "token_uri": token_uri, "private_key": pem}
    path.write_text(json.dumps(account | {"project_id": "p"}))
    return path


def test_vertex_asks_with_a_token_of_the_machines_credentials(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cryptography")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(service_account(tmp_path, f"{server.url}/token")))
    monkeypatch.setenv("GOOGLE_VERTEX_BASE_URL", server.url)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "my-project")

    def respond(received: Any) -> Any:
        token = {"access_token": "ya29.token", "expires_in": 3600, "token_type": "Bearer"}
        return Response(body=token if received.path == "/token" else GEMINI.ok(GOOD))

    server.respond(respond)
    (generation,) = open_backbone("vertex:gemini-x", cache=False).generate([make_request()])
    assert generation.reply.colour == "red"
    asked = server.received[-1]
    assert asked.path.endswith(
        "/projects/my-project/locations/global/publishers/google/models/gemini-x:generateContent"
    )
    assert asked.headers["authorization"] == "Bearer ya29.token"


def test_vertex_without_credentials_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))
    provider = GeminiProvider("vertex:m", "m", project="p")
    with pytest.raises(
        BackboneError, match=r"^vertex:m: .*check GOOGLE_APPLICATION_CREDENTIALS and GOOGLE_CLOUD_PROJECT"
    ):
        quick_backbone(provider).generate([make_request()])


def test_a_redirect_that_would_send_the_key_to_another_host_is_not_followed() -> None:
    for access in ({"key": Key("X_API_KEY", "k")}, {"project": "p"}):
        client: Any = GeminiProvider("gemini:m", "m", **access)._client  # type: ignore[arg-type]
        assert client._api_client._http_options.client_args == {"follow_redirects": False}
