"""Questions about a cell's code, answered from its syntax tree alone."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator

Block = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
# Built-in functions whose result is shown when a cell ends in a call. Of other calls nobody knows here whether they return None; nbval does.
_VALUES = {"abs", "dict", "float", "int", "len", "list", "max", "min", "quiz", "repr", "round", "set", "sorted", "str", "sum", "tuple", "type"}


def called(call: ast.Call) -> str:
    """The dotted name that is called: `plt.show`; empty where it is no plain name."""
    parts: list[str] = []
    target: ast.expr = call.func
    while isinstance(target, ast.Attribute):
        parts.append(target.attr)
        target = target.value
    return ".".join(reversed([*parts, target.id])) if isinstance(target, ast.Name) else ""


def calls(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """Every call in the nodes that runs when they run: not those inside function bodies and lambdas, but those in decorators and defaults."""
    for node in nodes:
        if isinstance(node, ast.Call):
            yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from calls([*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d)])
        elif not isinstance(node, ast.Lambda):
            yield from calls(ast.iter_child_nodes(node))


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.ClassDef]:
    """The functions and classes that the cell defines at its top level."""
    return [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]


def magics(tree: ast.Module) -> Iterator[str]:
    """The magics of a cell as they were written: `%pip`, `%%html`, `!`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
            if called(node.func.value) == "get_ipython":
                name = str(node.args[0].value) if node.args and isinstance(node.args[0], ast.Constant) else ""
                yield {"run_line_magic": f"%{name}", "run_cell_magic": f"%%{name}"}.get(node.func.attr, "!")


def effects(body: list[ast.stmt], known: dict[str, set[str]]) -> set[str]:
    """What running these statements surely does: "print", "show". `known` holds the effects of the notebook's own functions.

    What stands under a condition counts only where both branches do it, and an exception's handler never.
    """
    found: set[str] = set()
    for statement in body:
        if isinstance(statement, ast.If):
            found |= effects(statement.body, known) & effects(statement.orelse, known)
            found |= _call_effects([statement.test], known)
        elif isinstance(statement, ast.With):
            captured = any(called(c).endswith(("redirect_stdout", "capture_output")) for item in statement.items for c in calls([item.context_expr]))
            found |= effects(statement.body, known) - ({"print"} if captured else set())
        elif isinstance(statement, ast.For):
            found |= effects(statement.body, known)
        elif isinstance(statement, ast.Try):
            found |= effects(statement.body[:1], known) | effects(statement.finalbody, known)
        elif isinstance(statement, ast.While | ast.Match):
            continue
        elif not isinstance(statement, Block):
            found |= _call_effects([statement], known)
    return found


def function_effects(function: ast.FunctionDef | ast.ClassDef, known: dict[str, set[str]]) -> set[str]:
    """What a call of the function surely does. Of classes, generators and decorated functions nothing is sure."""
    if not isinstance(function, ast.FunctionDef) or function.decorator_list:
        return set()
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function)):
        return set()
    return effects(_before_return(function.body), known)


def _before_return(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements up to the first that may leave the function: what comes after it is not sure to run."""
    for index, statement in enumerate(body):
        if any(isinstance(node, ast.Return | ast.Raise) for node in ast.walk(statement)):
            return body[: index + 1] if isinstance(statement, ast.Return) else body[:index]
    return body


def _call_effects(nodes: Iterable[ast.AST], known: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    for call in calls(nodes):
        name = called(call)
        if name == "print" and not any(keyword.arg == "file" for keyword in call.keywords):
            found.add("print")
        elif name in ("plt.show", "figures.show", "pyplot.show"):
            found.add("show")
        elif name == "display":
            found.add("print")
        found |= known.get(name, set())
    return found


def ends_in_value(tree: ast.Module) -> bool:
    """True where the cell's last statement is an expression that surely has a value to show."""
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        return False
    value = last.value
    if isinstance(value, ast.Call):
        return called(value) in _VALUES
    if isinstance(value, ast.Constant):
        return value.value is not None
    return not isinstance(value, ast.Await | ast.Yield | ast.YieldFrom)


def trailing_semicolons(source: str) -> list[int]:
    """The lines (from 1) that end in a semicolon; none where the source cannot be split into tokens."""
    lines: list[int] = []
    before: tokenize.TokenInfo | None = None
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            ends = token.type in (tokenize.NEWLINE, tokenize.NL, tokenize.COMMENT, tokenize.ENDMARKER)
            if ends and before is not None and before.type == tokenize.OP and before.string == ";":
                lines.append(before.start[0])
            before = token
    except (tokenize.TokenError, SyntaxError):
        return lines
    return lines
