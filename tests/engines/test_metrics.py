"""Every metric that the book names is on /metrics of the run that should show it, and does there what the book says."""

import json
import random
import re
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.vllm_client import Call, run
from benchmarks.vllm_predict import made_up
from benchmarks.vllm_server import NAME
from course import vllm

STAYS_AT_ZERO_HERE = {
    "vllm:external_prefix_cache_queries_total": "no KV connector runs on this CPU",
    "vllm:external_prefix_cache_hits_total": "no KV connector runs on this CPU",
    "vllm:corrupted_requests_total": "the course model makes no NaN",
    "vllm:kv_block_reuse_gap_seconds": "needs a block that is used twice before it is evicted",
}
"""Metrics whose names are on /metrics and whose values nothing here moves."""


def families(text: str) -> dict[str, str]:
    """Name on a `# TYPE` line -> kind."""
    return dict(re.findall(r"^# TYPE (vllm:\S+) (counter|gauge|histogram)$", text, re.M))


def labels_of(text: str, name: str) -> set[str]:
    return {label for found in re.findall(rf"^{name}(?:_count|_bucket)?\{{([^}}]*)\}}", text, re.M) for label in re.findall(r"(\w+)=\"", found)}


def value(metrics: dict[str, float], metric: vllm.Metric) -> float:
    return metrics.get(f"{metric.name}_count" if metric.kind == "histogram" else metric.name, 0.0)


@pytest.fixture(scope="module")
def worked(plain):
    """The plain server after some work: 8 requests, then the same again."""
    rng = random.Random(0)
    calls = [Call(made_up(rng, 300), 12) for _ in range(8)]
    for answers in (run(plain.url, NAME, calls), run(plain.url, NAME, calls)):
        assert not [a.error for a in answers if a.error]
    return plain.read("/metrics"), plain.metrics()


@pytest.fixture(scope="module")
def pressed(tight):
    """The tight server after 40 requests at once, a third of them to the adapter: answers, text of /metrics, values."""
    rng = random.Random(1)
    calls = [Call(made_up(rng, 60), 120) for _ in range(26)]
    answers = run(tight.url, NAME, calls) + run(tight.url, "noisy", calls[:8])
    return calls, answers, tight.read("/metrics"), tight.metrics()


@pytest.mark.parametrize("name", [name for name, metric in vllm.METRICS.items() if not metric.needs])
def test_what_needs_no_flag_is_there_and_moves(worked, name):
    text, metrics = worked
    metric = vllm.METRICS[name]
    assert families(text)[name] == metric.kind
    assert set(metric.labels) <= labels_of(text, name)
    if metric.kind == "histogram":
        assert value(metrics, metric) > 0
    if name in ("vllm:prompt_tokens_total", "vllm:prompt_tokens_cached_total", "vllm:generation_tokens_total", "vllm:prefix_cache_hits_total"):
        assert metrics[name] > 0


def test_what_is_gone_is_not_there(worked):
    names = set(families(worked[0])) | set(worked[1])
    assert len(vllm.GONE_METRICS) >= 5
    assert not names & set(vllm.GONE_METRICS)


@pytest.mark.parametrize("name", [name for name, metric in vllm.METRICS.items() if metric.needs])
def test_what_needs_a_flag_is_absent_or_zero_without(worked, name):
    assert value(worked[1], vllm.METRICS[name]) == 0


@pytest.mark.parametrize("name", [n for n, m in vllm.METRICS.items() if m.needs and m.needs not in ("--speculative-config", "--kv-transfer-config")])
def test_what_needs_a_flag_is_there_with_it(pressed, name):
    _, _, text, metrics = pressed
    metric = vllm.METRICS[name]
    assert families(text)[name] == metric.kind and set(metric.labels) <= labels_of(text, name)
    if name not in STAYS_AT_ZERO_HERE:
        assert value(metrics, metric) > 0


def test_requests_above_the_queue_limit_are_refused_and_counted(pressed):
    _, answers, _, metrics = pressed
    refused = Counter(a.error for a in answers)["503"]
    assert refused > 0 and set(a.error for a in answers) == {"", "503"}
    assert metrics["vllm:admission_rejections_total"] == refused


def test_a_refusal_has_status_503_or_stands_in_a_stream_of_status_200(tight):
    """Streams that pass the first check together are refused after their 200: a gateway that counts statuses misses them, the counter does not."""
    rng, before = random.Random(4), tight.metrics()["vllm:admission_rejections_total"]

    def status(number: int) -> tuple[bool, int, bool]:
        stream = number % 2 == 0
        body = {"model": NAME, "prompt": made_up(rng, 60), "max_tokens": 100, "ignore_eos": True, "stream": stream}
        request = urllib.request.Request(f"{tight.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return stream, answer.status, b'data: {"error":' in answer.read()  # not any "error": the model may say the word
        except urllib.error.HTTPError as error:
            return stream, error.code, True

    with ThreadPoolExecutor(60) as pool:
        seen = Counter(pool.map(status, range(60)))
    refused = {(stream, code): n for (stream, code, error), n in seen.items() if error}
    assert (False, 503) in refused and set(refused) <= {(False, 503), (True, 503), (True, 200)}
    assert sum(refused.values()) == tight.metrics()["vllm:admission_rejections_total"] - before


def test_preemptions_are_counted_and_no_request_is_lost(pressed):
    _, answers, _, metrics = pressed
    assert metrics["vllm:num_preemptions_total"] > 0
    assert metrics["vllm:request_num_preemptions_sum"] == metrics["vllm:num_preemptions_total"]
    assert all(len(a.tokens) == 120 for a in answers if not a.error)


def step_sizes(text: str) -> dict[float, float]:
    """vllm:iteration_tokens_total: steps up to each bound."""
    buckets = re.findall(r'^vllm:iteration_tokens_total_bucket\{.*le="(\S+?)".*\} (\S+)$', text, re.M)
    return {float(le): float(count) for le, count in buckets}


def test_a_step_holds_no_more_tokens_than_the_limit(pressed):
    counts = step_sizes(pressed[2])
    assert counts[256.0] == counts[float("inf")]  # --max-num-batched-tokens 256, and prompts so short that few are cut


def test_a_prompt_in_chunks_counts_as_a_whole_in_the_metric_and_by_chunks_in_the_log(chunking):
    """Why chapter 15 reads the tokens of a step from the log."""
    (answer,) = run(chunking.url, NAME, [Call(made_up(random.Random(5), 300), 3)])
    assert not answer.error
    counts = step_sizes(chunking.read("/metrics"))
    assert counts[512.0] - counts[256.0] == 1 and counts[256.0] - counts[64.0] == 0
    pairs = re.findall(r"(\d+) context tokens, \d+ generation requests, (\d+) generation tokens", chunking.log.read_text(encoding="utf-8"))
    steps = [(int(context), int(generated)) for context, generated in pairs]
    assert sum(context for context, _ in steps) == 300 and max(map(sum, steps)) == 64


def test_a_client_that_leaves_is_in_no_counter_of_ended_requests(chunking):
    names = ("vllm:request_success_total", "vllm:request_queue_time_seconds_count", "vllm:e2e_request_latency_seconds_count")
    before = chunking.metrics()
    body = {"model": NAME, "prompt": made_up(random.Random(6), 20), "max_tokens": 900, "ignore_eos": True, "stream": True}
    request = urllib.request.Request(f"{chunking.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.readline().startswith(b"data: ")
    end = time.monotonic() + 60
    while chunking.metrics()["vllm:num_requests_running"] and time.monotonic() < end:
        time.sleep(0.2)
    after = chunking.metrics()
    assert after["vllm:num_requests_running"] == 0 and after["vllm:generation_tokens_total"] - before["vllm:generation_tokens_total"] < 900
    assert after["vllm:time_to_first_token_seconds_count"] == before["vllm:time_to_first_token_seconds_count"] + 1
    assert [after[name] for name in names] == [before[name] for name in names]


def test_what_a_connector_would_count_has_a_name_without_one(worked):
    """No KV connector runs on this CPU: the names are checked, the values are not."""
    names = [name for name, metric in vllm.METRICS.items() if metric.needs == "--kv-transfer-config"]
    assert names and all(families(worked[0])[name] == vllm.METRICS[name].kind for name in names)


def test_drafts_are_counted_with_speculation(guarded):
    prompt = made_up(random.Random(2), 12) * 6  # what repeats can be looked up
    request = urllib.request.Request(
        f"{guarded.url}/v1/completions", f'{{"model": "{NAME}", "prompt": {prompt}, "max_tokens": 96, "temperature": 0, "ignore_eos": true}}'.encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer a key"},
    )
    urllib.request.urlopen(request, timeout=120).read()
    text, metrics = guarded.read("/metrics"), guarded.metrics()
    for name, metric in vllm.METRICS.items():
        if metric.needs == "--speculative-config":
            assert families(text)[name] == "counter" and set(metric.labels) <= labels_of(text, name)
    drafted, accepted = metrics["vllm:spec_decode_num_draft_tokens_total"], metrics["vllm:spec_decode_num_accepted_tokens_total"]
    assert drafted >= metrics["vllm:spec_decode_num_drafts_total"] > 0 and drafted >= accepted > 0
    assert metrics["vllm:spec_decode_num_accepted_tokens_per_pos_total"] == accepted


@pytest.mark.parametrize("path,open_to_all", [("/v1/models", False), ("/metrics", True), ("/health", True)])
def test_the_key_guards_v1_alone(guarded, path, open_to_all):
    try:
        status = urllib.request.urlopen(guarded.url + path, timeout=30).status
    except urllib.error.HTTPError as error:
        status = error.code
    assert status == (200 if open_to_all else 401)


def test_invocations_answers_without_the_key(guarded):
    request = urllib.request.Request(
        f"{guarded.url}/invocations", f'{{"model": "{NAME}", "prompt": [1, 2, 3], "max_tokens": 2}}'.encode(), {"Content-Type": "application/json"}
    )
    assert b"choices" in urllib.request.urlopen(request, timeout=60).read()
