"""View models of the pages, and the templates that render them. Templates escape every value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from trace_ves._version import __version__
from trace_ves.core import TraceVesError
from trace_ves.core.display import colour_stages, describe_stage, simulation_notes
from trace_ves.ves.tables import tables
from trace_ves.web import charts, search_view
from trace_ves.web.costs import GROUPINGS, CostTable
from trace_ves.web.glossary import glossary, term_of
from trace_ves.web.listing import BUCKETS, Filters, QuestionEntry, QuestionInfo, next_sort
from trace_ves.web.search_view import SearchView, clock, view_search
from trace_ves.web.timeline import Timeline, make_timeline

if TYPE_CHECKING:
    from trace_ves.records import Prediction
    from trace_ves.records.transcript import CallTranscript, Transcript
    from trace_ves.web.library import Library

PAGE_ROWS: Final = 200
MOST_CALLS: Final = 2000  # calls listed for one answer; the page says how many more there are
LONGEST_MESSAGE: Final = 20_000  # characters shown of a prompt or a reply; the rest is in the transcripts file


@dataclass(frozen=True, slots=True)
class AnswerView:
    """View model of one run's answer to one question."""

    key: str
    name: str
    listed: QuestionEntry
    prediction: Prediction | None  # the run line; None if it is missing or damaged
    search: SearchView | None
    timeline: Timeline
    problem: str
    transcript: Transcript | None = None  # the prompts and replies of its calls, if they were saved

    def call_transcript(self, number: int, stage: str) -> CallTranscript | None:
        """The prompt and replies of a call; None if they are not in the transcript."""
        calls = self.transcript.calls if self.transcript else ()
        return calls[number] if number < len(calls) and calls[number].stage == stage else None

    @property
    def colours(self) -> dict[str, str]:
        """The colour of each stage of this answer."""
        calls = self.prediction.observations if self.prediction else ()
        return colour_stages(list(dict.fromkeys(call.stage for call in calls if call.timestamps)))


@cache
def environment() -> Environment:
    """The template environment; a missing variable is an error, and every value is escaped."""
    templates = Environment(
        loader=PackageLoader("trace_ves.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals |= {
        "version": __version__,
        "fates": search_view.FATES,
        "endings": search_view.ENDINGS,
        "stage": describe_stage,
        "glossary": glossary(),
        "buckets": BUCKETS,
        "term_of": term_of,
        "next_sort": next_sort,
        "most_calls": MOST_CALLS,
        "longest_message": LONGEST_MESSAGE,
        "simulation_notes": simulation_notes,
    }
    templates.filters |= {
        "span": search_view.span_text,
        "strategy": search_view.strategy_text,
        "fact": search_view.fact_text,
        "decision": search_view.decision_text,
        "moments": lambda place: f"{clock(place.start, 3)} - {clock(place.end, 3)}",
        "percent": lambda value: "--" if value is None else f"{value:.1f}",
        "when": lambda moment: f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M} UTC",
        "pairs": lambda intervals: [[interval.start, interval.end] for interval in intervals],
        "address": lambda values: urlencode({key: value for key, value in values.items() if value != ""}),
    }
    return templates


def render(template: str, **values: object) -> str:
    """Render a template as HTML."""
    return environment().get_template(template).render(**values)


def static_text(name: str) -> str:
    """Read one of the static files."""
    return (resources.files("trace_ves.web") / "static" / name).read_text(encoding="utf-8")


def runs_page(library: Library, *, common: bool) -> str:
    """Render the start page: the audit of all runs, its figures, and the progress of each run."""
    version = library.refresh()
    library_audit = library.audit(common=common)
    report = library_audit.report
    return render(
        "runs.html",
        library=library,
        version_of_runs=version,
        audited=library_audit,
        states=library.states(),
        common=common,
        tables=tables(report) if report else (),
        bars=charts.make_bucket_bars(report, library_audit.keys) if report else (),
        frontier=charts.make_frontier(report, library_audit.keys) if report else None,
        chart=charts,
        is_partial=any(state.answered < state.questions for state in library.states().values()),
    )


def run_page(library: Library, key: str, filters: Filters, page: int) -> str:
    """Render the questions of one run that match the filters; a `KeyError` for an unknown run."""
    version = library.refresh()
    listing = library.listing(key)
    names = listing.choose(filters)
    pages = max(1, -(-len(names) // PAGE_ROWS))
    page = min(page, pages)
    return render(
        "run.html",
        library=library,
        version_of_runs=version,
        key=key,
        name=run_names(library)[key],
        state=library.states()[key],
        filters=filters,
        choices=listing.choices(filters),
        shown_buckets=listing.buckets,
        entries=[listing[name] for name in names[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]],
        total=len(names),
        every=len(listing),
        page=page,
        pages=pages,
    )


def costs_page(library: Library, table: CostTable, by: str, run: str) -> str:
    """Render the costs of runs, added up by one grouping."""
    return render(
        "costs.html",
        library=library,
        table=table,
        by=by,
        run=run,
        groupings=GROUPINGS,
        titles={"run": "Run", "method": "Method", "backbone": "Backbone", "stage": "Stage", "question_id": "Question"},
        names=run_names(library),
    )


def run_names(library: Library) -> dict[str, str]:
    """The name of each run by its key: the method, or the key if several runs share the method."""
    states = library.states()
    methods = [state.method for state in states.values()]
    return {
        key: state.method if state.method and methods.count(state.method) == 1 else key for key, state in states.items()
    }


def answer_view(library: Library, key: str, info: QuestionInfo) -> AnswerView:
    """Make the view of one run's answer; a `KeyError` for an unknown run."""
    run, question_id = library.runs[key], info.question.id
    listed = library.listing(key).get(question_id)
    prediction, problem = None, ""
    try:
        prediction = run.read(question_id)
    except TraceVesError as error:
        problem = str(error)
    except KeyError:
        problem = "This run has no line for this question yet."
    search = view_search(prediction, info.question) if prediction else None
    transcript = None
    try:
        if prediction is not None and library.allows(run.transcripts.path):
            transcript = run.transcripts.read(question_id)
    except TraceVesError as error:
        problem = str(error)
    return AnswerView(
        key=key,
        name=run_names(library)[key],
        listed=listed if listed is not None else QuestionEntry(info),
        prediction=prediction,
        search=search,
        timeline=make_timeline(info, prediction, search),
        problem=problem or (listed.problem if listed else ""),
        transcript=transcript,
    )


def question_page(library: Library, key: str, question_id: str, beside: str, filters: Filters) -> str:
    """Render the page of a question; a `KeyError` for an unknown run or question."""
    library.refresh()
    listing = library.listing(key)
    if question_id not in listing:
        raise KeyError(question_id)
    info = listing[question_id].info
    answers = [answer_view(library, key, info), *([answer_view(library, beside, info)] if beside else [])]
    video = library.video_of(info)
    names = listing.choose(filters, including=question_id)
    at = names.index(question_id)
    return render(
        "question.html",
        library=library,
        info=info,
        key=key,
        beside=beside,
        answers=answers,
        names=run_names(library),
        has_video=video is not None,
        filters=filters,
        before=names[at - 1] if at else "",
        after=names[at + 1] if at + 1 < len(names) else "",
        place=(at + 1, len(names)),
        data=page_data(info, answers, has_video=video is not None),
    )


def page_data(info: QuestionInfo, answers: list[AnswerView], *, has_video: bool) -> dict[str, Any]:
    """The JSON data for the scripts of a question's page."""
    seen: dict[float, dict[str, None]] = {}  # the stages that saw each moment, in order
    for line in (each.prediction for each in answers if each.prediction):
        for call in line.observations:
            for moment in call.timestamps:
                seen.setdefault(moment, {})[call.stage] = None
        for moment in line.timestamps:
            seen.setdefault(moment, {})
    moments = sorted(seen)
    return {
        "id": info.question.id,
        "hasVideo": has_video,
        "duration": answers[0].timeline.duration,
        "evidence": [[interval.start, interval.end] for interval in info.evidence],
        "supplied": moments,
        "stages": [[describe_stage(stage).title for stage in seen[moment]] for moment in moments],
    }
