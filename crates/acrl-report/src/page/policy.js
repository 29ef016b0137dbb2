// The policy in the page: what `Model` in figure.rs says, as it says it.
"use strict";

const policy = (() => {
  // (1, λ)/(1 + Σλ) in units of the rewards' ranges; without an objective λ/Σλ, all equal at λ = 0.
  const weights = (model, multipliers) => {
    const count = multipliers.length, scales = model.scales.slice(-count);
    const parts = multipliers.map((value, i) => value * (scales[i] ?? 1));
    if (model.objective) parts.unshift(model.scales.length > count ? model.scales[0] : 1);
    const total = parts.reduce((sum, part) => sum + part, 0);
    return parts.map((part) => (total > 0 ? part / total : 1 / parts.length));
  };

  const forward = (model, inputs) => {
    const { shape, parameters } = model;
    let at = 0, values = inputs;
    for (let layer = 1; layer < shape.length; layer++) {
      const wide = shape[layer - 1], high = shape[layer], biases = at + wide * high, next = new Array(high);
      for (let j = 0; j < high; j++) {
        let sum = parameters[biases + j];
        for (let i = 0; i < wide; i++) sum += parameters[at + j * wide + i] * values[i];
        next[j] = layer + 1 < shape.length ? Math.tanh(sum) : sum;
      }
      at = biases + high;
      values = next;
    }
    return values;
  };

  // The arrows at the given positions, for these multipliers.
  const arrows = (model, positions, multipliers) => {
    const tail = weights(model, multipliers);
    return positions.map(({ x, y }) => {
      const seen = model.observation.map(([offset, factor], i) => ([x, y, ...model.rest][i] - offset) * factor);
      const out = forward(model, [...seen, ...tail]);
      let [dx, dy] = model.output.map(([middle, half], i) => middle + half * out[i]);
      const length = Math.hypot(dx, dy);
      if (model.longest != null && length > model.longest) { dx *= model.longest / length; dy *= model.longest / length; }
      return { x, y, dx, dy };
    });
  };

  return { arrows };
})();
