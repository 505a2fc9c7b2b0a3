"""A regular expression as a deterministic automaton over UTF-8 bytes.

Thompson's construction, then the subset construction; states from which the
pattern can no longer be completed are removed. ``tinyserve.grammar`` turns the
automaton into masks over tokens.

Patterns: literals, ``|``, ``( )``, ``* + ? {m} {m,} {m,n}``, classes like
``[a-z_]``, ``\\d`` for a digit, ``\\n`` and ``\\t``, a backslash before a sign.
``.`` and ``[^…]`` mean printable ASCII only, so that what they match is text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

PRINTABLE = frozenset(range(0x20, 0x7F))
MOST_REPEATS = 256
_CONTROLS = {"n": "\n", "t": "\t"}


class _Parser:
    """Recursive descent: a pattern becomes ("set", bytes), ("cat", parts), ("alt", parts) or ("repeat", part, low, high)."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at = pattern, 0

    def fail(self, rule: str) -> ValueError:
        return ValueError(f"pattern={self.pattern!r}, position {self.at}: {rule}")

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def take(self) -> str:
        if self.at >= len(self.pattern):
            raise self.fail("ends too early")
        self.at += 1
        return self.pattern[self.at - 1]

    def parse(self) -> tuple[Any, ...]:
        node = self.alternatives()
        if self.peek():
            raise self.fail("a ) without its (")
        return node

    def alternatives(self) -> tuple[Any, ...]:
        parts = [self.sequence()]
        while self.peek() == "|":
            self.take()
            parts.append(self.sequence())
        return ("alt", parts)

    def sequence(self) -> tuple[Any, ...]:
        parts = []
        while self.peek() and self.peek() not in "|)":
            parts.append(self.repeated(self.atom()))
        return ("cat", parts)

    def atom(self) -> tuple[Any, ...]:
        sign = self.take()
        if sign == "(":
            node = self.alternatives()
            if self.peek() != ")":
                raise self.fail("a ( without its )")
            self.take()
            return node
        if sign == "[":
            return ("set", self.members())
        if sign == ".":
            return ("set", PRINTABLE)
        if sign in "*+?{}]":
            raise self.fail(f"{sign} has nothing before it; write \\{sign} for the sign itself")
        return self.escape() if sign == "\\" else _literal(sign)

    def escape(self) -> tuple[Any, ...]:
        sign = self.take()
        if sign == "d":
            return ("set", frozenset(b"0123456789"))
        if sign.isalnum() and sign not in _CONTROLS:
            raise self.fail(f"\\{sign} is not one of \\d, \\n, \\t or a backslash before a sign")
        return _literal(_CONTROLS.get(sign, sign))

    def members(self) -> frozenset[int]:
        negated, found = self.peek() == "^", set()
        if negated:
            self.take()
        while self.peek() != "]" or not (found or negated):
            first = self.member()
            if self.peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
                self.take()
                last = self.member()
                if max(last) < min(first):
                    raise self.fail(f"the range {chr(min(first))}-{chr(max(last))} runs backwards")
                first = frozenset(range(min(first), max(last) + 1))
            found |= first
        self.take()
        return PRINTABLE - found if negated else frozenset(found)

    def member(self) -> frozenset[int]:
        sign = self.take()
        if not sign.isascii():
            raise self.fail(f"{sign!r} in a class: classes hold ASCII only, write ({sign}|…)")
        node = self.escape() if sign == "\\" else _literal(sign)
        return node[1]

    def repeated(self, node: tuple[Any, ...]) -> tuple[Any, ...]:
        while self.peek() and self.peek() in "*+?{":
            sign = self.take()
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign) or self.bounds()
            node = ("repeat", node, low, high)
        return node

    def bounds(self) -> tuple[int, int | None]:
        end = self.pattern.find("}", self.at)
        low, comma, high = self.pattern[self.at : max(end, self.at)].partition(",")
        if end < 0 or not low.isdecimal() or (high and not high.isdecimal()):
            raise self.fail("write {m}, {m,} or {m,n} with whole numbers")
        self.at = end + 1
        most = int(high) if high else None if comma else int(low)
        if max(int(low), most or 0) > MOST_REPEATS or (most is not None and most < int(low)):
            raise self.fail(f"{{{low}{comma}{high}}} must rise and stay within {MOST_REPEATS}")
        return int(low), most


def _literal(sign: str) -> tuple[Any, ...]:
    """One character; outside ASCII a sequence of its UTF-8 bytes."""
    parts = [("set", frozenset([byte])) for byte in sign.encode("utf-8")]
    return parts[0] if len(parts) == 1 else ("cat", parts)


class _Nfa:
    """Thompson's construction: edges[state] lists (bytes or None for a free move, target)."""

    def __init__(self) -> None:
        self.edges: list[list[tuple[frozenset[int] | None, int]]] = []

    def state(self) -> int:
        self.edges.append([])
        return len(self.edges) - 1

    def add(self, node: tuple[Any, ...], start: int) -> int:
        """Add the node's states after start; return the state in which it has matched."""
        kind = node[0]
        if kind == "set":
            end = self.state()
            self.edges[start].append((node[1], end))
            return end
        if kind == "cat":
            for part in node[1]:
                start = self.add(part, start)
            return start
        if kind == "alt":
            ends = [self.add(part, start) for part in node[1]]
            return self.join(ends)
        _, part, low, high = node
        for _ in range(low):
            start = self.add(part, start)
        if high is None:
            loop = self.join([start])
            self.edges[self.add(part, loop)].append((None, loop))
            return self.join([loop])
        exits = [start]
        for _ in range(high - low):
            exits.append(self.add(part, exits[-1]))
        return self.join(exits)

    def join(self, ends: list[int]) -> int:
        end = self.state()
        for state in ends:
            self.edges[state].append((None, end))
        return end

    def closure(self, states: Iterable[int]) -> frozenset[int]:
        """The states and all that free moves reach from them."""
        found, waiting = set(states), list(states)
        while waiting:
            for label, target in self.edges[waiting.pop()]:
                if label is None and target not in found:
                    found.add(target)
                    waiting.append(target)
        return frozenset(found)


@dataclass(frozen=True)
class Automaton:
    """A deterministic automaton over bytes: next[state][byte] is a state, and state 0 the start. Every state can reach an accepting one."""

    pattern: str
    next: tuple[dict[int, int], ...]
    accepting: tuple[bool, ...]

    def step(self, state: int, data: bytes) -> int | None:
        """Return the state after reading data, or None where the pattern can no longer match."""
        for byte in data:
            moves = self.next[state]
            if byte not in moves:
                return None
            state = moves[byte]
        return state

    def matches(self, data: bytes) -> bool:
        """Tell whether data as a whole matches the pattern."""
        state = self.step(0, data)
        return state is not None and self.accepting[state]


def compile_pattern(pattern: str) -> Automaton:
    """Return the automaton of a pattern (subset construction, dead ends removed).

    Raises ValueError with the position for syntax outside the subset, and for a pattern that matches nothing.
    """
    nfa = _Nfa()
    start = nfa.state()
    end = nfa.add(_Parser(pattern).parse(), start)
    sets = [nfa.closure([start])]
    number, table = {sets[0]: 0}, []
    for current in sets:  # grows while it is read
        moves: dict[int, set[int]] = {}
        for state in current:
            for label, target in nfa.edges[state]:
                for byte in label or ():
                    moves.setdefault(byte, set()).add(target)
        row = {}
        for byte, targets in sorted(moves.items()):
            reached = nfa.closure(targets)
            if reached not in number:
                number[reached] = len(sets)
                sets.append(reached)
            row[byte] = number[reached]
        table.append(row)
    return _trimmed(pattern, table, [end in current for current in sets])


def _trimmed(pattern: str, table: list[dict[int, int]], accepting: list[bool]) -> Automaton:
    """Remove the states from which no accepting state can be reached."""
    alive, before = {i for i, yes in enumerate(accepting) if yes}, -1
    while len(alive) != before:
        before = len(alive)
        alive |= {i for i, row in enumerate(table) if alive & set(row.values())}
    if 0 not in alive:
        raise ValueError(f"pattern={pattern!r} matches no text")
    number = {old: new for new, old in enumerate(sorted(alive))}
    rows = tuple({byte: number[to] for byte, to in table[old].items() if to in alive} for old in number)
    return Automaton(pattern, rows, tuple(accepting[old] for old in number))
