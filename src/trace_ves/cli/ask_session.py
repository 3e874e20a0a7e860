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


def ask_in_session(video: Path, chosen: AskOptions) -> int:
    """Read questions until there are no more; the exit status is 1 if one of them failed."""
    check_method(chosen)
    check_video(video, chosen)
    with chosen.open_session(video) as session:
        return _Prompt(session, chosen).run()


class _Prompt:
    """One session: reads lines, answers questions, carries out commands."""

    def __init__(self, session: AskSession, chosen: AskOptions) -> None:
        self._session = session
        self._chosen = chosen
        self._limit = chosen.costs.limit
        self._console = Console()
        self._asked: list[tuple[Question, Prediction]] = []
        self._last_result: AskResult | None = None
        """The last answer with its pictures; of the others only the record is kept."""
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
        """Run until the user or the pipe ends."""
        for line in self._lines():
            if line.partition(" ")[0] == QUIT:
                break
            try:
                self._take(line)
            except CostReachedError as error:
                click.echo(f"stopped: {error}", err=True)
                return COST_REACHED
            except (TraceVesError, KeyboardInterrupt) as error:
                self._status = 1
                stopped = isinstance(error, KeyboardInterrupt)
                click.echo("stopped; earlier answers are still here." if stopped else str(error), err=True)
        return self._status

    def _lines(self) -> Iterator[str]:
        """Each line that is typed or piped; a terminal also gets a prompt, line editing and history."""
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
                click.echo("\n/quit or Ctrl-D to leave.", err=True)
                continue
            words = line.encode("utf-8", "replace").decode("utf-8").strip()
            if words and not words.startswith("#"):
                yield words

    def _take(self, line: str) -> None:
        if not line.startswith("/"):
            self._ask(line)
            return
        name, _, rest = line.partition(" ")
        if name not in self._commands:
            raise InputError(f"there is no {name}; there are {', '.join(self._commands)}, {QUIT}.")
        self._commands[name](rest.strip())

    def _ask(self, line: str) -> None:
        if self._limit is not None and self._limit.reached:
            raise CostReachedError(f"the answers have cost {self._limit}.")
        question, *options = line.split(SEPARATOR)
        result, status = search_and_print(
            partial(self._session.ask, question, options), self._chosen, title=question.strip()
        )
        self._status = self._status if status == NOT_FOUND else self._status or status
        self._last_result = result
        self._asked.append((result.question, result.prediction))
        if self._chosen.save is not None:
            self._save(
                next(str(place) for number in count(1) if not (place := self._chosen.save / str(number)).exists())
            )

    # --- commands ---------------------------------------------------------------------------------

    def _evidence(self, number: str) -> None:
        clips = view_answer(self._last()).clips
        if not clips:
            raise InputError("no clips support the last answer.")
        if not number:
            for place, seen in enumerate(clips, 1):
                shown = " ".join(seen.caption) or count_words(len(seen.frames), "frame")
                self._say(f"{place}. {span_text(seen.span)}  {shown}")
            return
        if not (_is_number(number) and 1 <= int(number) <= len(clips)):
            raise InputError(f"/evidence takes a number from 1 to {len(clips)}, found {number!r}.")
        show_clip(clips[int(number) - 1], console=self._console)

    def _budget(self, number: str) -> None:
        if number:
            if not (_is_number(number) and int(number)):
                raise InputError(f"/budget takes a number of frames from 1 up, found {number!r}.")
            self._session.budget = int(number)
        frames = self._session.budget
        self._say(f"{frames} frames for each answer" if frames else "the method's default number of frames")

    def _history(self, _: str) -> None:
        self._last()
        for place, (question, line) in enumerate(self._asked, 1):
            settled = "" if line.termination == Termination.STABLE_PREFIX_FOUND else "  (not settled)"
            self._say(f"{place}. {question.text}\n   {answer_text(line, question) or 'no answer'}{settled}")

    def _cost(self, _: str) -> None:
        lines = [line for _, line in self._asked]
        cost = self._chosen.cost(lines)
        sent = sum(len(call.timestamps) for line in lines for call in line.observations if not call.remembered)
        tokens = cost.total.usage.input_tokens + cost.total.usage.output_tokens
        self._say(
            f"{count_words(len(lines), 'answer')}, {count_words(sent, 'frame')} sent, {tokens:,} tokens, {cost.money}"
        )

    def _save(self, folder: str) -> None:
        if not folder:
            raise InputError("/save takes the folder to save the last answer in.")
        saved = self._last().save(folder, overwrite=self._chosen.overwrite)
        click.echo(f"saved in {saved}", err=True)

    def _last(self) -> AskResult:
        if self._last_result is None:
            raise InputError("nothing was asked yet.")
        return self._last_result

    def _say(self, words: str) -> None:
        """Print to standard output, or to standard error with --json."""
        console = Console(stderr=True) if self._chosen.as_json else self._console
        console.print(Text(words), soft_wrap=True)


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 10  # Python refuses to read thousands of digits
