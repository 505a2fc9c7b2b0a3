"""The status page: versions, date, how many cells the tests compare and which are exempt, read from the notebooks and the pins."""

from __future__ import annotations

import datetime
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from course import notebooks

EXEMPT = ("nbval-ignore-output", "nbval-skip")
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s#]+)")


@dataclass(frozen=True)
class Exempt:
    """A cell whose output the tests do not compare: its place among the code cells (from 1), its tag and the stated reason."""

    number: int
    tag: str
    reason: str


@dataclass(frozen=True)
class Cells:
    """The code cells of one notebook: how many there are, and which of them are exempt."""

    notebook: str
    total: int
    exempt: tuple[Exempt, ...]

    @property
    def compared(self) -> int:
        """Cells that are run again and whose output is compared with the stored one."""
        return self.total - len(self.exempt)


def pins(root: Path) -> list[tuple[str, str]]:
    """(package, version) of every direct pin, in the order of the requirement files."""
    found: dict[str, str] = {}
    for name in ("requirements-site.txt", "requirements.txt"):
        for line in (root / name).read_text(encoding="utf-8").splitlines():
            if match := _PIN.match(line.strip()):
                found[match["name"]] = match["version"]
    return list(found.items())


def count_cells(path: Path, root: Path) -> Cells:
    """Count the code cells of a notebook; empty ones are not run and do not count."""
    code = [cell for cell in notebooks.read(path).cells if cell.cell_type == "code" and cell.source.strip()]
    exempt = tuple(
        Exempt(number, tag, str(cell.metadata.get("reason", "")))
        for number, cell in enumerate(code, 1)
        for tag in cell.metadata.get("tags", [])
        if tag in EXEMPT
    )
    return Cells(notebooks.shown(path, root), len(code), exempt)


def _in_table(text: str) -> str:
    return " ".join(text.replace("|", r"\|").split())


def markdown(root: Path, today: datetime.date | None = None) -> str:
    """The body of the status page, in Markdown."""
    cells = [count_cells(path, root) for path in notebooks.find(root=root)]
    day = today or datetime.datetime.now(datetime.timezone.utc).date()
    total, compared = sum(c.total for c in cells), sum(c.compared for c in cells)
    lines = [f"Built on {day.isoformat()} with Python {platform.python_version()}.", "", "## Cells", ""]
    lines += [f"{total} code cells in {len(cells)} notebook{'s' * (len(cells) != 1)}. The tests run all of them and compare the output of {compared}.", ""]
    lines += ["| notebook | code cells | compared | exempt |", "|---|---|---|---|"]
    lines += [f"| `{c.notebook}` | {c.total} | {c.compared} | {len(c.exempt)} |" for c in cells]
    lines += ["", "## Exempt cells", ""]
    exempt = [(c.notebook, e) for c in cells for e in c.exempt]
    if exempt:
        lines += ["The tests run these too, except where the tag is `nbval-skip`, but do not compare what they print.", ""]
        lines += ["| notebook | code cell | tag | reason |", "|---|---|---|---|"]
        lines += [f"| `{notebook}` | {e.number} | `{e.tag}` | {_in_table(e.reason)} |" for notebook, e in exempt]
    else:
        lines += ["None: the tests compare the output of every cell."]
    lines += ["", "## Versions", "", "The pinned versions that the tests run with:", "", "| package | version |", "|---|---|"]
    lines += [f"| {name} | {version} |" for name, version in pins(root)]
    return "\n".join(lines) + "\n"
