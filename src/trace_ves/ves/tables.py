"""The tables of a report: the paper's three, breakdowns, comparisons, agreement and answers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trace_ves.core.display import simulation_notes
from trace_ves.records.run_file import find_common
from trace_ves.ves.metrics import densities
from trace_ves.ves.report import AuditReport, GroupFigures, RunFigures
from trace_ves.ves.table import MISSING, Column, Row, Section, Table, Value, as_ranked, as_value, mark_best, transpose

if TYPE_CHECKING:
    from trace_ves.ves.rows import AuditRow

MOST_FAMILIES_SIDE_BY_SIDE: Final = 3
MOST_GROUPS_SIDE_BY_SIDE: Final = 4


def tables(report: AuditReport) -> tuple[Table, ...]:
    """Every table for which the report has figures."""
    bench, answered = report.bench, [run for run in report.runs if not run.is_sampler]
    answers: list[Table] = []
    if bench.measured < bench.questions and (answered or not bench.measured):
        answers = [answer_only_table(report), *group_tables(report)]
    parts = [main_table(report)] if bench.measured else answers
    if bench.measured and len(bench.families) > 1:
        parts.append(family_table(report))
    if bench.measured:
        parts.append(interval_table(report))
    if len(answered) > 1:
        parts.append(comparison_table(report, answered))
    if report.agreement:
        parts.append(agreement_table(report))
    if any(run.frames_by_stage for run in report.runs):
        parts.append(stage_table(report))
    if any(row.undetermined for run in report.runs for row in run.rows):
        parts.append(draw_table(report))
    return (*parts, *class_tables(report), *(answers if bench.measured else ()))


def complete_title(report: AuditReport, title: str) -> str:
    """Extend the title of a table by the runs that lack questions."""
    lacking = [f"{run.name} lacks {run.missing} of {report.bench.questions}" for run in report.runs if run.missing]
    if len(lacking) > 2:
        lacking = [f"{len(lacking)} of {len(report.runs)} runs lack questions"]
    return f"{title}, incomplete: {'; '.join(lacking)}" if lacking else title


def main_table(report: AuditReport) -> Table:
    """The paper's main audit table."""
    levels = densities(report.k)
    slashes = " / ".join(map(str, levels))
    bench = report.bench
    both = any(as_value(run.metrics["Acc"]) != as_value(run.answer_only.acc) for run in report.runs)

    def cells(run: RunFigures) -> tuple[tuple[Value, ...], ...]:
        metrics = run.metrics
        return (
            (as_value(metrics["Fr"], "{:.1f}".format if (metrics["Fr"] or 0) % 1 else "{:.0f}".format),),
            *([(as_ranked(run.answer_only.acc),)] if both else []),
            (as_ranked(metrics["Acc"]),),
            (as_ranked(metrics["EP"]),),
            (as_ranked(metrics["AR"], "{:.2f}".format),),
            _levels(as_ranked(metrics[f"Cov@{level}"]) for level in levels),
            _levels(as_ranked(metrics[f"ECA@{level}"]) for level in levels),
        )

    with_evidence = f"n = {bench.measured}, evidence" if both else "(%)"
    return Table(
        key="main",
        title=complete_title(report, "VES audit"),
        columns=(
            Column("Fr"),
            *([Column("Acc ↑", f"n = {bench.questions}, all")] if both else []),
            Column("Acc ↑", with_evidence),
            Column("EP ↑", "(%)"),
            Column("AR ↑"),
            Column("Cov@k ↑", f"k = {slashes}"),
            Column("ECA@k ↑", f"k = {slashes}"),
        ),
        sections=mark_best(make_sections(report.runs, cells)),
        note=_join_notes(
            report,
            f"{bench.measured} questions on {bench.videos} videos, EP_ref = {bench.ep_ref:.1f}%.",
            *answer_notes(report),
        ),
    )


def answer_notes(report: AuditReport) -> list[str]:
    """Caveats: timestamps that were not logged, unanswered questions, how answers were read."""
    runs = report.runs
    rules = {run.name: ", ".join(f"{rule} {count}" for rule, count in (run.read_by or {}).items()) for run in runs}
    notes = {
        "Timestamps reconstructed, not logged": [f"{r.name} ({r.reconstructed})" for r in runs if r.reconstructed],
        "Frames not logged, so they are unknown (give --sampler, --frames or --recorded)": [
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
    """The paper's per-family table; with many families or only samplers, families are below one another."""
    levels = densities(report.k)
    families = list(next(iter(report.runs)).families)

    def of_family(run: RunFigures, family: str) -> tuple[tuple[Value, ...], ...]:
        metrics = run.families[family]
        return ((as_ranked(metrics["Acc"]),), _levels(as_ranked(metrics[f"ECA@{level}"]) for level in levels))

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
        columns=tuple(Column(*unit, family_title(family)) for family in families for unit in units),
        sections=mark_best(
            make_sections(answered, lambda run: tuple(cell for family in families for cell in of_family(run, family)))
        ),
    )


def _breakdown(
    report: AuditReport,
    key: str,
    title: str,
    parts: Mapping[str, str],
    metrics: Callable[[RunFigures, str], Mapping[str, float | None]],
) -> Table:
    """Acc, Cov@k and ECA@k over subsets of the bench, one below another; `parts` maps headings to subsets."""
    levels = densities(report.k)
    slashes = " / ".join(map(str, levels))

    def row(run: RunFigures, part: str) -> Row:
        of = metrics(run, part)
        rates = (_levels(as_ranked(of[f"{name}@{level}"]) for level in levels) for name in ("Cov", "ECA"))
        return Row(run.name, ((as_ranked(of["Acc"]),), *rates))

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
    """The audit by duration class and by number of evidence intervals, if the bench has several."""
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
    """The paper's table of 95% intervals; the last column is the bootstrap over videos."""
    metrics = ("Acc", "EP", f"Cov@{report.k}", f"ECA@{report.k}")

    def cells(run: RunFigures) -> tuple[tuple[Value, ...], ...]:
        by_question = tuple((as_value(run.metrics[name], half=run.half_width(name)),) for name in metrics)
        return (*by_question, _levels(as_value(run.half_width(name, by_video=True)) for name in metrics))

    return Table(
        key="intervals",
        title=f"95% bootstrap intervals at k = {report.k}",
        columns=(*(Column(name) for name in metrics), Column("± by video", "Acc / EP / Cov / ECA")),
        sections=make_sections(report.runs, cells),
        note="± is half of the percentile interval over questions; the last column resamples whole videos instead.",
    )


def comparison_table(report: AuditReport, answered: Sequence[RunFigures]) -> Table:
    """Compare the best run with every other run by paired bootstrap."""
    headline = "Acc" if report.bench.ep_ref is None else f"ECA@{report.k}"
    best = max(answered, key=lambda run: run.metrics[headline] or 0.0)
    metrics = ("Acc",) if headline == "Acc" else ("Acc", "EP", f"Cov@{report.k}", headline)
    by_pair = {(c.a, c.b, c.metric): c for c in report.comparisons}

    def cell(other: RunFigures, metric: str) -> tuple[Value, ...]:
        forward, back = by_pair.get((best.name, other.name, metric)), by_pair.get((other.name, best.name, metric))
        comparison = forward or back
        if comparison is None or comparison.difference is None or comparison.p is None:
            return (Value(MISSING),)
        difference = comparison.difference if forward else 0.0 - comparison.difference  # avoids -0.0
        return (Value(f"{difference:+.1f} p={comparison.p:.3f}"),)

    others = tuple(run for run in report.runs if run is not best)
    return Table(
        key="comparisons",
        title=f"{best.name} minus each other run, paired bootstrap",
        first_column="Against",
        columns=tuple(Column(name) for name in metrics),
        sections=make_sections(others, lambda run: tuple(cell(run, metric) for metric in metrics)),
        note="Two-sided p from the paired resamples; no correction for the number of comparisons.",
    )


MOST_PAIRS: Final = 12


def agreement_table(report: AuditReport) -> Table:
    """The agreement of runs in answers, responses and frames, the most similar pairs first."""
    closest = sorted(
        report.agreement,
        key=lambda pair: max(filter(None, (pair.responses, pair.answers, pair.frames)), default=0),
        reverse=True,
    )
    more = len(closest) - MOST_PAIRS
    rows = tuple(
        Row(
            f"{pair.a} - {pair.b}",
            ((Value(str(pair.questions)),), *((as_value(v),) for v in (pair.answers, pair.responses, pair.frames))),
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
    """Fr by stage, for runs that logged their calls."""
    frames = {run.name: run.frames_by_stage for run in report.runs if run.frames_by_stage}
    stages = list(dict.fromkeys(stage for of_run in frames.values() for stage in of_run))
    return Table(
        key="stages",
        title="Frames supplied by stage",
        columns=(Column("Fr"), *(Column(stage) for stage in stages)),
        sections=make_sections(
            [run for run in report.runs if run.name in frames],
            lambda run: ((as_value(run.metrics["Fr"]),), *((as_value(frames[run.name].get(s, 0.0)),) for s in stages)),
        ),
    )


def draw_table(report: AuditReport) -> Table:
    """The share of answers drawn from options that fit equally well, and the metrics without them."""
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
        sections=make_sections(
            [run for run in report.runs if not run.is_sampler],
            lambda run: tuple(
                (as_value(100 * sum(map(bool, map(share, run.rows))) / len(run.rows)),) for share in shares.values()
            ),
        ),
        note="Undetermined: several options fit equally well, and a forced choice was drawn from them. "
        "Other tables count the forced choice; determined counts such an answer as wrong.",
    )


def answer_only_table(report: AuditReport) -> Table:
    """Accuracy over all questions, for a bench in which some or all questions have no evidence."""

    def cells(run: RunFigures) -> tuple[tuple[Value, ...], ...]:
        half = run.half_width("Acc") if report.bench.ep_ref is None else None
        acc = replace(as_ranked(run.answer_only.acc), plus_minus=None if half is None else f"{half:.1f}")
        whole_groups = [(as_ranked(run.question_groups.acc if run.question_groups else None),)] if groups else []
        return ((Value(str(run.answer_only.questions)),), (as_value(run.metrics["Fr"]),), (acc,), *whole_groups)

    groups = next((run.question_groups.questions for run in report.runs if run.question_groups), 0)
    questions = report.bench.questions
    without = questions - report.bench.measured
    explanation = f"{without} of {questions} questions have no evidence intervals and count only in this table."
    if without == questions:
        explanation = "This bench has no evidence intervals, so only answers can be scored."
    return Table(
        key="answers",
        title=complete_title(report, "Answers only") if without == questions else "Answers only",
        columns=(
            Column("Questions"),
            Column("Fr"),
            Column("Acc ↑", "(%)"),
            *([Column("Whole groups ↑", f"n = {groups}")] if groups else []),
        ),
        sections=mark_best(make_sections(report.runs, cells)),
        note=_join_notes(report, explanation, *(answer_notes(report) if report.bench.ep_ref is None else [])),
    )


def _join_notes(report: AuditReport, *notes: str) -> str:
    """Join the notes, and add one about simulated backbones."""
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
    """Accuracy by the values of one group key; `groups` has the figures of each run."""
    of_run = {run.name: of for run, of in zip(report.runs, groups, strict=True)}
    values = {value: group for of in groups for value, group in of.items()}
    table = Table(
        key=f"by-{key}",
        title=f"Accuracy by {key.replace('_', ' ')}",
        columns=tuple(Column(value, f"n = {group.questions}") for value, group in values.items()),
        sections=mark_best(
            make_sections(
                report.runs,
                lambda run: tuple(
                    (as_ranked(of_run[run.name][value].acc if value in of_run[run.name] else None),) for value in values
                ),
            )
        ),
    )
    is_wide = len(values) > MOST_GROUPS_SIDE_BY_SIDE
    return transpose(table, key.replace("_", " ").capitalize()) if is_wide else table


def _levels(values: Iterable[Value]) -> tuple[Value, ...]:
    """The values of a cell; if all are missing, only one `--`."""
    cell = tuple(values)
    return cell[:1] if all(value.text == MISSING for value in cell) else cell


def family_title(family: str) -> str:
    """Format a family as a heading: `temporal-ordering` becomes Temporal Ordering; names with capitals stay."""
    if not family:
        return "no family"
    return family.replace("-", " ").replace("_", " ").title() if family == family.lower() else family


def paper_block(run: RunFigures) -> int:
    """The block of the paper's table that a run belongs to, an index into `HEADINGS`."""
    method = run.method.lower()
    if run.is_sampler:
        return 1
    if method == "random" or method.startswith("blind") or run.metrics["Fr"] == 0:
        return 0
    return 2 if uniform_frames(run) is not None else 3


HEADINGS: Final = ("Non-visual baselines", "Samplers without a model", "Uniform sweep", "Agents")


def uniform_frames(run: RunFigures) -> int | None:
    """The frame count of a run of the uniform sweep, else None."""
    match = re.fullmatch(r"uniform-(\d{1,9})", run.method.lower())
    return int(match[1]) if match else None


def in_paper_order(runs: Sequence[RunFigures]) -> list[RunFigures]:
    """Sort runs: non-visual first, then the uniform sweep by frames, then the others in their order."""
    return sorted(runs, key=lambda run: (paper_block(run), uniform_frames(run) or 0))


def make_sections(
    runs: Sequence[RunFigures], cells: Callable[[RunFigures], tuple[tuple[Value, ...], ...]]
) -> tuple[Section, ...]:
    """The runs in the paper's order; with a heading for each block if there are several."""
    blocks: dict[int, list[RunFigures]] = defaultdict(list)
    for run in in_paper_order(runs):
        blocks[paper_block(run)].append(run)
    parts = []
    for block, members in blocks.items():
        shared = find_common(run.backbone for run in members)
        heading = f"{HEADINGS[block]} ({shared})" if shared else HEADINGS[block]
        parts.append(Section(heading if len(blocks) > 1 else "", tuple(Row(run.name, cells(run)) for run in members)))
    return tuple(parts)
