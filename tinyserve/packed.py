"""Weights laid out as the CPU's matrix product wants them.

oneDNN, a library below torch, can multiply by weights that stand in blocks of its own
choice; F.linear takes them row by row and leaves the product to MKL. Turning them once
and keeping them so is what torch's compiler does when it freezes a model, and what vLLM
does on a CPU. Several rows at once gain by it, a single row does not: benchmarks/packed.py.
The two operations used are torch's own, but not public.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from .model import Decoder


class PackedLinear(nn.Module):
    """A linear layer whose weight [out, in] is kept in oneDNN's layout. No gradients."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("bias", None if bias is None else bias.detach())
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach())

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")


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
    for module in list(found.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                setattr(module, name, PackedLinear(child.weight, child.bias))
    if found.head is None:
        found.head = PackedLinear(weight)
    return found
