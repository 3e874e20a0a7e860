"""Each provider's protocol on a server of our own."""

import ssl
from collections.abc import Iterator

import pytest
from tests.cli.conftest import call  # noqa: F401  a fixture
from tests.fakes import DIALECTS, Dialect, Server


@pytest.fixture(scope="module", autouse=True)  # other packages speak TLS in the same process
def _one_tls_context() -> Iterator[None]:
    """No test here speaks TLS, and each client would read all certificates anew, which takes longer than most tests."""
    context = ssl.create_default_context()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", lambda *_, **__: context)
        yield


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server to which the URL of every provider points."""
    made = Server()
    for dialect in DIALECTS.values():
        for name, value in dialect.environment(made.url).items():
            monkeypatch.setenv(name, value)
    yield made
    made.close()


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of every service."""
    for name in ("GEMINI_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.setenv(name, "k")


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest, server: Server) -> Dialect:
    """Each provider in turn."""
    return DIALECTS[request.param]
