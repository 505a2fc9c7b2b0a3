// The other kinds of drills.
Object.assign(KINDS, {
  crossover: {
    draw: (r) => ({ model: pick(r, DATA.models).name, against: pick(r, ["ffn", "linear"]), causal: r() < 0.75 }),
    ask(c, key) {
      const m = MODELS[c.model], other = c.against === "ffn" ? m.layerLinear : m.layerFfn, mine = c.against === "ffn" ? m.layerFfn : m.layerLinear;
      const per = m.perContext / m.layers;
      return {
        prompt: `${c.model} (${m.heads} query heads of ${m.headDim}): in one layer the FFN takes ${show(m.layerFfn, "FLOP", "FLOP")} a token, all matrices together ${show(m.layerLinear, "FLOP", "FLOP")}. `
          + `At which prompt length do the scores and weighted sums of ${c.causal ? "causal attention (the kept half only)" : "attention over the full square"} take as many FLOPs as ${c.against === "ffn" ? "the FFN" : "all matrices of the layers"}?`,
        unit: "tok", family: "tok", tolerance: 0.02,
        slips: [
          [c.causal ? key / 2 : key * 2, c.causal ? "Half: you counted the full square. The causal mask leaves n²/2 pairs." : "Twice: you took the causal half, but the full square is computed here."],
          [(other / per) * (c.causal ? 2 : 1), c.against === "ffn" ? "That is the crossover with all matrices." : "That is the crossover with the FFN alone."],
          [key * (m.heads / m.kvHeads), "You counted KV heads. Every query head has scores of its own."],
          [key * 2, "You left out one of the two products: scores, and the weighted sum of V."],
        ],
        working: [
          `attention in a layer: 4 × ${m.heads} × ${m.headDim} = ${show(per, "FLOP", "FLOP")} a pair${c.causal ? ", and n²/2 pairs" : ", and n² pairs"}`,
          `${show(mine, "FLOP", "FLOP")} × n = ${show(per, "FLOP", "FLOP")} × n²${c.causal ? "/2" : ""}`,
          `n = ${c.causal ? "2 × " : ""}${count(mine)} / ${count(per)} = ${count(key)} tokens`,
        ],
      };
    },
  },
  experts: {
    draw(r) {
      const moe = pick(r, DATA.moes);
      return { moe: moe.name, batch: pick(r, [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128].filter((b) => (1 - moe.topK / moe.experts) ** b > 0.02)) };
    },
    ask(c, key) {
      const { experts: e, topK: k } = MOES[c.moe], b = c.batch;
      return {
        prompt: `${c.moe} sends each token to ${k} of ${e} experts in a layer. A decode step has ${plural(b, "sequence")}. How many different experts of a layer does it read on average, if routing is uniform and independent?`,
        unit: "", family: "", tolerance: 0.01,
        slips: [
          [k, "That is what one token uses. The tokens of a batch choose different experts."],
          [Math.min(e, b * k), "You took all choices as different; several tokens choose the same expert."],
          [b * k, "That counts choices, with repeats, and may exceed the number of experts."],
          [e, "Not quite all: each expert is missed by all tokens with some probability."],
          [e * (1 - (1 - 1 / e) ** b), `That is for one expert a token; here it is ${k}.`],
        ],
        working: [
          `a given expert is missed by one token with probability 1 − ${k}/${e}, by ${plural(b, "token")} with (1 − ${k}/${e})^${b} = ${count((1 - k / e) ** b)}`,
          `${e} × (1 − ${count((1 - k / e) ** b)}) = ${count(key)}`,
        ],
      };
    },
  },
  speculation: {
    draw: (r) => ({ alpha: pick(r, [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]), gamma: pick(r, [1, 2, 3, 4, 5, 6, 8, 10]) }),
    ask(c, key) {
      const { alpha: a, gamma: g } = c;
      return {
        prompt: `A draft guesses ${plural(g, "token")} a round; each is accepted with probability ${a} as long as all before it were. How many tokens does one pass of the large model bring on average, its own included?`,
        unit: "", family: "", tolerance: 0.005,
        slips: [
          [1 + a * g, "That counts guesses after a rejection. A guess counts only if all before it stayed."],
          [key - 1, "You forgot the token that the large model adds in every pass."],
          [(1 - a ** g) / (1 - a), "The exponent is γ + 1: the pass adds a token of its own."],
          [a * g, "That is neither the rule of the first rejection nor the pass's own token."],
          [g + 1, "That is when every guess stays."],
          [1 / (1 - a), "That is for endlessly many guesses."],
        ],
        working: [
          `1 + α + … + α^γ = (1 − α^(γ + 1)) / (1 − α) = (1 − ${a}^${g + 1}) / (1 − ${a})`,
          `= ${count(1 - a ** (g + 1))} / ${count(1 - a)} = ${count(key)} tokens`,
        ],
      };
    },
  },
  price: {
    draw(r) { return { ...KINDS.decode.draw(r), price: pick(r, [0.8, 1.2, 1.5, 2, 2.5, 3, 4, 6]) }; },
    ask(c, key) {
      const m = MODELS[c.model], step = decodeTime(c), rate = c.batch / step;
      const [prompt, seconds] = [KINDS.decode.ask(c, step), step];
      return {
        prompt: `${prompt.prompt.split("How long")[0]}A card costs $${c.price} an hour (a made-up price). At this floor of a step, what do a million generated tokens cost?${prompt.prompt.split("at least?")[1]}`,
        unit: "$", family: "$", tolerance: 0.02,
        slips: [
          [key / c.cards, "You paid for one card. All of them are rented."],
          [key * c.batch, "You counted one token a step. Each sequence of the batch gets one."],
          [key * 3600, "You took the price of an hour for that of a second."],
          [key / 60, "You divided by 60 once too often: an hour has 3,600 seconds."],
          [key * 60, "An hour has 3,600 seconds, not 60."],
          [key / 1000, "That is the price of a thousand tokens."],
          [((c.price * c.cards) / (3600 * (c.batch / ((m.streamed * DATA.bytes[c.dtype]) / (c.cards * CARDS[c.card].bandwidth))))) * 1e6, "You read the weights only. K and V are read as well."],
        ],
        working: [
          ...prompt.working,
          `tokens: ${count(c.batch)} / ${time(seconds)} = ${show(rate, "tok/s", "tok/s")}`,
          `$${c.price} × ${c.cards} / (3,600 s × ${show(rate, "tok/s", "tok/s")}) × 1,000,000 = ${show(key, "$", "$")}`,
        ],
      };
    },
  },
});
// A drill is fixed by its number and the kind chosen ("" for any). Slips that cannot be told from the answer, or from an earlier slip, go.
function drill(seed, chosen) {
  const draw = random(seed);
  const kind = chosen || pick(draw, Object.keys(KINDS));
  const c = KINDS[kind].draw(draw);
  const key = ANSWERS[kind](c);
  const asked = KINDS[kind].ask(c, key);
  const apart = (a, b) => Math.abs(a - b) > 2.5 * asked.tolerance * Math.max(Math.abs(a), Math.abs(b)) + 1e-12;
  const kept = [];
  for (const [value, text] of asked.slips)
    if (Number.isFinite(value) && apart(value, key) && kept.every(([other]) => apart(value, other))) kept.push([value, text]);
  const grading = { key, unit: asked.unit, family: asked.family, tolerance: asked.tolerance, traps: kept.map(([value]) => value) };
  return { kind, c, key, prompt: asked.prompt, working: asked.working, slips: kept, grading };
}
