"""A web server on loopback whose manners are the test's: it keeps to ranges, lies, breaks off or never ends."""

import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class FilmServer:
    """Serves one body. `manners` may answer a request itself; it returns whether it did."""

    body: bytes = b""
    headers: dict[str, str] = field(default_factory=lambda: {"ETag": '"one"', "Content-Type": "video/mp4"})
    manners: Callable[[BaseHTTPRequestHandler], bool] = lambda _: False
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        film = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                film.requests.append((self.path, dict(self.headers)))
                self.close_connection = True
                if not film.manners(self):
                    film.serve(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that hangs up is no news
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/films/film.mp4"

    @property
    def ranges(self) -> list[str | None]:
        """What each request so far asked for."""
        return [headers.get("Range") for _, headers in self.requests]

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """As a good server does: conditions and ranges are kept to."""
        asked = handler.headers
        if self.headers.get("ETag") and asked.get("If-None-Match") == self.headers["ETag"]:
            self.send(handler, 304, b"", {})
            return
        begin = asked.get("Range")
        if begin and asked.get("If-Range") in {self.headers.get("ETag"), self.headers.get("Last-Modified")}:
            start = int(begin.removeprefix("bytes=").rstrip("-"))
            span = {"Content-Range": f"bytes {start}-{len(self.body) - 1}/{len(self.body)}"}
            self.send(handler, 206, self.body[start:], span)
            return
        self.send(handler, 200, self.body, {})

    def send(
        self, handler: BaseHTTPRequestHandler, status: int, body: bytes, more: dict[str, str], *, length: object = None
    ) -> None:
        handler.send_response(status)
        for name, value in {**self.headers, **more}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body) if length is None else length))
        handler.end_headers()
        handler.wfile.write(body)

    def send_without_end(self, handler: BaseHTTPRequestHandler) -> bool:
        """Chunks until the client hangs up."""
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        while True:
            handler.wfile.write(b"10000\r\n" + b"\0" * 0x10000 + b"\r\n")

    def wrap(self, context: ssl.SSLContext) -> None:
        """Speak TLS from now on."""
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)

    def redirect(self, handler: Any, location: str, status: int = 302) -> bool:
        handler.send_response(status)
        handler.send_header("Location", location)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return True

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
