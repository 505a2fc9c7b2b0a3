"""What ``load`` is given: dtypes, devices, weights that are not finite, and files that are not safetensors."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from tinyserve.checkpoint import load, save
from tinyserve.configs import ModelConfig
from tinyserve.model import build

SMALL = ModelConfig("small", 2, 24, 6, 2, 4, 20, 31, max_context=64)
IDS = torch.arange(20).reshape(2, 10)
NAN, INF = float("nan"), float("inf")


@pytest.fixture
def small(tmp_path):
    """A folder with a whole checkpoint in float32."""
    save(build(SMALL, std=0.3), tmp_path / "small", torch.float32)
    return tmp_path / "small"


def put(folder, key, value, dtype=torch.float32):
    """Set the last number of a tensor, and write all tensors in dtype."""
    tensors = load_file(folder / "model.safetensors")
    tensors[key].view(-1)[-1] = value
    save_file({name: tensor.to(dtype) for name, tensor in tensors.items()}, folder / "model.safetensors")


@pytest.mark.parametrize("dtype", ["float32", "bf16", None, int, torch.int8, "torch.float32"])
def test_the_dtypes_that_are_taken_are_named(small, dtype):
    for call in (lambda: load(small, dtype=dtype), lambda: save(build(SMALL), small, dtype)):
        with pytest.raises(ValueError, match="is not one of torch.float64, torch.float32, torch.float16, torch.bfloat16") as raised:
            call()
        assert str(raised.value).startswith(f"dtype={dtype!r} ")


@pytest.mark.parametrize("key", ["model.embed_tokens.weight", "model.layers.1.mlp.down_proj.weight", "model.norm.weight", "lm_head.weight"])
@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_weights_that_are_not_finite_are_refused_by_name(small, key, value, dtype):
    put(small, key, value, dtype)
    with pytest.raises(ValueError, match=f"small: {key} holds NaN or infinity$"):
        load(small)


def test_a_number_that_the_dtype_cannot_hold_is_refused(small):
    put(small, "model.norm.weight", 1e5)
    assert load(small).norm.weight[-1] == 1e5 and load(small, dtype=torch.bfloat16).norm.weight.isfinite().all()
    with pytest.raises(ValueError, match="model.norm.weight holds NaN or infinity in torch.float16, not in the file"):
        load(small, dtype=torch.float16)


@pytest.mark.parametrize("value", [0.0, 3e38, -3e38, 1e-45])
def test_every_finite_number_passes(small, value):
    put(small, "model.norm.weight", value)
    assert load(small).norm.weight[-1] == torch.tensor(value)


def test_an_unusable_device_is_named(small):
    for device, says in [
        ("gpu", "device='gpu' cannot be used for torch.float32: Expected one of cpu, cuda"), (3.5, "device=3.5 cannot be used"),
        ("meta", "device='meta' cannot be used for torch.float32: Tensor.item"), ("cuda:77", "device='cuda:77' cannot be used for torch.float32: .*CUDA"),
    ]:
        with pytest.raises(ValueError, match=says) as raised:
            load(small, device=device)
        assert "\n" not in str(raised.value)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="device='cuda' cannot be used for torch.float32: .*(CUDA|NVIDIA)"):
            load(small, device="cuda")
    for device in ("cpu", torch.device("cpu"), "cpu:0"):
        assert load(small, device=device)(IDS).isfinite().all()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "pytorch_model.bin.index.json"])
def test_a_pickled_checkpoint_is_named_with_the_way_out(small, name):
    (small / "model.safetensors").rename(small / name)
    with pytest.raises(FileNotFoundError, match=f"small/model.safetensors does not exist; {name} is there, but only safetensors is read"):
        load(small)
    (small / name).rename(small / "weights.pt")
    with pytest.raises(FileNotFoundError, match="small/model.safetensors does not exist$"):
        load(small)


def test_the_way_out_leads_there(small, tmp_path):
    whole = load(small)(IDS)
    torch.save(load_file(small / "model.safetensors"), small / "pytorch_model.bin")
    (small / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError) as raised:
        load(small)
    way = "AutoModelForCausalLM.from_pretrained(folder).save_pretrained(new_folder)"
    assert way in str(raised.value)
    eval(way, {"AutoModelForCausalLM": AutoModelForCausalLM, "folder": small, "new_folder": tmp_path / "new"})
    assert torch.equal(load(tmp_path / "new")(IDS), whole)
