"""Run every command of an installed `trace-ves` and fail on a traceback: python tools/smoke.py TRACE_VES BENCH.

For an environment without extras. A command may refuse with exit status 2 and name the extra that it needs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

FINE = (0, 2)


def commands(bench: Path, folder: Path) -> list[list[str]]:
    """Every command with arguments that get past the parsing of options."""
    video = folder / "film.mp4"
    video.write_bytes(b"not a film")
    run = bench / "mine.jsonl"
    question = [str(video), "Who opens the window?", "-o", "a woman", "-o", "a man"]
    return [
        ["--version"],
        ["--help"],
        ["audit", str(bench), str(run), "--json", "-"],
        ["audit", str(bench), str(run), "--figures", str(folder / "figures")],
        ["ask", *question],
        ["ask", *question, "--backbone", "glance"],
        ["ask", *question, "--backbone", "openai:gpt-4o", "--estimate"],
        ["run", str(bench), "--method", "trace,uniform-8", "--backbone", "glance", "--out", str(folder / "runs")],
        ["run", str(bench), "--method", "trace", "--backbone", "gemini:x", "--out", str(folder / "runs"), "--estimate"],
        ["run", str(bench), "--method", "random", "--backbone", "lab", "--out", str(folder / "lab")],
        ["counterfactual", str(bench), str(run)],
        ["view", str(folder)],
        ["studio", str(folder)],
        ["mcp", str(folder)],
        ["frames", str(video), "--at", "1", str(folder / "frames")],
        ["release", str(bench), str(run), str(folder / "release")],
        ["synth", str(folder / "twin"), "--questions", "2", "--no-videos"],
        ["import", "cg-bench", str(run), str(folder / "bench")],
        ["build", "init", str(folder / "build")],
        ["build", "status", str(folder / "build")],
        ["build", "serve", str(folder / "build")],
        ["dev", "schema", "run-line"],
        ["dev", "videos", str(bench), "--check"],
        ["dev", "serve-glance", "--port", "0"],
        ["dev", "completion", "bash"],
        ["doctor"],
        ["demo", "--out", str(folder / "demo")],
    ]


def problem(program: str, command: list[str]) -> str:
    """What is wrong with a command; empty where nothing is."""
    done = subprocess.run(
        [program, *command], capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode in FINE and "Traceback" not in done.stderr and not done.stderr.startswith("Usage:"):
        return ""
    return f"trace-ves {' '.join(command)}: exit {done.returncode}\n{done.stderr[-1500:]}"


def main() -> None:
    program, bench = sys.argv[1], Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        every = commands(bench, Path(folder))
        problems = [text for command in every if (text := problem(program, command))]
    print("\n".join(problems))
    print(f"smoke: {len(every) - len(problems)} of {len(every)} commands end as they should")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
