"""The two commands, the pins and the first pages keep their word."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TARGETS = ("book", "serve", "test", "lab", "rerun", "test-threads", "test-engines", "clean", "help")


def pins(name: str) -> dict[str, str]:
    """Package -> version of a requirements file; a line that is neither a pin, an option nor a comment fails."""
    found = {}
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        line = line.split("#")[0].strip()
        if line and not line.startswith("-"):
            match = re.fullmatch(r"([A-Za-z0-9._-]+)==([0-9][0-9a-z.]*)", line)  # no local tag such as +cpu: any platform
            assert match, f"{name}: {line!r} is not an exact pin"
            found[match[1]] = match[2]
    return found


@pytest.mark.parametrize("name", ["requirements-site.txt", "requirements.txt"])
def test_what_is_asked_for_is_pinned_once_and_alike(name):
    constraints = pins("constraints.txt")
    assert pins(name)
    for package, version in pins(name).items():
        assert constraints.get(package) == version
    assert "-c constraints.txt" in (ROOT / name).read_text(encoding="utf-8").splitlines()


def test_the_website_needs_no_torch():
    assert not {"torch", "numpy", "matplotlib"} & set(pins("requirements-site.txt"))


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    for name in ("Makefile", "requirements-site.txt", "requirements.txt", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # these tests run under make themselves
    return subprocess.run(["make", *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False)


def fake_python(folder: Path, body: str) -> str:
    path = folder / "fake-python"
    path.write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return f"PYTHON={path}"


def as_version(*version: int) -> str:
    """Body of a fake Python that runs what it is given as if it were this version."""
    shown = ".".join(map(str, version))
    return f'[ "$1" = --version ] && echo Python {shown} || exec "{sys.executable}" -c "import sys; sys.version_info = {version}; $2"'


def test_help_lists_every_target(tmp_path):
    done = make(tmp_path, "help")
    assert done.returncode == 0
    for line, target in zip(done.stdout.splitlines(), TARGETS, strict=True):
        assert re.fullmatch(rf"make {target} +\S.*", line)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (as_version(3, 10, 13), "Python 3.11, 3.12 or 3.13 is needed, found Python 3.10.13"),
        (as_version(3, 14, 0), "Python 3.11, 3.12 or 3.13 is needed, found Python 3.14.0"),
        ("exit 127", "Python 3.11, 3.12 or 3.13 is needed, found no "),
        ('[[ "$2" == *ensurepip* ]] && exit 1; echo ok', "apt install python3-venv"),
    ],
    ids=["too old", "too new", "none", "no venv module"],
)
def test_a_missing_piece_gets_one_line(tmp_path, body, says):
    done = make(tmp_path, "book", fake_python(tmp_path, body))
    assert done.returncode != 0
    assert done.stdout == ""
    assert says in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "intro.md"])
def test_links_of_the_first_pages_exist(page):
    links = re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text(encoding="utf-8"))
    for link in links:
        assert link.startswith("https://") or (ROOT / link).is_file(), link


def test_readme_is_short_and_lists_every_chapter_and_lab():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80
    listed = set(re.findall(r"\]\(((?:chapters|labs)/[^)]+)\)", text))
    assert listed == {f"{folder}/{path.name}" for folder in ("chapters", "labs") for path in (ROOT / folder).glob("*.ipynb")}
