"""The benchmarks that use vLLM run, in their short form, and show the signs that chapter 15 states, and of prefix caching about the size."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import vllm_serve
from benchmarks.vllm_server import parse_metrics
from course import results

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def quick(python):
    return vllm_serve.go(python, quick=True)


def gain_of(data, kind):
    """Times as many tokens a second with prefix caching."""
    arms = data["experiments"]["prefix caching"]["arms"]
    return arms["on"][kind]["output_tokens_per_second"] / arms["off"][kind]["output_tokens_per_second"]


def test_prefix_caching_on_against_off(quick):
    on, off = (quick["experiments"]["prefix caching"]["arms"][arm]["median"] for arm in ("on", "off"))
    assert off["hit_rate"] == 0 and on["hit_rate"] > 0.5
    assert on["ttft_p50"] < off["ttft_p50"]
    gain, predicted, recorded = gain_of(quick, "median"), gain_of(quick, "predicted"), gain_of(results.load("engines_cpu"), "median")
    assert 0.5 < gain / predicted < 2, "far from what the tokens computed promise"
    assert 0.4 < gain / recorded < 2.5, "chapter 15 states another size"


def test_more_sequences_at_once_give_more_tokens(quick):
    arms = quick["experiments"]["max-num-seqs"]["arms"]
    assert arms["1"]["median"]["output_tokens_per_second"] < arms["16"]["median"]["output_tokens_per_second"]
    assert arms["1"]["median"]["ttft_p50"] > arms["16"]["median"]["ttft_p50"]


def test_a_repeated_prompt_fakes_ttft(quick):
    arms = quick["experiments"]["repeated prompt"]["arms"]
    assert arms["new prompts"]["median"]["hit_rate"] == 0 < arms["same prompt"]["median"]["hit_rate"]
    assert arms["same prompt"]["median"]["ttft_p50"] < 0.7 * arms["new prompts"]["median"]["ttft_p50"]


def test_predictions_have_the_sign_of_what_was_measured(quick):
    pairs = (("prefix caching", "on", "off"), ("max-num-seqs", "16", "1"), ("repeated prompt", "same prompt", "new prompts"))
    for name, low, high in pairs:
        arms = quick["experiments"][name]["arms"]
        assert arms[low]["predicted"]["ttft_p50"] < arms[high]["predicted"]["ttft_p50"], name


def test_nothing_failed_and_memory_is_bounded(quick):
    for one in quick["experiments"].values():
        assert all(r["measured"]["failed"] == 0 for arm in one["arms"].values() for r in arm["rounds"])
    assert 0 < quick["memory_bytes"] < 4e9


def test_the_engine_benchmark_runs_against_it(python):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.engine", "--quick", "--vllm", python], cwd=ROOT, capture_output=True, text=True, check=False, timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "vLLM: {" in done.stdout and "absent" not in done.stdout.split("vLLM: ")[1]


def test_a_server_that_cannot_start_says_why(python, tmp_path):
    from benchmarks.vllm_server import Server

    with pytest.raises(RuntimeError, match="its log ends"):
        Server(python, tmp_path / "no model", [], tmp_path / "log")


def test_metrics_are_read_as_sums_over_labels():
    text = '# TYPE a counter\na{x="1"} 2\na{x="2"} 3\nb_bucket{le="1"} 4\nb_count 5\nc NaN\n'
    assert parse_metrics(text) == {"a": 5.0, "b_count": 5.0, "c": 0.0}
