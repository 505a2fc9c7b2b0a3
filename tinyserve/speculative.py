"""Speculative decoding: a draft guesses several tokens, one pass of the target judges them all, and the target's law holds.

p is the law of the target, q that of the draft, each after temperature and filters
(sampling.probabilities). A token x that was drawn from q stays with probability
min(1, p(x) / q(x)); one that goes is replaced by a draw from the residual
max(0, p - q), scaled to 1. What comes out is distributed as p, whatever q is, as long
as x was drawn from that very q (Leviathan, Kalman and Matias 2022, arXiv 2211.17192,
appendix A.1; Chen et al. 2023, arXiv 2302.01318). Greedy decoding is the
case in which p and q are 0 and 1.

The contract about rewinding, for every cache and every draft: before a pass a cache
holds a beginning of the sequence and never its last token. A pass over the rest and
the drafted tokens holds more than that where one of them is rejected; truncate takes
it back. A draft that was told of rejected tokens forgets them by its own truncate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from .kv_cache import ContiguousCache
from .model import Decoder
from .sampling import Sampler, SamplingParams, draw, probabilities


def acceptance(p: Tensor, q: Tensor) -> Tensor:
    """Return the probability that a token drawn from q is accepted: p, q [..., vocab] -> the sum of min(p, q), [...]."""
    if p.shape != q.shape:
        raise ValueError(f"p {list(p.shape)} and q {list(q.shape)} differ in shape")
    return torch.minimum(p, q).sum(dim=-1)


class Verdict(NamedTuple):
    """Of each row: how many drafted tokens stay, and the one token that comes behind them. Both long [b]."""

    accepted: Tensor
    token: Tensor


def _check(drafted: Tensor, p: Tensor, q: Tensor | None, uniforms: Tensor, lengths: Tensor | None) -> None:
    """Raise ValueError with shape and rule unless the arguments of accept fit together."""
    if drafted.dim() != 2 or p.dim() != 3:
        raise ValueError(f"drafted {list(drafted.shape)} and p {list(p.shape)} are not [b, gamma] and [b, gamma + 1, vocab]")
    (b, gamma), vocab = drafted.shape, p.shape[-1]
    wanted = {"p": (p, (b, gamma + 1, vocab)), "q": (q, (b, gamma, vocab)), "uniforms": (uniforms, (b, gamma + 1)), "lengths": (lengths, (b,))}
    for name, (tensor, shape) in wanted.items():
        if tensor is not None and tuple(tensor.shape) != shape:
            raise ValueError(f"{name} has shape {list(tensor.shape)}; {list(shape)} fits drafted {[b, gamma]} and p {list(p.shape)}")
    if lengths is not None and b and not 0 <= int(lengths.min()) <= int(lengths.max()) <= gamma:
        raise ValueError(f"lengths={lengths.tolist()} are not all between 0 and gamma={gamma}")


def accept(drafted: Tensor, p: Tensor, q: Tensor | None, uniforms: Tensor, lengths: Tensor | None = None) -> Verdict:
    """Judge the drafted tokens of every row: those before the first rejection stay, one token more comes behind them.

    drafted [b, gamma]: token ids, token i drawn from q[:, i]. p [b, gamma + 1, vocab]: p[:, i]
    is the target's law behind i drafted tokens. q [b, gamma, vocab], or None for a draft
    that has no law, an n-gram: its token counts as certain, so it stays with probability
    p(x). uniforms [b, gamma + 1] in [0, 1): number i decides about token i, the last one
    draws from the residual or, where all stay, from p. lengths [b]: how many of a row's
    drafted tokens count, all by default; 0 is a row that does not speculate.
    Computed in float64. Raises ValueError for shapes that do not fit, lengths out of
    range, and a drafted token to which q gives no probability.
    """
    _check(drafted, p, q, uniforms, lengths)
    b, gamma = drafted.shape
    rows, places = torch.arange(b, device=p.device), torch.arange(gamma, device=p.device)
    p, u = p.double(), uniforms.to(p.device).double()
    counts = torch.full((b,), gamma, device=p.device) if lengths is None else lengths.to(p.device)
    wanted = p[:, :gamma].gather(-1, drafted[..., None])[..., 0]  # p of each drafted token, [b, gamma]
    judged = places < counts[:, None]
    offered = torch.ones_like(wanted) if q is None else q.double().gather(-1, drafted[..., None])[..., 0]
    if bool((judged & (offered <= 0)).any()):
        row, place = (judged & (offered <= 0)).nonzero()[0].tolist()
        raise ValueError(f"row {row}, place {place}: q gives drafted token {int(drafted[row, place])} no probability, so it was not drawn from q")
    stays = judged & (u[:, :gamma] * offered < wanted)
    accepted = stays.long().cumprod(dim=-1).sum(dim=-1)
    law = p[rows, accepted]
    if gamma:
        place = accepted.clamp(max=gamma - 1)
        taken = torch.zeros_like(law).scatter_(-1, drafted[rows, place][:, None], 1.0) if q is None else q.double()[rows, place]
        residual = (law - taken).clamp(min=0)
        # A residual of nothing but zeros is rounding: p and q are equal there, and p is what remains.
        law = torch.where(((accepted < counts) & (residual.sum(dim=-1) > 0))[:, None], residual, law)
    return Verdict(accepted, draw(law, u[:, -1]))


def ngram_draft(ids: Sequence[int], gamma: int, longest: int = 3, shortest: int = 1) -> list[int]:
    """Return up to gamma tokens that followed the last tokens of ids where they stood before; [] where they never did.

    The last n tokens are looked up, n from longest to shortest; of their earlier places the
    last one with gamma tokens behind it counts, or else the first. A scan of ids for each
    n. Prompt lookup, as in transformers (prompt_lookup_num_tokens) and vLLM (ngram).
    Raises ValueError unless gamma >= 0 and longest >= shortest >= 1.
    """
    if gamma < 0 or not 1 <= shortest <= longest:
        raise ValueError(f"gamma={gamma}, shortest={shortest}, longest={longest}: not gamma >= 0 and 1 <= shortest <= longest")
    ids = list(ids)
    for n in range(min(longest, len(ids) - 1), shortest - 1, -1):
        end = ids[-n:]
        found = [start + n for start in range(len(ids) - n) if ids[start : start + n] == end]
        if found:
            place = next((place for place in reversed(found) if place + gamma <= len(ids)), found[0])
            return ids[place : place + gamma]
    return []


class Drafter(Protocol):
    """Whatever can guess: a smaller model, a lookup."""

    def propose(self, ids: list[int], gamma: int) -> tuple[list[int], Tensor | None]:
        """Return at most gamma tokens behind ids and their laws q [tokens, vocab], None for a draft without a law."""

    def truncate(self, length: int) -> None:
        """Forget whatever was taken up behind the first length tokens of the sequence."""


class NGramDrafter:
    """Prompt lookup: no model, no cache, no law."""

    def __init__(self, longest: int = 3, shortest: int = 1) -> None:
        self.longest, self.shortest = longest, shortest

    def propose(self, ids: list[int], gamma: int) -> tuple[list[int], Tensor | None]:
        """Return what ngram_draft finds, and None."""
        return ngram_draft(ids, gamma, self.longest, self.shortest), None

    def truncate(self, length: int) -> None:
        """Nothing was taken up."""


def laws(logits: Tensor, params: SamplingParams, ids: list[int], drafted: list[int]) -> Tensor:
    """Return the laws [n, vocab] of logits [n, vocab], row i standing behind ids and the first drafted tokens: the last row behind all."""
    seen = None
    if params.repetition_penalty != 1:
        first = len(drafted) - len(logits) + 1
        seen = [ids + drafted[: first + row] for row in range(len(logits))]
    return probabilities(logits, params, seen)


class ModelDrafter:
    """A smaller decoder with a cache of its own, which draws by the same parameters as the target.

    uniform: returns the next random number, a float64 in [0, 1). The cache holds max_tokens.
    """

    def __init__(self, model: Decoder, params: SamplingParams, uniform: Callable[[], Tensor], max_tokens: int) -> None:
        weight = model.embedding.weight
        self.model, self.params, self.uniform, self.device = model, params, uniform, weight.device
        self.cache = ContiguousCache(model.config, 1, max_tokens, device=str(weight.device), dtype=weight.dtype)

    def propose(self, ids: list[int], gamma: int) -> tuple[list[int], Tensor | None]:
        """Run what the cache lacks of ids, then each drawn token but the last: gamma passes, gamma tokens and their laws."""
        drafted: list[int] = []
        found = []
        new = ids[self.cache.length :]
        for _ in range(gamma):
            logits = self.model(torch.tensor([new], device=self.device), cache=self.cache)[0]
            found.append(laws(logits, self.params, ids, drafted))
            drafted.append(int(draw(found[-1], self.uniform()[None])[0]))
            new = drafted[-1:]
        return drafted, torch.cat(found) if found else None

    def truncate(self, length: int) -> None:
        """Hold at most length tokens. Where all drafted tokens stayed it holds one less: the last one never ran."""
        self.cache.truncate(min(length, self.cache.length))


@dataclass
class Speculated:
    """An answer and what it took. passes: runs of the target, the prompt's included; rounds: those that judged or could have.

    Of `drafted` tokens `judged` were looked at, the rest stood behind a rejected one; `accepted` stayed.
    """

    tokens: list[int] = field(default_factory=list)
    passes: int = 0
    rounds: int = 0
    drafted: int = 0
    judged: int = 0
    accepted: int = 0

    @property
    def alpha(self) -> float:
        """Accepted over judged tokens, an estimate of the formulas' alpha; engines often report accepted over drafted, which is less."""
        return self.accepted / self.judged if self.judged else 0.0

    @property
    def tokens_per_round(self) -> float:
        """1 and the accepted tokens of a round, on average."""
        return 1 + self.accepted / self.rounds if self.rounds else 0.0


def generate(
    target: Decoder, draft: Decoder | Drafter, prompt: Sequence[int], gamma: int, max_tokens: int = 16,
    sampling: SamplingParams | None = None, stop_ids: Sequence[int] = (),
) -> Speculated:
    """Answer a prompt with draft and verify, one sequence on contiguous caches; greedy without sampling.

    The prompt's pass draws the first token; each round then runs the last token and up to
    gamma drafted ones. Ends after max_tokens, or behind the first of stop_ids, which is
    kept. Greedy tokens are those of plain decoding; sampled ones have the same law, but
    are not the same for one seed, since the numbers serve other purposes. Raises
    ValueError for an empty prompt, gamma below 0, max_tokens below 1, and a draft model
    with another vocabulary.
    """
    if not prompt or gamma < 0 or max_tokens < 1:
        raise ValueError(f"prompt of {len(prompt)} tokens, gamma={gamma}, max_tokens={max_tokens}: not at least 1, 0 and 1")
    params, room = sampling or SamplingParams(temperature=0), len(prompt) + max_tokens
    sampler, weight = Sampler(params), target.embedding.weight
    if isinstance(draft, Decoder):
        if draft.config.vocab_size != target.config.vocab_size:
            raise ValueError(f"the draft has {draft.config.vocab_size} tokens, the target {target.config.vocab_size}: their laws cannot be compared")
        draft = ModelDrafter(draft, params, sampler.uniform, room)
    cache = ContiguousCache(target.config, 1, room, device=str(weight.device), dtype=weight.dtype)
    ids, found = list(prompt), Speculated(passes=1)
    law = laws(target(torch.tensor([ids], device=weight.device), cache=cache)[0], params, ids, [])
    emitted = [int(draw(law, sampler.uniform()[None])[0])]
    while True:
        for token in emitted:
            ids.append(token)
            found.tokens.append(token)
            if token in stop_ids or len(found.tokens) == max_tokens:
                return found
        cache.truncate(min(cache.length, len(ids) - 1))
        draft.truncate(len(ids) - 1)
        emitted = _round(target, draft, cache, ids, min(gamma, max_tokens - len(found.tokens) - 1), sampler, found)


def _round(target: Decoder, draft: Drafter, cache: ContiguousCache, ids: list[int], gamma: int, sampler: Sampler, found: Speculated) -> list[int]:
    """Draft, run, judge; count; return the tokens of this round. The caches hold more than they may until they are truncated."""
    drafted, q = draft.propose(ids, gamma)
    logits = target(torch.tensor([ids[cache.length :] + drafted], device=cache.k.device), cache=cache, logits="all")[0]
    p = laws(logits[-len(drafted) - 1 :], sampler.params, ids, drafted)
    uniforms = torch.stack([sampler.uniform() for _ in range(len(drafted) + 1)])
    tokens = torch.tensor([drafted], dtype=torch.long, device=p.device)
    verdict = accept(tokens, p[None], None if q is None else q[None].to(p.device), uniforms[None])
    kept = int(verdict.accepted)
    found.passes, found.rounds = found.passes + 1, found.rounds + 1
    found.drafted, found.accepted, found.judged = found.drafted + len(drafted), found.accepted + kept, found.judged + min(kept + 1, len(drafted))
    return drafted[:kept] + [int(verdict.token)]
