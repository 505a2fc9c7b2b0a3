// Each kind: draw a case, ask, name the slips, show the working. `ask` returns {prompt, unit, family, tolerance, slips, working}.
const show = (value, unit, family) => QUIZ.valueText(value, unit, family);
const bytes = (value) => `${show(value, "B", "B")} (${show(value, "GiB", "B")})`;
const count = (value) => show(value, "", "");
const time = (value) => show(value, "s", "s");
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
const on = (c) => (c.cards === 1 ? `one ${c.card}` : `${c.cards} × ${c.card}`);
const shapes = (m) => `${m.layers} layers, ${m.heads} query heads, ${m.kvHeads} KV heads of ${m.headDim}`;
const CONTEXTS = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072];
const gibSlips = (key) => [
  [(key / DATA.gib) * DATA.gb, "That number is in GiB, but you wrote GB (or MiB and MB): 1 GiB = 1.074 GB."],
  [(key / DATA.gb) * DATA.gib, "That number is in GB, but you wrote GiB (or MB and MiB): 1 GiB = 1.074 GB."],
];
function place(draw, contexts) {
  const model = pick(draw, DATA.models), tokens = pick(draw, contexts), card = pick(draw, DATA.cards).name;
  // Tensor parallelism needs query heads that divide over the cards. No model here then has more cards than KV heads, so none stores a head twice.
  return { model: model.name, tokens, card, cards: pick(draw, [1, 2, 4, 8].filter((n) => model.heads % n === 0)) };
}
const KINDS = {
  kv: {
    draw: (r) => ({ model: pick(r, DATA.models).name, batch: pick(r, [1, 2, 4, 8, 16, 32, 64, 128]), tokens: pick(r, CONTEXTS), kv: pick(r, ["bf16", "fp8", "fp32"]) }),
    ask(c, key) {
      const m = MODELS[c.model], b = DATA.bytes[c.kv];
      return {
        prompt: `${c.model} (${shapes(m)}), ${plural(c.batch, "sequence")} of ${count(c.tokens)} tokens, cache in ${c.kv}. How large are K and V?`,
        unit: "GB", family: "B", tolerance: 0.01,
        slips: [
          [key / 2, b === 2 ? "Half: you counted K without V, or one byte a number." : "Half: you counted K without V."],
          [key * (m.heads / m.kvHeads), "You counted query heads. Only the KV heads are kept."],
          [(key * m.heads) / m.kvHeads / 2, "You counted query heads for KV heads, and K without V."],
          [key * 8, "Eight times too much: you counted bits, and a byte has 8."],
          [key / m.layers, "That is one layer."],
          [key / c.batch, "That is one sequence."],
          ...gibSlips(key),
        ],
        working: [
          `2 (K and V) × ${m.layers} layers × ${m.kvHeads} KV heads × ${m.headDim} = ${count(m.kvNumbers)} numbers a token`,
          `× ${b} B (${c.kv}) = ${show(kvBytes(m, 1, c.kv), "B", "B")} a token`,
          `× ${count(c.tokens)} tokens × ${plural(c.batch, "sequence")} = ${bytes(key)}`,
        ],
      };
    },
  },
  weights: {
    draw: (r) => ({ model: pick(r, DATA.models).name, dtype: pick(r, ["fp32", "bf16", "fp8", "int4"]) }),
    ask(c, key) {
      const m = MODELS[c.model], b = DATA.bytes[c.dtype];
      return {
        prompt: `${c.model} has ${count(m.params)} parameters. How many bytes do they take when each is kept in ${c.dtype} (scales, if any, left out)?`,
        unit: "GB", family: "B", tolerance: 0.01,
        slips: [
          [key * 8, "Eight times too much: you counted bits, and a byte has 8."],
          [m.params * 2, "You took 2 bytes a number, whatever the dtype."],
          [m.params, "That is the number of parameters, one byte each."],
          ...gibSlips(key),
        ],
        working: [`${count(m.params)} × ${b} B (${c.dtype}: ${8 * b} bits, and 8 bits are a byte) = ${bytes(key)}`],
      };
    },
  },
  fits: {
    draw(r) { const c = place(r, CONTEXTS); return { ...c, dtype: pick(r, ["bf16", "fp8", "int4"]), kv: pick(r, ["bf16", "fp8"]) }; },
    ask(c, key) {
      const m = MODELS[c.model], p = plan(c), card = CARDS[c.card];
      const whole = (usable, weights, perToken) => Math.floor(Math.max(0, Math.floor((usable - weights) / perToken)) / c.tokens);
      const share = (memory) => DATA.utilization * c.cards * memory - c.cards * DATA.activations;
      return {
        prompt: `${c.model} (${shapes(m)}; ${count(m.params)} parameters) in ${c.dtype}${c.dtype === "int4" ? " (scales left out)" : ""} on ${on(c)}${c.cards > 1 ? " under tensor parallelism" : ""}, cache in ${c.kv}. A card reports ${(card.memory / DATA.gib).toFixed(1)} GiB; `
          + `${100 * DATA.utilization} % of it may be used, less ${show(DATA.activations, "B", "B")} a card for activations. How many whole sequences of ${count(c.tokens)} tokens fit beside the weights? (0 if none.)`,
        unit: "", family: "", tolerance: 0.01,
        slips: [
          [whole(p.usable, p.weights, p.perToken / 2), "You counted K without V (or half of the bytes)."],
          [whole(p.usable, p.weights, (p.perToken * m.heads) / m.kvHeads), "You counted query heads. Only the KV heads are kept."],
          [whole(share((card.memory / DATA.gib) * DATA.gb), p.weights, p.perToken), "You took GiB for GB: a card's memory is larger than that number in GB."],
          [whole(share(card.named * DATA.gb), p.weights, p.perToken), "You took the number on the label for GB. Plan with the reported bytes."],
          [whole(c.cards * card.memory, p.weights, p.perToken), "You gave away the whole memory: a share stays free, and activations need room."],
          [whole(p.usable, 0, p.perToken), "You forgot the weights."],
          [whole(p.usable, p.weights * 8, p.perToken), "You counted the weights in bits."],
        ],
        working: [
          `usable: ${100 * DATA.utilization} % of ${on(c)} (${bytes(c.cards * card.memory)}), less ${show(c.cards * DATA.activations, "B", "B")} = ${show(p.usable, "B", "B")}`,
          `weights: ${count(m.params)} × ${DATA.bytes[c.dtype]} B = ${show(p.weights, "B", "B")}`,
          p.usable <= p.weights ? "The weights alone do not fit: 0 sequences." : `left for K and V: ${show(p.usable - p.weights, "B", "B")}; a token takes ${show(p.perToken, "B", "B")}`,
          ...(p.usable <= p.weights ? [] : [`${count(p.tokens)} tokens: ${plural(key, "whole sequence")} of ${count(c.tokens)}`]),
        ],
      };
    },
  },
  decode: {
    draw(r) { const c = place(r, CONTEXTS); return { ...c, batch: pick(r, [1, 4, 8, 16, 32, 64, 128]), dtype: pick(r, ["bf16", "int8"]), kv: pick(r, ["bf16", "fp8"]) }; },
    ask(c, key) {
      const m = MODELS[c.model], card = CARDS[c.card], kv = c.batch * kvBytes(m, c.tokens, c.kv), w = m.streamed * DATA.bytes[c.dtype];
      const flops = c.batch * forwardFlops(m, 1, c.tokens - 1), wide = c.cards * card.bandwidth, read = (w + kv) / wide, work = flops / (c.cards * card.peak);
      return {
        prompt: `${c.model} (${shapes(m)}; ${count(m.streamed)} parameters are read in each step) with ${c.dtype} weights, cache in ${c.kv}, bf16 arithmetic, on ${on(c)} (${show(card.bandwidth, "B/s", "B/s")} and ${show(card.peak, "FLOP/s", "FLOP/s")} each). `
          + `${plural(c.batch, "sequence")} at a context of ${count(c.tokens)}. How long does a decode step take at least? (Matrices: ${show(m.linear + m.head, "FLOP", "FLOP")} a token.)`,
        unit: "ms", family: "s", tolerance: 0.02,
        slips: [
          [w / wide, "Those are the weights. Each sequence's K and V are read as well."],
          [(w + kv / 2) / wide, "You counted K without V (or half of the cache's bytes)."],
          [(w + (kv * m.heads) / m.kvHeads) / wide, "You counted query heads for KV heads."],
          [(w + kv / c.batch) / wide, "You counted the K and V of one sequence only."],
          [(c.batch * w + kv) / wide, "You read the weights once per sequence. One reading serves the batch."],
          [key * c.cards, "That is one card. The bytes are divided over all of them."],
          [key * 8, "Eight times too long: bits for bytes."],
          [read > work ? work : read, read > work ? "That is the arithmetic. Reading takes longer, and the longer one bounds the step." : "That is the reading. Here the arithmetic takes longer."],
        ],
        working: [
          `weights: ${count(m.streamed)} × ${DATA.bytes[c.dtype]} B = ${show(w, "B", "B")}; K and V: ${count(c.batch)} × ${count(c.tokens)} × ${show(kvBytes(m, 1, c.kv), "B", "B")} = ${show(kv, "B", "B")}`,
          `reading: ${show(w + kv, "B", "B")} / ${show(wide, "B/s", "B/s")} = ${time(read)}`,
          `arithmetic: ${show(flops, "FLOP", "FLOP")} / ${show(c.cards * card.peak, "FLOP/s", "FLOP/s")} = ${time(work)}`,
          `the longer of the two: ${time(key)}`,
        ],
      };
    },
  },
  ttft: {
    draw(r) { const c = place(r, CONTEXTS.slice(1)); return { ...c, dtype: "bf16", mfu: pick(r, [1, 0.5, 0.4]) }; },
    ask(c, key) {
      const m = MODELS[c.model], card = CARDS[c.card], rate = c.cards * card.peak * c.mfu, n = c.tokens, moved = m.streamed * 2 + kvBytes(m, n, "bf16");
      return {
        prompt: `A prompt of ${count(n)} tokens for ${c.model} in bf16 on ${on(c)} (${show(card.peak, "FLOP/s", "FLOP/s")} each${c.mfu === 1 ? "" : `, ${100 * c.mfu} % of it reached`}; ${show(card.bandwidth, "B/s", "B/s")}). How long does prefill take at least? `
          + `(Layers' matrices: ${show(m.linear, "FLOP", "FLOP")} a token; ${m.layers} layers, ${m.heads} query heads of ${m.headDim}; causal; logits for the last position.)`,
        unit: "ms", family: "s", tolerance: 0.02,
        slips: [
          [(n * m.linear + m.perContext * n * n + m.head) / rate, "You counted the full square. The causal mask leaves half of the pairs."],
          [(n * m.linear + m.head) / rate, "You left attention's scores and sums out."],
          [(m.perContext * pairs(n, 0)) / rate, "That is attention's part alone."],
          [key * c.cards, "That is one card. The work is divided over all of them."],
          [(forwardFlops(m, n, 0) / rate) * c.mfu, "That is the arithmetic at the full peak; only part of it is reached."],
          [forwardFlops(m, n, 0) / rate, "That is the arithmetic. Reading the weights takes longer here, and the longer one bounds the step."],
          [moved / (c.cards * card.bandwidth), "That is the reading. Here the arithmetic takes longer."],
        ],
        working: [
          `matrices: ${count(n)} × ${show(m.linear, "FLOP", "FLOP")} = ${show(n * m.linear, "FLOP", "FLOP")}, and ${show(m.head, "FLOP", "FLOP")} for the last position's logits`,
          `attention: 4 × ${m.layers} layers × ${m.heads} heads × ${m.headDim} = ${show(m.perContext, "FLOP", "FLOP")} a pair, × n(n + 1)/2 pairs = ${show(m.perContext * pairs(n, 0), "FLOP", "FLOP")}`,
          `${show(forwardFlops(m, n, 0), "FLOP", "FLOP")} / ${show(rate, "FLOP/s", "FLOP/s")} = ${time(forwardFlops(m, n, 0) / rate)}; reading ${show(moved, "B", "B")} takes ${time(moved / (c.cards * card.bandwidth))}`,
          `the longer of the two: ${time(key)}`,
        ],
      };
    },
  },
};
