"""Evaluate the key of a numeric question: an expression over the cost model, never a typed number.

Names allowed: `costs`, `configs`, `hardware` (from tinyserve) and `math`; in a trap also `key`, the right value.
No builtins, no private attributes: a key is data that happens to be arithmetic.
"""

from __future__ import annotations

import ast
import importlib
import math
from types import ModuleType

MODULES = {"costs": "tinyserve.costs", "configs": "tinyserve.configs", "hardware": "tinyserve.hardware", "math": "math"}

_ALLOWED = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Call, ast.keyword, ast.Attribute, ast.Name,
    ast.Load, ast.Constant, ast.Subscript, ast.Tuple, ast.List, ast.Dict, ast.Compare, ast.cmpop, ast.IfExp,
)


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(MODULES[name])
    except ImportError as error:
        raise ValueError(f"key uses {name}, but {MODULES[name]} cannot be imported: {error}") from error


def evaluate(expression: object, key: float | None = None) -> float:
    """The value of `expression`, a finite int or float in the base unit of the question.

    `key` is what the name `key` means (traps only). Raises ValueError with the expression and the rule it breaks.
    """
    if not isinstance(expression, str):
        raise ValueError(f"key={expression!r} must be an expression in quotes over {', '.join(MODULES)}")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError as error:
        raise ValueError(f"key={expression!r} is not a Python expression: {error.msg}") from error
    known = set(MODULES) | ({"key"} if key is not None else set())
    names = set()
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise ValueError(f"key={expression!r} may not use {type(node).__name__}")
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            raise ValueError(f"key={expression!r} may not use the private name {node.attr!r}")
        if isinstance(node, ast.Name):
            names.add(node.id)
    if names - known:
        raise ValueError(f"key={expression!r} uses {min(names - known)!r}; allowed are {', '.join(sorted(known))}")
    if not names:
        raise ValueError(f"key={expression!r} is a typed number; compute it from {', '.join(MODULES)}")
    scope: dict[str, object] = {name: _module(name) for name in names & set(MODULES)}
    scope |= {"__builtins__": {}, "key": key}
    try:
        value = eval(compile(tree, "<key>", "eval"), scope)  # noqa: S307 (the tree was checked above)
    except Exception as error:
        raise ValueError(f"key={expression!r} fails: {type(error).__name__}: {error}") from error
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"key={expression!r} gives {value!r}, not a finite number")
    return value
