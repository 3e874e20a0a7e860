"""The tables of a report: the paper's three, breakdowns, comparisons, agreement of runs, and answers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trace_ves.core.display import simulation_notes
from trace_ves.records.run_file import constant
from trace_ves.ves.metrics import densities
from trace_ves.ves.report import AuditReport, GroupFigures, RunFigures
from trace_ves.ves.table import MISSING, Column, Row, Section, Table, Value, marked, number, ranked, transposed

if TYPE_CHECKING:
    from trace_ves.ves.rows import AuditRow

MOST_FAMILIES_SIDE_BY_SIDE: Final = 3
MOST_GROUPS_SIDE_BY_SIDE: Final = 4


def tables(report: AuditReport) -> tuple[Table, ...]:
    """Every table that the report has numbers for."""
    bench, answered = report.bench, [run for run in report.runs if not run.is_sampler]
    answers: list[Table] = []
    if bench.measured < bench.questions and (answered or not bench.measured):
        answers = [answer_only_table(report), *group_tables(report)]
    shown = [main_table(report)] if bench.measured else answers
    if bench.measured and len(bench.families) > 1:
        shown.append(family_table(report))
    if bench.measured:
        shown.append(interval_table(report))
    if len(answered) > 1:
        shown.append(comparison_table(report, answered))
    if report.agreement:
        shown.append(agreement_table(report))
    if any(run.frames_by_stage for run in report.runs):
        shown.append(stage_table(report))
    if any(row.undetermined for run in report.runs for row in run.rows):
        shown.append(draw_table(report))
    return (*shown, *class_tables(report), *(answers if bench.measured else ()))


def title(report: AuditReport, words: str) -> str:
    """The title of a table, which names the runs that lack questions."""
    lacking = [f"{run.name} lacks {run.missing} of {report.bench.questions}" for run in report.runs if run.missing]
    if len(lacking) > 2:
        lacking = [f"{len(lacking)} of {len(report.runs)} runs lack questions"]
    return f"{words}, incomplete: {'; '.join(lacking)}" if lacking else words


def main_table(report: AuditReport) -> Table:
    """The paper's main audit table."""
    levels = densities(report.k)
    slashes = " / ".join(map(str, levels))
    bench = report.bench
    both = any(number(run.metrics["Acc"]) != number(run.answer_only.acc) for run in report.runs)

    def cells(run: RunFigures) -> tuple[tuple[Value, ...], ...]:
        metrics = run.metrics
        return (
            (number(metrics["Fr"], "{:.1f}".format if (metrics["Fr"] or 0) % 1 else "{:.0f}".format),),
            *([(ranked(run.answer_only.acc),)] if both else []),
            (ranked(metrics["Acc"]),),
            (ranked(metrics["EP"]),),
            (ranked(metrics["AR"], "{:.2f}".format),),
            _levels(ranked(metrics[f"Cov@{level}"]) for level in levels),
            _levels(ranked(metrics[f"ECA@{level}"]) for level in levels),
        )

    with_evidence = f"n = {bench.measured}, evidence" if both else "(%)"
    return Table(
        key="main",
        title=title(report, "VES audit"),
        columns=(
            Column("Fr"),
            *([Column("Acc ↑", f"n = {bench.questions}, all")] if both else []),
            Column("Acc ↑", with_evidence),
            Column("EP ↑", "(%)"),
            Column("AR ↑"),
            Column("Cov@k ↑", f"k = {slashes}"),
            Column("ECA@k ↑", f"k = {slashes}"),
        ),
        sections=marked(sections(report.runs, cells)),
        note=_join_notes(
            report,
            f"{bench.measured} questions on {bench.videos} videos, EP_ref = {bench.ep_ref:.1f}%.",
            *answer_notes(report),
        ),
    )


def answer_notes(report: AuditReport) -> list[str]:
    """What a reader must know: timestamps that were not logged, unanswered questions, how answers were read."""
    runs = report.runs
    rules = {run.name: ", ".join(f"{rule} {count}" for rule, count in (run.read_by or {}).items()) for run in runs}
    notes = {
        "Timestamps reconstructed, not logged": [f"{r.name} ({r.reconstructed})" for r in runs if r.reconstructed],
        "Frames not logged, so what was looked at is unknown (name it with --sampler, --frames or --recorded)": [
            run.name for run in runs if run.metrics["Fr"] is None
        ],
        "Unanswered questions (null, an error or a missing line) counted as wrong": [
            f"{run.name} {run.unanswered}" for run in runs if run.unanswered
        ],
        "Answers read from text by rule": [f"{name} ({text})" for name, text in rules.items() if text],
        "Without a frame budget": [run.name for run in runs if not run.has_budget],
    }
    return [f"{note}: {', '.join(names)}." for note, names in notes.items() if names]


def family_table(report: AuditReport) -> Table:
    """The paper's per-family table; many families come one below the other, and so do samplers, which only have Cov."""
    levels = densities(report.k)
    families = list(next(iter(report.runs)).families)

    def of_family(run: RunFigures, family: str) -> tuple[tuple[Value, ...], ...]:
        metrics = run.families[family]
        return ((ranked(metrics["Acc"]),), _levels(ranked(metrics[f"ECA@{level}"]) for level in levels))

    table = _breakdown(
        report,
        "families",
        "Per-family breakdown",
        {f"{family_title(name)} ({report.bench.families[name]})": name for name in families},
        lambda run, name: run.families[name],
    )
    answered = [run for run in report.runs if not run.is_sampler]
    if not answered or len(families) > MOST_FAMILIES_SIDE_BY_SIDE:
        return table
    units = (("Acc ↑", "(%)"), ("ECA@k ↑", " / ".join(map(str, levels))))
    return replace(
        table,
        columns=tuple(Column(*words, family_title(family)) for family in families for words in units),
        sections=marked(
            sections(answered, lambda run: tuple(cell for family in families for cell in of_family(run, family)))
        ),
    )


def _breakdown(
    report: AuditReport,
    key: str,
    title: str,
    parts: Mapping[str, str],
    metrics: Callable[[RunFigures, str], Mapping[str, float | None]],
) -> Table:
    """Acc, Cov@k and ECA@k over parts of the bench, one below the other; `parts` has their names by their headings."""
    levels = densities(report.k)
    slashes = " / ".join(map(str, levels))

    def row(run: RunFigures, part: str) -> Row:
        of = metrics(run, part)
        rates = (_levels(ranked(of[f"{name}@{level}"]) for level in levels) for name in ("Cov", "ECA"))
        return Row(run.name, ((ranked(of["Acc"]),), *rates))

    return Table(
        key=key,
        title=title,
        columns=(Column("Acc ↑", "(%)"), Column("Cov@k ↑", f"k = {slashes}"), Column("ECA@k ↑", f"k = {slashes}")),
        sections=tuple(
            Section(heading, tuple(row(run, part) for run in in_paper_order(report.runs)))
            for heading, part in parts.items()
        ),
    )


CLASS_TITLES: Final = {"duration": "By video duration", "intervals": "By number of evidence intervals"}


def class_tables(report: AuditReport) -> list[Table]:
    """The audit by duration class and by number of evidence intervals, where the bench has several."""
    return [
        _breakdown(
            report,
            f"by-{key}",
            CLASS_TITLES[key],
            {f"{word} ({figures.questions} questions)": word for word, figures in classes.items()},
            lambda run, word, key=key: (run.classes or {})[key][word].metrics,  # type: ignore[misc]
        )
        for key, classes in (report.runs[0].classes or {}).items()
    ]


def interval_table(report: AuditReport) -> Table:
    """The paper's table of 95% intervals, with the video-cluster bootstrap as its last column."""
    shown = ("Acc", "EP", f"Cov@{report.k}", f"ECA@{report.k}")

    def cells(run: RunFigures) -> tuple[tuple[Value, ...], ...]:
        by_question = tuple((number(run.metrics[name], half=run.half_width(name)),) for name in shown)
        return (*by_question, _levels(number(run.half_width(name, by_video=True)) for name in shown))

    return Table(
        key="intervals",
        title=f"95% bootstrap intervals at k = {report.k}",
        columns=(*(Column(name) for name in shown), Column("± by video", "the same four")),
        sections=sections(report.runs, cells),
        note="± is half of the percentile interval over questions; the last column resamples whole videos instead.",
    )


def comparison_table(report: AuditReport, answered: Sequence[RunFigures]) -> Table:
    """The best run against every other, by paired bootstrap."""
    headline = "Acc" if report.bench.ep_ref is None else f"ECA@{report.k}"
    best = max(answered, key=lambda run: run.metrics[headline] or 0.0)
    shown = ("Acc",) if headline == "Acc" else ("Acc", "EP", f"Cov@{report.k}", headline)
    found = {(c.a, c.b, c.metric): c for c in report.comparisons}

    def cell(other: RunFigures, metric: str) -> tuple[Value, ...]:
        forward, back = found.get((best.name, other.name, metric)), found.get((other.name, best.name, metric))
        comparison = forward or back
        if comparison is None or comparison.difference is None or comparison.p is None:
            return (Value(MISSING),)
        difference = comparison.difference if forward else 0.0 - comparison.difference  # 0 has no sign then
        return (Value(f"{difference:+.1f} p={comparison.p:.3f}"),)

    others = tuple(run for run in report.runs if run is not best)
    return Table(
        key="comparisons",
        title=f"{best.name} minus each other run, paired bootstrap",
        first_column="Against",
        columns=tuple(Column(name) for name in shown),
        sections=sections(others, lambda run: tuple(cell(run, metric) for metric in shown)),
        note="Two-sided p from the paired resamples; no correction for the number of comparisons.",
    )


MOST_PAIRS: Final = 12


def agreement_table(report: AuditReport) -> Table:
    """How often two runs give the same answer and response and look at the same frames, the closest pairs first."""
    closest = sorted(
        report.agreement, key=lambda pair: max(pair.responses or 0, pair.answers or 0, pair.frames or 0), reverse=True
    )
    more = len(closest) - MOST_PAIRS
    rows = tuple(
        Row(
            f"{pair.a} - {pair.b}",
            ((Value(str(pair.questions)),), *((number(v),) for v in (pair.answers, pair.responses, pair.frames))),
        )
        for pair in closest[:MOST_PAIRS]
    )
    columns = (Column("Same answer", "(%)"), Column("Same response", "(%)"), Column("Same frames", "(%)"))
    return Table(
        key="agreement",
        title="Agreement between runs",
        first_column="Runs",
        columns=(Column("Questions"), *columns),
        sections=(Section("", rows),),
        note=f"The {MOST_PAIRS} closest of {len(closest)} pairs; --json has all." if more > 0 else "",
    )


def stage_table(report: AuditReport) -> Table:
    """Fr split by the stage of the call, for runs that logged their calls."""
    frames = {run.name: run.frames_by_stage for run in report.runs if run.frames_by_stage}
    stages = list(dict.fromkeys(stage for of_run in frames.values() for stage in of_run))
    return Table(
        key="stages",
        title="Frames supplied by stage",
        columns=(Column("Fr"), *(Column(stage) for stage in stages)),
        sections=sections(
            [run for run in report.runs if run.name in frames],
            lambda run: ((number(run.metrics["Fr"]),), *((number(frames[run.name].get(s, 0.0)),) for s in stages)),
        ),
    )


def draw_table(report: AuditReport) -> Table:
    """How many answers were draws among options that fit equally well, and what is left without them."""
    shares: dict[tuple[str, str], Callable[[AuditRow], bool | None]] = {
        ("Undetermined", "(%)"): lambda row: row.undetermined,
        ("Acc", "forced choice"): lambda row: row.correct,
        ("Acc", "determined"): lambda row: row.correct and not row.undetermined,
        (f"ECA@{report.k}", "forced choice"): lambda row: row.correct and row.density >= report.k,
        (f"ECA@{report.k}", "determined"): lambda row: row.correct and row.density >= report.k and not row.undetermined,
    }
    return Table(
        key="draws",
        title="Undetermined answers",
        columns=tuple(Column(*title) for title in shares),
        sections=sections(
            [run for run in report.runs if not run.is_sampler],
            lambda run: tuple(
                (number(100 * sum(map(bool, map(share, run.rows))) / len(run.rows)),) for share in shares.values()
            ),
        ),
        note="Undetermined: several options fit what was seen equally well, and a forced choice was drawn among them. "
        "Every other table counts the forced choice; determined counts such an answer as wrong.",
    )


def answer_only_table(report: AuditReport) -> Table:
    """Accuracy over every question, for a bench without evidence or with evidence for a part of it."""

    def cells(run: RunFigures) -> tuple[tuple[Value, ...], ...]:
        half = run.half_width("Acc") if report.bench.ep_ref is None else None
        acc = replace(ranked(run.answer_only.acc), plus_minus=None if half is None else f"{half:.1f}")
        together = [(ranked(run.question_groups.acc if run.question_groups else None),)] if groups else []
        return ((Value(str(run.answer_only.questions)),), (number(run.metrics["Fr"]),), (acc,), *together)

    groups = next((run.question_groups.questions for run in report.runs if run.question_groups), 0)
    questions = report.bench.questions
    without = questions - report.bench.measured
    why = f"{without} of {questions} questions have no evidence intervals and count only in this table."
    if without == questions:
        why = "This bench has no evidence intervals: only answers can be scored. Coverage needs evidence and durations."
    return Table(
        key="answers",
        title=title(report, "Answers only") if without == questions else "Answers only",
        columns=(
            Column("Questions"),
            Column("Fr"),
            Column("Acc ↑", "(%)"),
            *([Column("Whole groups ↑", f"n = {groups}")] if groups else []),
        ),
        sections=marked(sections(report.runs, cells)),
        note=_join_notes(report, why, *(answer_notes(report) if report.bench.ep_ref is None else [])),
    )


def _join_notes(report: AuditReport, *notes: str) -> str:
    """The notes, and that something is simulated where it is."""
    return " ".join([*notes, simulation_notes(run.backbone for run in report.runs)]).rstrip()


def group_tables(report: AuditReport) -> tuple[Table, ...]:
    """Accuracy by family and by each group key of the bench."""
    if all(run.answer_only.acc is None for run in report.runs):
        return ()
    first = report.runs[0]
    keys = dict.fromkeys(key for run in report.runs for key in run.groups or {})
    by_key = {key: [(run.groups or {}).get(key, {}) for run in report.runs] for key in keys}
    if report.bench.ep_ref is None and len(first.families) > 1:
        sizes = report.bench.families
        families = [
            {family_title(f): GroupFigures(sizes[f], run.families[f]["Acc"]) for f in run.families}
            for run in report.runs
        ]
        by_key = {"family": families} | by_key
    return tuple(_group_table(report, key, groups) for key, groups in by_key.items())


def _group_table(report: AuditReport, key: str, groups: Sequence[Mapping[str, GroupFigures]]) -> Table:
    """`groups` has the groups of each run of the report."""
    of_run = {run.name: of for run, of in zip(report.runs, groups, strict=True)}
    values = {value: group for of in groups for value, group in of.items()}
    table = Table(
        key=f"by-{key}",
        title=f"Accuracy by {key.replace('_', ' ')}",
        columns=tuple(Column(value, f"n = {group.questions}") for value, group in values.items()),
        sections=marked(
            sections(
                report.runs,
                lambda run: tuple(
                    (ranked(of_run[run.name][value].acc if value in of_run[run.name] else None),) for value in values
                ),
            )
        ),
    )
    is_wide = len(values) > MOST_GROUPS_SIDE_BY_SIDE
    return transposed(table, key.replace("_", " ").capitalize()) if is_wide else table


def _levels(values: Iterable[Value]) -> tuple[Value, ...]:
    """Three times nothing is shown once."""
    found = tuple(values)
    return found[:1] if all(value.text == MISSING for value in found) else found


def family_title(family: str) -> str:
    """`temporal-ordering` as a heading: Temporal Ordering. Words with capitals stay as they are."""
    if not family:
        return "no family"
    return family.replace("-", " ").replace("_", " ").title() if family == family.lower() else family


def kind(run: RunFigures) -> int:
    """Which block of the paper's table a run belongs to."""
    method = run.method.lower()
    if run.is_sampler:
        return 1
    if method == "random" or method.startswith("blind") or run.metrics["Fr"] == 0:
        return 0
    return 2 if uniform_frames(run) is not None else 3


HEADINGS: Final = ("Non-visual baselines", "Samplers without a model", "Uniform sweep", "Agents")


def uniform_frames(run: RunFigures) -> int | None:
    """The frame count of a run of the uniform sweep, None for any other."""
    match = re.fullmatch(r"uniform-(\d{1,9})", run.method.lower())
    return int(match[1]) if match else None


def in_paper_order(runs: Sequence[RunFigures]) -> list[RunFigures]:
    """Non-visual first, then the uniform sweep by frames, then the others in the order of the command."""
    return sorted(runs, key=lambda run: (kind(run), uniform_frames(run) or 0))


def sections(
    runs: Sequence[RunFigures], cells: Callable[[RunFigures], tuple[tuple[Value, ...], ...]]
) -> tuple[Section, ...]:
    """The runs in the paper's order, with a heading for each block where there is more than one block."""
    blocks: dict[int, list[RunFigures]] = defaultdict(list)
    for run in in_paper_order(runs):
        blocks[kind(run)].append(run)
    parts = []
    for block, members in blocks.items():
        shared = constant(run.backbone for run in members)
        heading = f"{HEADINGS[block]} ({shared})" if shared else HEADINGS[block]
        parts.append(Section(heading if len(blocks) > 1 else "", tuple(Row(run.name, cells(run)) for run in members)))
    return tuple(parts)
