"""The serving engine: requests in, tokens out, one step of the model at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .block_pool import BlockPool
from .kv_cache import PagedCache
from .model import Decoder
from .request import Request, Status
from .sampling import sample
from .scheduler import Chunk, Scheduler
from .tokenizer import StreamDecoder, Tokenizer


class Engine:
    """Continuous batching over a paged cache, with chunked prefill, prefix caching and preemption.

    The model runs once a step, over the new tokens of all requests in it. ``num_blocks``
    blocks of ``block_size`` tokens are allocated at once. With a tokenizer, requests
    have a text (without the token that stopped them), stop texts work, and its end of sequence
    stops a request that names no stop_ids. Raises ValueError for a limit below 1.
    """

    def __init__(
        self, model: Decoder, num_blocks: int, block_size: int = 16, max_num_seqs: int = 16,
        max_num_batched_tokens: int = 256, prefix_caching: bool = True, chunked: bool = True,
        tokenizer: Tokenizer | None = None, clock: Callable[[], float] = time.perf_counter,
        trace: list[dict[str, Any]] | None = None,
    ) -> None:
        weight = next(model.parameters())
        self.model, self.tokenizer, self.clock, self.device = model, tokenizer, clock, weight.device
        self.pool = BlockPool(num_blocks, block_size, prefix_caching)
        self.scheduler = Scheduler(self.pool, max_num_seqs, max_num_batched_tokens, chunked, trace)
        self.cache = PagedCache(model.config, num_blocks, block_size, weight.device, weight.dtype)
        self._streams: dict[Request, StreamDecoder] = {}

    def add(self, prompt: Sequence[int], **options: Any) -> Request:
        """Submit a request with the given options of Request, and return it."""
        return self.submit(Request(prompt, **options))

    def submit(self, request: Request, arrival: float | None = None) -> Request:
        """Let a request wait, from now on or from an arrival that was due before, while a step ran. Raises ValueError, and leaves everything as it is, for one that cannot be served."""
        request.check(self.model.config.vocab_size)
        window = self.model.config.max_context
        if window and request.max_length > window:
            raise ValueError(
                f"request {request.request_id}: {len(request.prompt)} + {request.max_tokens} tokens exceed the window of {window}"
            )
        if request.stop and self.tokenizer is None:
            raise ValueError(f"request {request.request_id}: stop={list(request.stop)} needs an engine with a tokenizer")
        self.scheduler.add(request, self.clock() if arrival is None else arrival)
        if self.tokenizer is not None:
            if request.stop_ids is None and self.tokenizer.end_id is not None:
                request.stop_ids = frozenset([self.tokenizer.end_id])
            self._streams[request] = StreamDecoder(self.tokenizer)
        return request

    def abort(self, request: Request) -> None:
        """End a request now, whatever it is doing; what it has so far stays. Nothing happens to one that has ended."""
        self.scheduler.finish(request, "abort", self.clock())
        self._streams.pop(request, None)

    def step(self) -> list[Request]:
        """Run the model once; return the requests that got a token or ended with an error. Empty when idle."""
        begin = self.clock()
        # The cache wants requests of one count side by side; decodes have the smallest.
        chunks = sorted(self.scheduler.schedule(begin), key=lambda chunk: chunk.n)
        if not chunks:
            return []
        requests = [chunk.request for chunk in chunks]
        batch = self.cache.batch([r.block_table for r in requests], [c.start for c in chunks], [c.n for c in chunks])
        ids = [token for c in chunks for token in c.request.tokens[c.start : c.start + c.n]]
        sampling = [i for i, chunk in enumerate(chunks) if chunk.samples]
        logits = self.model(torch.tensor([ids], device=self.device), batch.positions, batch, batch.last[sampling])[0]
        tokens = self._sample([requests[i] for i in sampling], logits)
        now = self.clock()
        got = self.scheduler.update(chunks, [tokens.get(request) for request in requests], now, self._stops)
        got += [request for request in requests if request.finish_reason == "error"]
        for request in got:
            if request.status is Status.FINISHED and (stream := self._streams.pop(request, None)) is not None:
                request.text += stream.flush()
        self.scheduler.record(chunks, begin, now)
        return got

    def _sample(self, requests: list[Request], logits: Tensor) -> dict[Request, int]:
        """Return the next token of each; one whose logits or parameters fail ends with an error, and the others go on."""
        if not requests:
            return {}
        try:
            drawn = sample(logits, [r.sampler for r in requests], [r.tokens for r in requests])
            return dict(zip(requests, drawn.tolist(), strict=True))
        except ValueError as error:
            if len(requests) == 1:
                requests[0].error = str(error)
                self.scheduler.finish(requests[0], "error", self.clock())
                return {}
        return {request: token for i, r in enumerate(requests) for request, token in self._sample([r], logits[i : i + 1]).items()}

    def _stops(self, request: Request) -> bool:
        """Add the new token's text; return whether it completes a stop text, and cut the text there."""
        if request not in self._streams:
            return False
        request.text += self._streams[request].push(request.tokens[-1])
        found = [at for stop in request.stop if (at := request.text.find(stop)) >= 0]
        if found:
            request.text = request.text[: min(found)]
            del self._streams[request]
        return bool(found)

    def run(self) -> None:
        """Step until nothing waits and nothing runs."""
        while not self.scheduler.idle:
            self.step()

    def generate(self, prompts: Iterable[Sequence[int]], **options: Any) -> list[Request]:
        """Serve the prompts together, all with the same options of Request, and return the ended requests.

        One that cannot be served ends with finish_reason "error" and the reason in ``error``; the others go on.
        """
        requests = [Request(prompt, **options) for prompt in prompts]
        for request in requests:
            try:
                self.submit(request)
            except ValueError as error:
                request.fail(str(error))
        self.run()
        return requests

    def stream(self, request: Request) -> Iterator[int]:
        """Yield the tokens of a submitted request as they come; the others are served along. ValueError if it was not submitted."""
        if request.arrival is None and request.status is not Status.FINISHED:
            raise ValueError(f"request {request.request_id} has not been submitted: no step will ever serve it")
        given = 0
        while True:
            new = request.output[given:]
            yield from new
            given += len(new)
            if request.status is Status.FINISHED and given == len(request.output):
                return
            if request.status is not Status.FINISHED:
                self.step()

    def counters(self) -> dict[str, int]:
        """Return what was done so far: tokens through the model, found in the cache, computed twice; blocks; bytes."""
        pool, cache, scheduler = self.pool, self.cache, self.scheduler
        return {
            "steps": scheduler.steps, "model_tokens": scheduler.tokens, "preemptions": scheduler.preemptions,
            "blocks_in_use": pool.num_in_use, "peak_blocks": pool.peak, "evictions": pool.evictions,
            "prefix_queries": pool.queries * pool.block_size, "prefix_hits": pool.hits * pool.block_size,
            "bytes_copied": cache.bytes_copied, "bytes_gathered": cache.bytes_gathered,
        }
