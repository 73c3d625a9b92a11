// The page: an input to draw on, the operator's prediction, the true solution, and the error between them.
"use strict";

const data = JSON.parse(document.getElementById("page-data").textContent);
const [rows, columns] = data.grid;
const byId = (id) => document.getElementById(id);
const input = new Float32Array(rows * columns);
const cursor = { row: rows >> 1, column: columns >> 1, shown: false };
const state = { prediction: null, truth: null, error: null, predictMs: null, solveMs: null, score: null, answered: 0 };
let session = null, ort = null, pending = false, busy = false;

/** Bytes that stand gzipped in the page. */
async function unpacked(id) {
  const text = atob(byId(id).textContent.trim()), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function floats(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Float32Array(bytes.buffer);
}

async function start() {
  const code = new Blob([await unpacked("runtime-code")], { type: "text/javascript" });
  ort = await import(URL.createObjectURL(code));
  ort.env.wasm.numThreads = 1; // threads need headers that a file has not
  ort.env.wasm.wasmBinary = (await unpacked("runtime-wasm")).buffer;
  session = await ort.InferenceSession.create(await unpacked("model"), { executionProviders: ["wasm"] });
  byId("status").textContent = "";
  changed();
}

async function predict() {
  const began = performance.now();
  const x = new ort.Tensor("float32", input, [1, 1, rows, columns]);
  state.prediction = (await session.run({ x })).y.data;
  state.predictMs = performance.now() - began;
}

function findTruth() {
  const began = performance.now(), sample = data.samples[byId("sample").selectedIndex];
  if (data.solver === "darcy") state.truth = solveDarcy(input, rows).u;
  else state.truth = sample && sample.y && sample.untouched ? floats(sample.y) : null;
  state.solveMs = performance.now() - began;
}

function relativeError(y, truth) {
  let above = 0, below = 0;
  for (let i = 0; i < truth.length; i++) {
    above += (y[i] - truth[i]) ** 2;
    below += truth[i] ** 2;
  }
  return Math.sqrt(above / below);
}

/** The input is another: answer, and again if it changed meanwhile. */
async function changed() {
  pending = true;
  paintField("input", input, data.low, data.high, true);
  remark();
  if (busy || !session) return;
  busy = true;
  while (pending) {
    pending = false;
    await predict();
    showPrediction();
    await new Promise((resume) => setTimeout(resume)); // the prediction is seen before the slower solver runs
    if (!pending) {
      findTruth();
      showTruth();
    }
    state.answered++;
  }
  busy = false;
}

/** Resolves when the last change is answered. */
async function idle() {
  while (!session || busy || pending) await new Promise((resume) => setTimeout(resume, 5));
}

function showPrediction() {
  const range = extent(state.prediction);
  paintField("prediction", state.prediction, range[0], range[1]);
  byId("predict-time").textContent = `${state.predictMs.toFixed(0)} ms`;
}

function showTruth() {
  state.error = state.truth ? relativeError(state.prediction, state.truth) : null;
  byId("error").textContent = state.error === null ? "not known" : `${(100 * state.error).toFixed(2)}%`;
  byId("solve-time").textContent = data.solver ? `${state.solveMs.toFixed(0)} ms` : "";
  for (const id of ["truth-figure", "difference-figure"]) byId(id).hidden = !state.truth;
  if (!state.truth) return;
  const range = extent(state.truth), difference = state.truth.map((value, i) => Math.abs(state.prediction[i] - value));
  paintField("prediction", state.prediction, range[0], range[1]);
  paintField("truth", state.truth, range[0], range[1]);
  const most = extent(difference)[1];
  paintField("difference", difference, 0, most);
  byId("difference-range").textContent = `largest ${most.toExponential(1)}`;
}

/** An honest word on whether the test error says anything about this input. */
function remark() {
  const { name, score } = farthest(features(input, rows, columns, data.low, data.high), data.training);
  state.score = score;
  const far = Math.abs(score) > 3, note = byId("note");
  note.className = far ? "warning" : "";
  note.textContent = far
    ? `Unlike the training data: ${name} is ${Math.abs(score).toFixed(1)} standard deviations ` +
      `${score > 0 ? "above" : "below"} that of ${data.training.count} training samples. ` +
      `The test error (${data.test_error}) says nothing about this input.`
    : `Like the training data by four statistics; the mean test error there is ${data.test_error}.`;
}

function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

// Viridis at nine points.
const COLOURS = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129],
  [92, 200, 99], [170, 220, 50], [253, 231, 37]];

function paintField(id, values, low, high, withCursor = false) {
  const context = byId(id).getContext("2d"), image = context.createImageData(columns, rows);
  for (let i = 0; i < values.length; i++) {
    const t = Math.min(1, Math.max(0, (values[i] - low) / (high - low || 1))) * (COLOURS.length - 1);
    const k = Math.min(Math.floor(t), COLOURS.length - 2), f = t - k;
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = COLOURS[k][c] + f * (COLOURS[k + 1][c] - COLOURS[k][c]);
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  if (withCursor && cursor.shown) {
    const radius = Number(byId("brush").value);
    context.strokeStyle = "#ff4081";
    context.strokeRect(cursor.column - radius, cursor.row - radius, 2 * radius + 1, 2 * radius + 1);
  }
}

function brushValue() {
  return data.low + (data.high - data.low) * Number(byId("value").value);
}

/** Paint a disc of the brush's value. */
function dab(row, column) {
  const radius = Number(byId("brush").value), value = brushValue();
  for (let i = Math.max(0, row - radius); i <= Math.min(rows - 1, row + radius); i++)
    for (let j = Math.max(0, column - radius); j <= Math.min(columns - 1, column + radius); j++)
      if ((i - row) ** 2 + (j - column) ** 2 <= radius * radius + 0.5) input[i * columns + j] = value;
  touched();
}

function touched() {
  const sample = data.samples[byId("sample").selectedIndex];
  if (sample) sample.untouched = false;
  changed();
}

function choose() {
  const sample = data.samples[byId("sample").selectedIndex];
  input.set(floats(sample.x));
  sample.untouched = true;
  changed();
}

function listen() {
  const canvas = byId("input");
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    dab(Math.floor(((event.clientY - box.top) / box.height) * rows),
      Math.floor(((event.clientX - box.left) / box.width) * columns));
  };
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); place(event); });
  canvas.addEventListener("pointermove", (event) => { if (event.buttons) place(event); });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (moves) {
      cursor.row = Math.min(rows - 1, Math.max(0, cursor.row + moves[0]));
      cursor.column = Math.min(columns - 1, Math.max(0, cursor.column + moves[1]));
      paintField("input", input, data.low, data.high, true);
    } else if (event.key === " " || event.key === "Enter") dab(cursor.row, cursor.column);
    else return;
    event.preventDefault();
  });
  // A cursor for the keyboard; a pointer has its own.
  canvas.addEventListener("focus", () => { cursor.shown = canvas.matches(":focus-visible"); paintField("input", input, data.low, data.high, true); });
  canvas.addEventListener("blur", () => { cursor.shown = false; paintField("input", input, data.low, data.high, true); });
  byId("sample").addEventListener("change", choose);
  byId("reset").addEventListener("click", choose);
  byId("fill").addEventListener("click", () => { input.fill(brushValue()); touched(); });
}

for (const id of ["input", "prediction", "truth", "difference"]) Object.assign(byId(id), { width: columns, height: rows });
data.samples.forEach((_, k) => byId("sample").add(new Option(`test sample ${k + 1}`)));
listen();
choose();
// For scripts and tests: what the page holds now.
window.operatorPage = { input, state, idle };
start().catch((error) => {
  byId("status").textContent = `This browser cannot run the operator: ${error.message}`;
});
