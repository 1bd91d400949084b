/** The sheet beside the answer on which a source is read: its words, and where it comes from. */

import { h, icon, link, outside, withoutHeading } from "./dom.js";
import { send } from "./http.js";

export class SourceSheet {
  constructor(dialog) {
    this.dialog = dialog;
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close()); // on the backdrop
  }

  /** Opens source `n` of a turn. Focus goes into the sheet, and back to where it was when the sheet closes. */
  open(turn, n) {
    const source = turn.sources.find((one) => one.n === n);
    if (!source) return;
    const quotes = [...new Set(turn.citations.filter((one) => one.n === n && one.quote).map(({ quote }) => quote))];
    const address = outside(source.url);
    const words = h("div", { class: "words" });
    const show = (whole) => {
      const text = withoutHeading(source.title, whole);
      words.replaceChildren(h("blockquote", {}, highlighted(text, quotes)), ...quotesApart(text, quotes));
    };
    show(source.snippet);
    if (source.snippet.endsWith("…")) wholeText(source.id).then(show, () => {}); // what is shown already is kept
    this.dialog.replaceChildren(
      h(
        "div",
        { class: "sheet" },
        h(
          "header",
          {},
          h("h2", { id: "sheet-title" }, h("span", { class: "number" }, String(n)), source.title),
          h("button", { type: "button", class: "quiet round", "aria-label": "Close", onclick: () => this.dialog.close() }, icon("cross")),
        ),
        words,
        address ? h("p", {}, link(address, icon("out"), "Open the document")) : null,
      ),
    );
    this.dialog.showModal();
  }
}

/** The whole passage, of which the answer's stream brought the beginning. */
async function wholeText(id) {
  const passage = await (await send(`v1/passages/${encodeURIComponent(id)}`)).json();
  return passage.text;
}

/** The passage with the words marked that the answer rests on. */
function highlighted(snippet, quotes) {
  const parts = [];
  let rest = snippet;
  for (const quote of quotes.filter((one) => snippet.includes(one)).sort((a, b) => snippet.indexOf(a) - snippet.indexOf(b))) {
    const at = rest.indexOf(quote);
    if (at < 0) continue;
    parts.push(rest.slice(0, at), h("mark", {}, quote));
    rest = rest.slice(at + quote.length);
  }
  return [...parts, rest];
}

/** Quotes from beyond what is shown of the passage. */
function quotesApart(snippet, quotes) {
  const beyond = quotes.filter((quote) => !snippet.includes(quote));
  if (!beyond.length) return [];
  return [h("h3", { class: "label" }, "The words it rests on"), ...beyond.map((quote) => h("blockquote", {}, h("mark", {}, quote)))];
}
