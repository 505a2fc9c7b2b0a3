"""Wrong and right answers for lab 13: see course/mutants.py."""

from course.mutants import Alternative, Mutant

LOOP = """def generate(target, draft, prompt, n_new, gamma, temperature, rng):
    sequence = list(prompt)
    while len(sequence) < len(prompt) + n_new:
        drafted, q = propose(draft, sequence, gamma, {draft_t}, rng.random(gamma))
        p = verify(target, sequence, drafted, {target_t})
        sequence += judge(drafted, p, q, rng.random(gamma + 1))
        settle(target, draft, sequence)
    return sequence[len(prompt):][:n_new]
"""

MUTANTS = [
    # 1: accept or reject
    Mutant(task=1, name="accept by q over p", replace=("u * q[token] < p[token]", "u * p[token] < q[token]"), hint="q over p"),
    Mutant(task=1, name="accept iff p >= q", replace=("u * q[token] < p[token]", "p[token] >= q[token]"), hint="only where p >= q"),
    Mutant(task=1, name="accept with probability p", replace=("u * q[token] < p[token]", "u < p[token]"), hint="p alone|only where p >= q"),
    Mutant(task=1, name="accept all", replace=("u * q[token] < p[token]", "True"), hint="accepted always"),
    Mutant(task=1, name="accept all that is possible", replace=("u * q[token] < p[token]", "p[token] > 0"), hint="accepted always"),
    Mutant(task=1, name="impossible at u = 0", replace=("u * q[token] < p[token]", "u <= p[token] / q[token]"), hint="also at u = 0"),
    Mutant(task=1, name="strictly less likely is rejected with certainty", replace=("u * q[token] < p[token]", "p[token] > q[token] or u * q[token] < p[token] / 2"), hint="half of these must stay|nothing to mend"),
    Mutant(task=1, name="the rejected share", replace=("u * q[token] < p[token]", "u < 1 - p[token] / q[token]"), hint="q over p|too seldom|also at u = 0|share of accepted|half of"),
    Mutant(task=1, name="the largest token of p", replace=("u * q[token] < p[token]", "token == p.argmax()"), hint="half of these must stay"),
    # 2: residual
    Mutant(task=2, name="no residual: p itself", replace=("return missing / total if total > 0 else p", "return p"), hint="that is p itself"),
    Mutant(task=2, name="q - p", replace=("p - q", "q - p"), hint="too little"),
    Mutant(task=2, name="not cut at 0", replace=("np.maximum(p - q, 0.0)", "p - q"), hint="cut at 0|p itself"),
    Mutant(task=2, name="absolute difference", replace=("np.maximum(p - q, 0.0)", "np.abs(p - q)"), hint="divided by its sum"),
    Mutant(task=2, name="not divided", replace=("missing / total if total > 0 else p", "missing"), hint="divide by the sum"),
    Mutant(task=2, name="0 divided by 0", replace=("missing / total if total > 0 else p", "missing / total"), hint="divide by no 0"),
    Mutant(task=2, name="uniform where nothing is missing", replace=("else p", "else np.full(len(p), 1 / len(p))"), hint="return p"),
    Mutant(task=2, name="cut in place", replace=("missing = np.maximum(p - q, 0.0)", "p -= np.minimum(p, q)\n    missing = p"), hint="p or q changed|cut at 0|divided by its sum"),
    # 3: propose
    Mutant(task=3, name="temperature on one side only: not on the draft", replace=(", temperature))\n", ", 1.0))\n"), hint="at temperature 1"),
    Mutant(task=3, name="drawn at the temperature, returned at 1", replace=("        drafted.append(pick(laws[-1], number))\n        new = drafted[-1:]\n    return drafted, np.array(laws)", "        drafted.append(pick(laws[-1], number))\n        new = drafted[-1:]\n    return drafted, probabilities(np.log(np.array(laws) + 1e-300) * max(temperature, 1e-3), 1.0)"), hint="at temperature 1|at this temperature"),
    Mutant(task=3, name="greedy draft", replace=("pick(laws[-1], number)", "int(laws[-1].argmax())"), hint="not the most likely one"),
    Mutant(task=3, name="one number for all", replace=("pick(laws[-1], number)", "pick(laws[-1], u[0])"), hint="its own number"),
    Mutant(task=3, name="only the last token runs first", replace=("sequence[draft.length :]", "sequence[-1:]"), hint="before the last one never ran"),
    Mutant(task=3, name="everything again", replace=("new = sequence[draft.length :]", "draft.truncate(0)\n    new = sequence"), hint="ran again"),
    Mutant(task=3, name="the last drafted token runs too", replace=("    return drafted, np", "    _ = draft.run(new)\n    return drafted, np"), hint="last drafted token ran"),
    Mutant(task=3, name="the law of the first of the missing tokens", replace=("draft.run(new)[-1]", "draft.run(new)[0]"), hint="q\\[i\\] is the law"),
    Mutant(task=3, name="writes into the sequence", replace=("        new = drafted[-1:]", "        sequence.append(drafted[-1])\n        new = drafted[-1:]"), hint="sequence changed"),
    Mutant(task=3, name="logits", replace=[("probabilities(draft.run(new)[-1], temperature)", "draft.run(new)[-1]"), ("pick(laws[-1], number)", "pick(probabilities(laws[-1], temperature), number)")], hint="these are logits"),
    Mutant(task=3, name="only the last law", replace=("np.array(laws)", "laws[-1]"), hint="law for each"),
    Mutant(task=3, name="the last token once more", replace=("        new = drafted[-1:]", "        new = sequence[-1:]"), hint="each drafted token but the last|gamma runs|ran again"),
    # 4: verify
    Mutant(task=4, name="rows off by one", replace=("    return", "    rows = np.roll(rows, -1, axis=0)\n    return"), hint="off by one"),
    Mutant(task=4, name="rows off by one, one short", replace=("len(new) - 1 :", "len(new) :"), hint="a law for each drafted token, and one"),
    Mutant(task=4, name="the bonus row dropped", replace=("rows[len(new) - 1 :]", "rows[len(new) - 1 : -1]"), hint="one for the token behind"),
    Mutant(task=4, name="the first rows", replace=("rows[len(new) - 1 :]", "rows[: len(drafted) + 1]"), hint="first rows of the run"),
    Mutant(task=4, name="temperature on one side only: not on the target", replace=(", temperature)", ", 1.0)"), hint="on one side only"),
    Mutant(task=4, name="logits", replace=("probabilities(rows[len(new) - 1 :], temperature)", "rows[len(new) - 1 :]"), hint="these are logits"),
    Mutant(task=4, name="one run for each token", replace=("rows = target.run(new + drafted)", "rows = np.concatenate([target.run(new)] + [target.run([token]) for token in drafted])"), hint="one run for all"),
    Mutant(task=4, name="everything again", replace=("new = sequence[target.length :]", "target.truncate(0)\n    new = sequence"), hint="ran again"),
    Mutant(task=4, name="only the last token and the drafted ones", replace=("sequence[target.length :]", "sequence[-1:]"), hint="what is not held"),
    Mutant(task=4, name="the last drafted token left out", replace=("target.run(new + drafted)", "target.run(new + drafted[:-1])"), hint="all drafted tokens"),
    Mutant(task=4, name="extends the sequence", replace=("    rows = target.run(new + drafted)", "    rows = target.run(new + drafted)\n    sequence += drafted"), hint="lists changed"),
    Mutant(task=4, name="all rows", replace=("rows[len(new) - 1 :]", "rows"), hint="a law for each drafted token"),
    # 5: judge
    Mutant(task=5, name="no residual resampling", replace=("residual(p[place], q[place])", "p[place]"), hint="drawn from p"),
    Mutant(task=5, name="nothing emitted on rejection", replace=("return emitted + [pick(residual(p[place], q[place]), u[-1])]", "return emitted"), hint="nothing was emitted"),
    Mutant(task=5, name="the drafted token stays though rejected", replace=("pick(residual(p[place], q[place]), u[-1])", "token"), hint="impossible token"),
    Mutant(task=5, name="goes on after a rejection", replace=("            return emitted + [pick(residual(p[place], q[place]), u[-1])]\n", "            emitted.append(pick(residual(p[place], q[place]), u[-1]))\n            continue\n"), hint="went on after a rejection"),
    Mutant(task=5, name="rejected tokens left out, the others kept", replace=("            return emitted + [pick(residual(p[place], q[place]), u[-1])]\n", "            continue\n"), hint="went on after a rejection|nothing was emitted"),
    Mutant(task=5, name="bonus forgotten", replace=("return emitted + [pick(p[-1], u[-1])]", "return emitted"), hint="bonus token is missing"),
    Mutant(task=5, name="bonus from the draft's last law", replace=("pick(p[-1], u[-1])", "pick(q[-1], u[-1])"), hint="last row of p"),
    Mutant(task=5, name="bonus from the place of the last drafted token", replace=("pick(p[-1], u[-1])", "pick(p[-2], u[-1])"), hint="last row of p"),
    Mutant(task=5, name="verification row off by one", replace=("p[place], q[place], u[place]", "p[place + 1], q[place], u[place]"), hint=""),
    Mutant(task=5, name="residual of the next place", replace=("residual(p[place], q[place])", "residual(p[place + 1], q[place])"), hint=""),
    Mutant(task=5, name="the deciding number draws too", replace=("residual(p[place], q[place]), u[-1]", "residual(p[place], q[place]), u[place]"), hint="last number draws|one thing only|drawn from p|p alone|residual of"),
    Mutant(task=5, name="one number decides all", replace=("u[place]):", "u[0]):"), hint="u\\[i\\] decides"),
    Mutant(task=5, name="the last number decides too", replace=("u[place]):", "u[-1]):"), hint="u\\[i\\] decides|impossible|rejected at|all accepted"),
    Mutant(task=5, name="the likeliest of the residual", replace=("pick(residual(p[place], q[place]), u[-1])", "int(residual(p[place], q[place]).argmax())"), hint="do not follow|last number draws"),
    Mutant(task=5, name="the likeliest as bonus", replace=("pick(p[-1], u[-1])", "int(p[-1].argmax())"), hint="last number draws|do not follow|its bonus token"),
    Mutant(task=5, name="judged with p and q exchanged", replace=("accepts(token, p[place], q[place]", "accepts(token, q[place], p[place]"), hint="impossible|went on"),
    # 6: settle
    Mutant(task=6, name="cache rewound one short", replace=("settled = len(sequence) - 1", "settled = len(sequence) - 2"), hint="rewound too far"),
    Mutant(task=6, name="the last token kept", replace=("settled = len(sequence) - 1", "settled = len(sequence)"), hint="not rewound|or the last one"),
    Mutant(task=6, name="the target not rewound", replace=("    target.truncate(settled)\n", ""), hint="the target: not rewound"),
    Mutant(task=6, name="the draft not rewound", replace=("    draft.truncate(min(settled, draft.length))\n", ""), hint="the draft: not rewound"),
    Mutant(task=6, name="no rewind at all", replace=("    target.truncate(settled)\n    draft.truncate(min(settled, draft.length))\n", ""), hint="not rewound"),
    Mutant(task=6, name="the draft as far as the target", replace=("min(settled, draft.length)", "settled"), hint="holds less than it may"),
    Mutant(task=6, name="both emptied", replace=("settled = len(sequence) - 1", "settled = 0"), hint="emptied"),
    Mutant(task=6, name="the target as short as the draft", replace=("    target.truncate(settled)\n    draft.truncate(min(settled, draft.length))\n", "    settled = min(settled, draft.length)\n    target.truncate(settled)\n    draft.truncate(settled)\n"), hint="the target: rewound too far"),
    Mutant(task=6, name="runs the missing token", replace=("    draft.truncate(min(settled, draft.length))\n", "    draft.truncate(min(settled, draft.length))\n    if draft.length < settled:\n        _ = draft.run(sequence[draft.length : settled])\n"), hint="nothing runs|not rewound|or the last one"),
    # 7: the loop
    Mutant(task=7, name="temperature on one side only: the draft's", code=LOOP.format(draft_t="temperature", target_t="1.0"), hint="large model writes alone|law of the large model"),
    Mutant(task=7, name="temperature on neither side", code=LOOP.format(draft_t="1.0", target_t="1.0"), hint="large model writes alone|law of the large model"),
    Mutant(task=7, name="the same numbers in every round", replace=("    sequence = list(prompt)", "    sequence, u = list(prompt), rng.random(gamma + 1)\n    rng = type('Same', (), {'random': staticmethod(lambda n: u[:n])})"), hint="fresh number"),
    Mutant(task=7, name="the draft's numbers judge", replace=[("rng.random(gamma))", "(u := rng.random(gamma + 1))[:gamma])"), ("rng.random(gamma + 1))\n        settle", "u)\n        settle")], hint="fresh number"),
    Mutant(task=7, name="never settled", replace=("        settle(target, draft, sequence)\n", ""), hint="."),
    Mutant(task=7, name="not cut", replace=("[:n_new]", ""), hint="cut the answer"),
    Mutant(task=7, name="the prompt in the answer", replace=("sequence[len(prompt) :][:n_new]", "sequence[: len(prompt) + n_new]"), hint="prompt is in the answer"),
    Mutant(task=7, name="the caller's list grows", replace=("list(prompt)\n", "prompt\n"), hint="prompt grew"),
    Mutant(task=7, name="one token kept of each round", replace=("judge(drafted, p, q, rng.random(gamma + 1))", "judge(drafted, p, q, rng.random(gamma + 1))[:1]"), hint="nothing was gained|are enough"),
    Mutant(task=7, name="bonus forgotten", replace=("judge(drafted, p, q, rng.random(gamma + 1))", "judge(drafted, p, q, rng.random(gamma + 1))[:gamma]"), hint="bonus token"),
    Mutant(task=7, name="no draft at all", code="def generate(target, draft, prompt, n_new, gamma, temperature, rng):\n    return plain(target, prompt, n_new, temperature, rng)\n", hint="draft never ran"),
    Mutant(task=7, name="caches emptied every round", replace=("        settle(target, draft, sequence)", "        target.truncate(0)\n        draft.truncate(0)"), hint="ran old tokens again"),
    Mutant(task=7, name="cache rewound one short", replace=("        settle(target, draft, sequence)", "        target.truncate(len(sequence) - 2)\n        draft.truncate(min(len(sequence) - 2, draft.length))"), hint="ran old tokens again"),
    Mutant(task=7, name="drafts one token only", replace=("propose(draft, sequence, gamma, temperature, rng.random(gamma))", "propose(draft, sequence, 1, temperature, rng.random(1))"), hint="are enough"),
    Mutant(task=7, name="drafts without judging", replace=("judge(drafted, p, q, rng.random(gamma + 1))", "drafted + [pick(p[-1], rng.random())]"), hint="large model writes alone"),
    Mutant(task=7, name="the draft lacks a token for good", replace=("        settle(target, draft, sequence)", "        settle(target, draft, sequence)\n        draft.length = len(sequence) - 1"), hint="lacks one token|are enough|runs of the large model"),
    # 8: acceptance
    Mutant(task=8, name="independent draws agree", replace=("np.minimum(p, q)", "(p * q)"), hint="two independent draws"),
    Mutant(task=8, name="the larger one", replace=("np.minimum", "np.maximum"), hint="smaller of p and q"),
    Mutant(task=8, name="differences counted twice", replace=("np.minimum(p, q).sum(axis=-1)", "1 - np.abs(p - q).sum(axis=-1)"), hint="twice"),
    Mutant(task=8, name="over all places", replace=(".sum(axis=-1)", ".sum()"), hint="one number for all places"),
    Mutant(task=8, name="over the wrong axis", replace=("axis=-1", "axis=0"), hint="smaller of p and q"),
    Mutant(task=8, name="mean", replace=(".sum(axis=-1)", ".mean(axis=-1)"), hint="smaller of p and q"),
    # 9: passes
    Mutant(task=9, name="tokens, not passes", replace=("n_new / tokens", "tokens"), hint="tokens of a pass"),
    Mutant(task=9, name="rejections do not stop", replace=("sum(alpha**i for i in range(gamma + 1))", "gamma * alpha + 1"), hint="did not stop"),
    Mutant(task=9, name="gamma times alpha", replace=("sum(alpha**i for i in range(gamma + 1))", "gamma * alpha"), hint="did not stop"),
    Mutant(task=9, name="the pass's own token forgotten", replace=("range(gamma + 1)", "range(1, gamma + 1)"), hint="own token is missing"),
    Mutant(task=9, name="one term short", replace=("range(gamma + 1)", "range(gamma)"), hint="one term early"),
    Mutant(task=9, name="the fraction at alpha 1", replace=("sum(alpha**i for i in range(gamma + 1))", "(1 - alpha ** (gamma + 1)) / (1 - alpha)"), hint="0 by 0"),
    Mutant(task=9, name="gamma for gamma + 1 in the power", replace=("sum(alpha**i for i in range(gamma + 1))", "gamma + 1 if alpha == 1 else (1 - alpha**gamma) / (1 - alpha)"), hint="one term early"),
    Mutant(task=9, name="rounded up", replace=("n_new / tokens", "float(-(-n_new // tokens))"), hint="3.69 tokens"),
    # 10: gamma
    Mutant(task=10, name="most tokens, whatever they cost", code="def choose_gamma(alpha, c, most):\n    return min(range(most + 1), key=lambda gamma: predicted_passes(1, alpha, gamma))\n", hint="any draft is slower|longest draft"),
    Mutant(task=10, name="never without a draft", replace=("range(most + 1)", "range(1, most + 1)"), hint="so 0"),
    Mutant(task=10, name="the slowest", replace=("return min", "return max"), hint="so 0|smallest speed-up|longest"),
    Mutant(task=10, name="most left out", replace=("range(most + 1)", "range(most)"), hint="at most 3|most. itself|gamma with the largest"),
    Mutant(task=10, name="the large model's own time forgotten", replace=("(gamma * c + 1)", "(gamma * c)"), hint="smallest speed-up|so 0|0.05"),
    Mutant(task=10, name="the draft's time once", replace=("gamma * c + 1", "c + 1"), hint="longest draft|so 0"),
    Mutant(task=10, name="always five", code="def choose_gamma(alpha, c, most):\n    return min(5, most)\n", hint="so 0"),
    Mutant(task=10, name="speed-up in place of gamma", code="def choose_gamma(alpha, c, most):\n    return max(1 / predicted_passes(1, alpha, g) / (g * c + 1) for g in range(most + 1))\n", hint="so 0|0.05"),
    Mutant(task=10, name="of equal ones the largest", replace=("min(range(most + 1), key", "min(reversed(range(most + 1)), key"), hint="equal speed-ups"),
]

ALTERNATIVES = [
    Alternative(task=1, name="the ratio", code="def accepts(token, p, q, u):\n    return bool(u < min(1.0, p[token] / q[token]))\n"),
    Alternative(task=1, name="two cases", code="def accepts(token, p, q, u):\n    if p[token] >= q[token]:\n        return True\n    return float(u) < float(p[token]) / float(q[token])\n"),
    Alternative(task=1, name="NumPy's own truth", code="def accepts(token, p, q, u):\n    return (p / q)[token] > u\n"),
    Alternative(task=2, name="what min leaves", code="def residual(p, q):\n    rest = p - np.minimum(p, q)\n    if not rest.any():\n        return p\n    return rest / np.sum(rest)\n"),
    Alternative(task=2, name="where", code="def residual(p, q):\n    above = p > q\n    if not above.any():\n        return p.copy()\n    rest = np.where(above, p - q, 0)\n    rest /= 1 - np.minimum(p, q).sum()\n    return rest\n"),
    Alternative(task=2, name="clip", code="def residual(p, q):\n    rest = np.clip(p - q, 0, None)\n    return p if (s := rest.sum()) == 0 else rest * (1 / s)\n"),
    Alternative(task=3, name="arrays taken once", code="def propose(draft, sequence, gamma, temperature, u):\n    q, tokens = np.empty((gamma, draft.vocab)), []\n    logits = draft.run(sequence[draft.length:])[-1]\n    for i in range(gamma):\n        if i:\n            logits = draft.run([tokens[-1]])[0]\n        q[i] = probabilities(logits, temperature)\n        tokens.append(pick(q[i], u[i]))\n    return tokens, q\n"),
    Alternative(task=3, name="a copy that grows", code="def propose(draft, sequence, gamma, temperature, u):\n    n, text, q = len(sequence), list(sequence), []\n    while len(q) < gamma:\n        q += [probabilities(draft.run(text[draft.length:])[-1:], temperature)[0]]\n        text += [pick(q[-1], float(u[len(q) - 1]))]\n    return text[n:], np.stack(q)\n"),
    Alternative(task=4, name="the last rows", code="def verify(target, sequence, drafted, temperature):\n    logits = target.run((sequence + drafted)[target.length:])\n    return probabilities(logits[-len(drafted) - 1:], temperature)\n"),
    Alternative(task=4, name="row by row", code="def verify(target, sequence, drafted, temperature):\n    held = target.length\n    rows = target.run([*sequence[held:], *drafted])\n    first = len(sequence) - held - 1\n    return np.stack([probabilities(rows[first + i], temperature) for i in range(1 + len(drafted))])\n"),
    Alternative(task=5, name="count, then draw once", code="def judge(drafted, p, q, u):\n    kept = 0\n    while kept < len(drafted) and accepts(drafted[kept], p[kept], q[kept], u[kept]):\n        kept += 1\n    law = p[kept] if kept == len(drafted) else residual(p[kept], q[kept])\n    return list(drafted[:kept]) + [pick(law, u[len(drafted)])]\n"),
    Alternative(task=5, name="for and else", code="def judge(drafted, p, q, u):\n    out, gamma = [], len(drafted)\n    for x, a, b, r in zip(drafted, p, q, u):\n        if accepts(x, a, b, r):\n            out.append(x)\n        else:\n            out.append(pick(residual(a, b), u[gamma]))\n            break\n    else:\n        out.append(pick(p[gamma], u[gamma]))\n    return out\n"),
    Alternative(task=5, name="a zero row behind q", code="def judge(drafted, p, q, u):\n    q = np.vstack([q, np.zeros(p.shape[1])])\n    flags = [accepts(x, p[i], q[i], u[i]) for i, x in enumerate(drafted)] + [False]\n    a = flags.index(False)\n    return drafted[:a] + [pick(residual(p[a], q[a]), u[-1])]\n"),
    Alternative(task=6, name="both by one rule", code="def settle(target, draft, sequence):\n    for model in (target, draft):\n        model.truncate(min(model.length, len(sequence) - 1))\n"),
    Alternative(task=6, name="only where too much is held", code="def settle(target, draft, sequence):\n    end = len(sequence[:-1])\n    target.truncate(end)\n    if draft.length > end:\n        draft.truncate(end)\n"),
    Alternative(task=7, name="an answer beside the prompt", code="def generate(target, draft, prompt, n_new, gamma, temperature, rng):\n    answer = []\n    while len(answer) < n_new:\n        so_far = [*prompt, *answer]\n        tokens, q = propose(draft, so_far, gamma, temperature, rng.random(gamma))\n        answer += judge(tokens, verify(target, so_far, tokens, temperature), q, rng.random(gamma + 1))\n        settle(target, draft, [*prompt, *answer])\n    return answer[:n_new]\n"),
    Alternative(task=7, name="no more drafted than can be used", code="def generate(target, draft, prompt, n_new, gamma, temperature, rng):\n    text, end = list(prompt), len(prompt) + n_new\n    while len(text) < end:\n        g = max(1, min(gamma, end - len(text) - 1))\n        u = rng.random(2 * g + 1)\n        tokens, q = propose(draft, text, g, temperature, u[:g])\n        text.extend(judge(tokens, verify(target, text, tokens, temperature), q, u[g:]))\n        settle(target, draft, text)\n    return text[len(prompt):end]\n"),
    Alternative(task=8, name="half the distance", code="def acceptance(p, q):\n    return 1 - 0.5 * np.abs(p - q).sum(-1)\n"),
    Alternative(task=8, name="what q loses", code="def acceptance(p, q):\n    return np.sum(q, axis=-1) - np.clip(q - p, 0, 1).sum(axis=-1)\n"),
    Alternative(task=8, name="where", code="def acceptance(p, q):\n    return np.where(p < q, p, q) @ np.ones(p.shape[-1])\n"),
    Alternative(task=9, name="the fraction", code="def predicted_passes(n_new, alpha, gamma):\n    if alpha == 1:\n        return n_new / (gamma + 1)\n    return n_new * (1 - alpha) / (1 - alpha ** (gamma + 1))\n"),
    Alternative(task=9, name="Horner", code="def predicted_passes(n_new, alpha, gamma):\n    tokens = 1.0\n    for _ in range(gamma):\n        tokens = 1 + alpha * tokens\n    return n_new / tokens\n"),
    Alternative(task=10, name="argmax", code="def choose_gamma(alpha, c, most):\n    speed = [1 / (predicted_passes(1, alpha, g) * (g * c + 1)) for g in range(most + 1)]\n    return int(np.argmax(speed))\n"),
    Alternative(task=10, name="a running best", code="def choose_gamma(alpha, c, most):\n    best, record = 0, 1.0\n    for g in range(1, most + 1):\n        s = sum(alpha**i for i in range(g + 1)) / (1 + g * c)\n        if s > record:\n            best, record = g, s\n    return best\n"),
]

EQUIVALENT = {
    "10: return predicted_passes(1, alpha, gamma) * (gamma * c + 1) -> return predicted_passes(2, alpha, gamma) * (gamma * c + 1)": "the time of two tokens is smallest at the same gamma",
}
