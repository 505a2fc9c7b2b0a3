"""A decoder laid out for a CPU: fewer and wider products, and each matrix as its product wants it.

Three changes, none of which alters what is computed. Products of the same input become
one: q, k and v, and gate and up. Several rows at once multiply by weights in blocks that
oneDNN, a library below torch, chooses; F.linear takes them row by row and leaves the
product to MKL. (Turning them once and keeping them so is what torch's compiler does when
it freezes a model, and what vLLM does on a CPU.) A single row gains nothing by the blocks;
in float32 it multiplies by [in, out], where a wide product reads its weights faster:
benchmarks/packed.py. The price is memory: most matrices are kept twice. The two
operations used are torch's own, but not public.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .kv_cache import KVCache
from .model import Block, Decoder
from .rope import apply_rope


class PackedLinear(nn.Module):
    """A linear layer whose weight [out, in] is kept in oneDNN's layout, and in another for a single row. No gradients."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        weight = weight.detach()
        self.register_buffer("bias", None if bias is None else bias.detach())
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight)
        self.row = None  # [in, out] for one row: laid out so where the product is wide, else a view of the given [out, in]
        if weight.dtype == torch.float32:
            self.row = weight.t().contiguous() if weight.shape[0] >= weight.shape[1] else weight.t()

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        if self.row is None or x.numel() != x.shape[-1]:  # no row at all counts as several
            return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        row = x.reshape(1, -1)
        found = row @ self.row if self.bias is None else torch.addmm(self.bias, row, self.row)
        return found.view(*x.shape[:-1], -1)


def _side_by_side(*layers: nn.Linear) -> PackedLinear:
    """Return one layer whose output is the layers' outputs, one behind the other."""
    biases = [layer.bias for layer in layers if layer.bias is not None]
    return PackedLinear(torch.cat([layer.weight for layer in layers]), torch.cat(biases) if biases else None)


class PackedBlock(nn.Module):
    """What a Block computes, in four products."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.config, self.layer, self.norm1, self.norm2 = block.config, block.layer, block.norm1, block.norm2
        self.qkv, self.o = _side_by_side(block.q, block.k, block.v), _side_by_side(block.o)
        self.gate_up, self.down = _side_by_side(block.gate, block.up), _side_by_side(block.down)

    def forward(self, x: Tensor, table: tuple[Tensor, Tensor], cache: KVCache) -> Tensor:
        """[b, n, d] -> [b, n, d]; this layer's K and V [b, K, n, d_h] go to the cache."""
        c = self.config
        qkv = self.qkv(self.norm1(x)).unflatten(-1, (-1, c.head_dim)).transpose(1, 2)  # [b, H + 2K, n, d_h]
        turned, v = qkv[:, : -c.n_kv_heads], qkv[:, -c.n_kv_heads :]
        turned = apply_rope(turned, table)  # q and k at once
        a = cache.attend(self.layer, turned[:, : c.n_heads], turned[:, c.n_heads :], v)  # [b, H, n, d_h]
        x = x + self.o(a.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


def packed(model: Decoder) -> Decoder:
    """Return a decoder for inference with packed matrices; embedding and norms are shared with the given one, which stays as it is.

    Raises ValueError for a model on another device than the CPU, for a dtype other than
    float32 and bfloat16, and where torch was built without oneDNN.
    """
    weight = model.embedding.weight
    if weight.device.type != "cpu" or weight.dtype not in (torch.float32, torch.bfloat16):
        raise ValueError(f"a model on {weight.device} in {weight.dtype} cannot be packed: on a CPU in float32 or bfloat16 it can")
    if not torch.backends.mkldnn.is_available():
        raise ValueError("this torch was built without oneDNN: there is no layout to pack for")
    shared = {id(parameter): parameter for parameter in model.parameters()}
    found = copy.deepcopy(model, shared)  # the tensors are shared, the modules are new
    found.blocks = nn.ModuleList(PackedBlock(block) for block in found.blocks)
    found.head = PackedLinear(weight if model.head is None else model.head.weight)
    return found
