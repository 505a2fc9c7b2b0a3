"""Units that a numeric question may use: one table for the schema, the printed answer and the script in the page.

The script gets this table as JSON, so Python and JavaScript cannot disagree. This file grades nothing.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal

_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}


def _scaled(base: str, prefixes: dict[str, float]) -> dict[str, float]:
    return {prefix + base: scale for prefix, scale in prefixes.items()}


def _family(what: str, example: str, units: dict[str, float], shown: list[str], aliases: dict[str, str]) -> dict:
    return {"what": what, "example": example, "units": units, "shown": shown, "aliases": aliases}


def _bytes(what: str, example: str, per: str, words: dict[str, str]) -> dict:
    units = _scaled("B" + per, _DECIMAL) | _scaled("B" + per, _BINARY)
    return _family(what, example, units, list(_scaled("B" + per, _DECIMAL)), words)


# Every value is held in the base unit, the first key of "units". "shown" lists the units used to print a value.
FAMILIES: dict[str, dict] = {
    "B": _bytes("a number of bytes", "1.5 GB", "", {"byte": "B", "bytes": "B"}),
    "B/s": _bytes("a number of bytes per second", "1.5 GB/s", "/s", {"bytes/s": "B/s"}),
    "s": _family("a time", "1.5 ms", {"s": 1.0, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "min": 60.0, "h": 3600.0},
                 ["ns", "us", "ms", "s"],
                 {"μs": "us", "sec": "s", "second": "s", "seconds": "s", "minute": "min", "minutes": "min",
                  "hour": "h", "hours": "h"}),
    "%": _family("a percentage", "12.5 %", {"%": 1.0}, ["%"], {"percent": "%", "per cent": "%"}),
    "FLOP": _family("a number of FLOP", "1.5 GFLOP", _scaled("FLOP", _DECIMAL), list(_scaled("FLOP", _DECIMAL)),
                    {name + "s": name for name in _scaled("FLOP", _DECIMAL)}),
    "FLOP/s": _family("a number of FLOP per second", "1.5 TFLOP/s", _scaled("FLOP/s", _DECIMAL),
                      list(_scaled("FLOP/s", _DECIMAL)),
                      {name + alias: name + "/s" for name in _scaled("FLOP", _DECIMAL) for alias in ("S", "s/s")}),
    "FLOP/B": _family("a number of FLOP per byte", "12.5 FLOP/B", {"FLOP/B": 1.0}, ["FLOP/B"],
                      {"FLOPs/B": "FLOP/B", "FLOP/byte": "FLOP/B", "FLOPs/byte": "FLOP/B"}),
    "tok": _family("a number of tokens", "1,500 tok", {"tok": 1.0}, ["tok"], {"token": "tok", "tokens": "tok"}),
    "tok/s": _family("a number of tokens per second", "1,500 tok/s", {"tok/s": 1.0}, ["tok/s"],
                     {"token/s": "tok/s", "tokens/s": "tok/s", "tokens per second": "tok/s"}),
    "$": _family("an amount in dollars", "$1.50", {"$": 1.0}, ["$"], {"USD": "$", "dollar": "$", "dollars": "$"}),
    "x": _family("a factor", "12x", {"x": 1.0}, ["x"], {"×": "x", "times": "x", "fold": "x"}),
    "": _family("a plain number", "1,500", {"": 1.0, "k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}, [""],
                {"K": "k", "thousand": "k", "m": "M", "mn": "M", "million": "M", "b": "B", "bn": "B", "G": "B",
                 "billion": "B", "t": "T", "trillion": "T"}),
}


def family_of(unit: str) -> str:
    """Name of the family that `unit` belongs to: "GiB" -> "B". Raises ValueError for an unknown unit."""
    if unit in FAMILIES:
        return unit
    for name, family in FAMILIES.items():
        if name and unit in family["units"]:
            return name
    raise ValueError(f"unit={unit!r} is not one of {', '.join(repr(name) for name in FAMILIES)} or a multiple of one")


def display_units(unit: str) -> dict[str, float]:
    """Units, smallest first, that a value is printed in when the question states `unit`."""
    family = FAMILIES[family_of(unit)]
    names = family["shown"]
    if unit[1:2] == "i" and unit in family["units"]:  # stated in KiB, MiB, ...: print in binary units
        names = [family_of(unit)] + [n for n in family["units"] if n[1:2] == "i"]
    return {name: family["units"][name] for name in names}


def _round4(value: float) -> Decimal:
    """`value` to four significant digits, half away from zero, as JavaScript's toPrecision does."""
    exact = Decimal(value)
    if exact == 0:
        return Decimal(0)
    return exact.quantize(Decimal(1).scaleb(exact.adjusted() - 3), rounding=ROUND_HALF_UP)


def number_text(value: float) -> str:
    """`value` as the page prints it: whole numbers in full, others to four significant digits, commas at thousands."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    rounded = _round4(value)
    if 1e-4 <= abs(rounded) < 1e15:
        whole, _, fraction = f"{rounded:,f}".partition(".")
        fraction = fraction.rstrip("0")
        return whole + ("." + fraction if fraction else "")
    mantissa, _, exponent = f"{float(rounded):.3e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def value_text(value: float, unit: str) -> str:
    """`value` (in the base unit of the family of `unit`) with its unit: 687194767360, "B" -> "687.2 GB".

    Raises ValueError for an unknown unit or a value that is not finite.
    """
    if not math.isfinite(value):
        raise ValueError(f"value={value!r} is not a finite number")
    units = display_units(unit)
    chosen = next(iter(units))
    for name, scale in units.items():
        if abs(_round4(value / scale)) >= 1:
            chosen = name
    scaled = value / units[chosen]
    text = number_text(scaled if len(units) == 1 or chosen == family_of(unit) else float(_round4(scaled)))
    if chosen == "$":
        return "$" + text
    return text + ("×" if chosen == "x" else " " + chosen if chosen else "")
