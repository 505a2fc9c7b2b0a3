"""Prometheus scrapes a running vLLM with deploy/'s rules: every rule evaluates, records appear, alerts see what happens."""

import json
import random
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml

from benchmarks.vllm_client import Call, run
from benchmarks.vllm_predict import made_up
from benchmarks.vllm_server import NAME, free_port

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "prometheus"
PATIENCE = 90.0


class Prometheus:
    """A Prometheus that scrapes every two seconds with the rules of deploy/; `for` and the range are shortened, nothing else."""

    def __init__(self, folder: Path, targets: list[str]) -> None:
        rules = (DEPLOY / "rules.yml").read_text(encoding="utf-8").replace("[5m]", "[20s]").replace("[2m]", "[20s]").replace("interval: 15s", "interval: 1s")
        loaded = yaml.safe_load(rules)
        for rule in (rule for group in loaded["groups"] for rule in group["rules"] if "alert" in rule):
            rule["for"] = "2s"
        (folder / "rules.yml").write_text(yaml.safe_dump(loaded), encoding="utf-8")
        config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))
        config["global"] = {"scrape_interval": "2s", "evaluation_interval": "1s"}
        (job,) = config["scrape_configs"]
        del job["dns_sd_configs"]
        job["static_configs"] = [{"targets": targets}]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/api/v1/"
        self.log = (folder / "log").open("w")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}"],
            stdout=self.log, stderr=subprocess.STDOUT,
        )

    def get(self, path: str) -> dict:
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict]:
        return self.get("query?" + urllib.parse.urlencode({"query": expression}))["result"]

    def fired(self) -> set[str]:
        """Return the alerts that have been firing at any moment."""
        return {found["metric"]["alertname"] for found in self.query('count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[1h]))')}

    def rules(self) -> dict[str, dict]:
        return {rule["name"]: rule for group in self.get("rules")["groups"] for rule in group["rules"]}

    def until(self, true, what: str) -> None:
        """Wait until true() says so."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                if true():
                    return
            except (OSError, KeyError):
                pass
            time.sleep(0.5)
        pytest.fail(f"after {PATIENCE:.0f} s still not: {what}")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=30)
        self.log.close()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory, plain, tight):
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed: `apt install prometheus` brings it on Debian")
    found = Prometheus(tmp_path_factory.mktemp("prometheus"), [f"127.0.0.1:{plain.port}", f"127.0.0.1:{tight.port}"])
    yield found
    found.close()


@pytest.fixture(scope="module")
def scraped(prometheus, plain, tight):
    """After both servers were scraped, had work, and were scraped again: the alerts that were seen firing."""
    prometheus.until(lambda: len(prometheus.query('up{job="vllm"} == 1')) == 2, "both servers are scraped")
    rng, end = random.Random(5), time.monotonic() + 2 * PATIENCE
    while True:
        run(tight.url, NAME, [Call(made_up(rng, 60), 110) for _ in range(40)])
        run(plain.url, NAME, [Call(made_up(rng, 60), 8) for _ in range(4)])
        if {"VllmPreempting", "VllmRejecting"} <= prometheus.fired() or time.monotonic() > end:
            return prometheus.fired()


def test_every_rule_evaluates(scraped, prometheus):
    prometheus.until(lambda: all(rule["health"] == "ok" for rule in prometheus.rules().values()), "every rule has been evaluated")
    loaded = {rule.get("alert") or rule["record"] for g in yaml.safe_load((DEPLOY / "rules.yml").read_text(encoding="utf-8"))["groups"] for rule in g["rules"]}
    assert set(prometheus.rules()) == loaded
    assert not {name: rule["lastError"] for name, rule in prometheus.rules().items() if rule.get("lastError")}


@pytest.mark.parametrize("record", [
    "model:vllm_ttft_seconds:p99_5m", "model:vllm_itl_seconds:p50_5m", "model:vllm_itl_seconds:p99_5m", "model:vllm_queue_seconds:p99_5m",
    "model:vllm_ttft_seconds:mean_5m", "model:vllm_queue_seconds:mean_5m", "model:vllm_prefill_seconds:mean_5m", "model:vllm_prefix_cache_hits:ratio_5m",
])
def test_records_have_values(scraped, prometheus, record):
    found = prometheus.query(f"max_over_time({record}[1h])")
    assert found and all(float(series["value"][1]) >= 0 for series in found)  # NaN where nothing was asked for a while: not the maximum


def test_alerts_see_what_happened(scraped, prometheus):
    assert {"VllmPreempting", "VllmRejecting"} <= scraped
    assert not {"VllmStuck", "VllmCorrupted", "VllmSpeculationPoor", "VllmDeferred"} & scraped
    # a slow machine can miss a scrape of two seconds, and nothing was scraped at the very start
    prometheus.until(lambda: prometheus.query('ALERTS{alertname="VllmDown",alertstate="firing"}') == [], "no server counts as down")


def test_ttft_is_queue_and_prefill_and_little_else(scraped, prometheus):
    (total,), (queue,), (prefill,) = (
        prometheus.query(f"sum(vllm:{n}_seconds_sum) / sum(vllm:{n}_seconds_count)") for n in ("time_to_first_token", "request_queue_time", "request_prefill_time")
    )
    total, parts = float(total["value"][1]), float(queue["value"][1]) + float(prefill["value"][1])
    assert 0.5 * total < parts < 1.05 * total
