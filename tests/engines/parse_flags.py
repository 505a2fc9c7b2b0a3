"""Which flags do the parsers of `vllm serve` and `vllm bench serve` take? A script for the Python that has vLLM.

Input: {"serve": [[flag, value…]…], "bench": [[flag, value…]…]} as JSON. Output: the same two keys, each flag with "" or the parser's complaint.
"""

import argparse
import json
import os
import sys

replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

from vllm.benchmarks.serve import add_cli_args  # noqa: E402
from vllm.entrypoints.launchers.cli_args import make_arg_parser  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402


class Refused(Exception):
    """The parser's complaint."""


def refuse(self: argparse.ArgumentParser, message: str) -> None:
    """Complain without ending the process."""
    raise Refused(message)


argparse.ArgumentParser.error = refuse
bench = FlexibleArgumentParser()
add_cli_args(bench)
parsers = {"serve": (make_arg_parser(FlexibleArgumentParser()), ["model"]), "bench": (bench, [])}
found = {}
for name, asked in json.load(sys.stdin).items():
    parser, before = parsers[name]
    found[name] = {}
    for words in asked:
        try:
            parser.parse_args([*before, *words])
            exact = words[0] in {option for action in parser._actions for option in action.option_strings}
            found[name][words[0]] = "" if exact else "only an abbreviation"
        except (Refused, ValueError) as error:
            found[name][words[0]] = str(error) or "refused"
replies.write(json.dumps(found))
