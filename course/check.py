# The check harness: run this cell once, you need not read it. It gives ✓ right, ✗ wrong with a hint, … not attempted, and never stops the notebook.
import contextlib
import io
import re
import reprlib
import signal
import warnings

import numpy as np

LIMIT_S = 60  # seconds that one check may take
CHECKS, RESULTS = {}, {}  # task number -> its check function; -> {"mark", "title", "text"}
_short = reprlib.Repr()
_short.maxother = _short.maxstring = 80


class Wrong(Exception):
    """What an answer got wrong: first what to say on the ✗ line, then the detail below it."""


class _TooLong(BaseException):
    """Not an Exception, so that an answer's own `except Exception` does not swallow it."""


class _Shortened(io.StringIO):
    """What an answer prints while it is checked: the first 2000 characters are kept."""

    def write(self, text):
        super().write(text[: max(0, 2000 - self.tell())])
        return len(text)


def _text(show, value):
    """show(value) in one line of at most 160 characters, also where that fails."""
    try:
        line = " ".join(show(value).split())
        return line if len(line) <= 160 else line[:157] + "..."
    except BaseException:
        return f"a {type(value).__name__} that cannot be shown"


@contextlib.contextmanager
def _time_limit(seconds):
    def stop(*_):
        raise _TooLong(f"stopped after {seconds} s: does a loop never end?")

    try:
        before = signal.signal(signal.SIGALRM, stop)
    except (AttributeError, ValueError):  # Windows, or not the main thread: no limit there
        before = None
    if before is not None:
        signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        if before is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def _verdict(task, test):
    """Run one check function: (mark, what to say). Nothing that an answer raises gets out."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), _time_limit(LIMIT_S):
            warnings.simplefilter("ignore")
            test()
        return "✓", ""
    except Wrong as wrong:
        return "✗", "\n    ".join(part for part in wrong.args if part)
    except BaseException as error:
        said, place, step = _text(str, error), "", error.__traceback__
        if isinstance(error, NotImplementedError) and re.fullmatch(r"(task \d+)?", said):
            return "…", "not attempted" if said in ("", f"task {task}") else f"waits for {said}"
        while step is not None:  # the innermost line that stands in this notebook, not in a library or this harness
            code = step.tb_frame.f_code
            if step.tb_frame.f_globals is globals() and code.co_filename != _verdict.__code__.co_filename:
                place = f"\n    in {code.co_name}, line {step.tb_lineno} of its cell"
            step = step.tb_next
        kind = "" if isinstance(error, _TooLong) else "stopped by you" if isinstance(error, KeyboardInterrupt) else type(error).__name__
        return "✗", ": ".join(part for part in (kind, said) if part) + place


def check(task):
    """Decorator of a check: runs it at once, prints one line (below a ✗ one more), keeps the result in RESULTS[task]."""

    def run(test):
        title, printed = test.__name__.strip("_").replace("_", " "), _Shortened()
        with contextlib.redirect_stdout(printed):
            mark, text = _verdict(task, test)
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
    """One line: how many of `total` tasks are right, which are not; then how to keep your work."""
    marks = {task: RESULTS.get(task, {}).get("mark", "…") for task in range(1, total + 1)}
    line = f"✓ {list(marks.values()).count('✓')} of {total}"
    for mark in "✗…":
        named = [str(task) for task in marks if marks[task] == mark]
        line += f" · {mark} {len(named)} (task {', '.join(named)})" if named else ""
    print(line + "\nTo keep your work in Colab: File, then Save a copy in Drive; or File, then Download, for a file to hand in.")


def _kind(value):
    return "Tensor" if hasattr(value, "detach") else "ndarray" if isinstance(value, np.ndarray) else type(value).__name__


def _array(value):
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if "bfloat16" in str(value.dtype) else value  # NumPy has no bfloat16
    return np.asarray(value)


def _form(got, want, dtype, exact):
    """How `got` differs from `want` in type, length, shape or dtype; "" where it does not."""
    if got is None and want is not None:
        return "got None: is a return missing?"
    if isinstance(want, (str, dict, list, tuple)) or want is None:
        kinds = (list, tuple) if isinstance(want, (list, tuple)) else type(want)
        if not isinstance(got, kinds):
            return f"got {_text(_short.repr, got)} ({_kind(got)}), expected a {_kind(want)}"
        return f"got {len(got)} items, expected {len(want)}" if isinstance(want, (list, tuple)) and len(got) != len(want) else ""
    if np.shape(want) and _kind(got) != _kind(want):
        return f"got {_text(_short.repr, got)} ({_kind(got)}), expected a {_kind(want)}"
    a, b = _array(got), _array(want)
    if a.dtype.kind not in "biufcO" or (a.dtype.kind == "O" and not isinstance(got, int)):
        return f"got {_text(_short.repr, got)} ({_kind(got)}), expected numbers"
    if a.shape != b.shape:
        return f"got shape {a.shape}, expected {b.shape}"
    if (a.dtype.kind == "b") != (b.dtype.kind == "b") or (exact and b.dtype.kind in "iu" and a.dtype.kind not in "iuO"):
        return f"got {_text(_short.repr, got) if not a.shape else a.dtype}, expected {'a whole number' if b.dtype.kind in 'iu' else b.dtype}"
    if dtype and a.shape and got.dtype != want.dtype:
        return f"got {got.dtype}, expected {want.dtype}"
    return ""


def _compare(got, want, hint, rtol, atol, dtype, exact, path=""):
    form = _form(got, want, dtype, exact)
    if form:
        raise Wrong(form + (f" at {path}" if path else ""), hint)
    if isinstance(want, dict):
        if set(got) != set(want):
            raise Wrong(hint, f"got keys {_text(_short.repr, list(got))}, expected {_text(_short.repr, list(want))}")
        pairs = [(key, got[key], want[key]) for key in want]
    elif isinstance(want, (list, tuple)):
        pairs = [(place, *pair) for place, pair in enumerate(zip(got, want))]
    elif isinstance(want, str) or want is None or _array(want).dtype.kind == "O" or _array(got).dtype.kind == "O":
        if type(got) is not type(want) or got != want:
            raise Wrong(hint, f"got {_text(_short.repr, got)}, expected {_text(_short.repr, want)}" + (f" at {path}" if path else ""))
        return
    else:
        a, b = np.atleast_1d(_array(got)), np.atleast_1d(_array(want))
        bad = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True) if not exact else ~((a == b) | ((a != a) & (b != b)))
        if bad.any():
            far = np.where(bad, np.nan_to_num(np.abs(a - b.astype(np.result_type(a, b, float))), nan=np.inf), -1.0)
            place = np.unravel_index(np.argmax(far), a.shape)
            at = path + (f"[{', '.join(map(str, place))}]" if np.shape(want) else "")
            count = f" ({bad.sum()} of {bad.size} values differ)" if np.shape(want) else ""
            show = (lambda x: f"{x:.5g}") if not exact else str
            raise Wrong(hint, f"got {show(a[place])}, expected {show(b[place])}" + (f" at {at}" if at else "") + count)
        return
    for place, one, other in pairs:
        _compare(one, other, hint, rtol, atol, dtype, exact, f"{path}[{place!r}]")


def close(got, want, hint, rtol=1e-4, atol=1e-5, dtype=True):
    """✗ with `hint` unless `got` is `want` up to rounding: same type, shape, dtype (unless dtype=False) and values; NaN only where wanted."""
    _compare(got, want, hint, rtol, atol, dtype, exact=False)


def same(got, want, hint):
    """✗ with `hint` unless `got` equals `want` exactly: whole numbers, booleans, text, arrays, lists or dicts of these."""
    _compare(got, want, hint, 0.0, 0.0, dtype=False, exact=True)


def has_shape(got, want, hint):
    """✗ with `hint` unless `got` is an array of this shape."""
    if not hasattr(got, "shape") or tuple(got.shape) != tuple(want):
        raise Wrong(hint, f"got {'shape ' + str(tuple(got.shape)) if hasattr(got, 'shape') else _text(_short.repr, got)}, expected shape {tuple(want)}")


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
    raise Wrong(hint, f"got {_text(_short.repr, got)}, expected a {kind.__name__}")
