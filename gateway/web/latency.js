/** The latency page: reads /metrics every two seconds and draws it. */

import { distributions, fit, waterfall } from "./latency_drawings.js";
import { PATHS, byPath, percent, quantile, samples, seconds, sum, together, total } from "./latency_figures.js";

const EVERY_MS = 2000;
const FIRST = "gateway_answer_first_byte_seconds";
const TOTAL = "gateway_answer_duration_seconds";
const byId = (id) => document.getElementById(id);
let slow = [];
let shown = "";

function cell(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

function tiles(found, wholes) {
  const failures = PATHS.slice(1).map((path) => wholes.get(path));
  const answers = total(together([...wholes.values()]));
  const clean = quantile(0.99, wholes.get("clean"));
  const failing = quantile(0.99, together(failures));
  const discarded = sum(found, "gateway_tokens_total", { fate: "discarded" });
  const hits = sum(found, "gateway_speculations_total", { use: "hit" });
  const misses = sum(found, "gateway_speculations_total", { use: "miss" });
  const corrected = sum(found, "gateway_corrections_total") - sum(found, "gateway_corrections_total", { result: "discarded" });
  return [
    ["Answers", `${answers}`],
    ["Open now", `${sum(found, "gateway_answers_open")}`],
    ["p99 clean", seconds(clean)],
    ["p99 failure path", seconds(failing)],
    ["Failure to clean", Number.isFinite(failing / clean) ? `${(failing / clean).toFixed(2)} ×` : "–"],
    ["Corrected", percent(corrected, answers)],
    ["Recovered of these", percent(total(wholes.get("recovered")), corrected)],
    ["Refused", percent(total(wholes.get("refused")), answers)],
    ["Tokens discarded", percent(discarded, discarded + sum(found, "gateway_tokens_total", { fate: "released" }))],
    ["Early drafts used", percent(hits, hits + misses)],
    ["Held text", `${Math.round(sum(found, "gateway_held_bytes") / 1024)} KiB`],
    ["Oldest grade waited for", seconds(sum(found, "gateway_grader_lag_seconds"))],
  ];
}

function fillTable(firsts, wholes) {
  const head = document.createElement("tr");
  head.append(...["Path", "Answers", "First p50", "p95", "p99", "Whole p50", "p95", "p99"].map((text) => cell("th", text)));
  for (const each of head.children) each.scope = "col";
  const rows = [...wholes.entries(), ["failure path", together(PATHS.slice(1).map((path) => wholes.get(path)))]].map(([path, whole]) => {
    const first = path === "failure path" ? together(PATHS.slice(1).map((each) => firsts.get(each))) : firsts.get(path);
    const row = document.createElement("tr");
    const times = [first, whole].flatMap((each) => [0.5, 0.95, 0.99].map((q) => seconds(quantile(q, each))));
    row.append(...[path, total(whole), ...times].map((text) => cell("td", text)));
    return row;
  });
  byId("figures").replaceChildren(head, ...rows);
}

function fillSlow() {
  const select = byId("slow");
  const options = slow.map((answer) => {
    const option = cell("option", `${answer.path}, ${seconds(answer.total_s)}, trace ${answer.trace_id.slice(0, 8)}`);
    option.value = answer.trace_id;
    return option;
  });
  const known = slow.map((answer) => answer.trace_id).join();
  if (known !== shown) {
    const chosen = select.value;
    select.replaceChildren(...options);
    if (slow.some((answer) => answer.trace_id === chosen)) select.value = chosen;
    shown = known;
    drawSlow();
  }
  byId("choice").hidden = !slow.length;
}

function drawSlow() {
  const answer = slow.find((each) => each.trace_id === byId("slow").value);
  if (!answer) return;
  const words = cell("p", `Trace ${answer.trace_id}. ${answer.first_byte_s === null ? "No answer byte was sent." : `The dashed line is the first answer byte, ${seconds(answer.first_byte_s)}.`}`);
  byId("waterfall").replaceChildren(waterfall(answer), words);
}

async function read() {
  const [metrics, slowest] = await Promise.all([fetch("metrics"), fetch("latency/slowest")]);
  if (!metrics.ok || !slowest.ok) throw new Error(`answered ${metrics.ok ? slowest.status : metrics.status}`);
  return [samples(await metrics.text()), (await slowest.json()).answers];
}

async function turn() {
  try {
    const [found, answers] = await read();
    const firsts = byPath(found, FIRST);
    const wholes = byPath(found, TOTAL);
    slow = answers;
    fit(byId("first").clientWidth);
    byId("tiles").replaceChildren(
      ...tiles(found, wholes).map(([name, value]) => {
        const pair = document.createElement("div");
        pair.append(cell("dt", name), cell("dd", value));
        return pair;
      }),
    );
    byId("first").replaceChildren(firsts.size ? distributions(firsts, "Time to the first answer byte") : cell("p", "No answer yet."));
    byId("total").replaceChildren(wholes.size ? distributions(wholes, "Time of the whole answer") : cell("p", "No answer yet."));
    fillTable(firsts, wholes);
    fillSlow();
    say("live, since this gateway started");
  } catch (error) {
    say(`not reached (${error.message}); trying again`);
  }
  setTimeout(turn, EVERY_MS);
}

function say(words) {
  if (byId("state").textContent !== words) byId("state").textContent = words;
}

byId("slow").addEventListener("change", drawSlow);
turn();
