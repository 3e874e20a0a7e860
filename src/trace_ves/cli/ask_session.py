"""`ask VIDEO` without a question: a prompt for several questions about one video, in a terminal or from a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.text import Text

from trace_ves.cli.answer_panel import show_clip
from trace_ves.cli.ask import NOT_FOUND, AskOptions, check_method, check_video, search_and_print
from trace_ves.cli.options import COST_REACHED
from trace_ves.core import InputError, Question, Termination, TraceVesError
from trace_ves.core.display import count_words
from trace_ves.runs.asking import AskResult, AskSession, answer_text
from trace_ves.runs.cost import CostReachedError
from trace_ves.web.search_view import span_text, view_answer

if TYPE_CHECKING:
    from trace_ves.records import Prediction

SEPARATOR: Final = "|"  # between a question and its options
QUIT: Final = "/quit"
HELP: Final = """\
Write a question and press Enter. Options follow after bars:  Which colour is the car? | red | blue
  /evidence [N]   the clips that support the answer, or clip N frame by frame
  /why            the search round by round, and why it stopped
  /budget [N]     show or set the frames for each answer
  /history        questions and answers so far
  /cost           what the answers cost so far
  /save DIR       save the last answer: clips, frames, page, record
  /help           this text
  /quit           leave (or Ctrl-D); Ctrl-C stops the current question
"""


def ask_in_session(video: Path, settings: AskOptions) -> int:
    """Answer questions until the input ends; returns the exit status, 1 if one of them failed."""
    check_method(settings)
    check_video(video, settings)
    with settings.open_session(video) as session:
        return _Prompt(session, settings).run()


class _Prompt:
    """One session: reads lines, answers questions, runs commands."""

    def __init__(self, session: AskSession, settings: AskOptions) -> None:
        self._session = session
        self._settings = settings
        self._limit = settings.costs.limit
        self._console = Console()
        self._asked: list[tuple[Question, Prediction]] = []
        self._last_result: AskResult | None = None
        """The last answer with its pictures; earlier answers keep only their records."""
        self._status = 0
        self._commands: dict[str, Callable[[str], None]] = {
            "/evidence": self._evidence,
            "/why": lambda _: self._say("\n".join(view_answer(self._last()).account())),
            "/budget": self._budget,
            "/history": self._history,
            "/cost": self._cost,
            "/save": self._save,
            "/help": lambda _: self._say(HELP),
        }

    def run(self) -> int:
        """Run until the user quits or the input ends."""
        for line in self._lines():
            if line.partition(" ")[0] == QUIT:
                break
            try:
                self._handle(line)
            except CostReachedError as error:
                click.echo(f"stopped: {error}", err=True)
                return COST_REACHED
            except (TraceVesError, KeyboardInterrupt) as error:
                self._status = 1
                is_interrupt = isinstance(error, KeyboardInterrupt)
                click.echo("stopped; earlier answers are kept." if is_interrupt else str(error), err=True)
        return self._status

    def _lines(self) -> Iterator[str]:
        """Yield each line of input; on a terminal, with a prompt, line editing and history."""
        is_terminal = sys.stdin.isatty()
        if is_terminal:
            with suppress(ImportError):  # not on every platform
                import_module("readline")  # gives `input` its history
            click.echo(f"{self._session.video.name}: ask a question. /help lists the commands.", err=True)
        elif hasattr(sys.stdin, "reconfigure"):
            sys.stdin.reconfigure(errors="replace")
        while True:
            try:
                line = input("ask> " if is_terminal else "")
            except EOFError:
                if is_terminal:
                    click.echo()
                return
            except KeyboardInterrupt:
                if not is_terminal:
                    raise
                click.echo("\nTo leave, type /quit or press Ctrl-D.", err=True)
                continue
            text = line.encode("utf-8", "replace").decode("utf-8").strip()
            if text and not text.startswith("#"):
                yield text

    def _handle(self, line: str) -> None:
        if not line.startswith("/"):
            self._ask(line)
            return
        name, _, rest = line.partition(" ")
        if name not in self._commands:
            raise InputError(f"{name} is not a command; the commands are {', '.join(self._commands)}, {QUIT}.")
        self._commands[name](rest.strip())

    def _ask(self, line: str) -> None:
        if self._limit is not None and self._limit.reached:
            raise CostReachedError(f"the answers have cost {self._limit}.")
        question, *options = line.split(SEPARATOR)
        result, status = search_and_print(
            partial(self._session.ask, question, options), self._settings, title=question.strip()
        )
        self._status = self._status if status == NOT_FOUND else self._status or status
        self._last_result = result
        self._asked.append((result.question, result.prediction))
        if self._settings.save is not None:
            self._save(
                next(str(place) for number in count(1) if not (place := self._settings.save / str(number)).exists())
            )

    # --- commands ---------------------------------------------------------------------------------

    def _evidence(self, number: str) -> None:
        clips = view_answer(self._last()).clips
        if not clips:
            raise InputError("no clips support the last answer.")
        if not number:
            for position, clip in enumerate(clips, 1):
                caption = " ".join(clip.caption) or count_words(len(clip.frames), "frame")
                self._say(f"{position}. {span_text(clip.span)}  {caption}")
            return
        if not (_is_number(number) and 1 <= int(number) <= len(clips)):
            raise InputError(f"/evidence takes a number from 1 to {len(clips)}, not {number!r}.")
        show_clip(clips[int(number) - 1], console=self._console)

    def _budget(self, number: str) -> None:
        if number:
            if not (_is_number(number) and int(number)):
                raise InputError(f"/budget takes a number of frames, at least 1, not {number!r}.")
            self._session.budget = int(number)
        frames = self._session.budget
        self._say(f"{frames} frames for each answer" if frames else "the method's default number of frames")

    def _history(self, _: str) -> None:
        self._last()
        for position, (question, line) in enumerate(self._asked, 1):
            settled = "" if line.termination == Termination.STABLE_PREFIX_FOUND else "  (not settled)"
            self._say(f"{position}. {question.text}\n   {answer_text(line, question) or 'no answer'}{settled}")

    def _cost(self, _: str) -> None:
        lines = [line for _, line in self._asked]
        cost = self._settings.cost(lines)
        sent = sum(len(call.timestamps) for line in lines for call in line.observations if not call.remembered)
        tokens = cost.total.usage.input_tokens + cost.total.usage.output_tokens
        self._say(
            f"{count_words(len(lines), 'answer')}, {count_words(sent, 'frame')} sent, {tokens:,} tokens, {cost.money}"
        )

    def _save(self, folder: str) -> None:
        if not folder:
            raise InputError("/save needs the folder to save the last answer in.")
        saved = self._last().save(folder, overwrite=self._settings.overwrite)
        click.echo(f"saved in {saved}", err=True)

    def _last(self) -> AskResult:
        if self._last_result is None:
            raise InputError("nothing has been asked yet.")
        return self._last_result

    def _say(self, text: str) -> None:
        """Print to standard output, or to standard error with --json."""
        console = Console(stderr=True) if self._settings.as_json else self._console
        console.print(Text(text), soft_wrap=True)


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 10  # int() refuses thousands of digits
