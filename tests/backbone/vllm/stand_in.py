#!/usr/bin/env python3
"""Stands in for the command `vllm`: notes how it was called, and is healthy, slow, dying or silent as `MODE` says."""

import json
import os
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

REPLY = {"colour": "red", "seconds": 3.0}
HOME = Path(os.environ["STAND_IN_HOME"])
MODE = os.environ.get("STAND_IN_MODE", "healthy")


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.respond(200, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != f"Bearer {os.environ['VLLM_API_KEY']}":
            self.respond(401, {"error": {"message": "who are you?"}})
            return
        if MODE == "dies once" and not (HOME / "died").exists():
            (HOME / "died").touch()
            os._exit(7)
        message = {"role": "assistant", "content": json.dumps(REPLY)}
        usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
        usage["prompt_tokens_details"] = {"cached_tokens": 5}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        found = {"id": "1", "object": "chat.completion", "created": 1, "model": body["model"]}
        self.respond(200, found | {"choices": [choice], "usage": usage})

    def respond(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    arguments = sys.argv[1:]
    with (HOME / "calls.jsonl").open("a") as calls:
        calls.write(json.dumps({"arguments": arguments, "pid": os.getpid()}) + "\n")
    sys.stderr.write(f"key {os.environ['VLLM_API_KEY']}: reading weights\n")
    if MODE == "cannot start":
        sys.stderr.write("ValueError: the model's weights are not there\n")
        sys.exit(1)
    worker = subprocess.Popen(
        [sys.executable, "-c", "import signal, time; signal.signal(15, lambda *_: 0); time.sleep(99)"]
    )
    (HOME / "worker").write_text(str(worker.pid))
    if MODE == "hangs":
        time.sleep(99)
    port = int(arguments[arguments.index("--port") + 1])
    ThreadingHTTPServer((arguments[arguments.index("--host") + 1], port), Handler).serve_forever()


if __name__ == "__main__":
    main()
