"""Every lab's checks against its named mutants, its right answers in another style, and the mutants made from its solution."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import small_lab

from course import labs, mutants
from course.labcells import role
from course.mutants import Alternative, Bench, Mutant, Wrongs, generated_faults, named_faults
from course.mutate import changes

STEMS = labs.stems()


@pytest.fixture(scope="module")
def benches() -> Iterator[dict[str, Bench]]:
    """The solutions, each run once."""
    yield {}


def on(benches: dict[str, Bench], stem: str) -> Bench:
    if stem not in benches:
        benches[stem] = mutants.bench(stem)
    return benches[stem]


@pytest.mark.parametrize("stem", STEMS)
def test_named_mutants_are_rejected_and_right_answers_accepted(stem: str, benches: dict[str, Bench]) -> None:
    lists = mutants.wrongs(stem)
    assert named_faults(on(benches, stem), lists) == []
    print(f"{stem}: {len(lists.mutants)} named mutants rejected, {len(lists.alternatives)} right answers accepted")


@pytest.mark.parametrize("stem", STEMS)
def test_generated_mutants_are_rejected_or_listed(stem: str, benches: dict[str, Bench]) -> None:
    bench = on(benches, stem)
    marks = {name: mark for task in bench.tasks for name, mark in bench.generated(task).items()}
    assert marks
    assert generated_faults(marks, mutants.wrongs(stem).equivalent) == []
    print(f"{stem}: {sum(mark == '✗' for mark in marks.values())} of {len(marks)} generated mutants rejected")


@pytest.mark.parametrize("stem", [path.stem for path in (mutants.notebooks.ROOT / "tests" / "mutants").glob("[0-9]*.py")])
def test_no_mutants_without_a_lab(stem: str) -> None:
    assert stem in STEMS


# The machinery itself, on the small lab.


@pytest.fixture(scope="module")
def small() -> Bench:
    return Bench(small_lab.solution(), small_lab.STEM)


EINSUM = Alternative(1, "einsum", "def scale(x, factor):\n    return np.einsum('n,->n', x, factor)")
SUM = Alternative(1, "a list", "def scale(x, factor):\n    return np.array([factor * value for value in x])")
NEXT = Alternative(2, "next", "def first_at_least(values, bound):\n    return next((i for i, v in enumerate(values) if v >= bound), -1)")
ARGMAX = Alternative(2, "argmax", "def first_at_least(values, bound):\n    hit = np.array(values) >= bound\n    return int(hit.argmax()) if hit.any() else -1")
ADDED = Mutant(1, "added", "factor", replace=("* factor", "+ factor"))
ABOVE = Mutant(2, "above the bound", "equal to the bound", replace=(">=", ">"))
GOOD = Wrongs([ADDED, ABOVE], [EINSUM, SUM, NEXT, ARGMAX])


def test_good_lists_have_no_fault(small: Bench) -> None:
    assert named_faults(small, GOOD) == []


FAULTY = {
    "a mutant that is right": (Wrongs([*GOOD.mutants, Mutant(1, "turned round", "x", replace=("np.asarray(x) * factor", "factor * np.asarray(x)"))], GOOD.alternatives), "task 1, mutant 'turned round': ✓"),
    "a hint that does not name it": (Wrongs([ADDED, Mutant(2, "last", "never said", replace=("return place", "found = place"))], GOOD.alternatives), "no 'never said' in the hint"),
    "an answer not attempted": (Wrongs([ADDED, ABOVE, Mutant(2, "stub", "x", code="def first_at_least(values, bound):\n    raise NotImplementedError('task 2')")], GOOD.alternatives), "mutant 'stub': …"),
    "a wrong alternative": (Wrongs(GOOD.mutants, [*GOOD.alternatives, Alternative(2, "min", "def first_at_least(values, bound):\n    return 1")]), "right answer 'min': ✗"),
    "too few alternatives": (Wrongs(GOOD.mutants, GOOD.alternatives[:3]), "task 2: fewer than two"),
    "no mutant of a task": (Wrongs([ADDED], GOOD.alternatives), "task 2: no named mutant"),
}


@pytest.mark.parametrize(("lists", "fault"), FAULTY.values(), ids=FAULTY.keys())
def test_a_faulty_list_is_found(small: Bench, lists: Wrongs, fault: str) -> None:
    faults = named_faults(small, lists)
    assert len(faults) == 1
    assert fault in faults[0]


def test_the_solution_is_put_back(small: Bench) -> None:
    small.verdict(1, "scale = None")
    assert small.space["scale"](2, 3) == 6
    assert small.space["_verdict"](1, small.space["CHECKS"][1]) == ("✓", "")


def test_an_endless_mutant_is_rejected(small: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "_PATIENCE", 1)
    mark, text = small.verdict(2, "def first_at_least(values, bound):\n    while True:\n        pass")
    assert (mark, "after 1 s" in text) == ("✗", True)


def test_a_mutant_needs_one_place_to_change(small: Bench) -> None:
    with pytest.raises(ValueError, match="'value' stands 4 times"):
        Mutant(2, "many", "x", replace=("value", "v")).source("for value in values: value += value")
    with pytest.raises(ValueError, match="stands 0 times"):
        Mutant(2, "none", "x", replace=("absent", "v")).source(small.tasks[2])
    with pytest.raises(ValueError, match="either code or replace"):
        Mutant(2, "neither", "x")


def test_a_solution_that_fails_its_check_is_refused() -> None:
    notebook = small_lab.solution()
    next(cell for cell in notebook.cells if role(cell) == "task").source = small_lab.SCALE.replace("* factor", "+ factor")
    with pytest.raises(ValueError, match="task 1: its own check says"):
        Bench(notebook, small_lab.STEM)


def test_a_check_that_leaves_a_stand_in_is_refused() -> None:
    notebook = small_lab.solution()
    cell = next(cell for cell in notebook.cells if role(cell) == "check")
    cell.source += "\n    globals()['scale'] = lambda x, factor: x"
    with pytest.raises(ValueError, match="check 1: leaves scale changed"):
        Bench(notebook, small_lab.STEM)


def test_survivors_need_a_reason_and_reasons_a_survivor() -> None:
    marks = {f"1: {n}": "✗" for n in range(18)} | {"1: a": "✓", "1: b": "✓"}
    assert generated_faults(marks, {"1: a": "same", "1: b": "same"}) == []
    assert generated_faults(marks, {"1: a": "same", "1: b": " "}) == ["survives without a reason: 1: b"]
    assert generated_faults(marks, {"1: a": "same", "1: b": "same", "1: 3": "same"}) == ["a reason without its survivor: 1: 3"]
    assert generated_faults(marks | {"1: c": "✓"}, {"1: a": "s", "1: b": "s", "1: c": "s"}) == ["18 of 21 generated mutants rejected, fewer than 90 %"]


def test_a_weak_check_lets_generated_mutants_through() -> None:
    notebook = small_lab.solution()
    cell = [cell for cell in notebook.cells if role(cell) == "check"][1]
    cell.source = cell.source.replace("same(first_at_least([1, 5, 7], 5), 1", "same(first_at_least([1, 5, 7], 4), 1")
    marks = Bench(notebook, small_lab.STEM).generated(2)
    assert marks["2: if value >= bound: -> if value > bound:"] == "✓"


CELL = '''def work(x, n, *, causal=True):
    """Given."""
    before = x * 3
    ### BEGIN SOLUTION
    {body}
    ### END SOLUTION'''

OPERATORS = [
    ("return x.transpose(1, 2)", ["return x", "return x.transpose(2, 2)", "return x.transpose(1, 3)"]),
    ("return x.permute(0, 2, 1)", ["return x.permute(2, 0, 1)", "return x.permute(0, 1, 2)"]),
    ("return np.swapaxes(x, 0, 1)", ["return x"]),
    ("return x.mT @ n", ["return x @ n", "return n @ x.mT"]),
    ("return x + n", ["return x - n", "return n", "return x"]),
    ("return n * x", ["return n / x", "return n"]),
    ("return n ** -0.5", ["return n", "return n ** 0.5", "return n ** (-1.5)"]),
    ("return x[n:]", ["return x[:]", "return x[n + 1:]", "return x[n - 1:]"]),
    ("return x[1:-1]", ["return x[2:-1]", "return x[0:-1]", "return x[1:-2]", "return x[1:]"]),
    ("return n <= 3", ["return n < 3", "return n > 3", "return n <= 4"]),
    ("return n == 3 and x", ["return n == 3 or x", "return x", "return n != 3 and x"]),
    ("return np.sin(n)", ["return np.cos(n)"]),
    ("return x.sum(dim=-1)", ["return x.sum(dim=-2)", "return x.sum()", "return x.mean(dim=-1)"]),
    ("return x.to(torch.float32)", ["return x.to(torch.float64)"]),
    ("return f(x, causal=True)", ["return f(x, causal=False)", "return f(x)"]),
    ("return f(n, x)", ["return f(x, n)", "return x"]),
    ("return [n for _ in range(n) if n]", ["return [n for _ in range(n + 1) if n]", "return [n for _ in range(n - 1) if n]", "return [n for _ in range(n)]"]),
    ("return x.masked_fill(~n, float('-inf'))", ["return x.masked_fill(n, float('-inf'))", "return x.masked_fill(~n, float('inf'))"]),
    ("return n if x else n + 1", ["return n if not x else n + 1"]),
    ("return F.silu(n) * x", ["return F.sigmoid(n) * x", "return n * x", "return F.silu(n)"]),
]


@pytest.mark.parametrize(("body", "wanted"), OPERATORS)
def test_operators(body: str, wanted: list[str]) -> None:
    after = {change.id.partition(" -> ")[2] for change in changes(CELL.format(body=body))}
    assert set(wanted) <= after


def test_statements_are_dropped_where_no_name_is_lost() -> None:
    ids = [change.id for change in changes(CELL.format(body="y = x\n    x[0] = n\n    if n < 1:\n        raise ValueError('n')\n    x += 1\n    return y"))]
    assert {"x[0] = n -> (dropped)", "if n < 1: -> (dropped)", "x += 1 -> (dropped)", "x += 1 -> x -= 1", "x += 1 -> x = 1"} <= set(ids)
    assert "y = x -> (dropped)" not in ids


def test_given_code_is_left_alone_and_ids_are_unique_and_do_not_move() -> None:
    source = CELL.format(body="return x + n + n")
    made = changes(source)
    assert not any("x * 3 ->" in change.id for change in made)
    assert len({change.id for change in made}) == len(made)
    assert [change.id for change in changes("# a line above\n" + source)] == [change.id for change in made]
    assert all(change.source != source for change in made)


def test_every_change_compiles_and_differs() -> None:
    for body, _ in OPERATORS:
        sources = [change.source for change in changes(CELL.format(body=body))]
        assert len(set(sources)) == len(sources)
        for source in sources:
            compile(source, "mutant", "exec")
