"""packed.py: both decoders do the same step, one of them packed. Never a timing."""

import json
import statistics

import pytest

from benchmarks import packed
from tinyserve.packed import PackedLinear


@pytest.fixture(scope="module")
def quick():
    return packed.run("cpu", quick=True)


def test_every_batch_has_its_rounds(quick):
    assert [row["batch"] for row in quick["rows"]] == [1, 4]
    for row in quick["rows"]:
        assert [len(row["seconds"][kind]) for kind in ("plain", "packed")] == [2, 2]
        assert row["ratio"] == pytest.approx(statistics.mean(a / b for a, b in zip(row["seconds"]["plain"], row["seconds"]["packed"])))
    json.dumps(quick, allow_nan=False)


def test_packing_that_is_not_on_stops_the_run(monkeypatch):
    monkeypatch.setattr(packed, "packed", lambda model: model)
    with pytest.raises(RuntimeError, match="has no packed matrix"):
        packed.run("cpu", quick=True)


def test_other_tokens_stop_the_run(monkeypatch):
    real = PackedLinear.forward
    monkeypatch.setattr(PackedLinear, "forward", lambda self, x: -real(self, x))
    with pytest.raises(RuntimeError, match="gives other tokens"):
        packed.run("cpu", quick=True)


def test_only_a_cpu_has_it():
    with pytest.raises(ValueError, match="device='cuda'"):
        packed.run("cuda", quick=True)
