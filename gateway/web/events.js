/** Server-sent events: text in, events out. */

const LINE_END = /\r\n|\n|\r(?!$)/g; // a last \r may be half of \r\n

export class EventReader {
  #rest = "";
  #id = "";
  #name = "";
  #data = [];

  /** The events that `text` completes, in order, each `{id, name, data}`. */
  feed(text) {
    const whole = this.#rest + text;
    const events = [];
    let start = 0;
    for (const end of whole.matchAll(LINE_END)) {
      const event = this.#line(whole.slice(start, end.index));
      if (event) events.push(event);
      start = end.index + end[0].length;
    }
    this.#rest = whole.slice(start);
    return events;
  }

  #line(line) {
    if (line === "") return this.#dispatch();
    if (line.startsWith(":")) return null;
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "id") this.#id = value;
    else if (field === "event") this.#name = value;
    else if (field === "data") this.#data.push(value);
    return null;
  }

  #dispatch() {
    const data = this.#data.join("\n");
    const name = this.#name || "message";
    this.#name = "";
    this.#data = [];
    return data === "" ? null : { id: this.#id, name, data };
  }
}
