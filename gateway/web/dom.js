/** Elements from words; text is only ever set as text. */

const SVG = "http://www.w3.org/2000/svg";

/** An element with properties (`class`, `on…` listeners, attributes; null and false are left out) and children (null is left out). */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** One of the symbols of index.html; it says nothing to a screen reader. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

/** An address that may be followed from an answer, or null: http and https only. */
export function outside(address) {
  if (typeof address !== "string") return null;
  try {
    const url = new URL(address);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}

/** A passage's text without its section's heading, where it begins with it: the title says it already. */
export function withoutHeading(title, text) {
  const heading = title.split(" › ").at(-1);
  const rest = text.slice(heading.length).trimStart();
  return text.startsWith(heading) && rest ? rest : text;
}

/** A link that leaves the page and takes nothing of it along. */
export function link(address, ...children) {
  return h("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, ...children);
}
