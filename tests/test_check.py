"""The check harness against hostile answers: one line each, the right mark, and nothing that gets out."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

HARNESS = Path(__file__).resolve().parent.parent / "course" / "check.py"
WANT = np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.fixture
def lab() -> dict[str, Any]:
    """A notebook's namespace that holds the harness, as a lab has it."""
    space: dict[str, Any] = {}
    exec(compile(HARNESS.read_text(encoding="utf-8"), "<harness>", "exec"), space)
    return space


def run(lab: dict[str, Any], test: Callable[[], None], task: int = 1) -> tuple[str, str]:
    lab["check"](task)(test)
    result = lab["RESULTS"][task]
    return result["mark"], result["text"]


class ReprFails:
    def __repr__(self) -> str:
        raise SystemExit("no")


class EqualToAll:
    def __eq__(self, other: object) -> bool:
        return True

    def __repr__(self) -> str:
        return "x" * 10_000


class StrFails(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


class ShapeFails:
    @property
    def shape(self) -> tuple[int, ...]:
        raise RuntimeError("no shape")

    def __array__(self, *arguments: Any) -> np.ndarray:
        raise RuntimeError("no array")


def recursion(n: int = 0) -> int:
    return recursion(n + 1)


def loud() -> np.ndarray:
    for _ in range(10_000):
        print("x" * 1000)
    return WANT + 1


def raising(error: BaseException) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


HOSTILE: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "Ellipsis": lambda: ...,
    "text": lambda: "1.0",
    "a list for an array": lambda: [[1.0, 2.0], [3.0, 4.0]],
    "a tensor for an array": lambda: torch.tensor(WANT),
    "a ragged list": lambda: [[1.0], [2.0, 3.0]],
    "transposed": lambda: WANT.T,
    "one row": lambda: WANT[0],
    "a broadcastable shape": lambda: np.ones((1, 2)),
    "one more axis": lambda: WANT[None],
    "empty": lambda: np.zeros((0, 2)),
    "NaN": lambda: WANT * np.nan,
    "infinite": lambda: WANT * np.inf,
    "float32": lambda: WANT.astype(np.float32),
    "whole numbers": lambda: WANT.astype(int),
    "booleans": lambda: WANT > 0,
    "complex": lambda: WANT + 1j,
    "objects": lambda: np.array([[None, EqualToAll()], [3.0, 4.0]], dtype=object),
    "text array": lambda: WANT.astype(str),
    "repr fails": ReprFails,
    "equal to all": EqualToAll,
    "shape fails": ShapeFails,
    "a class": lambda: ReprFails,
    "a generator": lambda: (row for row in WANT),
    "a dict": lambda: {0: WANT},
    "the function itself": lambda: recursion,
    "endless recursion": recursion,
    "SystemExit": lambda: sys.exit(0),
    "KeyboardInterrupt": raising(KeyboardInterrupt()),
    "GeneratorExit": raising(GeneratorExit()),
    "StopIteration": raising(StopIteration()),
    "str of the error fails": raising(StrFails()),
    "an error of a thousand lines": raising(ValueError("line\n" * 1000)),
    "NotImplementedError of a library": raising(NotImplementedError("not implemented for 'Half'")),
    "MemoryError": lambda: bytearray(1 << 62),
    "division by zero": lambda: 1 / 0,
    "loud": loud,
    "closes stdout": lambda: sys.stdout.close(),
    "a name that is not there": lambda: undefined,  # type: ignore[name-defined] # noqa: F821
}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_answer_is_wrong_in_few_lines_and_raises_nothing(lab: dict[str, Any], capsys: pytest.CaptureFixture[str], answer: Callable[[], Any]) -> None:
    mark, text = run(lab, lambda: lab["close"](answer(), WANT, "the hint"))
    printed = capsys.readouterr().out
    assert mark == "✗"
    assert text
    assert len(text) < 600
    assert len(printed) < 3000
    assert f"✗ task 1 · {'<lambda>'}: " in printed


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_answer_is_wrong_for_every_helper(lab: dict[str, Any], answer: Callable[[], Any]) -> None:
    assert run(lab, lambda: lab["same"](answer(), 7, "the hint"))[0] == "✗"
    assert run(lab, lambda: lab["has_shape"](answer(), (7, 7), "the hint"))[0] == "✗"
    assert run(lab, lambda: lab["close"](answer(), [0.5, "a", WANT], "the hint"))[0] == "✗"


def test_an_endless_loop_ends_even_where_the_answer_swallows_exceptions(lab: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    def answer() -> None:
        while True:
            try:
                print("still here")
            except Exception:
                pass

    lab["LIMIT_S"] = 1
    mark, text = run(lab, answer)
    assert mark == "✗"
    assert "after 1 s: does a loop never end?" in text
    assert len(capsys.readouterr().out) < 3000


def test_the_alarm_is_off_afterwards(lab: dict[str, Any]) -> None:
    import signal

    before = signal.getsignal(signal.SIGALRM)
    run(lab, lambda: None)
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_outside_the_main_thread_there_is_no_limit_but_a_verdict(lab: dict[str, Any]) -> None:
    import threading

    thread = threading.Thread(target=run, args=(lab, lambda: None))
    thread.start()
    thread.join()
    assert lab["RESULTS"][1]["mark"] == "✓"


def test_not_attempted_and_waiting(lab: dict[str, Any]) -> None:
    assert run(lab, raising(NotImplementedError("task 1"))) == ("…", "not attempted")
    assert run(lab, raising(NotImplementedError())) == ("…", "not attempted")
    assert run(lab, raising(NotImplementedError("task 2")), task=3) == ("…", "waits for task 2")
    assert run(lab, lambda: lab["raises"](ValueError, "hint", raising(NotImplementedError("task 1"))))[0] == "…"
    assert run(lab, lambda: lab["raises"](Exception, "hint", raising(NotImplementedError("task 1"))))[0] == "…"


RIGHT: dict[str, tuple[Any, Any]] = {
    "array": (WANT + 1e-7, WANT),
    "tensor": (torch.tensor(WANT), torch.tensor(WANT)),
    "tensor with a gradient": (torch.ones(3, requires_grad=True) * 1, torch.ones(3)),
    "bfloat16": (torch.ones(3, dtype=torch.bfloat16), torch.ones(3, dtype=torch.bfloat16)),
    "a number for a NumPy number": (0.5, np.float64(0.5)),
    "a tensor of one number": (torch.tensor(0.5), 0.5),
    "infinite": (np.array([np.inf, -np.inf]), np.array([np.inf, -np.inf])),
    "NaN where wanted": (np.array([np.nan, 1.0]), np.array([np.nan, 1.0])),
    "empty": (np.zeros((0, 3)), np.zeros((0, 3))),
    "tuple": ((1.0, WANT), [1.0, WANT]),
    "dict": ({"a": WANT}, {"a": WANT}),
    "booleans": (torch.tensor([True, False]), torch.tensor([True, False])),
    "not contiguous": (torch.tensor(WANT).T.contiguous().T, torch.tensor(WANT)),
    "None": (None, None),
}


@pytest.mark.parametrize(("got", "want"), RIGHT.values(), ids=RIGHT.keys())
def test_close_accepts_what_is_right(lab: dict[str, Any], got: Any, want: Any) -> None:
    assert run(lab, lambda: lab["close"](got, want, "hint")) == ("✓", "")


EXACT = [(3, 3, True), (3.0, 3, False), (True, 1, False), (1, True, False), (np.int64(3), 3, True), (torch.tensor(3), 3, True), (10**30, 10**30, True), (10**30 + 1, 10**30, False)]
EXACT += [("a", "a", True), ("a", "b", False), ([1, 2], (1, 2), True), ([1, 2], [2, 1], False), ([1], [1, 1], False), ({1: 2}, {1: 2}, True), ({1: 2}, {2: 2}, False), ({1: 3}, {1: 2}, False)]
EXACT += [(np.array([1, 2]), np.array([1, 2]), True), (np.array([1, 2]), np.array([1, 3]), False), (np.array([1.0 + 1e-12]), np.array([1.0]), False), (None, None, True), (0, None, False), (3, 10**30, False)]
EXACT += [(False, None, False), ([], None, False), ([[1], [2, 3]], [[1], [2, 3]], True), (np.True_, True, True), ((1, (2, 3)), (1, (2, 4)), False), (2**63, 2**63, True), (2**53 + 1, 2**53, False)]
EXACT += [(torch.tensor([True]), torch.tensor([True]), True), (torch.tensor([1]), torch.tensor([True]), False), (0.1 + 0.2, 0.3, False), (range(2), [0, 1], False)]
EXACT += [([1, 1], [1], False), ({1: 2, 3: 4}, {1: 2}, False), (EqualToAll(), "a", False), (EqualToAll(), 3.0, False), (EqualToAll(), 10**30, False)]


@pytest.mark.parametrize(("got", "want", "equal"), EXACT)
def test_same_is_exact(lab: dict[str, Any], got: Any, want: Any, equal: bool) -> None:
    assert run(lab, lambda: lab["same"](got, want, "hint"))[0] == ("✓" if equal else "✗")


def test_got_stands_against_expected_with_its_place(lab: dict[str, Any]) -> None:
    _, text = run(lab, lambda: lab["close"](WANT + np.array([[0, 0], [0.5, 0]]), WANT, "the hint"))
    assert text == "the hint\n    got 3.5, expected 3 at [1, 0] (1 of 4 values differ)"
    _, text = run(lab, lambda: lab["close"](WANT.T[:1], WANT, "the hint"))
    assert text == "got shape (1, 2), expected (2, 2)\n    the hint"
    _, text = run(lab, lambda: lab["close"](WANT.astype(np.float32), WANT, "the hint"))
    assert text == "got float32, expected float64\n    the hint"
    _, text = run(lab, lambda: lab["same"]([1, {"a": 2}], [1, {"a": 3}], "the hint"))
    assert text == "the hint\n    got 2, expected 3 at [1]['a']"
    _, text = run(lab, lambda: lab["close"](WANT * [np.nan, 1], WANT, "the hint"))
    assert "got nan, expected 1 at [0, 0]" in text


def test_values_are_compared_not_shapes_alone_and_not_by_a_sum(lab: dict[str, Any]) -> None:
    for wrong in (WANT[::-1], np.zeros((2, 2)), WANT + [[1e-3, -1e-3], [0, 0]], -WANT):
        assert run(lab, lambda wrong=wrong: lab["close"](wrong, WANT, "hint"))[0] == "✗"


def test_dtype_may_be_let_go(lab: dict[str, Any]) -> None:
    assert run(lab, lambda: lab["close"](WANT.astype(np.float32), WANT, "hint", dtype=False))[0] == "✓"


@pytest.mark.parametrize("got", [WANT.tolist(), torch.tensor(WANT), EqualToAll()])
def test_another_type_is_wrong_also_where_the_dtype_may_be_let_go(lab: dict[str, Any], got: Any) -> None:
    mark, text = run(lab, lambda: lab["close"](got, WANT, "hint", dtype=False))
    assert (mark, text.endswith(", expected ndarray\n    hint")) == ("✗", True)


def test_warnings_of_an_answer_stay_out(lab: dict[str, Any], recwarn: pytest.WarningsRecorder) -> None:
    import warnings

    assert run(lab, lambda: warnings.warn("old", DeprecationWarning, stacklevel=1)) == ("✓", "")
    assert run(lab, lambda: np.zeros(1) / np.zeros(1)) == ("✓", "")
    assert not recwarn.list


def test_an_error_inside_the_harness_names_no_line(lab: dict[str, Any]) -> None:
    lab["answer"] = ShapeFails()
    exec(compile("@check(1)\ndef one():\n    close(answer, 3.0, 'hint')", "<cell>", "exec"), lab)
    assert lab["RESULTS"][1]["text"] == "RuntimeError: no array\n    in one, line 3 of its cell"


def test_that_and_raises(lab: dict[str, Any]) -> None:
    assert run(lab, lambda: lab["that"](np.True_, "hint")) == ("✓", "")
    assert run(lab, lambda: lab["that"](0, "hint")) == ("✗", "hint")
    assert run(lab, lambda: lab["that"](WANT, "hint"))[0] == "✗"
    assert run(lab, lambda: lab["raises"](ZeroDivisionError, "hint", lambda a: 1 / a, 0)) == ("✓", "")
    assert run(lab, lambda: lab["raises"](ValueError, "hint", lambda: 5)) == ("✗", "hint\n    got 5, expected a ValueError")
    assert run(lab, lambda: lab["raises"](ValueError, "hint", lambda: 1 / 0))[0] == "✗"


def test_an_error_names_the_line_of_the_answer(lab: dict[str, Any]) -> None:
    exec(compile("def answer():\n    a = 1\n    return a / 0", "<cell>", "exec"), lab)
    _, text = run(lab, lambda: lab["answer"]())
    assert text == "ZeroDivisionError: division by zero\n    in answer, line 3 of its cell"


def test_after_and_summary_count(lab: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert not lab["after"](1)
    run(lab, lambda: None, task=1)
    run(lab, lambda: lab["that"](False, "hint"), task=2)
    assert lab["after"](1)
    assert not lab["after"](1, 2)
    assert not lab["after"](2, 3)
    capsys.readouterr()
    lab["summary"](4)
    line, saving = capsys.readouterr().out.splitlines()
    assert line == "✓ 1 of 4 · ✗ 1 (task 2) · … 2 (task 3, 4)"
    assert "Drive" in saving


def test_a_later_verdict_replaces_an_earlier(lab: dict[str, Any]) -> None:
    run(lab, lambda: None)
    run(lab, lambda: lab["that"](False, "hint"))
    assert not lab["after"](1)


def test_the_title_is_the_checks_name(lab: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    exec("@check(4)\ndef rows_sum_to_one():\n    print('seen')", lab)
    assert capsys.readouterr().out == "seen\n✓ task 4 · rows sum to one\n"


def test_a_check_runs_against_a_replaced_function(lab: dict[str, Any]) -> None:
    exec("def double(x): return 2 * x\n@check(1)\ndef doubles(): same(double(3), 6, 'not doubled')", lab)
    assert lab["RESULTS"][1]["mark"] == "✓"
    lab["double"] = lambda x: x
    assert lab["_verdict"](1, lab["CHECKS"][1]) == ("✗", "not doubled\n    got 3, expected 6")


def test_it_imports_the_standard_library_and_numpy_alone() -> None:
    tree = ast.parse(HARNESS.read_text(encoding="utf-8"))
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert modules - {"numpy"} <= sys.stdlib_module_names


@pytest.mark.parametrize("minor", [10, 11, 12, 13])
def test_it_parses_on_every_python(minor: int) -> None:
    ast.parse(HARNESS.read_text(encoding="utf-8"), feature_version=(3, minor))


def test_a_wrong_earlier_task_is_named_on_a_later_cross(lab):
    def wrong() -> None:
        lab["that"](False, "a hint")

    assert run(lab, wrong, task=2) == ("✗", "a hint")
    mark, text = run(lab, wrong, task=3)
    assert mark == "✗" and text.startswith("a hint") and "task 2 is ✗ too" in text
    assert run(lab, lambda: None, task=4) == ("✓", "")
    run(lab, lambda: None, task=2)
    run(lab, lambda: None, task=3)
    assert run(lab, wrong, task=5) == ("✗", "a hint")


def test_a_name_that_is_missing_points_to_the_cell_that_defines_it(lab):
    def missing() -> None:
        answer_that_never_ran()  # noqa: F821

    mark, text = run(lab, missing)
    assert mark == "✗" and "did the cell that defines it run without an error?" in text
