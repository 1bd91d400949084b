/**
 * Marks in Markdown: where a citation stands, and where an unsupported sentence starts and ends, written into the text before it is
 * parsed and found again in what the parser made of it.
 *
 * A mark is a word between two brackets that Markdown takes for punctuation, so that emphasis beside it opens and closes as without it.
 */

const OPEN = "\u2e28";
const CLOSE = "\u2e29";
const WRITTEN_OPEN = /&#(?:x0*2e28|0*11816);?/gi; // as an entity, which becomes the bracket only after the text is parsed
const WRITTEN_CLOSE = /&#(?:x0*2e29|0*11817);?/gi;
const FENCE_LINE = /^[ \t]*(?:`{3,}|~{3,})[^`\n]*$/;
const BLOCK_START = /^[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+|#{1,6}[ \t]+|\|[ \t]*)*/;

export const MARK = /\u2e28([ceu])(\d*)\u2e29/g;

/** `text` with a mark after each citation and round each unsupported sentence. Offsets count characters, not UTF-16 units. */
export function withMarks(text, citations, unsupported) {
  const plain = text.replaceAll(OPEN, "(").replaceAll(CLOSE, ")");
  const at = unitsOf(plain, [...citations, ...unsupported].flatMap(({ start, end }) => [start, end]));
  const marks = citations.map(({ n, end }) => ({ at: endPlace(plain, at(end)), mark: `c${n}`, order: 1 }));
  for (const { start, end } of unsupported) {
    marks.push({ at: startPlace(plain, at(start)), mark: "u", order: 2 });
    marks.push({ at: endPlace(plain, at(end)), mark: "e", order: 0 });
  }
  marks.sort((a, b) => a.at - b.at || a.order - b.order);
  let marked = "";
  let done = 0;
  for (const { at: place, mark } of marks) {
    const text = OPEN + mark + CLOSE;
    marked += plain.slice(done, place) + (isOnFence(plain, place) ? `\n\n${text}` : text);
    done = place;
  }
  return (marked + plain.slice(done)).replace(WRITTEN_OPEN, "(").replace(WRITTEN_CLOSE, ")"); // last: offsets count them as written
}

/** `text` without marks, also where an address spells them with percent signs. */
export function withoutMarks(text) {
  return text.replace(MARK, "").replace(/%E2%B8%A8[ceu]\d*%E2%B8%A9/gi, "");
}

/** A function from a count of characters to a count of UTF-16 units, for the offsets given. */
function unitsOf(text, offsets) {
  const wanted = [...new Set(offsets)].sort((a, b) => a - b);
  const units = new Map();
  let unit = 0;
  let character = 0;
  for (const offset of wanted) {
    while (character < offset && unit < text.length) {
      unit += text.codePointAt(unit) > 0xffff ? 2 : 1;
      character += 1;
    }
    units.set(offset, unit);
  }
  return (offset) => units.get(offset);
}

/** The place right after the last word before `at`: not after the space, or the table bar, that ends a sentence. */
function endPlace(text, at) {
  let place = at;
  while (place > 0 && /[\s|]/.test(text[place - 1])) place -= 1;
  return place || at;
}

/** The place of the first word from `at` on: behind the sign that makes a line an item, a heading or a row. */
function startPlace(text, at) {
  let place = at;
  while (place < text.length && text[place] === "\n") place += 1;
  const lineStart = text.lastIndexOf("\n", place - 1) + 1;
  if (/\S/.test(text.slice(lineStart, place))) return place;
  const lineEnd = text.indexOf("\n", place);
  const line = text.slice(place, lineEnd < 0 ? undefined : lineEnd);
  return FENCE_LINE.test(line) ? place + line.length : place + line.match(BLOCK_START)[0].length;
}

function isOnFence(text, place) {
  return FENCE_LINE.test(text.slice(text.lastIndexOf("\n", place - 1) + 1, place));
}
