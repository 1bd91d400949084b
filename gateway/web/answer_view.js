/** The answer's text: Markdown with a numbered button at each citation and the sentences marked that no source says. */

import { h } from "./dom.js";
import { MarkdownView } from "./markdown.js";
import { MARK, withMarks } from "./marks.js";
import { unsupported } from "./turn.js";

const WHOLE = "a, code, pre"; // a button is never put inside one of these

export class AnswerView {
  constructor() {
    this.element = h("div", { class: "answer" });
    this.view = new MarkdownView(this.element, (fragment, isOpen) => this.#finish(fragment, isOpen));
    this.titles = new Map();
    this.isDoubtful = false; // whether the text being put in is of an unsupported sentence
  }

  show(turn) {
    this.titles = new Map(turn.sources.map(({ n, title }) => [String(n), title]));
    this.element.classList.toggle("grows", turn.state === "answering");
    this.view.show(withMarks(turn.text, turn.citations, unsupported(turn)));
  }

  /** Turns the marks of a block into what they stand for; takes and returns whether an unsupported sentence is still open. */
  #finish(fragment, isDoubtful = false) {
    this.isDoubtful = isDoubtful;
    const walker = document.createTreeWalker(fragment, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    for (const text of texts) this.#replace(text);
    return this.isDoubtful;
  }

  #replace(node) {
    const pieces = [];
    const after = [];
    const whole = outermost(node);
    let done = 0;
    const say = (text) => {
      if (text) pieces.push(this.isDoubtful ? h("mark", {}, text) : text);
    };
    for (const found of node.data.matchAll(MARK)) {
      say(node.data.slice(done, found.index));
      done = found.index + found[0].length;
      const [, kind, number] = found;
      if (kind === "c" && whole) after.push(this.#button(number));
      else if (kind === "c") putBehind(pieces, this.#button(number));
      else {
        this.isDoubtful = kind === "u";
        if (kind === "e") (whole ? after : pieces).push(doubt());
      }
    }
    if (done === 0 && !this.isDoubtful) return;
    say(node.data.slice(done));
    whole?.after(...after);
    node.replaceWith(...pieces);
  }

  #button(number) {
    const title = this.titles.get(number);
    const name = title ? `Source ${number}: ${title}` : `Source ${number}`;
    return h("button", { type: "button", class: "cite", "data-source": number, "aria-label": name, title: title ?? null }, number);
  }
}

/** Puts a button behind the last word of `pieces`, in one with it, so that no line begins with the button. */
function putBehind(pieces, button) {
  const last = pieces.pop();
  if (typeof last === "string") {
    const word = last.match(/\S{0,24}$/)[0];
    pieces.push(last.slice(0, last.length - word.length), h("span", { class: "stay" }, word, button));
  } else if (last?.classList.contains("stay")) {
    last.append(button);
    pieces.push(last);
  } else pieces.push(...(last ? [last] : []), button);
}

function doubt() {
  return h("span", { class: "doubt" }, "not in the sources");
}

function outermost(node) {
  let found = null;
  for (let up = node.parentElement; up; up = up.parentElement) if (up.matches(WHOLE)) found = up;
  return found;
}
