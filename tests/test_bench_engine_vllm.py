"""vLLM as an arm of benchmarks.engine, with stand-ins: what the child answers, and what its parent does when it fails. No vLLM is needed."""

import sys
from types import SimpleNamespace

import pytest

from benchmarks import engine_vllm, engine_vllm_child
from benchmarks import engine_workloads as work
from benchmarks.engine_arms import Served


class FakeLLM:
    """Stands in for vLLM's LLM and its engine: output i is the first prompt id plus i; one token a step."""

    def __init__(self):
        self.live, self.calls, self.llm_engine = {}, [], self

    def generate(self, prompts, params, use_tqdm):
        self.calls.append(len(prompts))
        return [self._output(p, s.max_tokens) for p, s in zip(prompts, params, strict=True)]

    def _output(self, prompt, n, request_id="", finished=True):
        ids = [prompt["prompt_token_ids"][0] + i for i in range(n)]
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=ids)], request_id=request_id, finished=finished)

    def add_request(self, request_id, prompt, params):
        self.live[request_id] = [prompt, params.max_tokens, 0]

    def has_unfinished_requests(self):
        return bool(self.live)

    def step(self):
        found = []
        for request_id, entry in list(self.live.items()):
            entry[2] += 1
            found.append(self._output(entry[0], entry[2], request_id, entry[2] == entry[1]))
            if found[-1].finished:
                del self.live[request_id]
        return found


@pytest.fixture
def fake_vllm(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(SamplingParams=lambda **given: SimpleNamespace(**given)))
    return FakeLLM()


@pytest.mark.parametrize(("arrivals", "one_by_one", "calls"), [(None, False, [3]), (None, True, [1, 1, 1]), ([0.0, 0.02, 0.02], False, [])])
def test_the_child_answers_a_round(fake_vllm, arrivals, one_by_one, calls):
    asked = {"prompts": [[10], [20], [30]], "max_tokens": [1, 3, 2], "salts": ["a", "b", "c"], "arrivals": arrivals, "one_by_one": one_by_one}
    found = engine_vllm_child.answer(fake_vllm, asked)
    assert found["outputs"] == [[10], [20, 21, 22], [30, 31]] and fake_vllm.calls == calls
    assert len(found["done"]) == 3 and max(found["done"]) <= found["seconds"]
    if arrivals:
        assert all(at < first <= end for at, first, end in zip(arrivals, found["first"], found["done"], strict=True))
    Served(**found)


ECHO = """import json, sys
print(json.dumps({"vllm": "0"}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if asked["max_tokens"] == [9]: sys.exit("no room")
    print(json.dumps({"outputs": asked["salts"], "seconds": 1.0, "first": [], "done": []}), flush=True)
"""


def child(tmp_path, monkeypatch, script=ECHO):
    monkeypatch.setattr(engine_vllm, "SCRIPT", tmp_path / "child.py")
    (tmp_path / "child.py").write_text(script)
    return engine_vllm.VllmArm(sys.executable, tmp_path, 2, 1, tmp_path / "log" / "child.log")


def test_salts_turn_prefix_caching_off(tmp_path, monkeypatch):
    workload = work.Workload([[1], [1]], [2, 2], 2, "round 0")
    with child(tmp_path, monkeypatch) as running:
        assert running.about == {"vllm": "0"}
        assert running.serve(workload)["outputs"] == ["round 0", "round 0"]
        assert running.serve(workload, prefix_caching=False)["outputs"] == ["round 0 0", "round 0 1"]
    assert running.process.returncode == 0


def test_a_child_that_ends_or_hangs_is_reported(tmp_path, monkeypatch):
    with child(tmp_path, monkeypatch) as running, pytest.raises(RuntimeError, match="(?s)vLLM ended.*no room"):
        running.serve(work.Workload([[1]], [9], 1, ""))
    monkeypatch.setattr(engine_vllm, "LOAD_LIMIT", 0.2)
    with pytest.raises(RuntimeError, match="did not answer within 0 s"):
        child(tmp_path, monkeypatch, "import time; time.sleep(60)")
