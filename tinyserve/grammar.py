"""Which tokens a pattern allows: masks for structured output.

Method: Willard and Louf 2023, arXiv 2307.09702. A token is allowed in a state
of the pattern's automaton if its bytes lead to a state from which the pattern
can still be completed. Dead ends are gone from the automaton, so a masked
generation never gets stuck as long as every single byte is a token (true of
byte-level BPE).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tinyserve.automaton import Automaton, compile_pattern

__all__ = ["FINISHED", "Automaton", "TokenMasks", "compile_pattern"]

FINISHED = -1
"""The state after the end token: nothing is allowed any more."""


@dataclass
class TokenMasks:
    """Which tokens an automaton allows: tokens[id] are a token's bytes, end_id ends a text.

    Tokens without bytes (special ones) are never allowed, the end token only in an accepting state. Raises ValueError for an end_id outside the
    vocabulary. A mask is computed once per state, by walking a tree of all tokens together with the automaton.
    """

    automaton: Automaton
    tokens: Sequence[bytes]
    end_id: int
    built: int = 0
    """Masks computed so far: at most one per state, however many samples are drawn."""
    _tree: dict[Any, Any] = field(default_factory=dict, repr=False)
    _masks: dict[int, Tensor] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.end_id < len(self.tokens):
            raise ValueError(f"end_id={self.end_id} is outside the vocabulary of {len(self.tokens)} tokens")
        for token, data in enumerate(self.tokens):
            if token != self.end_id and data:
                node = self._tree
                for byte in data:
                    node = node.setdefault(byte, {})
                node.setdefault(None, []).append(token)

    def allowed(self, state: int) -> Tensor:
        """Return the mask of a state, bool [vocab]; raises ValueError after the end."""
        if not 0 <= state < len(self.automaton.next):
            raise ValueError(f"state={state} has no next token: the text is finished, or the state is none of the automaton's")
        if state not in self._masks:
            self.built += 1
            mask = torch.zeros(len(self.tokens), dtype=torch.bool)
            mask[self.end_id] = self.automaton.accepting[state]
            waiting = [(self._tree, state)]
            while waiting:
                node, at = waiting.pop()
                mask[node.get(None, [])] = True
                moves = self.automaton.next[at]
                waiting += [(node[byte], moves[byte]) for byte in node.keys() & moves.keys()]
            self._masks[state] = mask
        return self._masks[state]

    def advance(self, state: int, token: int) -> int:
        """Return the state after a token, FINISHED after the end token. Raises ValueError for a token that the state does not allow."""
        if not 0 <= token < len(self.tokens) or not self.allowed(state)[token]:
            raise ValueError(f"token={token} is not allowed in state {state} of {self.automaton.pattern!r}")
        if token == self.end_id:
            return FINISHED
        after = self.automaton.step(state, self.tokens[token])
        assert after is not None  # the mask said so
        return after
