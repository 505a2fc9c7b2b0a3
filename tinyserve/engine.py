"""The serving engine: requests in, tokens out, one step of the model at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .block_pool import BlockPool
from .drafting import BatchDrafter, Guess
from .kv_cache import PagedCache
from .model import Decoder
from .request import Request, Status
from .sampling import sample
from .scheduler import Chunk, Scheduler
from .speculative import accept, laws
from .tokenizer import StreamDecoder, Tokenizer

NONE: Guess = ([], None)


class Engine:
    """Continuous batching over a paged cache, with chunked prefill, prefix caching and preemption.

    The model runs once a step, over the new tokens of all requests in it. ``num_blocks``
    blocks of ``block_size`` tokens are allocated at once. With a tokenizer, requests
    have a text (without the token that stopped them), stop texts work, and its end of sequence
    stops a request that names no stop_ids. With a drafter, requests may ask for draft tokens.
    Raises ValueError for a limit below 1.
    """

    def __init__(
        self, model: Decoder, num_blocks: int, block_size: int = 16, max_num_seqs: int = 16,
        max_num_batched_tokens: int = 256, prefix_caching: bool = True, chunked: bool = True,
        tokenizer: Tokenizer | None = None, clock: Callable[[], float] = time.perf_counter,
        trace: list[dict[str, Any]] | None = None, drafter: BatchDrafter | None = None,
    ) -> None:
        weight = next(model.parameters())
        self.model, self.tokenizer, self.clock, self.device = model, tokenizer, clock, weight.device
        self.pool = BlockPool(num_blocks, block_size, prefix_caching)
        self.scheduler = Scheduler(self.pool, max_num_seqs, max_num_batched_tokens, chunked, trace)
        self.cache = PagedCache(model.config, num_blocks, block_size, weight.device, weight.dtype)
        self.drafter, self.drafted, self.accepted = drafter, 0, 0
        self._streams: dict[Request, StreamDecoder] = {}

    def add(self, prompt: Sequence[int], **options: Any) -> Request:
        """Submit a request with the given options of Request, and return it."""
        return self.submit(Request(prompt, **options))

    def submit(self, request: Request, arrival: float | None = None) -> Request:
        """Let a request wait, from now on or from an arrival that was due before, while a step ran.

        Raises ValueError, and leaves everything as it is, for one that cannot be served.
        """
        request.check(self.model.config.vocab_size)
        window = self.model.config.max_context
        if window and request.max_length > window:
            raise ValueError(
                f"request {request.request_id}: {len(request.prompt)} + {request.max_tokens} tokens exceed the window of {window}"
            )
        if request.num_draft_tokens and self.drafter is None:
            raise ValueError(f"request {request.request_id}: num_draft_tokens={request.num_draft_tokens} needs an engine with a drafter")
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
        chunks, guesses = self._draft(self.scheduler.schedule(begin))
        if not chunks:
            return []
        chunks.sort(key=lambda chunk: chunk.n)  # the cache wants requests of one count side by side
        requests = [chunk.request for chunk in chunks]
        batch = self.cache.batch([r.block_table for r in requests], [c.start for c in chunks], [c.n for c in chunks])
        ids = [token for c in chunks for token in [*c.request.tokens[c.start : c.start + c.n], *guesses.get(c.request, NONE)[0]]]
        wanted = [place for c, end in zip(chunks, batch.last, strict=True) if c.samples for place in range(end - c.drafts, end + 1)]
        rows = "all" if len(wanted) == len(ids) else torch.tensor(wanted, dtype=torch.long, device=self.device)
        logits = self.model(torch.tensor([ids], device=self.device), batch.positions, batch, rows)[0]
        tokens = self._choose(chunks, guesses, logits)
        now = self.clock()
        got = self.scheduler.update(chunks, [tokens.get(request, ()) for request in requests], now, self._stops)
        got += [request for request in requests if request.finish_reason == "error"]
        for request in got:
            if request.status is Status.FINISHED and (stream := self._streams.pop(request, None)) is not None:
                request.text += stream.flush()
        self.scheduler.record(chunks, begin, now)
        return got

    def _draft(self, chunks: list[Chunk]) -> tuple[list[Chunk], dict[Request, Guess]]:
        """Return the chunks with as many drafts as were guessed, and each request's guess."""
        wanted = [(chunk.request, chunk.drafts) for chunk in chunks if chunk.drafts]
        if not wanted:
            return chunks, {}
        guesses = self.drafter.propose(wanted)
        found = []
        for chunk in chunks:
            drafts = len(guesses.get(chunk.request, NONE)[0])
            chunk.request.num_drafted_tokens += drafts
            self.drafted += drafts
            found.append(replace(chunk, n=chunk.n - chunk.drafts + drafts, drafts=drafts))
        return found, guesses

    def _choose(self, chunks: list[Chunk], guesses: dict[Request, Guess], logits: Tensor) -> dict[Request, list[int]]:
        """Return the new tokens of each request that samples; logits [rows, vocab], drafts + 1 rows for each."""
        plain, rows, found, row = [], [], {}, 0
        for chunk in chunks:
            if chunk.drafts:
                found |= self._verify(chunk.request, *guesses[chunk.request], logits[row : row + chunk.drafts + 1])
            elif chunk.samples:
                plain.append(chunk.request)
                rows.append(row)
            row += chunk.drafts + 1 if chunk.samples else 0
        drawn = self._sample(plain, logits if len(rows) == len(logits) else logits[rows])
        return found | {request: [token] for request, token in drawn.items()}

    def _verify(self, request: Request, drafted: list[int], q: Tensor | None, logits: Tensor) -> dict[Request, list[int]]:
        """Return the drafted tokens that stay and the one behind them; an error ends the request."""
        try:
            p = laws(logits, request.sampling, request.tokens, drafted)
            uniforms = torch.stack([request.sampler.uniform() for _ in range(len(drafted) + 1)])
            kept, token = accept(torch.tensor([drafted], device=p.device), p[None], None if q is None else q[None], uniforms[None])
        except ValueError as error:
            return self._fail(request, error)
        request.num_accepted_tokens += int(kept)
        self.accepted += int(kept)
        return {request: [*drafted[: int(kept)], int(token)]}

    def _fail(self, request: Request, error: ValueError) -> dict[Request, Any]:
        """End a request with an error; it gets no token."""
        request.error = str(error)
        self.scheduler.finish(request, "error", self.clock())
        return {}

    def _sample(self, requests: list[Request], logits: Tensor) -> dict[Request, int]:
        """Return the next token of each; one whose logits or parameters fail ends with an error, and the others go on."""
        if not requests:
            return {}
        try:
            drawn = sample(logits, [r.sampler for r in requests], [r.tokens for r in requests])
            return dict(zip(requests, drawn.tolist(), strict=True))
        except ValueError as error:
            if len(requests) == 1:
                return self._fail(requests[0], error)
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
        """Return what was done so far: tokens through the model and found in the cache; preemptions, guesses; blocks; bytes."""
        pool, cache, scheduler = self.pool, self.cache, self.scheduler
        return {
            "steps": scheduler.steps, "model_tokens": scheduler.tokens, "preemptions": scheduler.preemptions,
            "blocks_in_use": pool.num_in_use, "peak_blocks": pool.peak, "evictions": pool.evictions,
            "prefix_queries": pool.queries * pool.block_size, "prefix_hits": pool.hits * pool.block_size,
            "drafted": self.drafted, "accepted": self.accepted,
            "bytes_copied": cache.bytes_copied, "bytes_gathered": cache.bytes_gathered,
        }
