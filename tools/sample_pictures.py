"""Draw the pictures of README: the panel of `trace-ves ask --sample`, its contact sheet, and a terminal recording.

Run it after the sample's recording was made again: `python tools/sample_pictures.py docs/images`.
"""

import fcntl
import io
import json
import os
import pty
import re
import struct
import sys
import termios
import time
from pathlib import Path

from rich.console import Console

from trace_ves import ask
from trace_ves.cli.answer_panel import show_result
from trace_ves.cli.ask import SAMPLE_FILM, SAMPLE_SPEC, sample_question
from trace_ves.web.saving import contact_sheet, sheet_rows


def main(folder: Path) -> None:
    """Write both pictures to a folder."""
    from trace_ves.backbone.registry import open_backbone

    result = ask(SAMPLE_FILM, *sample_question(), backbone=open_backbone(SAMPLE_SPEC))
    console = Console(record=True, force_terminal=True, color_system="truecolor", width=100, file=io.StringIO())
    show_result(result, console=console)
    svg = console.export_svg(title="trace-ves ask --sample")
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # no fonts from other servers
    (folder / "ask-sample.svg").write_text(svg, encoding="utf-8")
    contact_sheet(sheet_rows(result)).save(folder / "ask-sample.jpg", quality=85)
    record_terminal(folder / "ask-sample.cast")


def record_terminal(file: Path, columns: int = 100, rows: int = 60) -> None:
    """Run the command in a terminal and write what it prints as an asciicast (version 2), for `asciinema play`."""
    child, terminal = pty.fork()
    if not child:
        os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": str(columns), "LINES": str(rows)}
        os.execv(sys.executable, [sys.executable, "-m", "trace_ves", "ask", "--sample"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    lines: list[object] = [{"version": 2, "width": columns, "height": rows, "title": "trace-ves ask --sample"}]
    lines.append([0.0, "o", "$ trace-ves ask --sample\r\n"])
    began, held = time.monotonic(), b""
    while True:
        try:
            held += os.read(terminal, 1 << 16)
        except OSError:  # the command has ended
            break
        text = held.decode("utf-8", "ignore")  # a character may be cut in two
        held = held[len(text.encode()) :]
        lines.append([round(time.monotonic() - began, 2), "o", text])
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise SystemExit("trace-ves ask --sample failed")
    file.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
