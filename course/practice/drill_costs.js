// The cost model as the drills need it; drill_twin.py says which function of tinyserve.costs each one equals.
const byName = (list) => Object.fromEntries(list.map((item) => [item.name, item]));
const MODELS = byName(DATA.models), CARDS = byName(DATA.cards), MOES = byName(DATA.moes);

function kvBytes(model, tokens, dtype) { return tokens * model.kvNumbers * DATA.bytes[dtype]; }
function pairs(n, cached) { return n * cached + (n * (n + 1)) / 2; }
function forwardFlops(model, n, cached) { return n * model.linear + model.perContext * pairs(n, cached) + model.head; }
function roofline(flops, moved, card, cards, mfu) {
  return Math.max(flops / (cards * card.peak * mfu), moved / (cards * card.bandwidth));
}
function decodeTime(c) {
  const model = MODELS[c.model];
  const moved = model.streamed * DATA.bytes[c.dtype] + c.batch * kvBytes(model, c.tokens, c.kv);
  return roofline(c.batch * forwardFlops(model, 1, c.tokens - 1), moved, CARDS[c.card], c.cards, 1);
}
function prefillTime(c) {
  const model = MODELS[c.model];
  const moved = model.streamed * DATA.bytes[c.dtype] + kvBytes(model, c.tokens, "bf16");
  return roofline(forwardFlops(model, c.tokens, 0), moved, CARDS[c.card], c.cards, c.mfu);
}
function plan(c) {
  const model = MODELS[c.model];
  const usable = DATA.utilization * (c.cards * CARDS[c.card].memory) - c.cards * DATA.activations;
  const weights = model.params * DATA.bytes[c.dtype];
  const perToken = kvBytes(model, 1, c.kv) * Math.max(1, c.cards / model.kvHeads);
  return { usable, weights, perToken, tokens: Math.max(0, Math.floor((usable - weights) / perToken)) };
}
const ANSWERS = {
  kv: (c) => c.batch * kvBytes(MODELS[c.model], c.tokens, c.kv),
  weights: (c) => MODELS[c.model].params * DATA.bytes[c.dtype],
  fits: (c) => Math.floor(plan(c).tokens / c.tokens),
  decode: decodeTime,
  ttft: prefillTime,
  crossover: (c) => {
    const model = MODELS[c.model];
    const linear = c.against === "ffn" ? model.layerFfn : model.layerLinear;
    return (model.layers * linear) / (model.perContext / (c.causal ? 2 : 1));
  },
  experts: (c) => MOES[c.moe].experts * (1 - (1 - MOES[c.moe].topK / MOES[c.moe].experts) ** c.batch),
  speculation: (c) => Array.from({ length: c.gamma + 1 }, (_, i) => c.alpha ** i).reduce((a, b) => a + b, 0),
  price: (c) => ((c.price * c.cards) / (3600 * (c.batch / decodeTime(c)))) * 1e6,
};
