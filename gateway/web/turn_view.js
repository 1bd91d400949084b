/** A turn on the page: the question, what is being done, the answer or the refusal, its sources and what can be done with it. */

import { AnswerView } from "./answer_view.js";
import { h, icon, withoutHeading } from "./dom.js";
import { refusalCard, faultCard } from "./outcome_cards.js";
import { headline, isOpen, wordsOf } from "./turn.js";

const STEP_ICONS = { ok: "check", bad: "cross" };

export class TurnView {
  constructor(turn, { onAgain, onCopy }) {
    this.turn = turn;
    this.answer = new AnswerView();
    this.line = h("span", { class: "line" });
    this.sign = h("span", { class: "sign" });
    this.time = h("span", { class: "time" });
    this.steps = h("ol", { class: "steps" });
    this.trail = h(
      "details",
      { class: "trail" },
      h("summary", {}, this.sign, this.line, this.time, icon("down")),
      this.steps,
    );
    this.outcome = h("div", { class: "outcome" });
    this.check = h("div", {});
    this.sources = h("div", {});
    this.actions = h(
      "div",
      { class: "actions", hidden: true },
      h("button", { type: "button", class: "quiet copy", onclick: () => onCopy(this) }, icon("copy"), h("span", {}, "Copy")),
      h("button", { type: "button", class: "quiet again", onclick: () => onAgain(this) }, icon("again"), h("span", {}, "Ask again")),
    );
    this.element = h(
      "article",
      { class: "turn" },
      h("h2", { class: "question" }, h("span", { class: "unseen" }, "You asked: "), turn.question),
      h("div", { class: "reply" }, this.trail, this.answer.element, this.outcome, this.check, this.sources, this.actions),
    );
    this.drawn = {};
    this.isOpenedByHand = false;
    this.trail.querySelector("summary").addEventListener("click", () => (this.isOpenedByHand = true));
    this.draw();
  }

  /** Brings the elements up to the turn; parts that did not change are left alone. */
  draw() {
    const { turn } = this;
    this.#part("trail", [turn.state, turn.isCut, turn.done !== null, turn.steps], () => this.#drawTrail());
    this.#part("answer", [turn.text.length, turn.citations.length, turn.state, turn.verification], () => this.answer.show(turn));
    this.#part("outcome", [turn.refusal, turn.failed, turn.state], () => this.#drawOutcome());
    this.#part("check", turn.verification, () => this.check.replaceChildren(...checkBadge(turn)));
    const cited = isOpen(turn) ? null : turn.citations.length;
    this.#part("sources", [turn.sources.length, cited], () => this.sources.replaceChildren(...sourceList(turn)));
    this.actions.hidden = isOpen(turn);
    this.actions.firstElementChild.hidden = !turn.text;
    this.element.setAttribute("aria-busy", String(isOpen(turn)));
  }

  #part(name, depends, draw) {
    const now = JSON.stringify(depends);
    if (this.drawn[name] === now) return;
    this.drawn[name] = now;
    draw();
  }

  #drawTrail() {
    const { turn } = this;
    this.trail.dataset.state = tone(turn);
    this.line.textContent = headline(turn);
    this.sign.replaceChildren(isOpen(turn) ? h("span", { class: "spinner" }) : icon(signOf(turn)));
    this.time.textContent = turn.done?.timings_ms?.total ? seconds(turn.done.timings_ms.total) : "";
    if (!this.isOpenedByHand) this.trail.open = turn.state === "working" && turn.steps.some(({ state }) => state === "bad");
    this.steps.replaceChildren(...turn.steps.map(stepItem), ...costs(turn));
  }

  #drawOutcome() {
    const { turn } = this;
    const cards = [];
    if (turn.refusal) cards.push(refusalCard(turn.refusal, turn.text !== ""));
    if (turn.failed) cards.push(faultCard(turn.failed, turn.text !== ""));
    if (turn.state === "stopped" && turn.text) cards.push(h("p", { class: "note" }, "You stopped this answer; it is not complete."));
    if (turn.done?.finish_reason === "length") cards.push(h("p", { class: "note" }, "The answer was cut at its longest allowed length."));
    this.outcome.replaceChildren(...cards);
  }
}

function tone(turn) {
  if (isOpen(turn)) return "open";
  if (turn.refusal) return "refused";
  if (turn.failed || turn.state !== "done") return "broken";
  return "good";
}

function signOf(turn) {
  return { refused: "no", broken: "warn", good: "check" }[tone(turn)];
}

function stepItem(step) {
  const sign = step.state === "now" ? h("span", { class: "dot" }) : icon(STEP_ICONS[step.state]);
  return h("li", { "data-state": step.state }, sign, h("span", {}, wordsOf(step)));
}

/** What the answer took, once it is over. */
function costs(turn) {
  if (!turn.done) return [];
  const { usage, timings_ms: times } = turn.done;
  const parts = [];
  if (times.total) parts.push(`${seconds(times.total)} in all`);
  if (usage.released_tokens) parts.push(`${usage.released_tokens} tokens shown`);
  if (usage.discarded_tokens) parts.push(`${usage.discarded_tokens} drafted and discarded unseen`);
  return parts.length ? [h("li", { class: "costs" }, parts.join(" · "))] : [];
}

function seconds(ms) {
  return ms < 950 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

function checkBadge({ verification }) {
  if (!verification) return [];
  const { claims, grounded } = verification;
  const doubtful = claims.filter((claim) => !claim.supported).length;
  if (grounded) {
    const words = claims.length === 1 ? "The sentence is in its sources" : `All ${claims.length} sentences are in their sources`;
    return [h("p", { class: "badge good" }, icon("shield"), claims.length ? words : "Checked against its sources")];
  }
  const words = claims.length ? `${doubtful} of ${claims.length} sentences are not in their sources` : "The sentences could not be checked";
  return [h("p", { class: "badge doubtful" }, icon("warn"), words)];
}

function sourceList({ sources, citations, state }) {
  if (!sources.length) return [];
  const isOver = state !== "working" && state !== "answering";
  const cited = new Set(citations.map(({ n }) => n));
  const shown = isOver && cited.size ? sources.filter(({ n }) => cited.has(n)) : sources;
  return [
    h("h3", { class: "label" }, "Sources"),
    h("ul", { class: "sources" }, shown.map(({ n, title, snippet }) =>
      h("li", {}, h("button", { type: "button", class: "source", "data-source": n },
        h("span", { class: "number" }, String(n)),
        h("span", { class: "what" }, h("span", { class: "title" }, title), h("span", { class: "snippet" }, withoutHeading(title, snippet))),
      )),
    )),
  ];
}
