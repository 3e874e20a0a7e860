"""Ask about videos from Python: `ask` for one question, `AskSession` for several, `ask_many` for many videos."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from trace_ves.backbone.registry import canonical_spec, default_spec, open_backbone
from trace_ves.core import Clip, InputError, Interval, Question, Termination
from trace_ves.core.files import refuse_inputs, write_output
from trace_ves.core.jsonl import dump_line
from trace_ves.core.question import MAX_OPTIONS, MIN_OPTIONS
from trace_ves.observer import Listener, Memory, Method
from trace_ves.records.prediction import Prediction, SavedAnswer
from trace_ves.records.run_file import RunFile, read_predictions
from trace_ves.runs.answering import Job, QuestionTask, RunOptions, TaskResult, answer_question, find_opener
from trace_ves.runs.methods import open_method, refuse_unread_subtitles
from trace_ves.runs.run import answer_locally, answer_tasks, configuration
from trace_ves.runs.video_pool import SharedVideo

if TYPE_CHECKING:
    from trace_ves.backbone.protocol import Backbone
    from trace_ves.records import ObservationLog
    from trace_ves.records.transcript import Transcript
    from trace_ves.runs.cost import CostLimit


@dataclass(frozen=True, slots=True)
class AskResult:
    """An answer, whether it is stable, and the raw clips that support it."""

    question: Question
    answer: str | None
    """The letter of an option, or a free-text answer; None for no answer."""
    termination: Termination
    bundle: tuple[Clip, ...]
    """The raw clips that support the answer."""
    log: ObservationLog
    """Every call, with its frames."""
    prediction: Prediction
    """The same as a line of a run file, with the record of the whole search."""
    duration: float
    """Seconds of the video."""
    transcript: Transcript | None = None
    """The rendered prompt and raw reply of each call, in the order of the log."""

    @property
    def stable(self) -> bool:
        """Whether a stable prefix was found and a replay confirmed it."""
        return self.termination is Termination.STABLE_PREFIX_FOUND

    @property
    def text(self) -> str | None:
        """The answer as text: the option's text, or the free-text answer."""
        return answer_text(self.prediction, self.question)

    @property
    def evidence(self) -> tuple[Interval, ...]:
        """The spans of those clips, in order of time."""
        return tuple(sorted(clip.span for clip in self.bundle))

    def to_json(self) -> dict[str, object]:
        """The question, its answer as text, and the line of a run file, as `ask --json` prints them."""
        saved = SavedAnswer.of(self.question, self.duration, self.prediction, text=self.text, stable=self.stable)
        return saved.to_json()

    def save(self, folder: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the answer to a folder as `ask --save` does: clips, pictures, the record, a page, `answer.md`."""
        from trace_ves.web.saving import save_answer  # pages are loaded when used

        return save_answer(self, Path(folder), overwrite=overwrite)

    def _repr_html_(self) -> str:
        from trace_ves.web.saving import answer_html  # as above

        return answer_html(self)

    def __str__(self) -> str:
        letter = "" if self.question.is_open or self.answer is None else f"{self.answer}. "
        spans = ", ".join(str(span) for span in self.evidence) or "none"
        return (
            f"{letter}{self.text or 'no answer'}\n"
            f"{self.termination.value}; evidence: {spans}; {self.log.frames_supplied} frames supplied"
        )


def ask(
    video: str | PathLike[str],
    question: str,
    options: Sequence[str] = (),
    *,
    backbone: str | Backbone | None = None,
    method: str | Method = "trace",
    budget: int | None = None,
    listener: Listener | None = None,
    subtitles: bool = False,
    record: str | PathLike[str] | None = None,
) -> AskResult:
    """Answer a question about a video file. Without options, the answer is a short text.

    `backbone` is a spec such as `gemini:MODEL`, or an object; the default is the first provider whose key is set.
    `method` is a name, or a callable. `budget` bounds the frames supplied over all calls. `listener` gets every
    event. `subtitles` shows the model what is said in the video, which must then have subtitles. `record` names a
    file for the prompts and replies, which the backbone `replay:FILE` replays.
    """
    make_question(str(video), question, options)
    with AskSession(
        video, backbone=backbone, method=method, budget=budget, listener=listener, subtitles=subtitles, record=record
    ) as session:
        return session.ask(question, options)


class AskSession:
    """Several questions about one video: `with AskSession("holiday.mp4") as session: session.ask(…)`.

    The video stays open and its frames decoded. TRACE sees the storyboard once; later questions use the notes on it
    and count its frames as observed, within their own budget. The arguments are those of `ask`.
    """

    def __init__(
        self,
        video: str | PathLike[str],
        *,
        backbone: str | Backbone | None = None,
        method: str | Method = "trace",
        budget: int | None = None,
        listener: Listener | None = None,
        subtitles: bool = False,
        record: str | PathLike[str] | None = None,
    ) -> None:
        self.video: Final = Path(video)
        self.budget = budget
        """Frames that each answer may use; None for the method's default. You may change it between questions."""
        self._method = open_method(method) if isinstance(method, str) else method
        name = method if isinstance(method, str) else getattr(method, "__name__", type(method).__name__)
        self._method_name = name if isinstance(method, str) else str(name).lower()
        if backbone is None or isinstance(backbone, str):
            self._spec = canonical_spec(backbone or default_spec())
            self._backbone = open_backbone(self._spec)
        else:
            self._spec, self._backbone = backbone.name, backbone
        self._listener = listener
        self._subtitles = subtitles
        self._memory = Memory()
        self._source = SharedVideo(self.video, find_opener(self._backbone))
        if subtitles:
            refuse_unread_subtitles([self._method])
            require_subtitles(self.video, self._source)
        self._record = None if record is None else Path(record)
        if self._record is not None:
            refuse_inputs([self._record], inputs=[self.video])
            write_output(self._record, "")  # fails before the search if it cannot be written

    @property
    def backbone(self) -> str:
        """The spec of the model."""
        return self._spec

    def ask(self, question: str, options: Sequence[str] = (), *, listener: Listener | None = None) -> AskResult:
        """Answer one question, as `ask` does."""
        valid_question = make_question(str(self.video), question, options)
        if self.budget is not None and self.budget < 1:
            raise InputError(f"the budget must be at least 1 frame, found {self.budget}.")
        result = answer_question(
            valid_question,
            self._source,
            Job(self._method_name, self._spec, self.budget),
            method=self._method,
            backbone=self._backbone,
            listener=listener or self._listener,
            subtitles=self._subtitles,
            memory=self._memory,
        )
        if self._record is not None:  # also after a failed search
            with self._record.open("ab") as file:
                file.write(dump_line(result.transcript.to_json()))
        if result.error is not None:
            raise result.error
        answer = result.answer
        return AskResult(
            valid_question,
            answer.option,
            answer.termination,
            answer.bundle,
            result.log,
            result.prediction,
            self._source.duration,
            result.transcript,
        )

    def close(self) -> None:
        """Close the video."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def require_subtitles(video: Path, source: SharedVideo) -> None:
    """Raise an `InputError` if a video has no subtitles."""
    if source.subtitles() is None:
        raise InputError(
            f"{video} has no subtitles: no text track in it, and no {video.stem}.srt or {video.stem}.vtt next to it; "
            "leave out --subtitles."
        )


def make_question(video: str, text: str, options: Sequence[str]) -> Question:
    """The question as a method sees it; raises an `InputError` if it is invalid."""
    stripped, choices = text.strip(), tuple(option.strip() for option in options)
    if not stripped:
        raise InputError("the question is empty: write what you want to know about the video.")
    if choices and not MIN_OPTIONS <= len(choices) <= MAX_OPTIONS:
        raise InputError(
            f"a question needs {MIN_OPTIONS} to {MAX_OPTIONS} options, or none for an open answer; "
            f"found {len(choices)}."
        )
    if any(not choice for choice in choices):
        raise InputError(f"option {choices.index('') + 1} is empty; write its text.")
    if len(set(choices)) < len(choices):
        repeated = next(choice for choice in choices if choices.count(choice) > 1)
        raise InputError(f"the option {repeated!r} appears twice; options must differ.")
    return Question(id="ask", video=video, text=stripped, options=choices)


class VideoQuestion(NamedTuple):
    """A question, and the duration of its video."""

    question: Question
    duration: float


def ask_many(
    questions: Sequence[VideoQuestion],
    job: Job,
    out: Path,
    *,
    options: RunOptions,
    workers: int,
    cost_limit: CostLimit | None = None,
    on_begin: Callable[[int], None] = lambda _: None,
    on_answer: Callable[[Prediction], None] = lambda _: None,
) -> tuple[dict[str, Prediction], Path]:
    """Answer the questions without an answer in the folder `out`; returns the lines by question id, and the run file.

    Questions with an error are asked again. An id with another question is refused. `on_begin` gets the number of
    earlier answers, `on_answer` each new line.
    """
    by_id = {each.question.id: each for each in questions}

    def engine(tasks: Sequence[QuestionTask], options: RunOptions) -> Generator[tuple[QuestionTask, TaskResult]]:
        for task, result in answer_locally(tasks, options, workers=workers):
            line = add_question(result.prediction, task.question, by_id[task.question.id].duration)
            yield task, replace(result, prediction=line)

    with RunFile(out, job.name, configuration(job, None, None, options)) as file:
        for _, line in read_predictions(file.path):
            expected = by_id.get(line.question_id)
            stored = (line.extra.get("question"), line.extra.get("options"))
            if expected is not None and stored != (expected.question.text, list(expected.question.options)):
                raise InputError(
                    f"{file.path}: {line.question_id!r} is another question there, or has other options; "
                    "give another folder for --save."
                )
        file.move_errors()
        tasks = [
            QuestionTask(job, each.question, each.question.video)
            for each in questions
            if each.question.id not in file.finished
        ]
        on_begin(len(questions) - len(tasks))
        answer_tasks(
            tasks, {job: file}, engine, options, cost_limit=cost_limit, on_answer=lambda _, line: on_answer(line)
        )
    lines = read_predictions(file.path) if file.path.exists() else ()
    return {line.question_id: line for _, line in lines if line.question_id in by_id}, file.path


def add_question(line: Prediction, question: Question, duration: float) -> Prediction:
    """A line with the video, the question and the text of the answer."""
    stable = line.termination == Termination.STABLE_PREFIX_FOUND
    saved = SavedAnswer.of(question, duration, line, text=answer_text(line, question), stable=stable)
    return Prediction.from_json(saved.to_json())


def answer_text(line: Prediction, question: Question) -> str | None:
    """The answer as text: the option's text, or the free-text answer."""
    return line.answer if line.answer is None or question.is_open else question.option(line.answer)
