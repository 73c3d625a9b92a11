"use strict";
(() => {
  const gallery = JSON.parse(document.getElementById("gallery").textContent);
  const $ = id => document.getElementById(id);
  const sample = $("sample"), time = $("time"), channel = $("channel"), turn = $("turn"), panels = $("panels");
  const VALUE = ["440154", "472d7b", "3b528b", "2c728e", "21918c", "28ae80", "5ec962", "addc30", "fde725"];
  const ERROR = ["000004", "210c4a", "57106e", "8a226a", "bc3754", "e45a31", "f98e09", "f9cb35", "fcffa4"];
  const tables = { value: table(VALUE), error: table(ERROR) };
  const unpacked = new Map();

  function table(stops) {
    const rgb = stops.map(s => [0, 2, 4].map(i => parseInt(s.slice(i, i + 2), 16)));
    return Array.from({ length: 256 }, (_, i) => {
      const at = i / 255 * (rgb.length - 1), left = Math.min(Math.floor(at), rgb.length - 2), share = at - left;
      return rgb[left].map((c, k) => Math.round(c + share * (rgb[left + 1][k] - c)));
    });
  }

  // Whole numbers of 16 bits between two ends, from base64.
  function numbers(picture) {
    if (!unpacked.has(picture)) {
      const bytes = Uint8Array.from(atob(picture.data), c => c.charCodeAt(0)), view = new DataView(bytes.buffer);
      unpacked.set(picture, Uint16Array.from({ length: bytes.length / 2 }, (_, i) => view.getUint16(2 * i, true)));
    }
    return unpacked.get(picture);
  }
  const valueOf = (picture, whole) => picture.low + whole / 65535 * (picture.high - picture.low);
  const text = value => String(Number(Number(value).toPrecision(3)));

  function shown() {
    const shots = gallery.samples[sample.value].shots;
    return shots[Math.min(time.value, shots.length - 1)];
  }

  // Every picture of the moment: [caption, picture, colours].
  function pictures() {
    const shot = shown(), own = shot.outputs[channel.value || 0];
    const inputs = shot.inputs.map((picture, i) => [gallery.inputs[i] || "input", picture, "value"]);
    return [...inputs, ["truth", own[0], "value"], ["prediction", own[1], "value"], ["absolute error", own[2], "error"]];
  }

  function build() {
    panels.replaceChildren(...(gallery.kind === "line" ? [["", 0], ["", 0]] : pictures()).map(([caption, , kind]) => {
      const figure = document.createElement("figure"), canvas = document.createElement("canvas");
      const words = document.createElement("figcaption"), bar = document.createElement("div");
      canvas.setAttribute("role", "img");
      canvas.className = ({ points: "cloud", line: "line" })[gallery.kind] || "grid";
      words.textContent = caption;
      bar.className = "bar";
      if (kind) {
        const low = document.createElement("span"), ramp = document.createElement("i"), high = document.createElement("span");
        ramp.className = kind;
        bar.append(low, ramp, high);
      }
      figure.append(canvas, words, bar);
      canvas.addEventListener("pointermove", event => read(event, canvas));
      canvas.addEventListener("pointerleave", () => { $("readout").textContent = ""; });
      return figure;
    }));
  }

  function draw() {
    const all = gallery.samples, shots = all[sample.value].shots, shot = shown();
    $("sample-label").textContent = `${all[sample.value].label} (${Number(sample.value) + 1} of ${all.length})`;
    time.max = shots.length - 1;
    $("time-label").textContent = shot.label;
    $("turn-label").textContent = `${turn.value}°`;
    $("error").textContent = shot.error === null ? "-" : shot.error;
    if (gallery.kind === "line") drawLines(); else drawPictures();
  }

  function drawPictures() {
    pictures().forEach(([caption, picture, kind], i) => {
      const figure = panels.children[i], canvas = figure.querySelector("canvas"), ends = figure.querySelectorAll(".bar span");
      ends[0].textContent = text(picture.low);
      ends[1].textContent = text(picture.high);
      canvas.setAttribute("aria-label", `${caption}, from ${text(picture.low)} to ${text(picture.high)}`);
      if (gallery.kind === "points") drawCloud(canvas, picture, kind); else drawGrid(canvas, picture, kind);
    });
  }

  function drawGrid(canvas, picture, kind) {
    const [rows, columns] = picture.shape, pen = canvas.getContext("2d"), whole = numbers(picture);
    canvas.width = columns;
    canvas.height = rows;
    const image = pen.createImageData(columns, rows);
    whole.forEach((value, i) => { image.data.set([...tables[kind][value >> 8], 255], 4 * i); });
    pen.putImageData(image, 0, 0);
  }

  // Points seen from the side, the far ones first.
  function drawCloud(canvas, picture, kind) {
    const cloud = gallery.samples[sample.value].points, whole = numbers(cloud), values = numbers(picture);
    const width = canvas.width = 640, height = canvas.height = 420, pen = canvas.getContext("2d");
    const angle = turn.value * Math.PI / 180, tilt = 0.45, count = values.length;
    const seen = Array.from({ length: count }, (_, i) => {
      const [x, y, z] = [0, 1, 2].map(k => valueOf(cloud, whole[3 * i + k]));
      const across = x * Math.cos(angle) - y * Math.sin(angle), deep = x * Math.sin(angle) + y * Math.cos(angle);
      return [across, z * Math.cos(tilt) - deep * Math.sin(tilt), z * Math.sin(tilt) + deep * Math.cos(tilt), values[i]];
    });
    const middle = k => seen.reduce((sum, p) => sum + p[k], 0) / count, [cx, cy] = [middle(0), middle(1)];
    const span = k => Math.max(...seen.map(p => Math.abs(p[k] - (k ? cy : cx)))) || 1;
    const scale = 0.46 * Math.min(width / span(0), height / span(1));
    const size = Math.max(1.5, Math.min(8, 130 / Math.sqrt(count)));
    pen.clearRect(0, 0, width, height);
    seen.sort((a, b) => b[2] - a[2]).forEach(([across, up, , value]) => {
      pen.fillStyle = `rgb(${tables[kind][value >> 8]})`;
      pen.beginPath();
      pen.arc(width / 2 + (across - cx) * scale, height / 2 - (up - cy) * scale, size, 0, 7);
      pen.fill();
    });
  }

  // A field on a line: the inputs in one picture, truth and prediction in the other.
  function drawLines() {
    const shot = shown(), own = shot.outputs[channel.value || 0];
    const inputs = shot.inputs.map((picture, i) => [gallery.inputs[i] || "input", picture]);
    [inputs, [["truth", own[0]], ["prediction", own[1]]]].forEach((lines, i) => {
      const figure = panels.children[i], canvas = figure.querySelector("canvas"), pen = canvas.getContext("2d");
      const width = canvas.width = 640, height = canvas.height = 320, style = getComputedStyle(document.documentElement);
      const low = Math.min(...lines.map(l => l[1].low)), high = Math.max(...lines.map(l => l[1].high));
      pen.clearRect(0, 0, width, height);
      lines.forEach(([, picture], k) => {
        const whole = numbers(picture);
        pen.strokeStyle = style.getPropertyValue(`--line-${k + 1}`);
        pen.lineWidth = 2.5;
        pen.setLineDash(k ? [8, 5] : []);
        pen.beginPath();
        whole.forEach((value, n) => {
          const y = (valueOf(picture, value) - low) / (high - low || 1);
          pen.lineTo(n / (whole.length - 1 || 1) * width, height * (0.95 - 0.9 * y));
        });
        pen.stroke();
      });
      const said = `${lines.map(l => l[0]).join(", ")} (dashed: the second), from ${text(low)} to ${text(high)}`;
      canvas.setAttribute("aria-label", said);
      figure.querySelector("figcaption").textContent = lines.length > 1 ? said : said.replace(" (dashed: the second)", "");
    });
  }

  function read(event, canvas) {
    if (gallery.kind !== "plane" && gallery.kind !== "map") return;
    const box = canvas.getBoundingClientRect(), found = pictures();
    const [rows, columns] = found[0][1].shape;
    const row = Math.min(rows - 1, Math.max(0, Math.floor((event.clientY - box.top) / box.height * rows)));
    const column = Math.min(columns - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * columns)));
    const told = found.map(([name, picture]) => `${name} ${text(valueOf(picture, numbers(picture)[row * picture.shape[1] + column]))}`);
    $("readout").textContent = `row ${row}, column ${column}: ${told.join(", ")}`;
  }

  function move(slider, by) {
    slider.value = Math.min(Number(slider.max), Math.max(0, Number(slider.value) + by));
    draw();
  }

  let playing = 0;
  function play() {
    if (playing) clearInterval(playing);
    playing = playing ? 0 : setInterval(() => { time.value = time.value === time.max ? 0 : Number(time.value) + 1; draw(); }, 150);
    $("play").textContent = playing ? "Stop" : "Play";
  }

  const first = gallery.samples[0];
  for (const id of ["time-control", "play"]) $(id).hidden = first.shots.length < 2;
  $("turn-control").hidden = gallery.kind !== "points";
  $("channel-control").hidden = gallery.outputs.length < 2;
  gallery.outputs.forEach((name, i) => channel.add(new Option(name, i)));
  channel.value = 0;
  for (const control of [sample, time, channel, turn]) control.addEventListener("input", draw);
  $("play").addEventListener("click", play);
  document.addEventListener("keydown", event => {
    if (event.target.closest("input, select, button, .scroll, pre, summary") || event.ctrlKey || event.metaKey || event.altKey) return;
    const moves = { ArrowRight: [sample, 1], ArrowLeft: [sample, -1], ArrowUp: [time, 1], ArrowDown: [time, -1] };
    const wanted = moves[event.key];
    if (!wanted || (wanted[0] === time && first.shots.length < 2)) return;
    event.preventDefault();
    move(...wanted);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  build();
  draw();
})();
