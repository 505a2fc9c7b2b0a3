"""`vllm bench serve` behind a pipe: a script for the Python that has vLLM. It needs nothing of this repository.

    PYTHON benchmarks/vllm_bench_child.py

Importing vLLM takes longer than many a run, so it is imported once. Each line of input is
a JSON list, the arguments after `vllm bench serve`; each line of output is what that run
found, its lists included: ttfts, itls, start_times, input_lens, output_lens, errors, duration.
"""

from __future__ import annotations

import json
import os
import sys

KEPT = ("ttfts", "itls", "start_times", "input_lens", "output_lens", "errors", "duration", "completed", "request_goodput")


def main() -> None:
    """Import, say the version, answer."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what vLLM prints goes to stderr: the pipe carries replies alone
    import vllm
    from vllm.benchmarks.serve import add_cli_args
    from vllm.benchmarks.serve import main as bench
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()
    add_cli_args(parser)

    def reply(found: object) -> None:
        replies.write(json.dumps(found) + "\n")
        replies.flush()

    import torch

    reply({"vllm": vllm.__version__, "torch": torch.__version__, "python": sys.version.split()[0]})
    for line in sys.stdin:
        try:
            found = bench(parser.parse_args(json.loads(line)))
            reply({key: found.get(key) for key in KEPT})
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent shows it
            reply({"error": repr(error)})


if __name__ == "__main__":
    main()
