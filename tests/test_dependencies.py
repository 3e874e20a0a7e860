"""What the package imports is declared, with bounds, and what CI installs is pinned."""

import ast
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DISTRIBUTIONS = {
    "google": "google-genai",
    "PIL": "pillow",
    "markdown_it": "markdown-it-py",
    "pydantic_core": "pydantic",
    "triton": "torch",  # its builds for GPUs bring it
}
"""Where the name to import is not the name to install."""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    listed = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    return {canonical(re.split(r"[\[<>=!~ ]", each)[0]) for part in listed for each in part}


def imported() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = ["google-auth"] if node.module.startswith("google.auth") else [node.module]
            found.update(name.split(".")[0] for name in names)
    return found - set(sys.stdlib_module_names) - {"trace_ves"}


def test_every_package_that_is_imported_is_declared() -> None:
    needed = {canonical(DISTRIBUTIONS.get(name, name)) for name in imported()}
    assert needed - declared() == set()
    assert {"starlette", "markupsafe", "google-auth"} <= needed & declared()


def test_every_dependency_but_the_largest_has_a_lower_bound_that_can_be_installed() -> None:
    shown = subprocess.check_output([sys.executable, str(ROOT / "tools" / "lowest.py")], text=True).split()
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", line) for line in shown)
    assert {line.split("==")[0] for line in shown} >= {"click", "numpy", "pydantic", "openai", "starlette"}


def pinned(constraints: str) -> set[str]:
    lines = (ROOT / constraints).read_text(encoding="utf-8").splitlines()
    return {canonical(line.split("==")[0]) for line in lines if not line.startswith("#")}


@pytest.mark.parametrize(
    ("part", "script", "step", "names"),
    [
        ("hf", "test_hf.sh", "test_lowest.sh", {"torch", "transformers", "accelerate", "llguidance"}),
        ("integrations", "test_integrations.sh", "test_integrations.sh", {"inspect-ai", "mcp", "nbclient"}),
        ("docs", "docs.sh", "make docs", {"mkdocs", "mkdocs-material", "mkdocstrings"}),
    ],
)
def test_large_parts_are_pinned_in_files_of_their_own(part: str, script: str, step: str, names: set[str]) -> None:
    assert names <= pinned(f"constraints-{part}.txt")
    assert f"--constraint constraints-{part}.txt" in (ROOT / "tools" / script).read_text(encoding="utf-8")
    assert step in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_image_and_github_use_what_there_is_the_pins_and_the_steps_of_ci() -> None:
    steps = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    sources = [name for line in re.findall(r"^COPY (?!--)(.+) \S+$", steps, re.MULTILINE) for name in line.split()]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert sources == ["pyproject.toml", "README.md", "LICENSE", "constraints.txt", "src", "LICENSE", "NOTICE"]
    assert all((ROOT / name).exists() and f"!{name}" in ignored for name in sources)
    [extras] = re.findall(r"'\.\[(.+)\]'", steps)
    assert set(extras.split(",")) < set(PROJECT["optional-dependencies"])
    assert "--constraint constraints.txt" in steps
    pins = [file.read_text(encoding="utf-8") for file in ROOT.glob("constraints*.txt")]
    assert len(pins) == 4
    assert not re.search(r"https?://|file:|@|--", "".join(pins))  # no place to install from
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert re.findall(r"^ +- run: (.+)$", workflow, re.MULTILINE) == ["bash .ci/run"]
    assert re.findall(r"uses: [\w/-]+@(\S+)", workflow) == re.findall(r"@([0-9a-f]{40})", workflow)


def test_a_lock_has_versions_and_hashes_and_no_address() -> None:
    lines = runpy.run_path(str(ROOT / "tools" / "lock.py"))["lines"]
    info: dict[str, object] = {"url": "https://index.example/x.whl", "archive_info": {"hashes": {"sha256": "ab" * 32}}}
    here = ("trace-ves", "0.1.0", {"url": "file:///here"})
    found = [("Typing_Extensions", "4.1", info), ("click", "8.2", info), here]
    report = {"install": [{"metadata": {"name": n, "version": v}, "download_info": i} for n, v, i in found]}
    digest = f"--hash=sha256:{'ab' * 32}"
    assert lines(report) == [f"click==8.2 {digest}", f"typing-extensions==4.1 {digest}"]
    del info["archive_info"]
    with pytest.raises(SystemExit, match="no SHA-256"):
        lines(report)
