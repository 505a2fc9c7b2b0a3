"""Wrong and right answers for lab 15: see course/mutants.py."""

from course.mutants import Alternative, Mutant

MUTANTS = [
    # 1: events from bytes
    Mutant(task=1, name="a piece is an event", code='class Events:\n    def feed(self, piece):\n        return [part.removeprefix("data: ") for part in piece.decode().split("\\n\\n") if part]\n', hint="empty line has not come|not complete"),
    Mutant(task=1, name="forgets the rest", replace=("*lines, self.rest = (self.rest + piece).split", "*lines, self.rest = piece.split"), hint="keep the rest"),
    Mutant(task=1, name="decodes too early", replace=[("(self.rest + piece).split(b\"\\n\")", "(self.rest + piece.decode().encode()).split(b\"\\n\")")], hint="half of it decoded"),
    Mutant(task=1, name="replaces half characters", code='class Events:\n    def __init__(self):\n        self.rest, self.lines = "", []\n    def feed(self, piece):\n        *lines, self.rest = (self.rest + piece.decode(errors="replace")).split("\\n")\n        found = []\n        for line in lines:\n            line = line.removesuffix("\\r")\n            if line.startswith("data:"):\n                self.lines.append(line[5:].removeprefix(" "))\n            elif not line and self.lines:\n                found.append("\\n".join(self.lines))\n                self.lines = []\n        return found\n', hint="the same bytes, cut"),
    Mutant(task=1, name="only the last event of a piece", replace=("found.append(\"\\n\".join(self.lines))", "found = [\"\\n\".join(self.lines)]"), hint="three events in one piece"),
    Mutant(task=1, name="strips all blanks", replace=(".removeprefix(b\" \")", ".strip()"), hint="one blank after the colon"),
    Mutant(task=1, name="always cuts six", replace=("line[5:].removeprefix(b\" \")", "line[6:]"), hint="one blank after the colon"),
    Mutant(task=1, name="a line is an event", replace=("                self.lines.append(line[5:].removeprefix(b\" \").decode())", "                found.append(line[5:].removeprefix(b\" \").decode())"), hint="not complete"),
    Mutant(task=1, name="carriage returns stay", replace=(".removesuffix(b\"\\r\")", ""), hint="lines may end"),
    Mutant(task=1, name="data anywhere", replace=("line.startswith(b\"data:\")", "b\"data:\" in line"), hint="only if it begins with data"),
    Mutant(task=1, name="any line ends an event", replace=("elif not line and self.lines", "elif self.lines"), hint="does not end it"),
    Mutant(task=1, name="one state for all", code='class Events(Events):\n    rest, lines = b"", []\n    def __init__(self):\n        pass\n', hint="three events|keeps its own"),
    Mutant(task=1, name="splitlines of an event", code='import codecs\nclass Events:\n    def __init__(self):\n        self.decoder, self.text = codecs.getincrementaldecoder("utf-8")(), ""\n    def feed(self, piece):\n        *blocks, self.text = (self.text + self.decoder.decode(piece)).replace("\\r\\n", "\\n").split("\\n\\n")\n        found = [[line[5:].removeprefix(" ") for line in block.splitlines() if line.startswith("data:")] for block in blocks]\n        return ["\\n".join(data) for data in found if data]\n', hint="str.splitlines"),
    Mutant(task=1, name="begins with data, without the colon", replace=("line.startswith(b\"data:\")", "line.startswith(b\"data\")"), hint="only if it begins with data"),
    Mutant(task=1, name="blanks before data", replace=("line = line.removesuffix(b\"\\r\")", "line = line.removesuffix(b\"\\r\").lstrip()"), hint="begins with data|holds a blank"),
    Mutant(task=1, name="a line of blanks is empty", replace=("elif not line and self.lines", "elif not line.strip() and self.lines"), hint="holds a blank"),
    # 2: one request, timed
    Mutant(task=2, name="the clock starts when it is sent", replace=("Record(due=due, sent=clock())", "Record(due=clock(), sent=clock())"), hint="coordinated omission|due is the moment"),
    Mutant(task=2, name="the wall clock", replace=("now = clock()", "now = time.time()"), hint="can go backwards"),
    Mutant(task=2, name="another clock", replace=("now = clock()", "now = time.perf_counter() % 100"), hint="not of clock"),
    Mutant(task=2, name="a difference", replace=("now = clock()", "now = clock() - due"), hint="a difference was stored"),
    Mutant(task=2, name="every event is a token", replace=("if choice.get(\"text\"):", "if True:"), hint="has none"),
    Mutant(task=2, name="[DONE] is a token", replace=("answer = {} if data == \"[DONE]\" else json.loads(data)", "answer = {} if data == \"[DONE]\" else json.loads(data)\n                    record.times.append(now)"), hint="are not tokens|has none|ms from due"),
    Mutant(task=2, name="tokens counted as events", replace=("answer[\"usage\"][\"completion_tokens\"], True", "len(record.times), True"), hint="events are not tokens"),
    Mutant(task=2, name="tokens counted as words", replace=("answer[\"usage\"][\"completion_tokens\"], True", "len(record.text.split()), True"), hint="completion_tokens|tokens"),
    Mutant(task=2, name="all tokens, the prompt's too", replace=("[\"completion_tokens\"]", "[\"prompt_tokens\"]"), hint="completion_tokens|tokens"),
    Mutant(task=2, name="one time for each piece", replace=[("                            record.times.append(now)\n", ""), ("                now = clock()\n", "                now = clock()\n                record.times.append(now)\n")], hint="has none|ms from due|are not tokens"),
    Mutant(task=2, name="failures raise", replace=("except Exception as error:", "except ZeroDivisionError as error:"), hint="ServerError|status 503|Error"),
    Mutant(task=2, name="a refusal is an answer", replace=('        record.error = f"{type(error).__name__}: {error}"', "        pass"), hint="fast answer"),
    Mutant(task=2, name="failures return nothing", replace=('        record.error = f"{type(error).__name__}: {error}"', "        return None"), hint="also for a failure"),
    Mutant(task=2, name="half an answer is an answer", replace=("if not (finished and counted):", "if not (finished or counted):"), hint="abort"),
    Mutant(task=2, name="the end is not looked at", replace=("if not (finished and counted):", "if False:"), hint="fast answer|abort"),
    Mutant(task=2, name="any reason will do", replace=("choice.get(\"finish_reason\") in (\"stop\", \"length\")", "choice.get(\"finish_reason\") is not None"), hint="abort"),
    Mutant(task=2, name="only length", replace=("in (\"stop\", \"length\")", "== \"length\""), hint="ended with a stop"),
    Mutant(task=2, name="errors in the stream are skipped", replace=('                        raise ServerError(str(answer["error"]))', "                        continue"), hint="put what it says into error"),
    Mutant(task=2, name="null is an error", replace=('if answer.get("error"):', 'if "error" in answer:'), hint="null is no error"),
    Mutant(task=2, name="waits for ever", replace=("asyncio.timeout(patience)", "asyncio.timeout(None)"), hint="give up"),
    Mutant(task=2, name="wants [DONE]", replace=[("events, finished, counted = Events(), False, False", "events, finished, counted, done = Events(), False, False, False"), ('answer = {} if data == "[DONE]" else json.loads(data)', 'answer = {} if data == "[DONE]" else json.loads(data)\n                    done = data == "[DONE]"'), ("if not (finished and counted):", "if not (finished and counted and done):")], hint=r"no \[DONE\] at the end"),
    Mutant(task=2, name="no usage asked for", replace=("completions\", body_of(prompt, max_tokens))", "completions\", {k: v for k, v in body_of(prompt, max_tokens).items() if k != 'stream_options'})"), hint="body_of"),
    Mutant(task=2, name="ended is forgotten on failure", replace=('        record.error = f"{type(error).__name__}: {error}"\n', '        record.error = f"{type(error).__name__}: {error}"\n        return record\n'), hint="ended is when it failed"),
    Mutant(task=2, name="the first event of a piece", replace=("for data in events.feed(piece):", "for data in events.feed(piece)[:0] or json and [d for d in [piece.decode().removeprefix('data: ').strip()] if d]:"), hint="cut into three|the reason and usage"),
    Mutant(task=2, name="patience for each event", code='async def ask(connect, prompt, max_tokens, due, patience=PATIENCE):\n    record = Record(due=due, sent=clock())\n    events, finished, counted = Events(), False, False\n    stream = post(connect, "/v1/completions", body_of(prompt, max_tokens))\n    try:\n        while True:\n            try:\n                piece = await asyncio.wait_for(anext(stream), patience)\n            except StopAsyncIteration:\n                break\n            for data in events.feed(piece):\n                answer = {} if data == "[DONE]" else json.loads(data)\n                if answer.get("error"):\n                    raise ServerError(str(answer["error"]))\n                for choice in answer.get("choices", ()):\n                    if choice.get("text"):\n                        record.times.append(clock())\n                        record.text += choice["text"]\n                    finished = finished or choice.get("finish_reason") in ("stop", "length")\n                if answer.get("usage"):\n                    record.tokens, counted = answer["usage"]["completion_tokens"], True\n        if not (finished and counted):\n            record.error = "stopped"\n    except Exception as error:\n        record.error = f"{type(error).__name__}: {error}"\n    record.ended = clock()\n    return record\n', hint="whole request"),
    Mutant(task=2, name="cannot be cancelled", replace=("except Exception as error:", "except BaseException as error:"), hint="CancelledError"),
    Mutant(task=2, name="ended with the last text", replace=("record.ended = clock()", "record.ended = record.times[-1] if record.times and not record.error else clock()"), hint="when the stream ended"),
    Mutant(task=2, name="a failure ended with its last text", replace=("record.ended = clock()", "record.ended = record.times[-1] if record.times and record.error else clock()"), hint="when you gave up"),
    Mutant(task=2, name="a blank is no text", replace=("if choice.get(\"text\"):", "if choice.get(\"text\", \"\").strip():"), hint="a blank is text"),
    Mutant(task=2, name="what is no JSON is skipped", replace=("answer = {} if data == \"[DONE]\" else json.loads(data)", "answer = json.loads(data) if data.startswith(\"{\") else {}"), hint="no JSON: a failure"),
    Mutant(task=2, name="a failure forgets when it was sent", replace=('        record.error = f"{type(error).__name__}: {error}"', '        record = Record(due=due, error=f"{type(error).__name__}: {error}")'), hint="stay in the record"),
    Mutant(task=2, name="a failure forgets its times", replace=('        record.error = f"{type(error).__name__}: {error}"', '        record = Record(due=due, sent=record.sent, error=f"{type(error).__name__}: {error}")'), hint="stay in the record"),
    Mutant(task=2, name="a second try", code='_once = ask\nasync def ask(connect, prompt, max_tokens, due, patience=PATIENCE):\n    record = await _once(connect, prompt, max_tokens, due, patience)\n    return await _once(connect, prompt, max_tokens, due, patience) if record.error else record\n', hint="no second try"),
    Mutant(task=2, name="the text of a timeout", replace=('f"{type(error).__name__}: {error}"', "str(error)"), hint="TimeoutError has no text"),
    Mutant(task=2, name="all of another clock", replace=[("sent=clock()", "sent=time.perf_counter()"), ("now = clock()", "now = time.perf_counter()"), ("record.ended = clock()", "record.ended = time.perf_counter()")], hint="not of clock"),
    Mutant(task=2, name="no times at all", replace=("                            record.times.append(now)\n", ""), hint="no event with text is in times"),
    # 3: an open loop
    Mutant(task=3, name="a closed loop called open", code="async def open_loop(offsets, send):\n    begin, records = clock(), []\n    for i, offset in enumerate(offsets):\n        await asyncio.sleep(max(0.0, begin + offset - clock()))\n        records.append(await send(i, begin + offset))\n    return records\n", hint="closed loop"),
    Mutant(task=3, name="limited connections", replace=("        await asyncio.sleep(due - clock())\n        return await send(i, due)", "        await asyncio.sleep(due - clock())\n        async with seats:\n            return await send(i, due)\n\n    seats = asyncio.Semaphore(100)"), hint="limit on connections"),
    Mutant(task=3, name="due is when it was sent", replace=("return await send(i, due)", "return await send(i, clock())"), hint="hand over when it was due"),
    Mutant(task=3, name="sleeps for the gaps", code="async def open_loop(offsets, send):\n    begin, tasks, last = clock(), [], 0.0\n    for i, offset in enumerate(offsets):\n        await asyncio.sleep(offset - last)\n        last = offset\n        tasks.append(asyncio.create_task(send(i, begin + offset)))\n    return [await task for task in tasks]\n", hint="late for ever"),
    Mutant(task=3, name="all at once", replace=("await asyncio.sleep(due - clock())", "pass"), hint="seconds at which|all is over|went out"),
    Mutant(task=3, name="offsets from the moment of each", replace=("begin + offset) for", "clock() + 2 * offset) for"), hint="all is over|seconds at which"),
    Mutant(task=3, name="due is the offset", replace=("return await send(i, due)", "return await send(i, due - begin)"), hint="due is now"),
    Mutant(task=3, name="as they come", code="async def open_loop(offsets, send):\n    begin, records = clock(), []\n    async def one(i, due):\n        await asyncio.sleep(due - clock())\n        records.append(await send(i, due))\n    await asyncio.gather(*(one(i, begin + offset) for i, offset in enumerate(offsets)))\n    return records\n", hint="order of the offsets"),
    Mutant(task=3, name="the first at once", replace=("begin + offset)", "begin + offset - offsets[0])"), hint="due at its offset"),
    Mutant(task=3, name="tasks, not records", code="async def open_loop(offsets, send):\n    begin, tasks = clock(), []\n    for i, offset in enumerate(offsets):\n        await asyncio.sleep(begin + offset - clock())\n        tasks.append(asyncio.create_task(send(i, begin + offset)))\n    await asyncio.sleep(5)\n    return tasks\n", hint="list of the records"),
    Mutant(task=3, name="does not wait for the last", code="async def open_loop(offsets, send):\n    begin, tasks = clock(), []\n    for i, offset in enumerate(offsets):\n        await asyncio.sleep(begin + offset - clock())\n        tasks.append(asyncio.create_task(send(i, begin + offset)))\n    return [task.result() for task in tasks if task.done()]\n", hint="all is over|list of|went out|waits"),
    Mutant(task=3, name="a blocking sleep", replace=("await asyncio.sleep(due - clock())", "time.sleep(min(0.01, max(0.0, due - clock())))"), hint="seconds at which|all is over|went out"),
    Mutant(task=3, name="late ones are left out", code="async def open_loop(offsets, send):\n    begin, tasks = clock(), []\n    for i, offset in enumerate(offsets):\n        wait = begin + offset - clock()\n        if wait < 0:\n            continue\n        await asyncio.sleep(wait)\n        tasks.append(asyncio.create_task(send(i, begin + offset)))\n    return [await task for task in tasks]\n", hint="left out"),
    # 4: the figures of one request
    Mutant(task=4, name="TTFT from when it was sent", replace=("first - record.due", "first - record.sent"), hint="counts from when it was sent"),
    Mutant(task=4, name="TTFT to the last", replace=("Times(first - record.due", "Times(last - record.due"), hint="ends at the first"),
    Mutant(task=4, name="TPOT with the first token", replace=("(record.tokens - 1) if", "record.tokens if"), hint="divided by all tokens"),
    Mutant(task=4, name="TPOT from due", replace=("(last - first) / (record.tokens - 1)", "(last - record.due) / record.tokens"), hint="wait for the first token"),
    Mutant(task=4, name="TPOT from due, for the gaps", replace=("(last - first) / (", "(last - record.due) / ("), hint="wait for the first token"),
    Mutant(task=4, name="TPOT of events", replace=("(record.tokens - 1) if record.tokens > 1", "(len(record.times) - 1) if len(record.times) > 1"), hint="events: they carry"),
    Mutant(task=4, name="TPOT 0 for one token", replace=("else None", "else 0.0"), hint="tpot is None"),
    Mutant(task=4, name="divides by zero", replace=(" if record.tokens > 1 else None", ""), hint="ZeroDivision"),
    Mutant(task=4, name="ITL with the first", replace=("zip(record.times, record.times[1:])", "zip([record.due, *record.times], record.times)"), hint="without the wait"),
    Mutant(task=4, name="e2e to the end of the stream", replace=("itl, last - record.due", "itl, record.ended - record.due"), hint="ends with the last text"),
    Mutant(task=4, name="errors are fast answers", replace=("record.error or not record.times", "not record.times"), hint="never ended"),
    Mutant(task=4, name="a refusal takes as long as it takes", replace=("    if record.error or not record.times:\n        raise ValueError(f\"no latency of a failed request: {record.error or 'no text came'}\")\n", "    if not record.times:\n        return Times(record.ended - record.due, None, [], record.ended - record.due)\n"), hint="no fast answer"),
    Mutant(task=4, name="half an answer is an answer", replace=("record.error or not record.times", "not record.text"), hint="never ended"),
    # 5: the figures of a run
    Mutant(task=5, name="percentile of means", replace=("gaps = [gap for t in times for gap in t.itl]", "gaps = [statistics.mean(t.itl) for t in times if t.itl]"), hint="percentile of the requests' means"),
    Mutant(task=5, name="mean of percentiles", replace=("            found[f\"{name}_p{p}\"] = float(np.percentile(values, p)) if values else math.nan", "            found[f\"{name}_p{p}\"] = float(np.percentile(values, p)) if values else math.nan\n    found[\"itl_p99\"] = float(np.mean([np.percentile(t.itl, 99) for t in times if t.itl])) if gaps else math.nan"), hint="mean of the requests' percentiles"),
    Mutant(task=5, name="failures as fast answers", replace=('{"ttft": [t.ttft for t in times]', '{"ttft": [t.ttft for t in times] + [r.ended - r.due for r in records if r not in answered]'), hint="fast answers"),
    Mutant(task=5, name="failures as zeros", replace=('{"ttft": [t.ttft for t in times]', '{"ttft": [t.ttft for t in times] + [0.0] * (len(records) - len(answered))'), hint="fast answers"),
    Mutant(task=5, name="goodput forgets failures", replace=("good / len(records)", "good / max(1, len(answered))"), hint="goodput forgets failures"),
    Mutant(task=5, name="a failure is good", replace=("good = sum(t.ttft", "good = len(records) - len(answered) + sum(t.ttft"), hint="good_share|both limits"),
    Mutant(task=5, name="one limit is enough", replace=("<= ttft and (t", "<= ttft or (t"), hint="good_share"),
    Mutant(task=5, name="goodput without TPOT", replace=(" and (t.tpot is None or t.tpot <= tpot)", ""), hint="both limits hold"),
    Mutant(task=5, name="one token misses TPOT", replace=("(t.tpot is None or t.tpot <= tpot)", "t.tpot is not None and t.tpot <= tpot"), hint="no TPOT to miss"),
    Mutant(task=5, name="limits exclusive", replace=("sum(t.ttft <= ttft", "sum(t.ttft < ttft"), hint="within it"),
    Mutant(task=5, name="goodput is a share", replace=("good / seconds", "good / len(records)"), hint="per second"),
    Mutant(task=5, name="served counts failures", replace=("len(answered) / seconds", "len(records) / seconds"), hint="served_rate counts failures"),
    Mutant(task=5, name="tokens of failures", replace=("for record in answered) / seconds", "for record in records) / seconds"), hint="tokens of a failed request"),
    Mutant(task=5, name="events for tokens", replace=("sum(record.tokens for", "sum(len(record.times) for"), hint="counts events"),
    Mutant(task=5, name="the run of the answered", replace=("max(record.ended for record in records)", "max(record.ended for record in answered or records)"), hint="of a failed request"),
    Mutant(task=5, name="the run from the first record", replace=("min(record.due for record in records)", "records[0].due"), hint="not the due of the first record"),
    Mutant(task=5, name="TPOT 0 for one token", replace=("[t.tpot for t in times if t.tpot is not None]", "[t.tpot or 0.0 for t in times]"), hint="entered as 0"),
    Mutant(task=5, name="nothing measured is 0", replace=("if values else math.nan", "if values else 0.0"), hint="best latency of all"),
    Mutant(task=5, name="no gap is 0", replace=("default=math.nan", "default=0.0"), hint="best latency of all"),
    Mutant(task=5, name="no text is an answer", replace=("if record.times and not record.error", "if not record.error"), hint="failed|ValueError|share"),
    Mutant(task=5, name="means", replace=("float(np.percentile(values, p))", "float(np.mean(values))"), hint="ttft"),
    Mutant(task=5, name="nearest rank", replace=("np.percentile(values, p)", "np.percentile(values, p, method='higher')"), hint="percentiles over"),
    Mutant(task=5, name="late on average", replace=("max(record.sent - record.due for record in records)", "statistics.mean(record.sent - record.due for record in records)"), hint="largest sent"),
    Mutant(task=5, name="p95 called p99", replace=("np.percentile(values, p)", "np.percentile(values, min(p, 95))"), hint="percentiles over"),
    Mutant(task=5, name="no records, no figures", replace=('        raise ValueError("no records: nothing was measured")', "        return {}"), hint="nothing was measured"),
    Mutant(task=5, name="late of the answered", replace=("for record in records),\n    }", "for record in answered or records[:1]),\n    }"), hint="whatever became of the answers"),
    Mutant(task=5, name="sorts the records", replace=("    answered = [", "    records.sort(key=lambda record: record.ended)\n    answered = ["), hint="only reads it"),
    Mutant(task=5, name="e2e to the end of the stream", replace=('"e2e": [t.e2e for t in times]', '"e2e": [record.ended - record.due for record in answered]'), hint="each to its last text"),
    Mutant(task=5, name="TTFT from when it was sent", replace=('{"ttft": [t.ttft for t in times]', '{"ttft": [record.times[0] - record.sent for record in answered]'), hint="when a request was sent"),
    Mutant(task=5, name="TPOT of pooled gaps", replace=('"tpot": [t.tpot for t in times if t.tpot is not None]', '"tpot": gaps'), hint="were pooled"),
    Mutant(task=5, name="None where nothing was measured", replace=("if values else math.nan", "if values else None"), hint="so it is math.nan"),
    # 6: the server's own counters
    Mutant(task=6, name="labels dropped", replace=("tuple(sorted(pairs))", "()"), hint="missing"),
    Mutant(task=6, name="labels as they come", replace=("tuple(sorted(pairs))", "tuple(pairs)"), hint="sorted"),
    Mutant(task=6, name="split at blanks", code='def read_metrics(text):\n    found = {}\n    for line in text.splitlines():\n        if not line or line.startswith("#"):\n            continue\n        head, value = line.rsplit(" ", 1)\n        name, _, rest = head.partition("{")\n        pairs = [part.split("=") for part in rest.rstrip("}").split(",") if part]\n        found[name, tuple(sorted((k, v.strip(\'"\')) for k, v in pairs))] = float(value)\n    return found\n', hint="time stamp|missing|inside a label|ValueError"),
    Mutant(task=6, name="time stamp as value", replace=(r'\s+(\S+)(?:\s+-?\d+)?\s*")', r'(?:\s+\S+)?\s+(\S+)\s*")'), hint="time stamp"),
    Mutant(task=6, name="strange lines skipped", replace=('            raise ValueError(f"not a sample: {line!r}")', "            continue"), hint="passed over"),
    Mutant(task=6, name="no escapes", replace=('re.sub(r"\\\\(.)", lambda escaped: "\\n" if escaped[1] == "n" else escaped[1], quoted[1:-1])', "quoted[1:-1]"), hint="escapes"),
    Mutant(task=6, name="escapes one after the other", replace=('re.sub(r"\\\\(.)", lambda escaped: "\\n" if escaped[1] == "n" else escaped[1], quoted[1:-1])', 'quoted[1:-1].replace("\\\\n", "\\n").replace(\'\\\\"\', \'"\').replace("\\\\\\\\", "\\\\")'), hint="from left to right"),
    Mutant(task=6, name="other line ends", replace=('text.split("\\n")', "text.splitlines()"), hint="ends a line|not a sample"),
    Mutant(task=6, name="comments are samples", replace=('or line.lstrip().startswith("#")', ""), hint="not a sample|ValueError"),
    Mutant(task=6, name="whole numbers", replace=("= float(parts[3])", "= int(float(parts[3]))"), hint="floats"),
    Mutant(task=6, name="text", replace=("= float(parts[3])", "= parts[3]"), hint="floats"),
    Mutant(task=6, name="the first line's end is the match", replace=("sample.fullmatch(line.strip())", "sample.match(line.strip())"), hint="passed over"),
    Mutant(task=6, name="what stands between labels is passed over", code='def read_metrics(text):\n    found = {}\n    for line in text.split("\\n"):\n        line = line.strip()\n        if not line or line.startswith("#"):\n            continue\n        parts = re.fullmatch(r"([a-zA-Z_:][\\w:]*)\\s*(?:\\{(.*)\\})?\\s+(\\S+)(?:\\s+-?\\d+)?", line)\n        pairs = re.findall(r\'(\\w+)="((?:[^"\\\\]|\\\\.)*)"\', parts[2] or "") if parts else []\n        if parts is None or (parts[2] and not pairs):\n            raise ValueError(line)\n        found[parts[1], tuple(sorted((k, re.sub(r"\\\\(.)", lambda e: {"n": "\\n"}.get(e[1], e[1]), v)) for k, v in pairs))] = float(parts[3])\n    return found\n', hint="b=2.* is no sample"),
    Mutant(task=6, name="commas are optional", replace=("(?:,\\s*|(?=}}))", ",?\\s*"), hint="is no sample"),
    Mutant(task=6, name="any time stamp", replace=(r"(?:\s+-?\d+)?", r"(?:\s+\S+)?"), hint="now.* is no sample"),
    Mutant(task=6, name="strips the values", replace=("quoted[1:-1])))", "quoted[1:-1]).strip()))"), hint="blanks, commas"),
    # 7: what happened in between
    Mutant(task=7, name="since the server started", replace=("total += after[key] - before.get(key, 0.0)", "total += after[key]"), hint="since the server started"),
    Mutant(task=7, name="the wrong way round", replace=("total += after[key] - before.get(key, 0.0)", "total += before.get(key, 0.0) - after[key]"), hint="negative"),
    Mutant(task=7, name="one series", replace=("        total += after[key] - before.get(key, 0.0)\n    return total", "        total = after[key] - before.get(key, 0.0)\n    return total"), hint="one engine of two"),
    Mutant(task=7, name="a wrong name is 0", replace=('        raise KeyError(f"no series {name} with {labels}")', "        return 0.0"), hint="misspelt"),
    Mutant(task=7, name="any label fits", replace=("wanted <= set(key[1])", "(not wanted or wanted & set(key[1]))"), hint="all labels must fit|only the series"),
    Mutant(task=7, name="exact labels only", replace=("wanted <= set(key[1])", "(not wanted or wanted == set(key[1]))"), hint="KeyError|only the series"),
    Mutant(task=7, name="labels ignored", replace=(" and wanted <= set(key[1])", ""), hint="only the series"),
    Mutant(task=7, name="new series dropped", replace=("{**before, **after}", "before"), hint="KeyError|began at 0"),
    Mutant(task=7, name="restart not seen", replace=("key not in after or after[key] < before.get(key, 0.0)", "key not in after"), hint="restarted"),
    Mutant(task=7, name="restart counted from 0", replace=('            raise ValueError(f"{key} fell: did the server restart?")', "            total += after.get(key, 0.0)\n            continue"), hint="the run is void"),
    Mutant(task=7, name="only the sum is looked at", replace=[("        if key not in after or after[key] < before.get(key, 0.0):\n            raise ValueError(f\"{key} fell: did the server restart?\")\n        total += after[key] - before.get(key, 0.0)\n", "        total += after.get(key, 0.0) - before.get(key, 0.0)\n    if total < 0:\n        raise ValueError\n")], hint="look at each|restarted"),
    Mutant(task=7, name="vanished is 0", replace=("{**before, **after}", "after"), hint="vanished|restarted|KeyError"),
    Mutant(task=7, name="names that begin so", replace=("key[0] == name", "key[0].startswith(name)"), hint="KeyError|increase|tokens|misspelt|Error"),
    Mutant(task=7, name="values without their labels", replace=[("wanted = set(labels.items())", "wanted = set(labels.values())"), ("wanted <= set(key[1])", "wanted <= set(dict(key[1]).values())")], hint="belong together"),
    # 8: A against B
    Mutant(task=8, name="the same prompts for both", replace=[("            value = await run(version, seed)\n            seed += 1\n", "            value = await run(version, seed)\n"), ("        for version in \"BA\" if", "        seed += 1\n        for version in \"BA\" if")], hint="same seed"),
    Mutant(task=8, name="one seed for all", replace=("            seed += 1\n", ""), hint="seed was used twice"),
    Mutant(task=8, name="each version's own seeds", replace=("value = await run(version, seed)", "value = await run(version, seed // 4)"), hint="seed"),
    Mutant(task=8, name="the warm-up's seeds again", replace=("value = await run(version, seed)", "value = await run(version, seed - 2 if number == 1 else seed)"), hint="warm-up's seed"),
    Mutant(task=8, name="warm-up counted", replace=("if number > 0:", "if True:"), hint="the warm-up counts"),
    Mutant(task=8, name="no warm-up", replace=("range(rounds + 1)", "range(1, rounds + 1)"), hint="warm-up of each version is missing"),
    Mutant(task=8, name="never turned round", replace=('"BA" if number % 2 else "AB"', '"AB"'), hint="turn it round"),
    Mutant(task=8, name="all of one first", code='async def compare(run, rounds):\n    if rounds < 1 or rounds % 2:\n        raise ValueError\n    values, seed = {"A": [], "B": []}, 0\n    for version in "AB":\n        for number in range(rounds + 1):\n            value = await run(version, seed)\n            seed += 1\n            if number:\n                values[version].append(value)\n    a, b = values["A"], values["B"]\n    return Comparison(a, b, statistics.median(b) / statistics.median(a), max(a) < min(b) or max(b) < min(a))\n', hint="not all of one first"),
    Mutant(task=8, name="both at once", code='async def compare(run, rounds):\n    if rounds < 1 or rounds % 2:\n        raise ValueError\n    a, b = [], []\n    for number in range(rounds + 1):\n        x, y = await asyncio.gather(run("A", 2 * number), run("B", 2 * number + 1))\n        if number:\n            a.append(x)\n            b.append(y)\n    return Comparison(a, b, statistics.median(b) / statistics.median(a), max(a) < min(b) or max(b) < min(a))\n', hint="two runs at once"),
    Mutant(task=8, name="means", replace=("statistics.median(b) / statistics.median(a)", "statistics.mean(b) / statistics.mean(a)"), hint="medians, not means"),
    Mutant(task=8, name="a over b", replace=("statistics.median(b) / statistics.median(a)", "statistics.median(a) / statistics.median(b)"), hint="median of b over"),
    Mutant(task=8, name="the best run", replace=("statistics.median(b) / statistics.median(a)", "min(b) / min(a)"), hint="ratio"),
    Mutant(task=8, name="always clear", replace=("max(a) < min(b) or max(b) < min(a)", "statistics.median(a) != statistics.median(b)"), hint="not clear"),
    Mutant(task=8, name="clear only if b is faster", replace=("max(a) < min(b) or max(b) < min(a)", "max(b) < min(a)"), hint="clear as well"),
    Mutant(task=8, name="odd rounds", replace=("rounds < 1 or rounds % 2", "rounds < 1"), hint="not even|before anything runs"),
    Mutant(task=8, name="outliers thrown away", replace=('    a, b = values["A"], values["B"]', '    a, b = ([x for x in values[v] if x < 5 * statistics.median(values[v])] for v in "AB")'), hint="6 values|keep all"),
    Mutant(task=8, name="sorted values", replace=('a, b = values["A"], values["B"]', 'a, b = sorted(values["A"]), sorted(values["B"])'), hint="in the order in which they ran"),
    Mutant(task=8, name="clear beyond the spread", replace=("max(a) < min(b) or max(b) < min(a)", "abs(statistics.median(b) - statistics.median(a)) > statistics.stdev(a) + statistics.stdev(b)"), hint="clear"),
    Mutant(task=8, name="clear if no value of A is inside B", replace=("max(a) < min(b) or max(b) < min(a)", "not any(min(b) <= value <= max(b) for value in a)"), hint="between two of A"),
    Mutant(task=8, name="clear if the medians differ by 5 %", replace=("max(a) < min(b) or max(b) < min(a)", "abs(statistics.median(b) / statistics.median(a) - 1) > 0.05"), hint="not clear"),
    # 9: the answers
    Mutant(task=9, name="unstable is luck", replace=("if len(set(answers)) > 1 or None in answers:", "if answer not in answers and len(set(answers)) > 1:"), hint="luck"),
    Mutant(task=9, name="trusted never doubted", replace=("if len(set(answers)) > 1 or None in answers:", "if False:"), hint="luck|unstable"),
    Mutant(task=9, name="only the first two", replace=("if len(set(answers)) > 1 or None in answers:", "if answers[0] != answers[1]:"), hint="unstable|three trusted"),
    Mutant(task=9, name="a failure is left out", replace=("        if len(set", "        if answer is None and len(set(answers)) == 1:\n            continue\n        if len(set"), hint="not a gap"),
    Mutant(task=9, name="a beginning is enough", replace=("elif answer == answers[0]:", "elif answer is not None and (answers[0].startswith(answer) or answer.startswith(answers[0])):"), hint="beginning of the other|the same"),
    Mutant(task=9, name="blanks do not count", replace=("elif answer == answers[0]:", "elif answer is not None and answer.replace(' ', '') == answers[0].replace(' ', ''):"), hint="the same|places"),
    Mutant(task=9, name="case does not count", replace=("elif answer == answers[0]:", "elif answer is not None and answer.lower() == answers[0].lower():"), hint="characters as they are|same"),
    Mutant(task=9, name="indices only", replace=('append((i, len(os.path.commonprefix([answers[0], answer or ""]))))', "append(i)"), hint="pairs"),
    Mutant(task=9, name="counted from 1", replace=('(i, len(os.path.commonprefix([answers[0], answer or ""])))', '(i, 1 + len(os.path.commonprefix([answers[0], answer or ""])))'), hint="counted from 0"),
    Mutant(task=9, name="words", replace=('len(os.path.commonprefix([answers[0], answer or ""]))', 'len(os.path.commonprefix([answers[0].split(), (answer or "").split()]))'), hint="first character|place"),
    Mutant(task=9, name="one trusted answer will do", replace=("len(answers) < 2", "len(answers) < 1"), hint="two at least"),
    Mutant(task=9, name="lengths not compared", replace=("len(trusted) != len(candidate) or ", ""), hint="something was not run|two answers"),
    Mutant(task=9, name="only the last two runs", replace=("len(set(answers)) > 1", "answers[-2] != answers[-1]"), hint="the first, the second and the third"),
    Mutant(task=9, name="stripped", replace=("elif answer == answers[0]", "elif answer is not None and answer.strip() == answers[0].strip()"), hint="line feed|as they are|last character"),
    Mutant(task=9, name="failures agree", replace=(" or None in answers", ""), hint="that is no agreement"),
    # 10: go or no-go
    Mutant(task=10, name="nan passes", replace=("not figure.get(name, math.nan) <= bound", "figure.get(name, math.nan) > bound"), hint="nan > 1.0 is False"),
    Mutant(task=10, name="nan passes from below", replace=("not figure.get(name, math.nan) >= bound", "figure.get(name, math.nan) < bound"), hint="nan < 1.0 is False"),
    Mutant(task=10, name="missing passes", replace=("[name for name, bound in at_most.items() if", "[name for name, bound in at_most.items() if name in report and"), hint="missing in the report"),
    Mutant(task=10, name="missing is 0", replace=("figure.get(name, math.nan) <=", "figure.get(name, 0) <="), hint="missing in the report"),
    Mutant(task=10, name="None is 0", replace=("math.nan if value is None else value", "value or 0"), hint="is None"),
    Mutant(task=10, name="None breaks", replace=("math.nan if value is None else value", "value"), hint="TypeError"),
    Mutant(task=10, name="0 is missing", replace=("math.nan if value is None else value", "value or math.nan"), hint="equal to its bound"),
    Mutant(task=10, name="bounds exclusive", replace=("<= bound", "< bound"), hint="equal to its bound"),
    Mutant(task=10, name="lower bounds forgotten", replace=("return over + [name for name, bound in at_least.items() if not figure.get(name, math.nan) >= bound]", "return over"), hint="below 500"),
    Mutant(task=10, name="lower bounds as upper", replace=(">= bound", "<= bound"), hint="enough|200"),
    Mutant(task=10, name="the first reason only", replace=("return over + [", "return over[:1] + ["), hint="names in the order"),
    Mutant(task=10, name="sorted", replace=("return over + [name for name, bound in at_least.items() if not figure.get(name, math.nan) >= bound]", "return sorted(over + [name for name, bound in at_least.items() if not figure.get(name, math.nan) >= bound])"), hint="names in the order"),
    Mutant(task=10, name="no rules, go", replace=('        raise ValueError("no rule: nothing could speak against")', "        return []"), hint="nothing could speak against"),
    Mutant(task=10, name="a yes or no", replace=("    return over + [", "    return not over or ["), hint="list of names|as items"),
]

ALTERNATIVES = [
    Alternative(1, "a loop over lines found one by one", '''class Events:
    def __init__(self):
        self.buffer, self.data = bytearray(), None

    def feed(self, piece):
        self.buffer += piece
        found = []
        while (end := self.buffer.find(b"\\n")) >= 0:
            line = bytes(self.buffer[:end])
            del self.buffer[: end + 1]
            if line.endswith(b"\\r"):
                line = line[:-1]
            name, colon, value = line.decode("utf-8").partition(":")
            if not line:
                if self.data is not None:
                    found.append(self.data)
                self.data = None
            elif name == "data" and colon:
                value = value[1:] if value[:1] == " " else value
                self.data = value if self.data is None else self.data + "\\n" + value
        return found
'''),
    Alternative(1, "an incremental decoder", '''import codecs
class Events:
    def __init__(self):
        self.decode = codecs.getincrementaldecoder("utf-8")().decode
        self.text = ""

    def feed(self, piece):
        self.text += self.decode(piece)
        found = []
        while parts := re.match(r"((?:[^\\n]*[^\\r\\n]\\r?\\n)*)\\r?\\n", self.text):
            self.text = self.text[parts.end() :]
            lines = [line.removesuffix("\\r") for line in parts[1].split("\\n")]
            data = [line[5:].removeprefix(" ") for line in lines if line.startswith("data:")]
            if data:
                found.append("\\n".join(data))
        return found
'''),
    Alternative(2, "a queue of problems, timeout by wait_for", '''async def ask(connect, prompt, max_tokens, due, patience=PATIENCE):
    record = Record(due, clock())
    seen = {"reason": None, "usage": None}

    async def read():
        events = Events()
        async for piece in post(connect, "/v1/completions", body_of(prompt, max_tokens)):
            at = clock()
            for data in events.feed(piece):
                if data == "[DONE]":
                    continue
                answer = json.loads(data)
                if answer.get("error") is not None:
                    return f"server: {answer['error']}"
                for choice in answer.get("choices") or []:
                    if choice.get("text"):
                        record.times.append(at)
                        record.text += choice["text"]
                    seen["reason"] = choice.get("finish_reason") or seen["reason"]
                seen["usage"] = answer.get("usage") or seen["usage"]
        if seen["reason"] not in ("stop", "length"):
            return f"finish_reason {seen['reason']}"
        if not seen["usage"]:
            return "no usage"
        record.tokens = seen["usage"]["completion_tokens"]
        return ""

    try:
        record.error = await asyncio.wait_for(read(), patience)
    except asyncio.TimeoutError:
        record.error = f"no end after {patience} s"
    except (ServerError, OSError, EOFError, ValueError) as wrong:
        record.error = repr(wrong)
    record.ended = clock()
    return record
'''),
    Alternative(2, "stops reading at [DONE]", '''async def ask(connect, prompt, max_tokens, due, patience=PATIENCE):
    sent, times, texts, tokens, reason, error = clock(), [], [], None, None, ""
    stream = post(connect, "/v1/completions", body_of(prompt, max_tokens))
    parser = Events()
    try:
        async with asyncio.timeout_at(clock() + patience):
            done = False
            while not done:
                try:
                    piece = await stream.__anext__()
                except StopAsyncIteration:
                    break
                for data in parser.feed(piece):
                    if data == "[DONE]":
                        done = True
                        break
                    answer = json.loads(data)
                    if answer.get("error"):
                        error = json.dumps(answer["error"])
                    if answer.get("usage"):
                        tokens = answer["usage"]["completion_tokens"]
                    if answer.get("choices"):
                        choice = answer["choices"][0]
                        reason = choice.get("finish_reason") or reason
                        if choice.get("text"):
                            times.append(clock())
                            texts.append(choice["text"])
        if not error and (tokens is None or reason not in {"stop", "length"}):
            error = "not ended"
    except Exception as wrong:
        error = f"{wrong!r}"
    finally:
        await stream.aclose()
    return Record(due=due, sent=sent, times=times, ended=clock(), tokens=tokens or 0, text="".join(texts), error=error)
'''),
    Alternative(3, "tasks, one after the other", '''async def open_loop(offsets, send):
    start = asyncio.get_running_loop().time()
    tasks = []
    for number, offset in enumerate(offsets):
        wait = start + offset - clock()
        if wait > 0:
            await asyncio.sleep(wait)
        tasks.append(asyncio.ensure_future(send(number, start + offset)))
        await asyncio.sleep(0)
    return [await task for task in tasks]
'''),
    Alternative(3, "timers of the loop, results into their places", '''async def open_loop(offsets, send):
    loop = asyncio.get_running_loop()
    start, records, tasks = loop.time(), [None] * len(offsets), []

    async def store(i):
        records[i] = await send(i, start + offsets[i])

    started = asyncio.Event()
    def begin(i):
        tasks.append(loop.create_task(store(i)))
        if len(tasks) == len(offsets):
            started.set()

    for i, offset in enumerate(offsets):
        loop.call_at(start + offset, begin, i)
    if offsets:
        await started.wait()
        await asyncio.wait(tasks)
    return records
'''),
    Alternative(4, "numpy", '''def measure(record):
    if record.error != "" or len(record.times) == 0:
        raise ValueError(record)
    times = np.array(record.times)
    gaps = np.diff(times)
    tpot = None if record.tokens < 2 else float(gaps.sum() / (record.tokens - 1))
    return Times(float(times[0] - record.due), tpot, gaps.tolist(), float(times[-1] - record.due))
'''),
    Alternative(4, "a loop", '''def measure(record: Record) -> Times:
    if record.error:
        raise ValueError(record.error)
    if not record.times:
        raise ValueError("no text")
    itl = []
    for i in range(1, len(record.times)):
        itl.append(record.times[i] - record.times[i - 1])
    ttft = record.times[0] - record.due
    e2e = record.times[-1] - record.due
    tpot = (e2e - ttft) / (record.tokens - 1) if record.tokens >= 2 else None
    return Times(ttft=ttft, tpot=tpot, itl=itl, e2e=e2e)
'''),
    Alternative(5, "own percentile, failures by exception", '''def summarize(records, ttft, tpot):
    if len(records) == 0:
        raise ValueError("nothing")

    def pick(values, p):
        values = sorted(values)
        if not values:
            return float("nan")
        place = (len(values) - 1) * p / 100
        low = int(place)
        high = min(low + 1, len(values) - 1)
        return values[low] + (values[high] - values[low]) * (place - low)

    good = failed = tokens = 0
    firsts, paces, gaps, wholes = [], [], [], []
    for record in records:
        try:
            t = measure(record)
        except ValueError:
            failed += 1
            continue
        tokens += record.tokens
        firsts.append(t.ttft)
        wholes.append(t.e2e)
        gaps.extend(t.itl)
        if t.tpot is not None:
            paces.append(t.tpot)
        if t.ttft <= ttft and (t.tpot or 0.0) <= tpot:
            good += 1
    n = len(records)
    seconds = max(r.ended for r in records) - min(r.due for r in records)
    return dict(
        requests=n, failed_share=failed / n, seconds=seconds, served_rate=(n - failed) / seconds, tokens_per_s=tokens / seconds,
        ttft_p50=pick(firsts, 50), ttft_p99=pick(firsts, 99), tpot_p50=pick(paces, 50), tpot_p99=pick(paces, 99), e2e_p50=pick(wholes, 50), e2e_p99=pick(wholes, 99),
        itl_p50=pick(gaps, 50), itl_p99=pick(gaps, 99), itl_max=max(gaps) if gaps else float("nan"), good_share=good / n, goodput=good / seconds,
        late=max(r.sent - r.due for r in records),
    )
'''),
    Alternative(5, "numpy arrays", '''def summarize(records: list[Record], ttft: float, tpot: float) -> dict[str, float]:
    if not records:
        raise ValueError("no records")
    ok = [r for r in records if r.error == "" and len(r.times) > 0]
    m = [measure(r) for r in ok]
    seconds = np.max([r.ended for r in records]) - np.min([r.due for r in records])
    first = np.array([t.ttft for t in m])
    pace = np.array([np.nan if t.tpot is None else t.tpot for t in m])
    e2e = np.array([t.e2e for t in m])
    itl = np.concatenate([np.array(t.itl, dtype=float) for t in m]) if m else np.array([])
    fine = int(np.sum((first <= ttft) & ~(pace > tpot))) if m else 0
    result = {"requests": len(records), "failed_share": (len(records) - len(ok)) / len(records), "seconds": seconds}
    result["served_rate"], result["tokens_per_s"] = len(ok) / seconds, sum(r.tokens for r in ok) / seconds
    for name, values in (("ttft", first), ("tpot", pace[~np.isnan(pace)]), ("e2e", e2e), ("itl", itl)):
        for p in (50, 99):
            result[name + "_p" + str(p)] = np.percentile(values, p) if values.size else np.nan
    result["itl_max"] = itl.max() if itl.size else np.nan
    result["good_share"], result["goodput"] = fine / len(records), fine / seconds
    result["late"] = max(r.sent - r.due for r in records)
    return result
'''),
    Alternative(5, "every figure a float", '''def summarize(records, ttft, tpot):
    if not records:
        raise ValueError("no records")
    ok = [r for r in records if r.text and not r.error]
    times = [measure(r) for r in ok]
    begin, end = min(r.due for r in records), max(r.ended for r in records)
    columns = {"ttft": [t.ttft for t in times], "tpot": [t.tpot for t in times if t.tpot is not None], "e2e": [t.e2e for t in times], "itl": sum((t.itl for t in times), [])}
    good = [t for t in times if t.ttft <= ttft and (t.tpot is None or t.tpot <= tpot)]
    found = {f"{name}_p{p}": np.percentile(column or [math.nan], p) for name, column in columns.items() for p in (50, 99)}
    found |= {"requests": len(records), "failed_share": (len(records) - len(ok)) / len(records), "seconds": end - begin, "served_rate": len(ok) / (end - begin)}
    found |= {"tokens_per_s": sum(r.tokens for r in ok) / (end - begin), "itl_max": max(columns["itl"] or [math.nan]), "good_share": len(good) / len(records)}
    found |= {"goodput": len(good) / (end - begin), "late": max(r.sent - r.due for r in records)}
    return {name: float(value) for name, value in found.items()}
'''),
    Alternative(6, "character by character", '''def read_metrics(text):
    found = {}
    for line in text.split("\\n"):
        line = line.strip()
        if line == "" or line[0] == "#":
            continue
        i = 0
        while i < len(line) and (line[i].isalnum() or line[i] in "_:"):
            i += 1
        name, pairs = line[:i], []
        if not name or name[0].isdigit():
            raise ValueError(line)
        rest = line[i:].lstrip()
        if rest.startswith("{"):
            i = 1
            while True:
                while i < len(rest) and rest[i] in " \\t":
                    i += 1
                if pairs and rest[i : i + 1] == ",":
                    i += 1
                elif pairs and rest[i : i + 1] != "}":
                    raise ValueError(line)
                if i >= len(rest):
                    raise ValueError(line)
                if rest[i] == "}":
                    break
                end = rest.find("=", i)
                if end < 0 or rest[end + 1 : end + 2] != '"':
                    raise ValueError(line)
                label, value, i = rest[i:end].strip(), "", end + 2
                while True:
                    if i >= len(rest):
                        raise ValueError(line)
                    if rest[i] == '"':
                        break
                    if rest[i] == "\\\\":
                        i += 1
                        value += {"n": "\\n"}.get(rest[i], rest[i])
                    else:
                        value += rest[i]
                    i += 1
                pairs.append((label, value))
                i += 1
            if rest[i + 1 : i + 2] not in (" ", "\\t"):
                raise ValueError(line)
            rest = rest[i + 1 :]
        words = rest.split()
        if not 1 <= len(words) <= 2:
            raise ValueError(line)
        if len(words) == 2:
            int(words[1])
        found[(name, tuple(sorted(pairs)))] = float(words[0])
    return found
'''),
    Alternative(6, "a scanner", '''def read_metrics(text):
    result = {}
    for number, line in enumerate(text.split("\\n")):
        if re.fullmatch(r"\\s*(#.*)?", line, re.DOTALL):
            continue
        head = re.match(r"\\s*([A-Za-z_:][A-Za-z0-9_:]*)[ \\t]*", line)
        if head is None:
            raise ValueError(f"line {number}")
        place, labels = head.end(), {}
        spaced = line[place - 1 : place].isspace()
        if line[place : place + 1] == "{":
            place += 1
            while pair := re.compile(r'\\s*([A-Za-z_][A-Za-z0-9_]*)="((?:\\\\.|[^"\\\\])*)"\\s*(?:,|(?=\\}))').match(line, place):
                labels[pair[1]] = re.sub(r"\\\\([\\\\\\"n])", lambda m: {"n": "\\n"}.get(m[1], m[1]), pair[2])
                place = pair.end()
            if line[place:].lstrip()[:1] != "}":
                raise ValueError(f"line {number}: no closing brace")
            place = line.index("}", place) + 1
            spaced = line[place : place + 1].isspace()
        if not spaced:
            raise ValueError(f"line {number}: no value")
        value, *stamp = line[place:].split()
        if len(stamp) > 1 or (stamp and not re.fullmatch(r"-?[0-9]+", stamp[0])):
            raise ValueError(f"line {number}: too much")
        result[head[1], tuple(sorted(labels.items()))] = float(value)
    return result
'''),
    Alternative(7, "two sums", '''def increase(before, after, name, **labels):
    def fits(key):
        return key[0] == name and all(dict(key[1]).get(label) == value for label, value in labels.items())

    old = {key: value for key, value in before.items() if fits(key)}
    new = {key: value for key, value in after.items() if fits(key)}
    if not old and not new:
        raise KeyError(name)
    for key, value in old.items():
        if key not in new or new[key] < value:
            raise ValueError(f"{key} fell from {value}")
    return sum(new.values()) - sum(old.values())
'''),
    Alternative(7, "differences first", '''def increase(before, after, name, **labels):
    grown = {}
    for found, pairs in set(before) | set(after):
        if found == name and set(labels.items()).issubset(pairs):
            grown[pairs] = after.get((found, pairs), -1.0) - before.get((found, pairs), 0.0)
    if not grown:
        raise KeyError(f"{name} {labels}")
    if min(grown.values()) < 0:
        raise ValueError("a counter fell")
    return math.fsum(grown.values())
'''),
    Alternative(8, "B first, seeds at random", '''async def compare(run, rounds):
    if rounds <= 0 or rounds % 2 == 1:
        raise ValueError(rounds)
    seeds = iter(random.Random(3).sample(range(10**9), 2 * rounds + 2))
    order = ["B", "A"]
    for version in order:
        await run(version, next(seeds))
    a, b = [], []
    for _ in range(rounds):
        for version in order:
            (a if version == "A" else b).append(await run(version, next(seeds)))
        order.reverse()
    ratio = float(np.median(b) / np.median(a))
    return Comparison(a, b, ratio, bool(max(a) < min(b) or min(a) > max(b)))
'''),
    Alternative(8, "a list of runs made first", '''async def compare(run, rounds):
    if rounds < 2 or rounds % 2 != 0:
        raise ValueError("even")
    plan = "AB" + "BAAB" * (rounds // 2)
    values = [(version, await run(version, 100 + i)) for i, version in enumerate(plan)][2:]
    a = [value for version, value in values if version == "A"]
    b = [value for version, value in values if version == "B"]
    both = sorted(a + b)
    clear = max(a) < min(b) or max(b) < min(a)
    return Comparison(a=a, b=b, ratio=statistics.median(b) / statistics.median(a), clear=clear)
'''),
    Alternative(8, "A B first after the warm-up, as in the text", '''async def compare(run, rounds):
    if rounds <= 0 or rounds % 2:
        raise ValueError(rounds)
    seed, found = 0, {"A": [], "B": []}

    async def go(version):
        nonlocal seed
        seed += 1
        return await run(version, seed)

    for version in "AB":
        await go(version)
    for number in range(rounds):
        for version in ("AB", "BA")[number % 2]:
            found[version].append(await go(version))
    a, b = found["A"], found["B"]
    return Comparison(a, b, statistics.median(b) / statistics.median(a), max(a) < min(b) or max(b) < min(a))
'''),
    Alternative(9, "a loop over characters", '''def golden(trusted, candidate):
    if len(trusted) != len(candidate):
        raise ValueError("lengths")
    same, changed, unstable = [], [], []
    for i in range(len(trusted)):
        if len(trusted[i]) <= 1:
            raise ValueError(i)
        want, got = trusted[i][0], candidate[i]
        if want is None or any(other != want for other in trusted[i][1:]):
            unstable.append(i)
        elif got is None:
            changed.append((i, 0))
        elif got == want:
            same.append(i)
        else:
            place = 0
            while place < min(len(want), len(got)) and want[place] == got[place]:
                place += 1
            changed.append((i, place))
    return {"same": same, "changed": changed, "unstable": unstable}
'''),
    Alternative(9, "comprehensions", '''def golden(trusted, candidate):
    if any(len(answers) < 2 for answers in trusted):
        raise ValueError("two runs")
    rows = list(zip(range(len(trusted)), trusted, candidate, strict=True))
    unstable = [i for i, answers, _ in rows if len(set(answers)) != 1 or answers[0] is None]
    same = [i for i, answers, got in rows if i not in unstable and got == answers[0]]

    def place(want, got):
        return next((n for n, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))

    changed = [(i, 0 if got is None else place(answers[0], got)) for i, answers, got in rows if i not in unstable + same]
    return dict(unstable=unstable, same=same, changed=changed)
'''),
    Alternative(10, "a loop", '''def decide(report, at_most, at_least):
    if len(at_most) + len(at_least) == 0:
        raise ValueError("no rules")
    against = []
    for name in at_most:
        value = report.get(name)
        if value is None or math.isnan(value) or value > at_most[name]:
            against.append(name)
    for name in at_least:
        value = report.get(name)
        if value is None or math.isnan(value) or value < at_least[name]:
            against.append(name)
    return against
'''),
    Alternative(10, "within, then the rest", '''def decide(report, at_most, at_least):
    if not (at_most or at_least):
        raise ValueError("no rules")

    def within(name, low, high):
        value = report.get(name)
        return value is not None and low <= value <= high

    upper = [name for name in at_most if not within(name, -math.inf, at_most[name])]
    return upper + [name for name in at_least if not within(name, at_least[name], math.inf)]
'''),
]

_MESSAGE = "only what the error says differs"
_EMPTY = "max() of no records raises ValueError too"
_ODD = "1 is odd, and refused as such"
_SEEDS = "the seeds differ from one another all the same"
_EQUAL = "the trusted answers are all equal here"
EQUIVALENT: dict[str, str] = {
    "4: raise ValueError(f\"no latency of a failed request: {record.error or 'no text came'}\") -> raise ValueError(f\"no latency of a failed request: {record.error and 'no text came'}\")": _MESSAGE,
    "4: raise ValueError(f\"no latency of a failed request: {record.error or 'no text came'}\") -> raise ValueError(f\"no latency of a failed request: {'no text came'}\")": _MESSAGE,
    "4: raise ValueError(f\"no latency of a failed request: {record.error or 'no text came'}\") -> raise ValueError(f'no latency of a failed request: {record.error}')": _MESSAGE,
    "5: if not records: -> if False:": _EMPTY,
    "5: if not records: -> (dropped)": _EMPTY,
    "5: raise ValueError('no records: nothing was measured') -> (dropped)": _EMPTY,
    "7: wanted = set(labels.items()) -> wanted = labels.items()": "a view of items compares with a set as a set does",
    "8: if rounds < 1 or rounds % 2: -> if rounds <= 1 or rounds % 2:": _ODD,
    "8: if rounds < 1 or rounds % 2: -> if rounds < 2 or rounds % 2:": _ODD,
    "8: for version in 'BA' if number % 2 else 'AB': -> for version in 'BA' if not number % 2 else 'AB':": "which version begins is free, as long as the order turns round",
    "8: seed = 0 -> seed = 1": _SEEDS,
    "8: seed = 0 -> seed = -1": _SEEDS,
    "8: seed += 1 -> seed -= 1": _SEEDS,
    "8: seed += 1 -> seed += 2": _SEEDS,
    "9: if answer == answers[0]: -> if answer == answers[1]:": _EQUAL,
    "9: if answer == answers[0]: -> if answer == answers[-1]:": _EQUAL,
    "9: found['changed'].append((i, len(os.path.commonprefix([answers[0], answer or ''])))) -> found['changed'].append((i, len(os.path.commonprefix([answers[1], answer or '']))))": _EQUAL,
    "9: found['changed'].append((i, len(os.path.commonprefix([answers[0], answer or ''])))) -> found['changed'].append((i, len(os.path.commonprefix([answers[-1], answer or '']))))": _EQUAL,
}
