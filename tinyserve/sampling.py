"""From logits to the next token: penalty, mask, temperature, three filters, and one random stream per request.

Logits are [..., vocab]; a row is one distribution. A filtered token has the logit
-inf. No function changes its input; a step that is off hands it back. Half
precision is computed, and comes out, in float32.

The order of the steps matters, and engines differ (ORDERS, read in their sources):

- transformers 5.24: temperature, then top-k, top-p, min-p. This is ORDER.
- vLLM (v1 sampler): min-p before top-k and top-p. Min-p commutes with top-k, but
  not with top-p, whose masses are those of the tokens still there.
- llama.cpp (default --samplers): temperature last, so that a high one does not
  widen what top-p and min-p keep. A grammar is tested on the drawn token first;
  logits are masked ("allowed") only where it refuses and a second draw is made.

Ties: transformers and vLLM's torch version keep every token tied with the k-th;
here exactly k stay. Of equal logits the lower id goes first, in every filter and
in greedy choice: greedy equals top_k = 1.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real

import torch
from torch import Tensor

ORDERS = {
    "transformers": ("repetition_penalty", "allowed", "temperature", "top_k", "top_p", "min_p"),
    "vllm": ("allowed", "repetition_penalty", "temperature", "min_p", "top_k", "top_p"),
    "llama.cpp": ("allowed", "repetition_penalty", "top_k", "top_p", "min_p", "temperature"),
}
ORDER = ORDERS["transformers"]
MIN_TEMPERATURE = 1e-5  # dividing by less may overflow; vLLM takes the argmax below it

UNUSABLE = "the logits have a NaN, a +inf, or nothing above -inf"

Seen = Tensor | Sequence[int] | Sequence[Sequence[int]]
"""Tokens that have occurred: a bool mask shaped like the logits, or their ids (for logits [rows, vocab] ids per row)."""

_RULES: dict[str, tuple[type, Callable, str]] = {
    "temperature": (Real, lambda t: t == 0 or MIN_TEMPERATURE <= t < math.inf, "0 (greedy) or finite and at least 1e-05"),
    "top_k": (Integral, lambda k: k >= 0, "a whole number of at least 0 (0: off)"),
    "top_p": (Real, lambda p: 0 < p <= 1, "a number above 0 and at most 1 (1: off)"),
    "min_p": (Real, lambda p: 0 <= p <= 1, "a number from 0 (off) to 1"),
    "repetition_penalty": (Real, lambda r: 0 < r < math.inf, "a finite number above 0 (1: off)"),
    # torch's CPU stream ignores the bits above 32: two seeds would be one
    "seed": (Integral, lambda s: 0 <= s < 2**32, "a whole number from 0 to 2**32 - 1"),
}


def _check(name: str, value: object) -> None:
    """Raise ValueError with the value and the rule unless value is what the parameter may be."""
    kind, good, rule = _RULES[name]
    if isinstance(value, bool) or not isinstance(value, kind) or not good(value):
        raise ValueError(f"{name}={value!r} is not {rule}")


@dataclass(frozen=True)
class SamplingParams:
    """How one request turns logits into tokens; the defaults draw from softmax(logits).

    temperature 0 is greedy: the largest logit, no randomness. top_k 0, top_p 1,
    min_p 0 and repetition_penalty 1 are off. With seed None every Sampler takes
    fresh entropy. Raises ValueError with value and rule.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if (name, value) != ("seed", None):
                _check(name, value)


def _wide(logits: Tensor) -> Tensor:
    """Return the logits in float32, or in float64 if they are; raise ValueError for what cannot be logits."""
    if logits.dim() < 1 or logits.shape[-1] < 1 or not logits.is_floating_point():
        raise ValueError(f"logits {list(logits.shape)} of {logits.dtype} are not floating point [..., vocab], vocab >= 1")
    return logits if logits.dtype == torch.float64 else logits.float()


def _check_rows(logits: Tensor, fault: str, rows: Sequence[int] | None) -> None:
    """Raise ValueError naming the first row (its entry in rows, if given) with NaN, +inf or nothing above -inf."""
    top = logits.amax(dim=-1).flatten()  # amax passes NaN on: one look finds all three
    if not top.isfinite().all():
        first = int((~top.isfinite()).nonzero()[0])
        raise ValueError(f"row {rows[first] if rows else first}: {fault} (largest logit: {top[first].item()})")


def seen_mask(seen: Seen | None, logits: Tensor) -> Tensor:
    """Return seen as a bool mask shaped like the logits; raise ValueError for None, and ids or shapes that do not fit."""
    if seen is None:
        raise ValueError("seen is None: a repetition penalty needs the tokens that have occurred")
    if isinstance(seen, Tensor) and seen.dtype == torch.bool:
        if seen.shape != logits.shape:
            raise ValueError(f"seen {list(seen.shape)} does not have the shape of the logits {list(logits.shape)}")
        return seen.to(logits.device)
    rows, vocab = [seen] if logits.dim() == 1 else seen, logits.shape[-1]
    if logits.dim() > 2 or len(rows) != logits[..., 0].numel():
        raise ValueError(f"seen has ids for {len(rows)} rows, the logits are {list(logits.shape)}")
    mask = torch.zeros(len(rows), vocab, dtype=torch.bool)
    for row, ids in enumerate(rows):
        ids = torch.as_tensor(ids, dtype=torch.long, device="cpu")
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < vocab:
            raise ValueError(f"seen has ids from {int(ids.min())} to {int(ids.max())}, outside 0 .. {vocab - 1}")
        mask[row, ids] = True
    return mask.view(logits.shape).to(logits.device)


def repetition_penalty(logits: Tensor, seen: Seen, penalty: float) -> Tensor:
    """Return logits with those of seen tokens divided by the penalty where positive, multiplied where negative.

    Once per token, however often it occurred. The result depends on where zero
    lies: the same constant added to all logits changes it. Keskar et al. 2019,
    arXiv 1909.05858, divide always, which would reward a negative logit;
    transformers (pull request 2303) and vLLM do as here.
    """
    _check("repetition_penalty", penalty)
    x = _wide(logits)
    return x if penalty == 1 else torch.where(seen_mask(seen, x), torch.where(x > 0, x / penalty, x * penalty), x)


def _check_mask(allowed: Tensor, logits: Tensor) -> None:
    """Raise ValueError unless allowed is a bool mask [vocab] or shaped like the logits."""
    if allowed.dtype != torch.bool or allowed.shape not in (logits.shape, logits.shape[-1:]):
        raise ValueError(f"allowed {list(allowed.shape)} of {allowed.dtype} is not a bool mask [vocab] or {list(logits.shape)}")


def allow(logits: Tensor, allowed: Tensor, rows: Sequence[int] | None = None) -> Tensor:
    """Return logits with -inf where the bool mask `allowed`, [vocab] or shaped like the logits, is False.

    Raises ValueError for another dtype or shape, and where no token of a row is
    left; the row is named by its entry in rows, if given.
    """
    x = _wide(logits)
    _check_mask(allowed, x)
    x = x.masked_fill(~allowed.to(x.device), -math.inf)
    _check_rows(x, "allowed leaves no token that could be drawn", rows)
    return x


def temperature(logits: Tensor, t: float) -> Tensor:
    """Return logits / t. ValueError for t = 0, which is an argmax and no division."""
    _check("temperature", t)
    if t == 0:
        raise ValueError("temperature=0 is greedy: take the argmax, there is nothing to divide by")
    return _wide(logits) / t


def top_k(logits: Tensor, k: int) -> Tensor:
    """Keep exactly the k largest logits (of equal ones the lower ids); k = 0 or k >= vocab keeps all.

    Fan et al. 2018, arXiv 1805.04833.
    """
    _check("top_k", k)
    x = _wide(logits)
    if k == 0 or k >= x.shape[-1]:
        return x
    kth = x.topk(k, dim=-1).values[..., -1:]
    above, tied = x > kth, x == kth
    room = k - above.sum(dim=-1, keepdim=True)
    return x.masked_fill(~(above | tied & (tied.cumsum(dim=-1) <= room)), -math.inf)


def top_p(logits: Tensor, p: float) -> Tensor:
    """Keep the smallest set of most probable tokens whose mass reaches p, at least one; p = 1 keeps all.

    A token stays if the mass of those before it, summed in float64, is below p.
    Holtzman et al. 2019, arXiv 1904.09751 ("nucleus").
    """
    _check("top_p", p)
    x = _wide(logits)
    if p == 1:
        return x
    ranked = x.sort(dim=-1, descending=True, stable=True)  # stable: of equal logits the lower id comes first
    mass = ranked.values.softmax(dim=-1, dtype=torch.float64)
    remove = mass.cumsum(dim=-1) - mass >= p
    return x.masked_fill(remove.scatter(-1, ranked.indices, remove), -math.inf)


def min_p(logits: Tensor, p: float) -> Tensor:
    """Keep the tokens at least p times as probable as the most probable one; p = 0 keeps all.

    That is, at most -log p below the largest logit. Nguyen et al. 2024, arXiv 2407.01082.
    """
    _check("min_p", p)
    x = _wide(logits)
    return x if p == 0 else x.masked_fill(x < x.amax(dim=-1, keepdim=True) + math.log(p), -math.inf)


def filtered_logits(
    logits: Tensor, params: SamplingParams, seen: Seen | None = None, allowed: Tensor | None = None,
    order: Sequence[str] = ORDER, rows: Sequence[int] | None = None,
) -> Tensor:
    """Return logits [..., vocab] after all six steps in the given order; temperature 0 skips the division.

    Raises ValueError for a row with NaN, +inf or nothing above -inf, before or after the steps (rows: numbers
    to name the rows by); for a penalty without seen; and for an order that does not name every step once.
    """
    if sorted(order) != sorted(ORDER):
        known = ", ".join(f"ORDERS[{name!r}]" for name in ORDERS)
        raise ValueError(f"order={order!r} does not name each of {', '.join(ORDER)} once, as {known} do")
    steps = {
        "repetition_penalty": lambda x: repetition_penalty(x, seen, params.repetition_penalty),
        "allowed": lambda x: x if allowed is None else allow(x, allowed, rows),
        "temperature": lambda x: temperature(x, params.temperature) if params.temperature > 0 else x,
        "top_k": lambda x: top_k(x, params.top_k),
        "top_p": lambda x: top_p(x, params.top_p),
        "min_p": lambda x: min_p(x, params.min_p),
    }
    x = given = _wide(logits)
    _check_rows(x, UNUSABLE, rows)
    for step in order:
        x = steps[step](x)
    if x is not given:
        _check_rows(x, "penalty or temperature took the logits out of range", rows)
    return x


def probabilities(
    logits: Tensor, params: SamplingParams, seen: Seen | None = None, allowed: Tensor | None = None,
    order: Sequence[str] = ORDER,
) -> Tensor:
    """Return the distribution [..., vocab] that the next token is drawn from; one-hot if greedy. Errors as filtered_logits."""
    x = filtered_logits(logits, params, seen, allowed, order)
    if params.temperature == 0:
        return torch.zeros_like(x).scatter_(-1, x.argmax(dim=-1, keepdim=True), 1.0)
    return x.softmax(dim=-1)


def draw(probs: Tensor, u: Tensor) -> Tensor:
    """Return the first token whose cumulative probability exceeds u: [..., vocab] and u [...] in [0, 1) -> [...].

    Probabilities need not sum to exactly 1. A token of probability 0 is never drawn.
    """
    # A GPU sums in parallel, and a token of probability 0 may get a little more than the one before: 0 exceeds nothing.
    cumulative = probs.double().cumsum(dim=-1).masked_fill(probs == 0, 0)
    total = cumulative.amax(dim=-1, keepdim=True)
    target = u.to(total).unsqueeze(-1) * total  # below total: u is at most 1 - 2**-53
    return (cumulative > target).int().argmax(dim=-1)


class Sampler:
    """One request's way of choosing: parameters and a random stream of its own.

    A drawn token takes one number of the stream, a greedy one none: tokens depend on
    logits and seed, not on the batch. The stream is on the CPU, so that a seed means
    the same numbers on every device. `seed` is the one in use, fresh or given.
    """

    def __init__(self, params: SamplingParams) -> None:
        self.params = params
        self.steps = replace(params, seed=None)  # rows that agree in this are filtered together
        self.seed = secrets.randbits(32) if params.seed is None else int(params.seed)
        self.generator = torch.Generator().manual_seed(self.seed)

    def uniform(self) -> Tensor:
        """Return the next number of the stream: float64, in [0, 1)."""
        return torch.rand((), generator=self.generator, dtype=torch.float64)

    def __call__(
        self, logits: Tensor, seen: Seen | None = None, allowed: Tensor | None = None, order: Sequence[str] = ORDER
    ) -> int:
        """Return the next token for logits [vocab]; arguments as in probabilities."""
        return int(sample(logits[None], [self], None if seen is None else [seen], allowed, order))


def _greedy(logits: Tensor) -> Tensor:
    """Return the argmax of every row [rows, vocab]: no filter changes it. Errors as filtered_logits."""
    x = _wide(logits)
    if x.device.type == "cpu":  # numpy's argmax takes a fraction of torch's time there; to both a NaN is the largest
        array = x.detach().numpy()
        found = array.argmax(axis=-1).tolist()
        top, tokens = [array.item(row, token) for row, token in enumerate(found)], torch.tensor(found, dtype=torch.long)
    else:
        values, tokens = x.max(dim=-1)
        top = values.tolist()
    if not all(map(math.isfinite, top)):
        _check_rows(x, UNUSABLE, None)
    return tokens


def sample(
    logits: Tensor, samplers: Sequence[Sampler], seen: Sequence[Seen | None] | Tensor | None = None,
    allowed: Tensor | None = None, order: Sequence[str] = ORDER,
) -> Tensor:
    """Return the next token of every row: logits [rows, vocab] and one Sampler a row -> long [rows].

    seen: ids per row (None where nothing is penalized) or a bool mask [rows, vocab];
    allowed: bool [vocab] or [rows, vocab]. Raises ValueError as filtered_logits, and
    for lengths that differ, before any stream moves: you can call again without the
    row that is named.
    """
    n_seen = len(samplers) if seen is None else len(seen)
    if logits.dim() != 2 or not len(logits) == len(samplers) == n_seen:
        raise ValueError(f"logits {list(logits.shape)}, {len(samplers)} samplers, seen for {n_seen} rows: not one of each per row")
    if allowed is not None:
        _check_mask(allowed, logits)  # before rows are taken from it: one row too many would go unnoticed
    elif order == ORDER and all(s.params.temperature == 0 and s.params.repetition_penalty == 1 for s in samplers):
        return _greedy(logits)
    groups: dict[SamplingParams, list[int]] = {}
    for row, sampler in enumerate(samplers):
        groups.setdefault(sampler.steps, []).append(row)
    x = torch.empty_like(_wide(logits))
    for params, rows in groups.items():
        alike = len(rows) == len(logits)  # all rows: none need be picked out and copied
        penalized = params.repetition_penalty != 1 and seen is not None
        seen_rows = torch.stack([seen_mask(seen[row], logits[row]) for row in rows]) if penalized else None
        allowed_rows = allowed[rows] if allowed is not None and allowed.dim() == 2 else allowed
        found = filtered_logits(logits if alike else logits[rows], params, seen_rows, allowed_rows, order, rows)
        if alike:
            x = found
        else:
            x[rows] = found
    tokens = x.argmax(dim=-1)
    drawn = [row for row, sampler in enumerate(samplers) if sampler.params.temperature > 0]
    if drawn:
        tokens[drawn] = draw(x[drawn].softmax(dim=-1), torch.stack([samplers[row].uniform() for row in drawn]))
    return tokens
