# The check harness: run this cell once, you need not read it. It says ✓ right, ✗ wrong with a hint, … not attempted, and never stops the notebook.
import contextlib
import io
import re
import reprlib
import signal
import threading
import warnings

import numpy as np

LIMIT_S = 60  # seconds that one check may take
CHECKS, RESULTS = {}, {}  # task number -> its check function; -> {"mark", "title", "text"}
_short = reprlib.Repr()
_short.maxother = _short.maxstring = 80


class Wrong(Exception):
    """Why an answer is wrong: what stands on the ✗ line, then the line below it."""


class _TooLong(BaseException):
    """Not an Exception, so that an answer's own `except Exception` does not swallow it."""


class _Shortened(io.StringIO):  # keeps the first 2000 characters that an answer prints while it is checked
    def write(self, text):
        super().write(text[: max(0, 2000 - self.tell())])
        return len(text)


def _text(value, show=_short.repr):  # one line of at most 160 characters, also where showing the value fails
    try:
        line = " ".join(show(value).split())
        return line if len(line) <= 160 else line[:157] + "..."
    except BaseException:
        return f"a {type(value).__name__} that cannot be shown"


@contextlib.contextmanager
def _time_limit(seconds):
    def stop(*_):
        raise _TooLong(f"stopped after {seconds} s: does a loop never end?")

    possible = hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()  # not on Windows
    if possible:
        before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        if possible:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def _verdict(task, test):  # run one check function: its mark and what to say. Nothing that an answer raises gets out
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), _time_limit(LIMIT_S):
            warnings.simplefilter("ignore")
            test()
        return "✓", ""
    except Wrong as wrong:
        return "✗", "\n    ".join(part for part in wrong.args if part)
    except BaseException as error:
        said, place, step = _text(error, str), "", error.__traceback__
        if isinstance(error, NotImplementedError) and re.fullmatch(r"(task \d+)?", said):
            return "…", "not attempted" if said in ("", f"task {task}") else f"waits for {said}"
        while step is not None:  # the innermost line of the notebook itself, not of a library or this harness
            code = step.tb_frame.f_code
            if step.tb_frame.f_globals is globals() and code.co_filename != _verdict.__code__.co_filename:
                place = f"\n    in {code.co_name}, line {step.tb_lineno} of its cell"
            step = step.tb_next
        kind = "" if isinstance(error, _TooLong) else "stopped by you" if isinstance(error, KeyboardInterrupt) else type(error).__name__
        said += ": did the cell that defines it run without an error?" if isinstance(error, NameError) else ""
        return "✗", ": ".join(part for part in (kind, said) if part) + place


def check(task):
    """Decorator of a check: runs it at once, prints what it says, keeps that in RESULTS[task]."""

    def run(test):
        title, printed = test.__name__.replace("_", " "), _Shortened()
        with contextlib.redirect_stdout(printed):
            mark, text = _verdict(task, test)
        wrong = [str(other) for other, result in sorted(RESULTS.items()) if other < task and result["mark"] == "✗"]
        if mark == "✗" and wrong:
            text += f"\n    (task {', '.join(wrong)} is ✗ too: where this task uses it, mend it first)"
        CHECKS[task], RESULTS[task] = test, {"mark": mark, "title": title, "text": text}
        if not printed.closed and printed.getvalue():
            print(printed.getvalue().rstrip("\n"))
        print(f"{mark} task {task} · {title}" + (f": {text}" if text else ""))
        return test

    return run


def after(*tasks):
    """True once the checks of these tasks are ✓; until then prints …, so that `if after(3):` guards a cell that uses task 3."""
    waiting = [str(task) for task in tasks if RESULTS.get(task, {}).get("mark") != "✓"]
    if waiting:
        print(f"… this cell waits for task {' and '.join(waiting)}")
    return not waiting


def summary(total):
    """How many of `total` tasks are right, which are not, and how to keep your work."""
    marks = {task: RESULTS.get(task, {}).get("mark", "…") for task in range(1, total + 1)}
    line = f"✓ {list(marks.values()).count('✓')} of {total}"
    for mark in "✗…":
        named = [str(task) for task in marks if marks[task] == mark]
        line += f" · {mark} {len(named)} (task {', '.join(named)})" if named else ""
    print(line + "\nTo keep your work in Colab: File, then Save a copy in Drive; or File, then Download, for a file to hand in.")


def _array(value):
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if "bfloat16" in str(value.dtype) else value  # NumPy has no bfloat16
    return np.asarray(value)


def _numbers(got, want, hint, rtol, atol, dtype, spot):  # raises Wrong where two numbers or arrays differ; rtol None: at all
    kinds = ["Tensor" if hasattr(value, "detach") else type(value).__name__ for value in (got, want)]
    a, b, exact = _array(got), _array(want), rtol is None
    if a.dtype.kind not in "biufc" or (b.shape and kinds[0] != kinds[1]):
        raise Wrong(f"got {_text(got)} ({kinds[0]}), expected {kinds[1]}{spot}", hint)
    if a.shape != b.shape:
        raise Wrong(f"got shape {a.shape}, expected {b.shape}{spot}", hint)
    if dtype and b.shape and got.dtype != want.dtype:
        raise Wrong(f"got {got.dtype}, expected {want.dtype}{spot}", hint)
    if (a.dtype.kind == "b") != (b.dtype.kind == "b") or (exact and b.dtype.kind in "iu" and a.dtype.kind not in "iu"):
        raise Wrong(f"got {_text(got)}, expected {'a whole number' if b.dtype.kind in 'iu' else b.dtype}{spot}", hint)
    bad = np.asarray((a != b) & ~((a != a) & (b != b)) if exact else ~np.isclose(a, b, rtol, atol, equal_nan=True))
    if bad.any():
        place = tuple(int(index) for index in np.argwhere(bad)[0])
        shown = [str(x[place]) if exact or x.dtype.kind in "biu" else f"{x[place]:.5g}" for x in (a, b)]
        spot = f"{spot or ' at '}{list(place)} ({bad.sum()} of {bad.size} values differ)" if place else spot
        raise Wrong(hint, f"got {shown[0]}, expected {shown[1]}{spot}")


def _compare(got, want, hint, rtol, atol, dtype, spot=""):
    if got is None and want is not None:
        raise Wrong(f"got None: is a return missing?{spot}", hint)
    if isinstance(want, (list, tuple, dict)):
        alike = isinstance(got, dict) and set(got) == set(want) if isinstance(want, dict) else isinstance(got, (list, tuple)) and len(got) == len(want)
        if not alike:
            raise Wrong(f"got {_text(got)}, expected {_text(list(want))} as {'keys' if isinstance(want, dict) else 'items'}{spot}", hint)
        for place in want if isinstance(want, dict) else range(len(want)):
            _compare(got[place], want[place], hint, rtol, atol, dtype, f"{spot or ' at '}[{place!r}]")
    elif isinstance(want, str) or want is None or _array(want).dtype.kind == "O":  # O: a whole number beyond 64 bits
        if type(got) is not type(want) or got != want:
            raise Wrong(hint, f"got {_text(got)}, expected {_text(want)}{spot}")
    else:
        _numbers(got, want, hint, rtol, atol, dtype, spot)


def close(got, want, hint, rtol=1e-4, atol=1e-5, dtype=True):
    """✗ with `hint` unless `got` is `want` up to rounding: same type, shape, dtype (unless dtype=False) and values; NaN only where wanted."""
    _compare(got, want, hint, rtol, atol, dtype)


def same(got, want, hint):
    """✗ with `hint` unless `got` equals `want` exactly: whole numbers, booleans, text, arrays, lists or dicts of these."""
    _compare(got, want, hint, None, None, dtype=False)


def has_shape(got, want, hint):
    """✗ with `hint` unless `got` is an array of this shape."""
    if not hasattr(got, "shape") or tuple(got.shape) != tuple(want):
        raise Wrong(hint, f"got {'shape ' + str(tuple(got.shape)) if hasattr(got, 'shape') else _text(got)}, expected shape {tuple(want)}")


def that(condition, hint):
    """✗ with `hint` unless the condition holds."""
    if not bool(condition):
        raise Wrong(hint)


def raises(kind, hint, function, *arguments, **named):
    """✗ with `hint` unless function(*arguments, **named) raises `kind`."""
    try:
        got = function(*arguments, **named)
    except kind as error:
        if isinstance(error, NotImplementedError) and kind is not NotImplementedError:
            raise
        return
    raise Wrong(hint, f"got {_text(got)}, expected a {kind.__name__}")
