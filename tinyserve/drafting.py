"""Drafts for an engine: guesses for many requests at once, over the engine's own blocks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from .kv_cache import PagedCache
from .model import Decoder
from .request import Request
from .sampling import draw
from .speculative import laws, ngram_draft

Guess = tuple[list[int], Tensor | None]
"""Drafted tokens and their laws q [tokens, vocab]; None for a draft that has no law."""


class BatchDrafter(Protocol):
    """Whatever can guess for the requests of a step."""

    def propose(self, wanted: Sequence[tuple[Request, int]]) -> dict[Request, Guess]:
        """Return for each request at most so many tokens that might come next; a request without a guess may be left out."""


class NGramBatchDrafter:
    """Prompt lookup for every request: no model, no cache, no law."""

    def __init__(self, longest: int = 3, shortest: int = 1) -> None:
        self.longest, self.shortest = longest, shortest

    def propose(self, wanted: Sequence[tuple[Request, int]]) -> dict[Request, Guess]:
        """Return what ngram_draft finds."""
        return {request: (ngram_draft(request.tokens, gamma, self.longest, self.shortest), None) for request, gamma in wanted}


class ModelBatchDrafter:
    """A smaller decoder whose K and V lie in blocks of the same numbers as the target's, in a PagedCache of its own.

    So there is one block table a request, and what frees a block frees it for both. K and V
    of a prompt are computed when the first guess is wanted, in one go. ``tokens`` counts
    what ran through the draft. num_blocks and block_size are the engine's.
    """

    def __init__(self, model: Decoder, num_blocks: int, block_size: int = 16) -> None:
        weight = model.embedding.weight
        self.model, self.device = model, weight.device
        self.cache = PagedCache(model.config, num_blocks, block_size, weight.device, weight.dtype)
        self._held: dict[Request, tuple[int, int, list[int]]] = {}  # preemptions so far (each loses all), tokens of the request held, guesses behind them

    def _known(self, request: Request) -> int:
        """Return how many tokens of the request the draft's cache holds. The first rejected guess ends the count: the next run writes over it."""
        preemptions, held, guesses = self._held.get(request, (0, 0, []))
        if preemptions != request.preemptions:
            return 0
        kept = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(guesses, request.tokens[held:], strict=False))
        return min(held + len(list(kept)), len(request.tokens) - 1)

    def _run(self, rows: list[tuple[Request, int, list[int]]]) -> dict[Request, Tensor]:
        """Run (request, start, new tokens) of each row; return the logits [1, vocab] behind each row's last token."""
        rows = sorted(rows, key=lambda row: len(row[2]))
        batch = self.cache.batch([r.block_table for r, _, _ in rows], [start for _, start, _ in rows], [len(new) for _, _, new in rows])
        ids = torch.tensor([[token for _, _, new in rows for token in new]], device=self.device)
        logits = self.model(ids, batch.positions, batch, torch.tensor(batch.last, device=self.device))[0]
        for request, start, new in rows:
            guesses = [*self._held[request][2], *new] if start >= len(request.tokens) else []
            self._held[request] = request.preemptions, len(request.tokens), guesses
        return {request: logits[i : i + 1] for i, (request, _, _) in enumerate(rows)}

    def propose(self, wanted: Sequence[tuple[Request, int]]) -> dict[Request, Guess]:
        """Run what the cache lacks of each request, then each drawn token but the last; requests draw by their own parameters."""
        drafted: dict[Request, list[int]] = {request: [] for request, _ in wanted}
        found: dict[Request, list[Tensor]] = {request: [] for request, _ in wanted}
        failed: set[Request] = set()
        rows = [(request, known := self._known(request), request.tokens[known:]) for request, _ in wanted]
        while rows:
            behind = self._run(rows)
            for request, logits in behind.items():
                try:
                    law = laws(logits, request.sampling, request.tokens, drafted[request])
                except ValueError:  # a draft that fails costs the request its guesses, not its answer: the target goes on alone
                    failed.add(request)
                    continue
                found[request].append(law)
                drafted[request].append(int(draw(law, request.sampler.uniform()[None])[0]))
            rows = [
                (request, len(request.tokens) + len(drafted[request]) - 1, drafted[request][-1:])
                for request, gamma in wanted if request not in failed and len(drafted[request]) < gamma
            ]
        ended = [request for request in self._held if request.finished is not None]
        for request in ended:
            del self._held[request]
        return {request: (tokens, torch.cat(found[request])) for request, tokens in drafted.items() if tokens}
