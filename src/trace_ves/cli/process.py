"""The process of a command: its streams, interrupts, warnings and exit."""

import codecs
import os
import re
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from types import FrameType
from typing import Any, Final

import click

from trace_ves.core.errors import InputError

ESCAPE: Final = "trace-ves-escape"
INTERRUPTED: Final = 130  # the exit status after Ctrl-C
AGAIN_SECONDS: Final = 0.001
SWALLOWING: Final = frozenset({"dump_python", "dump_json", "model_dump", "model_dump_json", "__del__"})
"""Functions of pydantic and Python that swallow exceptions raised inside them."""


@contextmanager
def track_interrupts() -> Iterator[threading.Event]:
    """Yield an event that is set when Ctrl-C is pressed.

    A `KeyboardInterrupt` that the code at that point would swallow is raised a moment later instead.
    """
    event = threading.Event()
    report_unraisable = sys.unraisablehook

    def interrupt(number: int, frame: FrameType | None) -> None:
        event.set()
        swallowed = _would_swallow(frame)
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS if swallowed else 0)
        if not swallowed:
            signal.default_int_handler(number, frame)

    def interrupt_again(unraisable: Any) -> None:
        """Called for an exception that Python swallows, for example in a callback of a weak reference."""
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        else:
            report_unraisable(unraisable)

    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT)
    if not (is_main and hasattr(signal, "setitimer") and handler is signal.default_int_handler):
        yield event
        return
    signal.signal(signal.SIGALRM, interrupt)
    signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = interrupt_again
    try:
        yield event
    finally:
        sys.unraisablehook = report_unraisable
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _would_swallow(frame: FrameType | None) -> bool:
    """Whether an exception raised in this frame would be lost: pydantic turns those of a serializer into warnings."""
    while frame is not None and frame.f_code.co_name not in SWALLOWING:
        frame = frame.f_back
    return frame is not None


def ignore_interrupts() -> None:
    """Ignore Ctrl-C from now on."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def make_streams_tolerant() -> None:
    """Escape characters that the encoding of standard output and error lacks, as JSON does."""
    codecs.register_error(ESCAPE, _escape)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=ESCAPE)


def _escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2], strict=True)), error.end


def read_text(question: str | None, options: Iterable[str]) -> str | None:
    """The question, read from standard input if it is a dash; an `InputError` if it or an option is not UTF-8."""
    try:
        text = sys.stdin.read() if question == "-" else question
        "".join([text or "", *options]).encode()
    except UnicodeError:
        raise InputError("the question or an option is not UTF-8 text; convert it, for example with iconv.") from None
    return text


def tidy_sentence(text: str) -> str:
    """Remove a full stop after another mark, as in `Is it red?.`: one sentence may end by quoting another."""
    return re.sub(r"([.?!…])\.(?=\s|$)", r"\1", text)


def warn(*warnings: str | None) -> None:
    """Print each warning as a sentence on standard error, and skip each None."""
    for warning in filter(None, warnings):
        click.echo(tidy_sentence(f"warning: {warning}."), err=True)


def silence_stdout() -> None:
    """Discard further standard output: its reader is gone, or the disk behind it is full."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def exit_process(code: int, *, at_once: bool) -> None:
    """Exit with this status. `at_once` is false if another program called the command in its own process.

    Native code in a daemon thread can abort the process while the interpreter shuts down. If there is such a thread,
    flush the streams and skip the shutdown.
    """
    other_threads = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    if at_once and any(thread.daemon for thread in other_threads):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    if at_once and not other_threads:
        ignore_interrupts()  # Ctrl-C during shutdown would only change the exit status
    sys.exit(code)
