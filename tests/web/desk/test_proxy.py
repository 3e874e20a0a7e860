"""The reverse proxy of docs/examples/nginx.conf in front of a desk: the desk works, and slow clients block nobody."""

import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.web.conftest import serving_app
from tests.web.desk.conftest import World, wait_until
from trace_ves.construction.desk.app import create_desk
from trace_ves.web.guard import LOOPBACK_NAMES

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "nginx.conf"
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

pytestmark = [
    pytest.mark.allow_hosts(["127.0.0.1", "127.0.0.2"]),
    pytest.mark.skipif(NGINX is None or shutil.which("openssl") is None, reason="no nginx or no openssl here"),
]


@pytest.fixture
def proxy(world: World, tmp_path: Path) -> Iterator[int]:
    """The port of nginx with the example's configuration, but for ports, certificate and smaller limits."""
    folder = tmp_path / "nginx"
    folder.mkdir()
    certificate, key = folder / "desk.pem", folder / "desk.key"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    subprocess.run([*made, "-out", certificate, "-keyout", key], check=True, capture_output=True)
    app = create_desk(world.project, world.store, scratch=folder, hosts=LOOPBACK_NAMES, secure=True)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    with serving_app(app) as address:
        site = EXAMPLE.read_text(encoding="utf-8")
        for example, here in {
            "listen 443": f"listen 127.0.0.1:{port}",
            "/etc/ssl/certs/desk.example.org.pem": str(certificate),
            "/etc/ssl/private/desk.example.org.key": str(key),
            "http://127.0.0.1:8643": address,
            "_timeout 10s": "_timeout 5s",
            "desk_clients 32": "desk_clients 4",
        }.items():
            assert example in site
            site = site.replace(example, here)
        (folder / "site.conf").write_text(site)
        paths = "".join(
            f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        user = "user root;" if os.getuid() == 0 else ""
        (folder / "nginx.conf").write_text(
            f"{user} daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{ }}"
            f" http {{ access_log off; {paths} include {folder}/site.conf; }}"
        )
        server = subprocess.Popen([str(NGINX), "-p", folder, "-c", folder / "nginx.conf"], stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: is_open(port))
            yield port
        finally:
            server.terminate()
            server.wait(20)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def connect(port: int, source: str) -> ssl.SSLSocket:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(source, 0)))


def test_an_item_is_judged_through_the_proxy(world: World, proxy: int) -> None:
    ann = world.with_task("ann", f"https://127.0.0.1:{proxy}")
    assert all(name.startswith("__Host-") for name in ann.http.cookies)
    assert ann.play("c0001").is_success
    verdict = {"item": "c0001", "revision": 0, "evidence": ann.task()["spans"]}
    assert ann.post("/api/verification", **verdict).is_success
    assert ann.post("/api/undo", item="x" * 70_000).status_code == 413
    pieces = iter([b'{"item": ', b'"c0001"}'])  # the proxy knows the length of a body when it passes it on
    headers = {"X-CSRF-Token": ann.csrf, "Content-Type": "application/json"}
    assert ann.http.post("/api/undo", content=pieces, headers=headers).is_success
    # The desk knows the address of the client, for whom failed sign-ins are counted.
    with connect(proxy, "127.0.0.2") as client:
        client.sendall(b"GET /video?id=c0001 HTTP/1.1\r\nHost: desk.example.org\r\nConnection: close\r\n\r\n")
        assert b" 401 " in client.recv(100)
    assert world.audit()[-1]["address"] == "127.0.0.2"


def test_slow_bodies_of_one_client_do_not_block_another(world: World, proxy: int) -> None:
    head = b"POST /api/next HTTP/1.1\r\nHost: desk.example.org\r\nContent-Length: 10\r\n\r\n{"
    with ExitStack() as stack:
        slow = [stack.enter_context(connect(proxy, "127.0.0.2")) for _ in range(6)]
        for each in slow:
            each.sendall(head)
        assert world.client("ann", f"https://127.0.0.1:{proxy}").get("/").status_code == 200
        answers = [each.recv(100) for each in slow]
    assert sum(b" 429 " in answer for answer in answers) == 2  # more than 4 at once
    assert answers.count(b"") == 4  # given up after the timeout
    assert "/api/next" not in {line.get("path") for line in world.audit()}  # the desk has seen none of them


def test_clients_that_never_read_do_not_block_others(world: World, proxy: int) -> None:
    """An annotator asks for the video again and again, on more connections than allowed, and reads nothing."""
    ann = world.with_task("ann", f"https://127.0.0.1:{proxy}")
    with ExitStack() as stack:
        for _ in range(20):
            deaf = stack.enter_context(connect(proxy, "127.0.0.2"))
            deaf.settimeout(1)
            with suppress(OSError):  # refused, or full
                deaf.sendall(ann.raw_get("/video?id=c0001") * 400)
        assert world.with_task("bob", f"https://127.0.0.1:{proxy}").play("c0001").is_success
        assert ann.get("/task").status_code == 200  # from another address than the deaf connections
