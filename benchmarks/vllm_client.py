"""A load generator of our own for a server with /v1/completions: streams, one thread for each request in flight, standard library alone.

    answers = run(url, "course-model", [Call(prompt=[1, 2, 3], max_tokens=16)] * 8, concurrency=4)
    summary(answers)["ttft_p50"]

Greedy, to the full length. Times are the client's, in seconds from when a request was due: with arrivals it waits
for nobody's answer (open loop), with concurrency a next request begins when one has ended (closed loop).
"""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.parse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tinyserve.metrics import percentile

PATIENCE = 300.0


@dataclass(frozen=True)
class Call:
    """What is asked: prompt ids, how many tokens, and the second in which it is due."""

    prompt: Sequence[int]
    max_tokens: int
    at: float = 0.0


@dataclass
class Answer:
    """What came back: token ids, and the second of each message with tokens since the request was due; error is the HTTP status or "" ."""

    tokens: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    sent: float = 0.0
    ended: float = 0.0
    error: str = ""

    @property
    def ttft(self) -> float:
        """Seconds to the first token."""
        return self.times[0]

    @property
    def itl(self) -> list[float]:
        """Seconds between messages."""
        return [b - a for a, b in zip(self.times, self.times[1:], strict=False)]

    @property
    def tpot(self) -> float:
        """Mean seconds per token after the first; 0 for a single token."""
        return (self.times[-1] - self.times[0]) / (len(self.tokens) - 1) if len(self.tokens) > 1 else 0.0


def ask(url: str, model: str, call: Call, begin: float) -> Answer:
    """Send one request and read its stream; begin is the perf_counter at which second 0 was."""
    where, answer = urllib.parse.urlsplit(url), Answer()
    body = {
        "model": model, "prompt": list(call.prompt), "max_tokens": call.max_tokens, "temperature": 0, "ignore_eos": True,
        "stream": True, "return_token_ids": True,
    }
    due = begin + call.at
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=PATIENCE)
    try:
        answer.sent = time.perf_counter() - begin
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            response.read()
            answer.error = str(response.status)
        for line in response if not answer.error else ():
            if line.startswith(b"data: {"):
                message = json.loads(line[6:])
                if "error" in message:  # after the stream has begun there is no status any more
                    answer.error = str(message["error"].get("code", "error"))
                got = message.get("choices")
                if got and got[0]["token_ids"]:
                    answer.times.append(time.perf_counter() - due)
                    answer.counts.append(len(got[0]["token_ids"]))
                    answer.tokens += got[0]["token_ids"]
        if not answer.tokens:
            answer.error = answer.error or "no token came"
    except (OSError, http.client.HTTPException) as error:
        answer.error = type(error).__name__
    finally:
        connection.close()
        answer.ended = time.perf_counter() - begin
    return answer


def run(url: str, model: str, calls: Sequence[Call], concurrency: int | None = None) -> list[Answer]:
    """Send the calls, each when it is due and not above that many at once, and return the answers in the order of the calls."""
    begin = time.perf_counter()

    def one(call: Call) -> Answer:
        if concurrency is not None:  # closed loop: due is when a place is free
            call = Call(call.prompt, call.max_tokens, time.perf_counter() - begin)
        time.sleep(max(0.0, begin + call.at - time.perf_counter()))
        return ask(url, model, call, begin)

    with ThreadPoolExecutor(concurrency or len(calls)) as pool:
        return list(pool.map(one, calls))


def in_background(url: str, model: str, calls: Sequence[Call], concurrency: int | None = None) -> threading.Thread:
    """Start run in a thread and return it, for a test that looks at the server meanwhile."""
    thread = threading.Thread(target=run, args=(url, model, calls, concurrency), daemon=True)
    thread.start()
    return thread


def summary(answers: Sequence[Answer], targets: dict[str, float] | None = None) -> dict[str, float]:
    """Return the measures of a run, in seconds and per second; goodput counts requests that meet every target (ttft, tpot, e2el).

    Raises RuntimeError when no request was answered.
    """
    good = [answer for answer in answers if not answer.error]
    if not good:
        raise RuntimeError(f"none of {len(answers)} requests was answered: {answers[0].error if answers else 'none was sent'}")
    span = max(a.ended for a in good) - min(a.sent for a in good)
    gaps = [gap for a in good for gap in a.itl]
    lists = {"ttft": [a.ttft for a in good], "tpot": [a.tpot for a in good if len(a.tokens) > 1], "itl": gaps, "e2el": [a.times[-1] for a in good]}
    return measures(lists, sum(len(a.tokens) for a in good), span, len(answers) - len(good), targets)


def measures(
    lists: dict[str, list[float]], tokens: int, span: float, failed: int, targets: dict[str, float] | None = None
) -> dict[str, float]:
    """Return percentiles and rates from the lists ttft, tpot, itl and e2el (seconds) of a run that took span seconds."""
    found = {f"{name}_p{p}": percentile(values, p) for name, values in lists.items() if values for p in (50, 90, 99)}
    found |= {"output_tokens_per_second": tokens / span, "requests_per_second": len(lists["ttft"]) / span, "seconds": span, "failed": failed}
    if targets:
        rows = zip(*(lists[name] for name in targets), strict=True)
        found["goodput"] = sum(all(v <= limit for v, limit in zip(row, targets.values(), strict=True)) for row in rows) / span
    return found
