"""Lab 5's wrong answers, each with the hint that must name it, and right answers in another style."""

from course.mutants import Alternative, Mutant

MUTANTS = [
    # 1: the stopwatch
    Mutant(task=1, name="no warm-up", replace=("range(warmup)", "range(0)"), hint="slow first calls"),
    Mutant(task=1, name="clock read before synchronise", replace=("        synchronize()\n        timings.append((clock() - start) / inner)", "        timings.append((clock() - start) / inner)\n        synchronize()"), hint="queue a call|before the device had finished"),
    Mutant(task=1, name="never synchronises", code="def seconds_per_call(calls, clock, synchronize, warmup=3, repeats=9, inner=1):\n    turn = itertools.cycle(calls)\n    for _ in range(warmup):\n        next(turn)()\n    timings = []\n    for _ in range(repeats):\n        start = clock()\n        for _ in range(inner):\n            next(turn)()\n        timings.append((clock() - start) / inner)\n    return statistics.median(timings)\n", hint="before the device had finished"),
    Mutant(task=1, name="device not idle at the start", replace=("        synchronize()\n        start", "        start"), hint="slow first calls|warm-up was still running"),
    Mutant(task=1, name="mean for median", replace=("statistics.median", "statistics.fmean"), hint="this is the mean"),
    Mutant(task=1, name="fastest for median", replace=("statistics.median", "min"), hint="fastest timing"),
    Mutant(task=1, name="the same weight every call", replace=("itertools.cycle(calls)", "itertools.repeat(calls[0])"), hint="out of the cache"),
    Mutant(task=1, name="total instead of per call", replace=("(clock() - start) / inner", "clock() - start"), hint="all the inner calls together"),
    Mutant(task=1, name="cycle starts anew after the warm-up", replace=("    timings = []", "    timings, turn = [], itertools.cycle(calls)"), hint="order of the calls|two in a row|cycle"),
    # 2: cold weights
    Mutant(task=2, name="one copy: a hot cache", code="def cold_copies(weight_bytes, cache_bytes):\n    return 1\n", hint="one copy is read from the cache"),
    Mutant(task=2, name="the copy itself counted among the others", replace=("others + 1", "others"), hint="one more"),
    Mutant(task=2, name="once the cache", replace=("ceil(2 * cache_bytes", "ceil(cache_bytes"), hint="ask for twice"),
    Mutant(task=2, name="rounded down", replace=("math.ceil(2 * cache_bytes / weight_bytes)", "2 * cache_bytes // weight_bytes"), hint="round the number of others up"),
    Mutant(task=2, name="always one more", replace=("math.ceil(2 * cache_bytes / weight_bytes)", "2 * cache_bytes // weight_bytes + 1"), hint="four others|at least twice"),
    # 3: what a product costs
    Mutant(task=3, name="FLOPs without the 2", replace=("2 * m * k * n", "m * k * n"), hint="lack the 2"),
    Mutant(task=3, name="elements for bytes", replace=("element_bytes * (m * k + k * n + m * n)", "m * k + k * n + m * n"), hint="elements, not bytes"),
    Mutant(task=3, name="the weight only", replace=("(m * k + k * n + m * n)", "(k * n)"), hint="operand or the result is missing"),
    Mutant(task=3, name="no result", replace=(" + m * n)", ")"), hint="operand or the result is missing"),
    Mutant(task=3, name="intensity inverted", replace=("flops / moved", "moved / flops"), hint="upside down"),
    # 4: roofline
    Mutant(task=4, name="min for max", replace=("max(", "min("), hint="faster of the two cannot"),
    Mutant(task=4, name="sum for max", replace=("max(arithmetic, memory)", "arithmetic + memory"), hint="were added"),
    Mutant(task=4, name="GB as GiB", replace=("gb_per_s * 1e9", "gb_per_s * 2**30"), hint="2\\^30 is a GiB"),
    Mutant(task=4, name="bandwidth in TB", replace=("gb_per_s * 1e9", "gb_per_s * 1e12"), hint="70.5 ms"),
    # 5: a decode step
    Mutant(task=5, name="weights times batch", replace=("element_bytes * (stack.weights + batch * kv_elements)", "element_bytes * batch * (stack.weights + kv_elements)"), hint="whole batch reads them once"),
    Mutant(task=5, name="KV not times batch", replace=("batch * kv_elements", "kv_elements"), hint="each one of the batch has its own"),
    Mutant(task=5, name="K without V", replace=("kv_elements = 2 * ", "kv_elements = "), hint="only K, or only V"),
    Mutant(task=5, name="KV with the queries' heads", replace=("stack.n_kv_heads", "stack.n_heads"), hint="n_kv_heads heads"),
    Mutant(task=5, name="no KV at all", replace=("(stack.weights + batch * kv_elements)", "stack.weights"), hint="keys and values are missing"),
    Mutant(task=5, name="elements for bytes", replace=("element_bytes * (stack.weights + batch * kv_elements)", "stack.weights + batch * kv_elements"), hint="times element_bytes"),
    Mutant(task=5, name="FLOPs without the 2", replace=("(2 * stack.weights", "(stack.weights"), hint="lack the 2"),
    Mutant(task=5, name="no attention FLOPs", replace=("2 * stack.weights + attention_flops", "2 * stack.weights"), hint="attention over the context are missing"),
    Mutant(task=5, name="one of attention's two products", replace=("attention_flops = 4", "attention_flops = 2"), hint="two products"),
    Mutant(task=5, name="attention FLOPs with n_kv_heads", replace=("stack.n_heads", "stack.n_kv_heads"), hint="every query head computes"),
    Mutant(task=5, name="FLOPs of one sequence", replace=("flops = batch * (2", "flops = (2"), hint="one sequence only"),
    # 6: prefill
    Mutant(task=6, name="no attention", replace=(" + 4 * stack.n_layers * stack.n_heads * stack.head_dim * pairs", ""), hint="attention is missing"),
    Mutant(task=6, name="the whole square", replace=("tokens * (tokens + 1) // 2", "tokens * tokens"), hint="up to the diagonal"),
    Mutant(task=6, name="a token does not see itself", replace=("(tokens + 1)", "(tokens - 1)"), hint="looks at itself|attention is missing"),
    Mutant(task=6, name="attention grows with the prompt only", replace=("tokens * (tokens + 1) // 2", "tokens"), hint="square of the prompt"),
    Mutant(task=6, name="weights without the 2", replace=("2 * stack.weights", "stack.weights"), hint="lack the 2"),
    Mutant(task=6, name="one prompt", replace=("batch * one_prompt", "one_prompt"), hint="times the batch"),
    # 7: MFU and MBU
    Mutant(task=7, name="MFU with bytes", replace=("mfu = flops", "mfu = moved"), hint="not of bytes|it counts FLOPs"),
    Mutant(task=7, name="MBU from FLOPs", replace=("mbu = moved", "mbu = flops"), hint="a share of thousands|it counts bytes"),
    Mutant(task=7, name="MFU with bytes in the peak's place", code="def utilization(flops, moved, seconds, peak_tflops, gb_per_s):\n    return moved / seconds / (peak_tflops * 1e9), moved / seconds / (gb_per_s * 1e9)\n", hint="it counts FLOPs"),
    Mutant(task=7, name="swapped", replace=("return mfu, mbu", "return mbu, mfu"), hint="swapped"),
    Mutant(task=7, name="per cent", replace=("return mfu, mbu", "return 100 * mfu, 100 * mbu"), hint="per cent"),
    Mutant(task=7, name="peak as printed", replace=("(peak_tflops * 1e12)", "peak_tflops"), hint="turned into units"),
    # 8: what the user sees
    Mutant(task=8, name="TPOT divided by out", replace=("/ (len(stamps) - 1)", "/ len(stamps)"), hint="divided by all tokens"),
    Mutant(task=8, name="TPOT is E2E over tokens", replace=("(e2e - ttft) / (len(stamps) - 1)", "e2e / len(stamps)"), hint="holds the time to the first token"),
    Mutant(task=8, name="TPOT including the first token", replace=("(e2e - ttft)", "e2e"), hint="take TTFT off"),
    Mutant(task=8, name="ITL mean instead of differences", replace=("    tpot =", "    itl = statistics.fmean(itl or [0.0])\n    tpot ="), hint="not their mean"),
    Mutant(task=8, name="ITL includes TTFT", replace=("zip(stamps, stamps[1:])", "zip([arrival, *stamps], stamps)"), hint="one gap too many"),
    Mutant(task=8, name="TTFT without the arrival", replace=("stamps[0] - arrival", "stamps[0]"), hint="from the arrival"),
    Mutant(task=8, name="E2E from the first token", replace=("stamps[-1] - arrival", "stamps[-1] - stamps[0]"), hint="not from the first token"),
    Mutant(task=8, name="TPOT of one token is 0", replace=("math.nan", "0.0"), hint="NaN, not 0"),
    Mutant(task=8, name="share of decode", replace=('"tpot": tpot, "prefill_share": ttft / e2e', '"tpot": tpot, "prefill_share": 1 - ttft / e2e'), hint="TTFT over E2E"),
    # 9: where keys and values take over
    Mutant(task=9, name="K without V", replace=("one_sequence = 2 * ", "one_sequence = "), hint="count K and V"),
    Mutant(task=9, name="all heads", replace=("stack.n_kv_heads", "stack.n_heads"), hint="n_kv_heads heads"),
    Mutant(task=9, name="rounded down", replace=("math.ceil(weight_bytes / one_sequence)", "weight_bytes // one_sequence"), hint="rounded down"),
    Mutant(task=9, name="weights of one layer", replace=("stack.weights *", "stack.weights / stack.n_layers *"), hint="one layer"),
    Mutant(task=9, name="one dtype for both", replace=("kv_element_bytes\n", "weight_element_bytes\n"), hint="each with its own size"),
    Mutant(task=9, name="one too many when exact", replace=("math.ceil(weight_bytes / one_sequence)", "weight_bytes // one_sequence + 1"), hint="exactly as much"),
]

ALTERNATIVES = [
    Alternative(task=1, name="an index and a sorted list", code="def seconds_per_call(calls, clock, synchronize, warmup=3, repeats=9, inner=1):\n    done = 0\n    def go(n):\n        nonlocal done\n        for _ in range(n):\n            calls[done % len(calls)]()\n            done += 1\n    go(warmup)\n    synchronize()\n    seen = []\n    for _ in range(repeats):\n        before = clock()\n        go(inner)\n        synchronize()\n        seen.append(clock() - before)\n    return sorted(seen)[repeats // 2] / inner\n"),
    Alternative(task=1, name="torch's median", code="def seconds_per_call(calls, clock, synchronize, warmup=3, repeats=9, inner=1):\n    order = [calls[i % len(calls)] for i in range(warmup + repeats * inner)]\n    for call in order[:warmup]:\n        call()\n    out = []\n    for r in range(repeats):\n        synchronize()\n        t = clock()\n        for call in order[warmup + r * inner : warmup + (r + 1) * inner]:\n            call()\n        synchronize()\n        out.append(clock() - t)\n    return torch.tensor(out, dtype=torch.float64).median().item() / inner\n"),
    Alternative(task=2, name="whole numbers", code="def cold_copies(weight_bytes, cache_bytes):\n    return 1 - (-2 * cache_bytes) // weight_bytes\n"),
    Alternative(task=2, name="a loop", code="def cold_copies(weight_bytes, cache_bytes):\n    n = 1\n    while (n - 1) * weight_bytes < 2 * cache_bytes:\n        n += 1\n    return n\n"),
    Alternative(task=3, name="multiply-adds, then twice", code="def product_cost(m, k, n, element_bytes):\n    macs = m * n * k\n    numbers = k * (m + n) + m * n\n    return macs + macs, numbers * element_bytes, 2 * macs / (numbers * element_bytes)\n"),
    Alternative(task=3, name="from tensors", code="def product_cost(m, k, n, element_bytes):\n    a, b = torch.empty(m, k, device='meta'), torch.empty(k, n, device='meta')\n    total = sum(t.numel() for t in (a, b, a @ b)) * element_bytes\n    return m * n * (2 * k), total, (2.0 * m * n * k) / total\n"),
    Alternative(task=4, name="a condition", code="def roofline_seconds(flops, moved, peak_tflops, gb_per_s):\n    compute, memory = flops / peak_tflops / 1e12, moved / gb_per_s / 1e9\n    return compute if compute > memory else memory\n"),
    Alternative(task=4, name="over the attainable rate", code="def roofline_seconds(flops, moved, peak_tflops, gb_per_s):\n    if not flops:\n        return moved / (gb_per_s * 1e9)\n    return flops / min(peak_tflops * 1e12, flops / moved * gb_per_s * 1e9)\n"),
    Alternative(task=5, name="sequence by sequence", code="def decode_step(stack, batch, context, element_bytes):\n    flops, read = 0, stack.weights\n    for _ in range(batch):\n        flops += 2 * stack.weights + stack.n_layers * stack.n_heads * context * (2 * stack.head_dim + 2 * stack.head_dim)\n        read += stack.n_layers * stack.n_kv_heads * context * (stack.head_dim + stack.head_dim)\n    return flops, read * element_bytes\n"),
    Alternative(task=5, name="from the cache's tensor", code="def decode_step(stack, batch, context, element_bytes):\n    keys = torch.empty(batch, stack.n_layers, context, stack.n_kv_heads, stack.head_dim, device='meta').numel()\n    group = stack.n_heads // stack.n_kv_heads\n    return 2 * batch * stack.weights + 4 * keys * group, (2 * keys + stack.weights) * element_bytes\n"),
    Alternative(task=6, name="a sum over the tokens", code="def prefill_flops(stack, batch, tokens):\n    return batch * sum(2 * stack.weights + 4 * stack.n_layers * stack.n_heads * stack.head_dim * (i + 1) for i in range(tokens))\n"),
    Alternative(task=6, name="decode steps added up", code="def prefill_flops(stack, batch, tokens):\n    return sum(decode_step(stack, batch, seen, 2)[0] for seen in range(1, tokens + 1))\n"),
    Alternative(task=7, name="ideal times over the real one", code="def utilization(flops, moved, seconds, peak_tflops, gb_per_s):\n    return flops / 1e12 / peak_tflops / seconds, moved / 1e9 / gb_per_s / seconds\n"),
    Alternative(task=7, name="with the roofline", code="def utilization(flops, moved, seconds, peak_tflops, gb_per_s):\n    return roofline_seconds(flops, 0, peak_tflops, gb_per_s) / seconds, roofline_seconds(0, moved, peak_tflops, gb_per_s) / seconds\n"),
    Alternative(task=8, name="mean of the gaps", code="def token_times(arrival, stamps):\n    gaps = [stamps[i + 1] - stamps[i] for i in range(len(stamps) - 1)]\n    first, total = stamps[0] - arrival, stamps[-1] - arrival\n    return dict(ttft=first, itl=gaps, e2e=total, tpot=statistics.fmean(gaps) if gaps else float('nan'), prefill_share=first / total)\n"),
    Alternative(task=8, name="torch", code="def token_times(arrival, stamps):\n    s = torch.tensor(stamps, dtype=torch.float64)\n    return {'e2e': (s[-1] - arrival).item(), 'ttft': (s[0] - arrival).item(), 'itl': s.diff().tolist(), 'tpot': s.diff().mean().item(), 'prefill_share': ((s[0] - arrival) / (s[-1] - arrival)).item()}\n"),
    Alternative(task=9, name="whole numbers", code="def balance_batch(stack, context, weight_element_bytes, kv_element_bytes):\n    one = stack.n_layers * context * stack.n_kv_heads * (stack.head_dim * 2) * kv_element_bytes\n    return -(-stack.weights * weight_element_bytes // one)\n"),
    Alternative(task=9, name="with the decode step", code="def balance_batch(stack, context, weight_element_bytes, kv_element_bytes):\n    one = decode_step(stack, 1, context, kv_element_bytes)[1] - decode_step(stack, 0, context, kv_element_bytes)[1]\n    whole, rest = divmod(stack.weights * weight_element_bytes, one)\n    return whole + (rest > 0)\n"),
]

_ONE_MORE = "one part in 10^9 or less, far below what any check or measurement can weigh"
EQUIVALENT = {
    "4: arithmetic = flops / (peak_tflops * 1000000000000.0) -> arithmetic = flops / (peak_tflops * 1000000000001.0)": _ONE_MORE,
    "4: memory = moved / (gb_per_s * 1000000000.0) -> memory = moved / (gb_per_s * 1000000001.0)": _ONE_MORE,
    "7: mfu = flops / seconds / (peak_tflops * 1000000000000.0) -> mfu = flops / seconds / (peak_tflops * 1000000000001.0)": _ONE_MORE,
    "7: mbu = moved / seconds / (gb_per_s * 1000000000.0) -> mbu = moved / seconds / (gb_per_s * 1000000001.0)": _ONE_MORE,
}
