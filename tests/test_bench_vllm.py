"""The parts of the vLLM benchmarks that need no vLLM: metrics read, the client against a server of made-up tokens, predictions, the record. Never a timing."""

import json
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks import vllm_serve
from benchmarks.vllm_client import Answer, Call, measures, run, summary
from benchmarks.vllm_predict import Asked, Limits, bench_measures, fitted, from_bench, on_paper, steps_together
from benchmarks.vllm_server import parse_metrics
from course import results
from tinyserve import costs

CLOCK = costs.FittedClock(fixed=2e-3, sequence=1e-4, token=1e-4, reach=1e-7, pair=0.0)


class Handler(BaseHTTPRequestHandler):
    """Streams the tokens 1, 2, 3 …, two in one message once; refuses the prompt [503]; counts what runs at once."""

    running, most, lock = 0, 0, threading.Lock()

    def log_message(self, *_):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked["prompt"] == [503]:
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        with Handler.lock:
            Handler.running += 1
            Handler.most = max(Handler.most, Handler.running)
        self.send_response(200)
        self.end_headers()
        tokens = list(range(1, asked["max_tokens"] + 1))
        for part in [tokens[:1], tokens[1:3], *([t] for t in tokens[3:]), []]:
            time.sleep(0.01)
            self.wfile.write(b"data: " + json.dumps({"choices": [{"token_ids": part}]}).encode() + b"\n\n")
            if asked["prompt"] == [500]:
                self.wfile.write(b'data: {"error": {"message": "out of luck", "code": 500}}\n\n')
                break
        with Handler.lock:
            Handler.running -= 1
        self.wfile.write(b"data: [DONE]\n\n")


@pytest.fixture
def url():
    Handler.running = Handler.most = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_client_reads_every_token_and_counts_refusals(url):
    answers = run(url, "m", [Call([1], 5), Call([503], 5), Call([2], 1)])
    assert [a.tokens for a in answers] == [[1, 2, 3, 4, 5], [], [1]]
    assert [a.error for a in answers] == ["", "503", ""]
    assert len(answers[0].times) == 4 and answers[0].counts == [1, 2, 1, 1]
    assert summary(answers)["failed"] == 1
    with pytest.raises(RuntimeError, match="503"):
        summary(answers[1:2])


def test_an_error_in_the_stream_is_an_error(url):
    (answer,) = run(url, "m", [Call([500], 5)])
    assert answer.error == "500" and answer.tokens == [1]


def test_a_closed_loop_holds_its_concurrency_and_times_begin_when_a_place_is_free(url):
    answers = run(url, "m", [Call([1], 4) for _ in range(6)], concurrency=2)
    assert Handler.most == 2
    assert all(a.ttft < 2 for a in answers) and answers[-1].sent > answers[0].sent


def test_an_open_loop_waits_for_nobody(url):
    answers = run(url, "m", [Call([1], 20), Call([1], 20, at=0.02), Call([1], 20, at=0.04)])
    assert answers[2].sent >= 0.04 and answers[2].sent < answers[0].ended and Handler.most == 3


def test_measures_count_what_they_say():
    good = Answer([1, 2, 3], [0.1, 0.2, 0.4], [1, 1, 1], sent=0.0, ended=0.4)
    slow = Answer([1, 2], [1.0, 1.1], [1, 1], sent=1.0, ended=2.0)
    found = summary([good, slow], {"ttft": 0.5, "tpot": 0.2})
    assert found["output_tokens_per_second"] == pytest.approx(5 / 2.0) and found["requests_per_second"] == pytest.approx(2 / 2.0)
    assert found["goodput"] == pytest.approx(1 / 2.0) and found["ttft_p50"] == pytest.approx(0.55) and found["itl_p50"] == pytest.approx(0.1)
    assert good.tpot == pytest.approx(0.15) and Answer([7], [0.3], [1]).tpot == 0.0


def test_bench_measures_leave_failures_out():
    found = {"ttfts": [0.1, 0.0], "itls": [[0.1, 0.3], []], "output_lens": [3, 0], "errors": ["", "refused"], "duration": 2.0}
    got = bench_measures(found)
    assert got["failed"] == 1 and got["tpot_p50"] == pytest.approx(0.2) and got["e2el_p50"] == pytest.approx(0.5)
    assert got["output_tokens_per_second"] == pytest.approx(1.5)
    with pytest.raises(RuntimeError, match="no request"):
        bench_measures({"ttfts": [0.0], "itls": [[]], "output_lens": [0], "errors": ["x"], "duration": 1.0})


def test_only_steps_that_all_share_are_probed():
    assert steps_together([[0.5, 0.1, 0.1], [0.1, 0.2]], [1.0, 1.5]) == [0.1, 0.1, 0.1, 0.2]


def test_a_clock_that_made_the_probes_is_found_again():
    works = [[[n, 0]] for n in (8, 64, 256, 896)] + [[[1, 44]], [[1, 780]] * 4, [[1, 524]] * 16]
    rows = [{"work": work, "seconds": [CLOCK([tuple(w) for w in work])] * 3} for work in works]
    assert fitted(rows).token == pytest.approx(CLOCK.token, rel=1e-3)


def test_predictions_have_the_laws_of_the_scheduler():
    rng = random.Random(0)
    asked = [Asked([rng.randrange(2000) for _ in range(64)], 16) for _ in range(12)]
    one, many = (on_paper(CLOCK, asked, Limits(seats, 1024), 512, 16) for seats in (1, 12))
    assert one["output_tokens_per_second"] < many["output_tokens_per_second"] and one["ttft_p50"] > many["ttft_p50"]
    alone = CLOCK([(64, 0)]) + sum(CLOCK([(1, 64 + i)]) for i in range(15))
    assert one["seconds"] == pytest.approx(12 * alone)
    closed = on_paper(CLOCK, asked, Limits(12, 1024), 512, 16, concurrency=1)
    assert closed["seconds"] == pytest.approx(one["seconds"]) and closed["ttft_p50"] == pytest.approx(CLOCK([(64, 0)]))


def test_a_warm_up_leaves_the_prefix_in_the_cache():
    head = list(range(128))
    asked = [Asked([*head, 1000 + i], 2) for i in range(4)]
    cold, warm = (on_paper(CLOCK, asked, Limits(4, 1024), 512, 16, warm=asked[:w]) for w in (0, 1))
    off = on_paper(CLOCK, asked, Limits(4, 1024, prefix_caching=False), 512, 16, warm=asked[:1])
    assert warm["ttft_p50"] < cold["ttft_p50"] and off["ttft_p50"] == pytest.approx(CLOCK([(129, 0)] * 4))


def test_lengths_of_a_bench_run_become_a_workload():
    found = {"start_times": [5.0, 6.5], "input_lens": [10, 6], "output_lens": [3, 4]}
    asked = from_bench(found, [9, 9], random.Random(0))
    assert [(len(a.prompt), a.output, a.at) for a in asked] == [(10, 3, 0.0), (6, 4, 1.5)] and all(a.prompt[:2] == [9, 9] for a in asked)


def test_metrics_are_summed_over_labels():
    assert parse_metrics('# HELP a b\na{x="1"} 2\na{x="2"} 3\nb_bucket{le="1"} 4\nb_sum 5e-1\nc NaN\n') == {"a": 5.0, "b_sum": 0.5, "c": 0.0}
    assert vllm_serve.hit_rate({"vllm:prefix_cache_hits_total": 1, "vllm:prefix_cache_queries_total": 4}, {"vllm:prefix_cache_hits_total": 3, "vllm:prefix_cache_queries_total": 8}) == 0.5
    line = 'vllm:cache_config_info{_block_size_resolved="1",block_size="128",effective_attention_block_size="64",num_gpu_blocks="1365",num_gpu_blocks_override="2"} 1.0'
    assert vllm_serve.block_config(line) == {"block_size": 128, "num_gpu_blocks": 1365}


def test_turns_rotate():
    assert vllm_serve.turns(["a", "b", "c"], 2) == [(0, "a"), (0, "b"), (0, "c"), (1, "b"), (1, "c"), (1, "a")]


def test_the_record_has_every_experiment_arm_and_repetition():
    data = results.load("engines_cpu")
    arms = {name: list(one["arms"]) for name, one in data["experiments"].items()}
    assert arms["prefix caching"] == ["on", "off"] and arms["max-num-seqs"] == ["1", "4", "16"] and arms["max-num-batched-tokens"] == ["64", "256", "1024"]
    assert arms["repeated prompt"] == ["same prompt", "new prompts"] and arms["rates"] == [f"{who} {load}" for load in vllm_serve.LOADS for who in ("bench", "client")]
    for one in data["experiments"].values():
        for arm in one["arms"].values():
            assert len(arm["rounds"]) == data["rounds"]
            for key, error in arm["errors"].items():
                ratios = sorted(r["predicted"][key] / r["measured"][key] for r in arm["rounds"])
                assert ratios[0] - 1 <= error <= ratios[-1] - 1
    assert costs.FittedClock(**data["clock"])([(1, 10)]) > 0
    assert measures({"ttft": [1.0]}, 1, 1.0, 0).keys() <= data["experiments"]["rates"]["arms"]["bench 0.5"]["median"].keys()
