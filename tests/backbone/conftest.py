"""Each provider's protocol on a server of our own."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import call  # noqa: F401  a fixture
from tests.fakes import DIALECTS, Dialect, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="module", autouse=True)  # other packages speak TLS in the same process
def _one_tls_context() -> Iterator[None]:
    """No test here speaks TLS, and each client would read all certificates anew, which takes longer than most tests."""
    context = ssl.create_default_context()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", lambda *_, **__: context)
        yield


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture(params=sorted(DIALECTS))
def dialect(request: pytest.FixtureRequest, server: Server, monkeypatch: pytest.MonkeyPatch) -> Dialect:
    """Each provider in turn, with its key and its URL set to the server's."""
    chosen = DIALECTS[request.param]
    for name, value in chosen.environment(server.url).items():
        monkeypatch.setenv(name, value)
    return chosen


@pytest.fixture
def named_dialect(server: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Dialect]:
    """One provider by name, set up in the same way."""

    def choose(name: str) -> Dialect:
        for variable, value in DIALECTS[name].environment(server.url).items():
            monkeypatch.setenv(variable, value)
        return DIALECTS[name]

    return choose
