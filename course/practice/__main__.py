"""`python -m course.practice exam --out exam.html`: one form as a file that works alone, without the site and without a network."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from course.practice import drills, exam_html
from course.practice.assemble import bare_page

_PAGES = {"exam": ("Exam", lambda: exam_html(links=False)), "drills": ("Drills", lambda: drills()._repr_html_())}


def main(argv: list[str] | None = None) -> int:
    """Write the page and print its path; exit status 1 and one line where it cannot be written."""
    parser = argparse.ArgumentParser(prog="python -m course.practice", description=__doc__)
    parser.add_argument("page", choices=sorted(_PAGES))
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    options = parser.parse_args(argv)
    title, make = _PAGES[options.page]
    try:
        options.out.write_text(bare_page(title, make()), encoding="utf-8")
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    print(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
