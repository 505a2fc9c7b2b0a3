"""The record of stretched RoPE: its pieces on a tiny model, and what the committed record holds."""

import torch

from benchmarks import rope_scaling as bench
from course import results
from tinyserve import configs
from tinyserve.model import build
from tinyserve.rope_scaling import token_bits

TINY = configs.ModelConfig("tiny", 2, 32, 4, 2, 8, 64, 50, tied_embedding=True, max_context=16)


def test_slide_is_the_plain_model_with_the_last_window():
    decoder = build(TINY, std=0.3)
    ids = torch.tensor([(i * 7) % 50 for i in range(60)])
    how = bench.stretches(decoder)["none"]
    found = bench.slide(decoder, ids, how, 16)
    assert len(found) == 59
    torch.testing.assert_close(found[:16], token_bits(decoder, ids[:17], how))
    for start in (8, 16, 24):  # the second half of each later window
        torch.testing.assert_close(found[start + 8 : start + 16], token_bits(decoder, ids[start : start + 17], how)[8:])


def test_loss_has_a_bucket_for_every_place():
    decoder = build(TINY, std=0.3)
    found = bench.loss(decoder, {"a": torch.arange(41) % 50}, length=40, bucket=8)
    assert set(found) == {bench.name(*case) for case in bench.CASES} | {"slide"}
    assert all(len(row["a"]) == 5 for row in found.values())
    assert found["none"]["a"][:2] == found["slide"]["a"][:2] and found["none"]["a"][3:] != found["slide"]["a"][3:]


def test_copy_finds_nothing_saved_where_nothing_is_copied():
    found = bench.copy(build(TINY), [3] * 60, distances=(10, 30), piece=4, seeds=2)
    assert all(abs(saved) < 0.05 for row in found.values() for saved in row)  # random weights copy nothing


def test_the_record_is_whole():
    record = results.load("rope_scaling")
    files = {tuple(sorted(rows)) for rows in record["loss"].values()}
    assert len(files) == 1 and len(files.pop()) >= 8
    assert {len(row) for rows in record["loss"].values() for row in rows.values()} == {record["length"] // record["bucket"]}
    assert all(len(row) == len(record["copy"]["distances"]) for row in record["copy"]["saved"].values())
