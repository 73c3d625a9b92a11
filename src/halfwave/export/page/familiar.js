// Is a drawing like the training data? Four numbers of a field, beside their spread over training samples.
// The same as `familiarity.features` in Python: what is computed there is compared with what is computed here.
"use strict";

/** Mean, roughness (mean step between neighbours), large scales (spread of 4 x 4 block means), mean on the border. */
function features(x, rows, columns, low, high) {
  const at = (i, j) => (x[i * columns + j] - low) / (high - low);
  let sum = 0, steps = 0, pairs = 0, border = 0, edge = 0;
  const blocks = new Float64Array(16), counts = new Float64Array(16);
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < columns; j++) {
      const value = at(i, j), block = Math.floor((4 * i) / rows) * 4 + Math.floor((4 * j) / columns);
      sum += value;
      blocks[block] += value;
      counts[block] += 1;
      if (j < columns - 1) { steps += Math.abs(at(i, j + 1) - value); pairs++; }
      if (i < rows - 1) { steps += Math.abs(at(i + 1, j) - value); pairs++; }
      if (i === 0 || j === 0 || i === rows - 1 || j === columns - 1) { border += value; edge++; }
    }
  const means = blocks.map((total, k) => total / counts[k]);
  const centre = means.reduce((s, v) => s + v, 0) / 16;
  const spread = Math.sqrt(means.reduce((s, v) => s + (v - centre) ** 2, 0) / 16);
  return [sum / (rows * columns), steps / pairs, spread, border / edge];
}

const FEATURE_NAMES = ["share of the upper value", "roughness", "large-scale variation", "value on the border"];

/** The feature that is farthest from the training samples, in their standard deviations. */
function farthest(found, training) {
  const scores = found.map((value, k) => (value - training.mean[k]) / training.std[k]);
  const worst = scores.reduce((best, score, k) => (Math.abs(score) > Math.abs(scores[best]) ? k : best), 0);
  return { name: FEATURE_NAMES[worst], score: scores[worst] };
}
