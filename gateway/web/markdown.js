/**
 * Markdown to elements, safely, a block at a time. Two walls: the renderer writes no markup that came in the text and no image, and
 * DOMPurify lets through a short list of elements and http(s) links only. The page's policy lets no other text become markup at all.
 */

import { Marked } from "./vendor/marked.esm.js";
import "./vendor/purify.min.js";
import { outside } from "./dom.js";
import { withoutMarks } from "./marks.js";

const ALLOWED = {
  ALLOWED_TAGS:
    "a blockquote br code del em h3 h4 h5 h6 hr li ol p pre strong table tbody td th thead tr ul".split(" "),
  ALLOWED_ATTR: ["align", "href", "start"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOWED_URI_REGEXP: /^https?:\/\//i,
  RETURN_DOM_FRAGMENT: true,
};

const marked = new Marked({
  gfm: true,
  renderer: {
    html: ({ text, block }) => (block ? `<p>${escaped(text)}</p>` : escaped(text)),
    image: ({ text }) => (text ? `<em>${escaped(text)}</em>` : ""),
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    heading({ tokens, depth }) {
      const level = Math.min(depth + 2, 6); // the page has its own first and second level
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>`;
    },
    link({ href, tokens }) {
      const inside = this.parser.parseInline(tokens);
      const address = outside(withoutMarks(href));
      return address ? `<a href="${escaped(address)}">${inside}</a>` : inside;
    },
  },
});

const purify = globalThis.DOMPurify;
purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
  if (node.tagName === "PRE" || node.tagName === "TABLE") node.setAttribute("tabindex", "0"); // they scroll sideways
});

/** An element that shows Markdown as it grows: a block whose text did not change keeps its elements. */
export class MarkdownView {
  #shown = []; // {raw, nodes, state} per block

  /**
   * `finish(fragment, state)` gets the new elements of each changed block before they are shown, and what it returned for the block before
   * it (undefined at the first): a sentence may go on from block to block.
   */
  constructor(element, finish) {
    this.element = element;
    this.finish = finish;
  }

  show(text) {
    const tokens = marked.lexer(text);
    let same = 0;
    while (same < tokens.length && this.#shown[same]?.raw === tokens[same].raw) same += 1;
    for (const { nodes } of this.#shown.splice(same)) for (const node of nodes) node.remove();
    for (const token of tokens.slice(same)) {
      const fragment = purify.sanitize(marked.parser([token]), ALLOWED);
      const state = this.finish(fragment, this.#shown.at(-1)?.state);
      this.#shown.push({ raw: token.raw, nodes: [...fragment.childNodes], state });
      this.element.append(fragment);
    }
  }
}

function escaped(text) {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
