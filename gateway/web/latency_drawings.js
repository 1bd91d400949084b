/** Drawings of figures: distributions on one scale, the waterfall of one answer. */

import { quantile, seconds, total } from "./latency_figures.js";

const SVG = "http://www.w3.org/2000/svg";
let WIDTH = 680; // as wide as there is room, so that letters keep their size on a phone
const LEFT = 96;
const RIGHT = 24;
const ROW = 62;
const LETTER = 7; // a letter is about so wide
const TICKS = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60];
const FEW_TICKS = [0.1, 0.5, 2, 10, 60];
const LOW = 0.03;
const HIGH = 80;

/** Drawings from now on are for so many pixels. */
export function fit(width) {
  WIDTH = Math.round(Math.min(680, Math.max(300, width)));
}

function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const across = (value) =>
  LEFT + ((Math.log(Math.min(Math.max(value, LOW), HIGH)) - Math.log(LOW)) / (Math.log(HIGH) - Math.log(LOW))) * (WIDTH - LEFT - RIGHT);

/** Histograms by path, one below the other on one logarithmic scale of seconds. */
export function distributions(histograms, label) {
  const rows = [...histograms];
  const height = rows.length * ROW + 34;
  const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img" });
  const said = rows.map(([path, each]) => `${path}: ${total(each)} answers, p50 ${seconds(quantile(0.5, each))}, p99 ${seconds(quantile(0.99, each))}`);
  svg.setAttribute("aria-label", `${label}. ${said.join("; ")}`);
  for (const tick of WIDTH < 520 ? FEW_TICKS : TICKS) {
    svg.append(element("line", { class: "grid", x1: across(tick), x2: across(tick), y1: 8, y2: height - 26 }));
    svg.append(element("text", { class: "soft", x: across(tick), y: height - 8, "text-anchor": "middle" }, tick < 1 ? `.${String(tick).split(".")[1]}` : `${tick} s`));
  }
  rows.forEach(([path, histogram], at) => svg.append(...row(path, histogram, 8 + at * ROW)));
  return svg;
}

function row(path, histogram, top) {
  const most = Math.max(...histogram.counts);
  const base = top + ROW - 14;
  const parts = [
    element("text", { x: 8, y: base - 14 }, path),
    element("text", { class: "soft", x: 8, y: base + 2 }, `${total(histogram)}`),
  ];
  histogram.counts.forEach((count, at) => {
    if (!count) return;
    const from = across(at ? histogram.bounds[at - 1] : LOW);
    const to = across(Number.isFinite(histogram.bounds[at]) ? histogram.bounds[at] : HIGH);
    const height = Math.max(2, (count / most) * (ROW - 26));
    parts.push(element("rect", { class: path === "clean" ? "clean" : "failure", x: from + 0.5, y: base - height, width: Math.max(1, to - from - 1), height }));
  });
  for (const q of [0.5, 0.95, 0.99]) {
    const x = across(quantile(q, histogram));
    parts.push(element("line", { class: "mark", x1: x, x2: x, y1: base - 4, y2: base + 6 }));
  }
  return parts;
}

/** Where words beside a bar fit: right of it, left of it, or else inside. */
function labelled(from, width, needed) {
  if (from + width + 6 + needed <= WIDTH) return { class: "soft", x: from + width + 6 };
  if (from - 6 - needed >= LEFT) return { class: "soft", x: from - 6, "text-anchor": "end" };
  return { class: "inside", x: from + 6 };
}

/** Where one answer's time went: its searches, grades and drafts, from its beginning to its end. */
export function waterfall(answer) {
  const parts = [...answer.parts].sort((a, b) => a.began_s - b.began_s);
  const height = parts.length * 30 + 50;
  const place = (value) => LEFT + (Math.min(value, answer.total_s) / answer.total_s) * (WIDTH - LEFT - RIGHT);
  const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img" });
  const told = parts.map((part) => `${part.name} ${part.attempt}: ${seconds(part.began_s)} to ${seconds(part.ended_s)}, ${part.outcome}`);
  svg.setAttribute("aria-label", `${answer.path}, ${seconds(answer.total_s)} in all. ${told.join("; ")}`);
  for (const quarter of WIDTH < 520 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]) {
    const x = place(quarter * answer.total_s);
    svg.append(element("line", { class: "grid", x1: x, x2: x, y1: 8, y2: height - 26 }));
    svg.append(element("text", { class: "soft", x, y: height - 8, "text-anchor": quarter === 1 ? "end" : "middle" }, seconds(quarter * answer.total_s)));
  }
  parts.forEach((part, at) => {
    const y = 12 + at * 30;
    const from = place(part.began_s);
    const width = Math.max(2, place(part.ended_s) - from);
    const kind = ["discarded", "failed"].includes(part.outcome) ? part.outcome : part.name;
    svg.append(element("text", { x: 8, y: y + 15 }, `${part.name} ${part.attempt}`));
    svg.append(element("rect", { class: kind, x: from, y, width, height: 20, rx: 3 }));
    const words = `${part.outcome}, ${seconds(part.ended_s - part.began_s)}`;
    const label = element("text", { ...labelled(from, width, words.length * LETTER), y: y + 15 }, words);
    svg.append(label);
  });
  if (answer.first_byte_s !== null) {
    const x = place(answer.first_byte_s);
    svg.append(element("line", { class: "first", x1: x, x2: x, y1: 4, y2: height - 26 }));
  }
  return svg;
}
