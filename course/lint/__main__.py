"""python -m course.lint"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from course import notebooks
from course.lint import RULES, check


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m course.lint", description="Check notebooks for what nbval passes and a reader would trip over.")
    parser.add_argument("paths", nargs="*", help="notebooks or folders; all of the book's without any")
    parser.add_argument("--rules", action="store_true", help="print the table of rules")
    options = parser.parse_args(arguments)
    if options.rules:
        for rule in RULES.values():
            print(f"{rule.id:16} {rule.summary}")
        return 0
    paths = notebooks.find(options.paths)
    lines = [line for path in paths for line in check(path, notebooks.shown(path))]
    print("\n".join([*lines, f"lint: {len(paths)} notebooks, {len(RULES)} rules, {len(lines)} faults"]))
    return int(bool(lines) or not paths)


if __name__ == "__main__":
    sys.exit(main())
