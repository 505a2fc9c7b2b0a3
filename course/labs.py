"""Labs from solutions: `solutions/NN_name.ipynb` is the one source of `labs/NN_name.ipynb`.

    python -m course.labs [stems]             fill the solutions' generated cells, write the labs, execute what changed
    python -m course.labs --sync [stems]      fill the solutions' generated cells only (harness, summary, quiz, ids)
    python -m course.labs --check [stems]     write nothing; exit code 1 where a solution or lab is not what would be generated

The format, for the author of a solution
========================================
Work in `solutions/NN_name.ipynb`; never touch `labs/`. What a code cell is, its metadata say under "course":

    {"course": {"harness": true}}     exactly one, before the first task. Leave it empty: its source is course/check.py.
    {"course": {"task": 3, "function": "attention"}}
                                      one task. Tasks are numbered 1, 2, 3 … in the order of the cells.
    {"course": {"check": 3}}          its check; the next code cell after the task.
    {"course": {"summary": true}}     exactly one, after the last check. Leave it empty: it becomes `summary(number of tasks)`.
    {"course": {"quiz": true}}        exactly one, the last code cell. Leave it empty: it becomes `%%html` and the chapter's `section: lab` questions.
    nothing                           set-up, demonstrations: the same in the lab. Imports stand in one such cell at the top.

Before a task stands its Markdown: what to write, and why. After the last check: summary, quiz. The link to the solution is added by the generator.
A task cell holds one function or class named in the metadata, with type hints and a docstring that gives shapes and an example:

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        \"""What to write: … q [heads, n, d], k, v [heads, m, d] -> [heads, n, d].

        Example: one key only, so the answer is v, whatever q and k are.
        \"""
        ### BEGIN SOLUTION
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        return torch.softmax(scores, dim=-1) @ v
        ### END SOLUTION

In the lab everything from BEGIN to END is one line, `raise NotImplementedError("task 3")`, as deep as the BEGIN mark. Several marked parts are allowed
(two methods of a class). No line between marks that has 25 characters or more may appear anywhere else in the lab: not in text, docstring or check.

A check cell holds one function without arguments, decorated with its task's number. Its name, underscores read as blanks, is the title in the output. It
calls the task's function by its global name, seeds its own random numbers, and changes no global (counting stand-ins are put back in `finally`):

    @check(3)
    def attention_weighs_the_values():
        torch.manual_seed(0)
        q, k, v = torch.randn(3, 2, 5, 8).unbind(0)
        got = attention(q, k, v)
        close(got, F.scaled_dot_product_attention(q, k, v), "the scores are not divided by √d_k, or by something else")
        that(counter.calls == 1, "the cache is there but never read")

    close(got, want, hint, rtol=1e-4, atol=1e-5, dtype=True)   equal up to rounding. Wrong type (Tensor against ndarray), shape or dtype, None, and NaN where
                                       none is wanted are ✗. dtype=False accepts another dtype of the right values. Lists, tuples, dicts: item by item.
    same(got, want, hint)              equal exactly: whole numbers (3.0 is not 3), booleans (True is not 1), text, arrays, lists, dicts
    has_shape(got, (2, 5, 8), hint)    an array of this shape
    that(condition, hint)              anything else
    raises(ValueError, hint, function, *arguments)    function(*arguments) raises it

The first that fails ends the check: `✗ task 3 · attention weighs the values: <hint>`, below it got against expected. So order the assertions from the most
specific mistake to the whole, and let each hint name the likely mistake. Where type, shape or dtype is wrong, that leads and the hint comes second.
If a check calls the function of an earlier task, an untouched lab says `… waits for task 2`.
Only a check may call a task's function. Any other cell (a figure, a timing) does so below `if after(3):` (or `after(2, 3)`), which prints `…` until that check is ✓.

Mutants stand in `tests/mutants/NN_name.py`; see course/mutants.py.
"""
