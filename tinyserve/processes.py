"""Start N processes that run one model together over torch.distributed (gloo, on this machine's loopback).

The meeting point is a file, so that no port is chosen. Everything is bounded in
time: a process that hangs ends with an error in the caller.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor
from torch.multiprocessing.spawn import ProcessException

from .kv_cache import ContiguousCache
from .model import Decoder
from .moe import Experts, Routing
from .parallel import ProcessGroup, Traffic, forward, shard


@dataclass(frozen=True)
class RankResult:
    """What one process found: ids [b, m] it chose, last logits [b, vocab], its traffic, its own weights' and cache's bytes, its id."""

    ids: Tensor
    logits: Tensor
    traffic: Traffic
    weight_bytes: int
    cache_bytes: int
    pid: int


def _meet(rank: int, ranks: int, folder: str, timeout: float) -> None:
    """Join the group through a file in folder; one thread, so that ranks do not fight for cores."""
    torch.set_num_threads(1)
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # gloo asks for the host's name otherwise, which need not resolve
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks, timeout=timedelta(seconds=timeout)
    )


def _decode_rank(rank: int, ranks: int, folder: str, timeout: float) -> None:
    """One process: cut the model, decode greedily, write the result."""
    _meet(rank, ranks, folder, timeout)
    job = torch.load(Path(folder) / "job.pt", weights_only=False)
    whole = Decoder(job["config"])
    whole.load_state_dict(job["state"], assign=True)
    part, group = shard(whole, rank, ranks), ProcessGroup()
    del whole
    ids, new = job["ids"], job["new"]
    dtype = part.embedding.weight.dtype
    cache = ContiguousCache(part.config, ids.shape[0], ids.shape[1] + new, dtype=dtype)
    chosen, tokens = [], ids
    for _ in range(new):
        logits = forward([part], [cache], group, tokens)[:, -1]
        tokens = logits.argmax(-1, keepdim=True)
        chosen.append(tokens)
    held = sum(x.nbytes for x in part.parameters())
    result = RankResult(torch.cat(chosen, 1), logits, group.traffic, held, cache.nbytes, os.getpid())
    torch.save(result, Path(folder) / f"result{rank}.pt")
    dist.destroy_process_group()


def _experts_rank(rank: int, ranks: int, folder: str, timeout: float) -> None:
    """One process: send each token's rows to the experts' owners, compute what arrives, send back, add up."""
    _meet(rank, ranks, folder, timeout)
    job = torch.load(Path(folder) / "job.pt", weights_only=False)
    x, routing = (job[name][rank] for name in ("x", "routing"))
    mine = Experts(*(w.chunk(ranks)[rank] for w in job["experts"]))
    flat, k = routing.experts.flatten(), routing.experts.shape[1]
    order = (flat // len(mine)).argsort(stable=True)  # by owner
    to_each = torch.bincount(flat // len(mine), minlength=ranks)
    from_each = torch.empty_like(to_each)
    dist.all_to_all_single(from_each, to_each)
    sizes = to_each.tolist(), from_each.tolist()
    rows, names = _exchange(x[order // k], *sizes), _exchange(flat[order] % len(mine), *sizes)
    for expert in names.unique().tolist():
        hit = names == expert
        rows[hit] = mine.one(expert, rows[hit])
    back = _exchange(rows, *reversed(sizes))
    out = torch.zeros_like(x).index_add_(0, order // k, back * routing.weights.flatten()[order, None])
    sent = (to_each.sum() - to_each[rank]).item()
    torch.save((out, int(sent), int(from_each.sum())), Path(folder) / f"result{rank}.pt")
    dist.destroy_process_group()


def _exchange(rows: Tensor, send: list[int], receive: list[int]) -> Tensor:
    """Send the first send[0] rows to rank 0 and so on; return what arrives, in order of the ranks."""
    out = rows.new_empty((sum(receive), *rows.shape[1:]))
    dist.all_to_all_single(out, rows.contiguous(), receive, send)
    return out


def _run(worker: Callable[[int, int, str, float], None], ranks: int, job: dict, timeout: float) -> list:
    """Run worker(rank, ...) in `ranks` fresh processes and return their results; RuntimeError when one fails or time is up."""
    if ranks < 1:
        raise ValueError(f"ranks={ranks} is below 1")
    with tempfile.TemporaryDirectory() as folder:
        torch.save(job, Path(folder) / "job.pt")
        context = mp.start_processes(worker, (ranks, folder, timeout), nprocs=ranks, join=False, start_method="spawn")
        deadline = time.monotonic() + timeout
        try:
            while not context.join(timeout=max(0.0, deadline - time.monotonic())):  # returns whenever one has ended
                if time.monotonic() >= deadline:
                    raise RuntimeError(f"{ranks} processes did not end within {timeout} s")
        except ProcessException as fault:
            raise RuntimeError(f"process {fault.error_index} of {ranks} failed: {fault.msg}") from None
        finally:
            for process in context.processes:
                if process.is_alive():
                    process.kill()
                    process.join()
        return [torch.load(Path(folder) / f"result{rank}.pt", weights_only=False) for rank in range(ranks)]


def decode(decoder: Decoder, ids: Tensor, new: int, ranks: int, timeout: float = 60.0) -> list[RankResult]:
    """Decode `new` greedy tokens after ids [b, n] with the model cut over `ranks` processes; one result a rank.

    Raises ValueError for a model that does not divide, RuntimeError when a process fails or takes over timeout seconds.
    """
    shard(decoder, 0, ranks)  # refuse here, not in a child
    job = {"config": decoder.config, "state": decoder.state_dict(), "ids": ids, "new": new}
    return _run(_decode_rank, ranks, job, timeout)


def experts_apart(xs: list[Tensor], routings: list[Routing], experts: Experts, timeout: float = 60.0) -> list[tuple[Tensor, int, int]]:
    """Compute a layer of experts spread over as many processes as xs has entries, each with its own tokens.

    Returns for each rank its output [n, d], the rows it sent to other ranks, and the
    rows its experts computed. Raises ValueError for experts that the ranks do not divide.
    """
    ranks = len(xs)
    if len(experts) % ranks:
        raise ValueError(f"{len(experts)} experts are not a multiple of {ranks} ranks")
    return _run(_experts_rank, ranks, {"x": xs, "routing": routings, "experts": (experts.gate, experts.up, experts.down)}, timeout)
