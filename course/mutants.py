"""Does a check reject the mistakes it is there to catch? Wrong answers, named and generated, put in place of a solution.

    python -m course.mutants [--survivors] [stems]      counts per task; with the ids of the generated ones that got ✓

`tests/mutants/NN_name.py` belongs to `solutions/NN_name.ipynb` and holds three things:

    from course.mutants import Alternative, Mutant

    MUTANTS = [
        # a change of the solution's cell: each `old` must stand there exactly once; or a list of such pairs
        Mutant(task=2, name="no scale", replace=(" / q.shape[-1] ** 0.5", ""), hint="not divided"),
        # or a cell of its own, run in the notebook's namespace after the solution's: the imports and the other tasks' answers are there
        Mutant(task=2, name="returns nothing", code='''def attention(q, k, v):\\n    pass\\n''', hint="return missing"),
    ]                    # hint: a regular expression that the lines below ✗ must match: the hint should name the mistake
    ALTERNATIVES = [     # two right answers in another style for each task; these must get ✓
        Alternative(task=2, name="einsum", code='''def attention(q, k, v): ...'''),
    ]
    EQUIVALENT = {       # generated mutants that get ✓ because they are right answers too: id -> reason. Ids: --survivors prints them
        "2: scores = q @ k.mT -> scores = q @ k.swapaxes(-1, -2)": "swapping two axes is symmetric",
    }

Generated mutants come from the solution's syntax tree (course/mutate.py), and at least 90 % of them must get ✗; each survivor is listed under EQUIVALENT
with its reason, and an id that stands there but did not survive is an error. A mutant that runs longer than 10 s counts as rejected.
"""
