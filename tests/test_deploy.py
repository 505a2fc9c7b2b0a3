"""deploy/: manifests validate, flags and metrics exist in the pinned vLLM, rules do what they say. Offline."""

import datetime
import json
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from course import vllm

DEPLOY = Path(__file__).resolve().parent.parent / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
KUBERNETES = "1.37.0"
IMAGE = re.compile(r"[a-z0-9./-]+:v?\d+\.\d+\.\d+")
METRIC = re.compile(r"(?<![A-Za-z0-9_:])vllm:[a-z_0-9]+")
SERIES = {name: metric for metric in vllm.METRICS.values() for name in metric.series}
TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
SERVICE = {
    "image": TEXT, "entrypoint": TEXTS, "command": TEXTS, "volumes": TEXTS, "depends_on": TEXTS, "security_opt": TEXTS,
    "environment": {"type": "object", "additionalProperties": TEXT},
    "ports": {"type": "array", "items": {"type": "string", "pattern": r"^127\.0\.0\.1:\d+:\d+$"}},  # never an address that others reach
    "shm_size": {"type": "string", "pattern": r"^\d+[mg]b$"}, "mem_limit": {"type": "string", "pattern": r"^\d+[mg]b$"},
    "cpus": {"type": "number", "exclusiveMinimum": 0}, "restart": {"enum": ["unless-stopped"]},
    "stop_grace_period": {"type": "string", "pattern": r"^\d+s$"},
    "deploy": {"type": "object", "required": ["resources"]}, "networks": {"type": "object"},
    "healthcheck": {
        "type": "object", "additionalProperties": False, "required": ["test", "interval", "timeout", "retries", "start_period"],
        "properties": {
            "test": {"type": "array", "items": TEXT, "minItems": 2},
            "retries": {"type": "integer"}, **{key: {"type": "string", "pattern": r"^\d+[sm]$"} for key in ("interval", "timeout", "start_period")},
        },
    },
}
COMPOSE = {  # the fields of the Compose specification that deploy/compose.yaml uses; any other is a misspelling
    "type": "object", "additionalProperties": False, "required": ["name", "services"],
    "properties": {
        "name": TEXT, "volumes": {"type": "object"},
        "services": {
            "type": "object",
            "additionalProperties": {
                "type": "object", "additionalProperties": False, "required": ["image", "ports", "mem_limit", "cpus", "restart"], "properties": SERVICE,
            },
        },
    },
}


def manifests() -> list[dict]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")))


def manifest(kind: str, name: str = "vllm") -> dict:
    (found,) = [m for m in manifests() if m["kind"] == kind and m["metadata"]["name"] == name]
    return found


def pod() -> dict:
    return manifest("Deployment")["spec"]["template"]["spec"]


def compose() -> dict:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def commands() -> dict[str, list[str]]:
    (container,) = pod()["containers"]
    service = compose()["services"]["vllm"]
    return {"kubernetes": [*container["command"], *container["args"]], "compose": [*service["entrypoint"], *service["command"]]}


def rules() -> dict[str, dict]:
    groups = yaml.safe_load((PROMETHEUS / "rules.yml").read_text(encoding="utf-8"))["groups"]
    return {rule.get("alert") or rule["record"]: rule for group in groups for rule in group["rules"]}


def panels() -> list[dict]:
    return json.loads((DEPLOY / "grafana" / "dashboard.json").read_text(encoding="utf-8"))["panels"]


def expressions() -> dict[str, str]:
    board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text(encoding="utf-8"))
    found = {f"rule {name}": rule["expr"] for name, rule in rules().items()}
    found |= {f"panel {p['title']} {t['refId']}": t["expr"] for p in panels() for t in p.get("targets", [])}
    return found | {f"variable {v['name']}": v["query"]["query"] for v in board["templating"]["list"]}


def promtool(*arguments: str | Path, cwd: Path = PROMETHEUS) -> subprocess.CompletedProcess:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed: `apt install prometheus` brings it on Debian")
    return subprocess.run(["promtool", *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("number", range(len(manifests())))
def test_manifests_follow_the_schemas_of_kubernetes(number):
    kubernetes_validate.validate(manifests()[number], KUBERNETES, strict=True)


def test_the_schemas_refuse_a_misspelled_field():
    wrong = manifest("Deployment")
    wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES, strict=True)


def test_compose_has_known_fields_and_ports_on_loopback_alone():
    jsonschema.validate(compose(), COMPOSE)
    for name, service in compose()["services"].items():
        named = {v.split(":")[0] for v in service["volumes"] if not v.startswith(".")}
        assert named <= set(compose()["volumes"]), name
        for local in (v.split(":")[0] for v in service["volumes"] if v.startswith(".")):
            assert (DEPLOY / local).exists(), local


@pytest.mark.parametrize("change", [{"ports": ["8000:8000"]}, {"ports": ["0.0.0.0:8000:8000"]}, {"imagee": "x"}, {"mem_limit": "lots"}])
def test_the_compose_schema_refuses(change):
    wrong = compose()
    wrong["services"]["vllm"] |= change
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, COMPOSE)


def test_versions_are_pinned():
    images = [service["image"] for service in compose()["services"].values()] + [c["image"] for c in pod()["containers"]]
    assert all(IMAGE.fullmatch(image) for image in images), images
    assert [image for image in images if "vllm" in image] == [f"vllm/vllm-openai:v{vllm.VERSION}"] * 2
    for where, command in commands().items():
        revisions = [word.split("=")[1] for word in command if word.startswith(("--revision=", "--tokenizer-revision="))]
        assert len(revisions) == 2 and len(set(revisions)) == 1 and re.fullmatch(r"[0-9a-f]{40}", revisions[0]), where


def test_every_flag_that_the_readme_names_is_one_the_book_has_checked():
    others = {"--namespace", "--from-literal", "--filename", "--timeout", "--detach"}  # of docker and kubectl
    named = set(re.findall(r"--[a-z][a-z-]+", (DEPLOY / "README.md").read_text(encoding="utf-8"))) - others
    assert named and not [flag for flag in named if flag not in vllm.FLAGS or vllm.VERSION not in vllm.FLAGS[flag].seen]


@pytest.mark.parametrize("where", ["kubernetes", "compose"])
def test_every_flag_is_one_the_book_has_checked(where):
    command = commands()[where]
    assert command[:2] == ["vllm", "serve"] and not command[2].startswith("-")
    flags = vllm.flags_of(" ".join(command))
    assert len(flags) == len(command) - 3  # every word after the model is a flag with its value
    assert not [flag for flag in flags if flag not in vllm.FLAGS or vllm.VERSION not in vllm.FLAGS[flag].seen]
    assert "--api-key" not in flags  # it would show in the process list: VLLM_API_KEY does the same


def test_both_ways_run_the_same_command():
    assert commands()["kubernetes"] == commands()["compose"]


def test_the_commands_of_the_book_use_flags_it_has_checked():
    assert set(vllm.flags_of(" ".join(vllm.SERVE_COMMAND))) <= set(vllm.FLAGS)
    assert set(vllm.flags_of(" ".join(vllm.BENCH_COMMAND))) <= set(vllm.BENCH_FLAGS)
    assert not set(vllm.GONE_FLAGS) & set(vllm.FLAGS) and not set(vllm.GONE_METRICS) & set(SERIES)
    assert set(vllm.ENVIRONMENT) >= {name for name in compose()["services"]["vllm"]["environment"] if name.startswith("VLLM_")}
    needs = {metric.needs for metric in vllm.METRICS.values() if metric.needs}
    assert needs <= {*vllm.FLAGS, *vllm.ENVIRONMENT}
    assert vllm.CHECKED < vllm.EXPIRES and vllm.expired(vllm.EXPIRES + datetime.timedelta(days=1)) and not vllm.expired(vllm.EXPIRES)


def test_a_key_is_needed_and_comes_from_outside():
    (container,) = pod()["containers"]
    (key,) = [e for e in container["env"] if e["name"] == "VLLM_API_KEY"]
    assert set(key) == {"name", "valueFrom"} and "secretKeyRef" in key["valueFrom"]
    assert compose()["services"]["vllm"]["environment"]["VLLM_API_KEY"].startswith("${VLLM_API_KEY:?")
    policy = manifest("NetworkPolicy")["spec"]  # the key leaves /metrics and /invocations open: connections are limited too
    assert policy["podSelector"]["matchLabels"] == manifest("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert all(rule["from"] for rule in policy["ingress"]) and policy["policyTypes"] == ["Ingress"]
    assert {m["spec"].get("type", "ClusterIP") for m in manifests() if m["kind"] == "Service"} == {"ClusterIP"}


def test_probes_limits_and_time_to_end():
    (container,) = pod()["containers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/health", "port": "http"}
    startup = container["startupProbe"]["periodSeconds"] * container["startupProbe"]["failureThreshold"]
    assert startup >= 600  # a download and a load take minutes
    for resource in ("cpu", "memory", "nvidia.com/gpu"):
        assert resource in container["resources"]["limits"] and resource in container["resources"]["requests"]
    (drain,) = [int(word.split("=")[1]) for word in commands()["kubernetes"] if word.startswith("--shutdown-timeout=")]
    assert 0 < drain < pod()["terminationGracePeriodSeconds"]
    assert drain < int(compose()["services"]["vllm"]["stop_grace_period"].rstrip("s"))
    assert pod()["enableServiceLinks"] is False  # else the service named vllm sets VLLM_PORT to a URL


def test_selectors_and_ports_meet():
    labels = manifest("Deployment")["spec"]["template"]["metadata"]["labels"]
    ports = {p["name"] for c in pod()["containers"] for p in c["ports"]}
    for name in ("vllm", "vllm-pods"):
        service = manifest("Service", name)["spec"]
        assert service["selector"].items() <= labels.items() and {p["targetPort"] for p in service["ports"]} <= ports
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = config["scrape_configs"]
    (names,) = [sd["names"] for sd in job["dns_sd_configs"]]
    assert names == [manifest("Service", "vllm-pods")["metadata"]["name"]] == compose()["services"]["vllm"]["networks"]["default"]["aliases"]
    assert manifest("Service", "vllm-pods")["spec"]["clusterIP"] == "None"
    assert len({m["metadata"]["namespace"] for m in manifests()}) == 1


@pytest.mark.parametrize("where", expressions())
def test_every_metric_exists_in_the_pinned_vllm(where):
    text = expressions()[where]
    names = METRIC.findall(text)
    assert names or "model:vllm_" in text or "up{" in text
    assert not [name for name in names if name not in SERIES]
    for record in re.findall(r"model:vllm_[a-z0-9_:]+", text):
        assert record in rules()
    for name, labels in re.findall(r"(vllm:[a-z_0-9]+)\{([^}]*)\}", text):
        used = set(re.findall(r"([a-z_]+)=~?\"", labels))
        assert used <= {"model_name", "engine", *SERIES[name].labels}


def test_what_rests_on_a_flag_says_so_on_the_dashboard():
    for panel in panels():
        for name in (n for t in panel.get("targets", []) for n in METRIC.findall(t["expr"])):
            needs = SERIES[name].needs
            if needs and needs != "--max-num-queued-reqs":
                assert needs in panel["title"], panel["title"]


def test_the_dashboard_is_well_formed():
    found = panels()
    assert len({p["id"] for p in found}) == len(found)
    cells = [(x, y) for p in found for x in range(p["gridPos"]["x"], p["gridPos"]["x"] + p["gridPos"]["w"])
             for y in range(p["gridPos"]["y"], p["gridPos"]["y"] + p["gridPos"]["h"])]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24
    (source,) = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yml").read_text(encoding="utf-8"))["datasources"]
    assert {t["datasource"]["uid"] for p in found for t in p.get("targets", [])} == {source["uid"]}


def test_rules_and_configuration_pass_promtool():
    assert (done := promtool("check", "rules", "rules.yml")).returncode == 0, done.stderr
    assert (done := promtool("check", "config", "prometheus.yml")).returncode == 0, done.stderr


def test_promql_of_the_dashboard_parses(tmp_path):
    records = [
        {"record": f"panel:{i}", "expr": t["expr"].replace("$__rate_interval", "5m")}
        for i, t in enumerate(t for p in panels() for t in p.get("targets", []))
    ]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]}), encoding="utf-8")
    assert (done := promtool("check", "rules", "rules.yml", cwd=tmp_path)).returncode == 0, done.stdout + done.stderr


def test_each_alert_is_shown_firing_and_not_firing():
    tests = yaml.safe_load((PROMETHEUS / "rules_test.yml").read_text(encoding="utf-8"))["tests"]
    shown = {(case["alertname"], bool(case["exp_alerts"])) for test in tests for case in test["alert_rule_test"]}
    alerts = {name for name, rule in rules().items() if "alert" in rule}
    assert shown == {(name, fires) for name in alerts for fires in (True, False)}
    for test in tests:
        assert not [n for line in test["input_series"] for n in METRIC.findall(line["series"]) if n not in SERIES]
    assert (done := promtool("test", "rules", "rules_test.yml")).returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("old,new", [("> 2.5\n", "> 20\n"), ('"abort|error"', '"length"'), ("< 0.7", "< 0.1"), ("for: 10m", "for: 80m")])
def test_the_unit_tests_of_the_rules_notice(old, new, tmp_path):
    text = (PROMETHEUS / "rules.yml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "rules.yml").write_text(text.replace(old, new), encoding="utf-8")
    shutil.copy(PROMETHEUS / "rules_test.yml", tmp_path)
    assert promtool("test", "rules", "rules_test.yml", cwd=tmp_path).returncode != 0


def test_every_alert_says_what_and_where_to_go_on():
    for name, rule in rules().items():
        if "alert" in rule:
            assert set(rule["annotations"]) == {"summary", "row"} and rule["labels"]["severity"] in ("page", "ticket", "note"), name
            assert re.fullmatch(r"\d+m", rule["for"]), name


def test_the_readme_counts_right_and_names_the_version():
    text = (DEPLOY / "README.md").read_text(encoding="utf-8")
    alerts = sum("alert" in rule for rule in rules().values())
    assert f"{len(rules()) - alerts} recording rules, {alerts} alerts" in text
    assert f"vLLM {vllm.VERSION}" in text and f"vLLM {vllm.CPU_VERSION}" in text and f"Kubernetes {KUBERNETES.removesuffix('.0')}" in text
    for path in re.findall(r"`((?:compose|kubernetes|prometheus/|grafana/)[\w./-]*)`", text):
        assert (DEPLOY / path).exists(), path
