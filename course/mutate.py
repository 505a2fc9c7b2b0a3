"""Wrong answers made from a right one: one small change each to the syntax tree of a task's cell, between its solution marks.

A change has an id that does not move with line numbers: the statement before and after, `scores = q @ k.mT -> scores = k.mT @ q`. Changes that break the
program at once for certain (a name that was never bound) are not made: they would only raise the share that is rejected.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from course.labcells import BEGIN, END

# name for name, both ways
_TWINS = [("sin", "cos"), ("max", "min"), ("amax", "amin"), ("argmax", "argmin"), ("maximum", "minimum"), ("sum", "mean"), ("triu", "tril"), ("ones", "zeros")]
_TWINS += [("ones_like", "zeros_like"), ("floor", "ceil"), ("any", "all"), ("float32", "float64"), ("int64", "int32"), ("rsqrt", "sqrt"), ("float", "double")]
_TWINS += [("append", "insert"), ("popleft", "pop"), ("break", "continue")]
SWAPPED = {a: b for a, b in _TWINS} | {b: a for a, b in _TWINS} | {"silu": "sigmoid", "sigmoid": "tanh", "log": "log2", "exp": "exp2", "bfloat16": "float16"}
_MODULES = ("np", "numpy", "torch", "F", "math")
_NO_PLACE = (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)
_LEFT_OUT = ("sqrt", "rsqrt", "abs", "exp", "softmax", "norm", "tanh", "sigmoid", "silu", "gelu", "relu")  # f(x) becomes x
_LEFT_OUT += ("round", "ceil", "floor", "clamp", "masked_fill", "copy", "clone", "sorted", "int", "len", "set")
_AXES = ("transpose", "swapaxes", "t", "permute", "contiguous")
_ORDER_FREE = ("max", "min", "maximum", "minimum", "add", "isclose", "allclose", "transpose", "swapaxes", "range", "zip", "isinstance", "print")
_OPERATORS: dict[type[ast.operator], list[type[ast.operator]]] = {
    ast.Add: [ast.Sub], ast.Sub: [ast.Add], ast.Mult: [ast.Div], ast.Div: [ast.Mult], ast.FloorDiv: [ast.Mult], ast.Pow: [ast.Mult], ast.Mod: [ast.FloorDiv],
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
    ast.Lt: [ast.LtE, ast.GtE], ast.LtE: [ast.Lt, ast.Gt], ast.Gt: [ast.GtE, ast.LtE], ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq], ast.Is: [ast.IsNot], ast.IsNot: [ast.Is], ast.In: [ast.NotIn], ast.NotIn: [ast.In],
}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """A generated wrong answer: its id, and the whole cell's source."""

    id: str
    source: str


@dataclass(frozen=True)
class _Place:
    """Where a node hangs: the parent's field, and the index where that is a list."""

    parent: ast.AST
    field: str
    index: int | None

    def put(self, node: ast.AST | None) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def changes(source: str) -> list[Change]:
    """Every change of the marked parts of a task's cell. Raises SyntaxError where the cell does not parse."""
    tree = ast.parse(source)
    marked = _marked_lines(source)
    seen, counts, made = {ast.unparse(tree)}, {}, []
    for statement, place, node, function in _nodes(tree, None, None):
        located = node.target if isinstance(node, ast.comprehension) else node
        if getattr(located, "lineno", 0) not in marked:
            continue
        before = _first_line(statement)
        for new in _replacements(node, place, function):
            place.put(new)
            text, after = ast.unparse(ast.fix_missing_locations(tree)), _first_line(statement if node is not statement else new)
            place.put(node)
            if text in seen:
                continue
            seen.add(text)
            name = f"{before} -> {after}"
            counts[name] = counts.get(name, 0) + 1
            made.append(Change(name if counts[name] == 1 else f"{name} #{counts[name]}", text))
    return made


def _marked_lines(source: str) -> set[int]:
    inside, lines = False, set()
    for number, line in enumerate(source.splitlines(), start=1):
        inside = (inside or line.strip() == BEGIN) and line.strip() != END
        if inside:
            lines.add(number)
    return lines


def _first_line(node: ast.AST | None) -> str:
    return "(dropped)" if node is None or isinstance(node, ast.Pass) else ast.unparse(node).splitlines()[0]


def _nodes(node: ast.AST, statement: ast.stmt | None, function: ast.FunctionDef | None) -> Iterator[tuple[ast.stmt, _Place, ast.AST, ast.FunctionDef]]:
    """Every node below `node` with its statement, its place and its function."""
    function = node if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else function
    for field, value in ast.iter_fields(node):
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and not isinstance(child, _NO_PLACE) and field not in ("annotation", "returns"):
                inner = child if isinstance(child, ast.stmt) else statement
                if inner is not None and function is not None:
                    yield inner, _Place(node, field, index), child, function
                yield from _nodes(child, inner, function)


def _replacements(node: ast.AST, place: _Place, function: ast.FunctionDef) -> Iterator[ast.AST]:
    for kind, make in _MAKERS:
        if isinstance(node, kind):
            yield from make(node)
    if isinstance(node, ast.stmt) and _may_go(node, function):
        yield ast.Pass()
    if isinstance(node, ast.Return) and node.value is not None:
        names = [argument.arg for argument in function.args.args if argument.arg != "self"]
        if names and not (isinstance(node.value, ast.Name) and node.value.id == names[0]):
            yield ast.Return(ast.Name(names[0], ast.Load()))
    if isinstance(node, ast.expr) and isinstance(place.parent, ast.Slice):
        if not isinstance(node, (ast.Constant, ast.UnaryOp, ast.BinOp)) and place.field != "step":
            yield from (ast.BinOp(node, operator, ast.Constant(1)) for operator in (ast.Add(), ast.Sub()))


def _may_go(node: ast.stmt, function: ast.FunctionDef) -> bool:
    """Whether the program still has all its names without this statement."""
    if isinstance(node, (ast.AugAssign, ast.If, ast.For, ast.While, ast.Raise, ast.Assert)):
        return True
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        arguments = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
        bound = arguments | {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.lineno < node.lineno}
        targets = [n for target in node.targets for n in ([target] if not isinstance(target, ast.Tuple) else target.elts)]
        return all(not isinstance(n, ast.Name) or n.id in bound for n in targets)
    return False


def _binary(node: ast.BinOp) -> Iterator[ast.AST]:
    for operator in _OPERATORS.get(type(node.op), []):
        yield ast.BinOp(node.left, operator(), node.right)
    if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Pow, ast.Mod)):
        yield node.left
        yield node.right
    if isinstance(node.op, (ast.MatMult, ast.Sub, ast.Div)):
        yield ast.BinOp(node.right, node.op, node.left)
    if isinstance(node.op, (ast.BitAnd, ast.BitOr)):
        yield ast.BinOp(node.left, ast.BitOr() if isinstance(node.op, ast.BitAnd) else ast.BitAnd(), node.right)
        yield node.left
        yield node.right


def _constant(node: ast.Constant) -> Iterator[ast.AST]:
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield ast.Constant(node.value + 1)
        yield ast.Constant(node.value - 1) if node.value else ast.UnaryOp(ast.USub(), ast.Constant(1))
    elif isinstance(node.value, float) and 0.01 <= abs(node.value) < float("inf"):  # not an epsilon, which no check should have to weigh
        yield ast.Constant(node.value + 1)
    elif node.value in ("-inf", "inf"):
        yield ast.Constant("inf" if node.value == "-inf" else "-inf")


def _unary(node: ast.UnaryOp) -> Iterator[ast.AST]:
    if not (isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, int)):  # -1 becomes -2 and -0, as changes of the constant
        yield node.operand


def _compare(node: ast.Compare) -> Iterator[ast.AST]:
    for index, operator in enumerate(node.ops):
        for other in _COMPARISONS.get(type(operator), []):
            yield ast.Compare(node.left, [*node.ops[:index], other(), *node.ops[index + 1 :]], node.comparators)


def _boolean(node: ast.BoolOp) -> Iterator[ast.AST]:
    yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for index in range(len(node.values)):
        kept = node.values[:index] + node.values[index + 1 :]
        yield kept[0] if len(kept) == 1 else ast.BoolOp(node.op, kept)


def _call(node: ast.Call) -> Iterator[ast.AST]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in _AXES and isinstance(node.func, ast.Attribute):
        receiver = node.func.value
        yield node.args[0] if isinstance(receiver, ast.Name) and receiver.id in _MODULES and node.args else receiver
    yield from _swapped_arguments(node, name)
    for index, keyword in enumerate(node.keywords):
        if keyword.arg not in (None, "device"):
            yield ast.Call(node.func, node.args, node.keywords[:index] + node.keywords[index + 1 :])
    if name in _LEFT_OUT:
        method = isinstance(node.func, ast.Attribute) and not (isinstance(node.func.value, ast.Name) and node.func.value.id in _MODULES)
        if method and name not in ("int", "len", "set"):
            yield node.func.value  # type: ignore[attr-defined]
        elif node.args:
            yield node.args[0]
    if name == "range" and node.args:
        stop = 0 if len(node.args) == 1 else 1
        if not isinstance(node.args[stop], ast.Constant):
            for operator in (ast.Add(), ast.Sub()):
                changed = ast.BinOp(node.args[stop], operator, ast.Constant(1))
                yield ast.Call(node.func, [*node.args[:stop], changed, *node.args[stop + 1 :]], node.keywords)


def _swapped_arguments(node: ast.Call, name: str) -> Iterator[ast.AST]:
    """Neighbouring axes of permute, reshape, view …; the first two arguments of any other call whose order counts."""
    if name in ("permute", "reshape", "view", "expand", "movedim", "unflatten"):
        wrapped = len(node.args) == 1 and isinstance(node.args[0], (ast.Tuple, ast.List))
        axes = list(node.args[0].elts) if wrapped else list(node.args)  # type: ignore[attr-defined]
        for index in range(len(axes) - 1):
            swapped = [*axes[:index], axes[index + 1], axes[index], *axes[index + 2 :]]
            yield ast.Call(node.func, [ast.Tuple(swapped, ast.Load())] if wrapped else swapped, node.keywords)
    elif len(node.args) >= 2 and name not in _ORDER_FREE and not any(isinstance(argument, ast.Starred) for argument in node.args[:2]):
        yield ast.Call(node.func, [node.args[1], node.args[0], *node.args[2:]], node.keywords)


def _named(node: ast.Attribute | ast.Name) -> Iterator[ast.AST]:
    if isinstance(node, ast.Attribute):
        if node.attr in SWAPPED:
            yield ast.Attribute(node.value, SWAPPED[node.attr], node.ctx)
        if node.attr in ("T", "mT"):
            yield node.value
    elif node.id in ("max", "min", "sum", "any", "all") and node.id != "sum":
        yield ast.Name(SWAPPED[node.id], node.ctx)


def _branch(node: ast.If | ast.IfExp | ast.While) -> Iterator[ast.AST]:
    negated = node.test.operand if isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not) else ast.UnaryOp(ast.Not(), node.test)
    one_comparison = isinstance(node.test, ast.Compare) and len(node.test.ops) == 1  # which _compare negates
    for test in ([] if one_comparison else [negated]) + ([] if isinstance(node, ast.While) else [ast.Constant(True), ast.Constant(False)]):
        changed = copy.copy(node)
        changed.test = test
        yield changed


def _slice(node: ast.Slice) -> Iterator[ast.AST]:
    if node.lower is not None:
        yield ast.Slice(None, node.upper, node.step)
    if node.upper is not None:
        yield ast.Slice(node.lower, None, node.step)
    if node.step is not None:
        yield ast.Slice(node.lower, node.upper, None)


def _augmented(node: ast.AugAssign) -> Iterator[ast.AST]:
    target = copy.copy(node.target)
    yield ast.Assign([target], node.value, lineno=node.lineno)
    for operator in _OPERATORS.get(type(node.op), []):
        yield ast.AugAssign(node.target, operator(), node.value)


def _comprehension(node: ast.comprehension) -> Iterator[ast.AST]:
    for index in range(len(node.ifs)):
        yield ast.comprehension(node.target, node.iter, node.ifs[:index] + node.ifs[index + 1 :], node.is_async)


def _jump(node: ast.Break | ast.Continue) -> Iterator[ast.AST]:
    yield ast.Continue() if isinstance(node, ast.Break) else ast.Break()


_MAKERS: Iterable[tuple[type | tuple[type, ...], Callable[..., Iterator[ast.AST]]]] = [
    (ast.BinOp, _binary),
    (ast.Constant, _constant),
    (ast.UnaryOp, _unary),
    (ast.Compare, _compare),
    (ast.BoolOp, _boolean),
    (ast.Call, _call),
    ((ast.Attribute, ast.Name), _named),
    ((ast.If, ast.IfExp, ast.While), _branch),
    (ast.Slice, _slice),
    (ast.AugAssign, _augmented),
    (ast.comprehension, _comprehension),
    ((ast.Break, ast.Continue), _jump),
]
