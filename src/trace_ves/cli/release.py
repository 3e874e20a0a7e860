"""`trace-ves release`: pack a bench and runs so that anyone can replay the audit, and check such a pack."""

from __future__ import annotations

from pathlib import Path

import click

from trace_ves.core.errors import InputError


@click.command()
@click.argument("paths", metavar="BENCH RUN… OUT", nargs=-1, type=click.Path(path_type=Path))
@click.option("--videos", "with_videos", is_flag=True, help="Pack the videos too.")
@click.option("--license", "license_file", type=click.Path(path_type=Path, dir_okay=False), help="Your licence note.")
@click.option("--check", "check_only", is_flag=True, help="Check a release instead: trace-ves release --check FOLDER.")
def command(*, paths: tuple[Path, ...], with_videos: bool, license_file: Path | None, check_only: bool) -> int:
    """Pack BENCH and each RUN into the new folder OUT: annotations, observation logs, checksums, licence notes."""
    if check_only:
        if len(paths) != 1:
            raise click.UsageError("--check takes one folder.")
        return _check(paths[0])
    if len(paths) < 2:
        raise click.UsageError("Give a bench, the runs, and the folder to make: trace-ves release BENCH RUN… OUT.")
    from trace_ves.benchmarks import load_bench
    from trace_ves.release.pack import make_release
    from trace_ves.ves import load_runs

    bench, *runs, out = paths
    loaded = load_bench(bench)
    release = make_release(
        loaded,
        load_runs(runs) if runs else (),
        out,
        with_videos=with_videos,
        license_note=_license_note(license_file),
    )
    click.echo(f"{release.files} files, {release.videos} videos named, in {release.folder}.")
    if release.missing_videos:
        some = ", ".join(release.missing_videos[:3])
        click.echo(f"warning: {len(release.missing_videos)} videos are not on this machine ({some}, …).", err=True)
    if license_file is None:
        click.echo(f"fill in {release.folder / 'LICENSE.md'} before you publish, or give --license.", err=True)
    return 0


def _check(folder: Path) -> int:
    from trace_ves.release.check import check_release

    count, wrong = check_release(folder)
    for sentence in wrong:
        click.echo(sentence, err=True)
    click.echo(f"{count - len(wrong)} of {count} files are as they were released.")
    return 1 if wrong else 0


def _license_note(path: Path | None) -> str:
    from importlib.resources import files

    if path is None:
        return files("trace_ves.release").joinpath("license.md").read_text(encoding="utf-8")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}.") from None
