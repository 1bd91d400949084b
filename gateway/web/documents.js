/** The documents: dropped or chosen here, sent to the gateway, listed and removed. */

import { h, icon, link, outside } from "./dom.js";
import { EventReader } from "./events.js";
import { send } from "./http.js";
import { sure } from "./sure.js";

const ROUTE = "v1/documents";
const AT_ONCE = 100; // files of one request
const ENDS = { added: "added", changed: "changed", unchanged: "already there", unreadable: "not readable" };

export class Documents {
  /** `onChange` is told the listed documents, or null where this gateway keeps none. */
  constructor(dialog, collection, onChange) {
    this.dialog = dialog;
    this.collection = collection;
    this.onChange = onChange;
    this.rows = new Map();
    this.queue = Promise.resolve();
    this.input = h("input", { type: "file", multiple: true, hidden: true, accept: ".md,.markdown,.txt,.text,.rst,.html,.htm,.xhtml,.pdf" });
    this.input.addEventListener("change", () => (this.add([...this.input.files]), (this.input.value = "")));
    this.sent = h("ul", { class: "sent", "aria-label": "Being added" });
    this.listed = h("div", {});
    dialog.append(
      h(
        "div",
        { class: "sheet" },
        h(
          "header",
          {},
          h("h2", {}, "Documents"),
          h("button", { type: "button", class: "quiet round", "aria-label": "Close", onclick: () => dialog.close() }, icon("cross")),
        ),
        h(
          "button",
          { type: "button", class: "drop", onclick: () => this.input.click() },
          icon("upload"),
          h("strong", {}, "Drop files here, or choose them"),
          h("span", {}, "Markdown, text, HTML, PDF"),
        ),
        this.input,
        this.sent,
        this.listed,
      ),
    );
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    takeDrops((files) => (this.open(), this.add(files)));
  }

  open() {
    if (!this.dialog.open) this.dialog.showModal();
    this.list();
  }

  /** Fetches what is stored, and shows it. */
  async list() {
    try {
      const query = new URLSearchParams({ collection: this.collection, limit: "100" });
      const { documents, next } = await (await send(`${ROUTE}?${query}`)).json();
      this.#show(documents, next !== null);
      this.onChange(documents);
    } catch (error) {
      const isEmpty = error.type === "collection_not_found";
      this.listed.replaceChildren(h("p", { class: "hint" }, isEmpty ? "No documents yet." : error.message));
      this.onChange(isEmpty ? [] : null);
    }
  }

  /** Sends files, after those that are still being sent. */
  add(files) {
    if (!files.length) return;
    for (const { file, name } of files.map(named)) this.#row(name, "waiting", file.size);
    for (let start = 0; start < files.length; start += AT_ONCE) {
      const some = files.slice(start, start + AT_ONCE).map(named);
      this.queue = this.queue.then(() => this.#upload(some)).then(() => this.list());
    }
  }

  async #upload(files) {
    const form = new FormData();
    form.append("collection", this.collection);
    for (const { file, name } of files) form.append("file", file, name);
    for (const { name } of files) this.#tell(name, "sending");
    try {
      const response = await send(ROUTE, { method: "POST", headers: { Accept: "text/event-stream" }, body: form });
      await this.#follow(response);
    } catch (error) {
      for (const { name } of files) if (!this.rows.get(name).isOver) this.#tell(name, error.message, "bad");
    }
  }

  async #follow(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const events = new EventReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new Error("the connection was lost");
      for (const event of events.feed(value)) {
        const data = JSON.parse(event.data);
        if (event.name === "progress") this.#progress(data);
        else if (event.name === "document") this.#finished(data);
        else if (event.name === "failed") throw new Error(data.message);
        else if (event.name === "done") return;
      }
    }
  }

  #progress({ name, passages }) {
    const words = passages.total ? `reading, ${passages.done} of ${passages.total} passages` : "reading";
    this.#tell(name, words, "now", passages.total ? passages.done / passages.total : null);
  }

  #finished({ name, status, passages, error }) {
    if (status === "unreadable") this.#tell(name, error.message, "bad");
    else this.#tell(name, passages ? `${ENDS[status]}, ${counted(passages)}` : ENDS[status], "ok");
  }

  #row(name, words) {
    this.rows.get(name)?.element.remove();
    const bar = h("progress", { max: 1, "aria-label": `Progress of ${name}` });
    const said = h("span", { class: "said" });
    const element = h("li", {}, h("span", { class: "name" }, name), said, bar);
    this.rows.set(name, { element, said, bar, isOver: false });
    this.sent.prepend(element);
    this.#tell(name, words);
  }

  #tell(name, words, state = "now", share = null) {
    const row = this.rows.get(name);
    if (!row) return;
    row.said.textContent = words;
    row.element.dataset.state = state;
    row.isOver = state !== "now";
    row.bar.hidden = row.isOver;
    if (share === null) row.bar.removeAttribute("value");
    else row.bar.value = share;
  }

  #show(documents, isMore) {
    const items = documents.map((one) => {
      const address = outside(one.url);
      const remove = h("button", { type: "button", class: "quiet", "aria-label": `Remove ${one.title}` }, h("span", {}, "Remove"));
      sure(remove, "Really remove?", () => this.#remove(one.id));
      return h(
        "li",
        {},
        h("span", { class: "name" }, address ? link(address, one.title) : one.title),
        h("span", { class: "said" }, counted(one.passages)),
        remove,
      );
    });
    this.listed.replaceChildren(
      h("h3", { class: "label" }, isMore ? "The latest 100 documents" : `${items.length} documents`),
      h("ul", { class: "documents" }, items),
    );
  }

  async #remove(id) {
    await send(`${ROUTE}/${encodeURIComponent(id)}`, { method: "DELETE" }).catch(() => {});
    await this.list();
  }
}

function counted(passages) {
  return passages === 1 ? "1 passage" : `${passages} passages`;
}

function named(file) {
  return { file, name: file.webkitRelativePath || file.name };
}

/** Files dropped anywhere on the page; while they hover, the page says that it takes them. */
function takeDrops(onFiles) {
  let depth = 0;
  document.body.append(h("div", { id: "drop-here", "aria-hidden": "true" }, icon("upload"), "Drop to add to your documents"));
  const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  const hover = (isOver) => document.documentElement.classList.toggle("takes-drop", isOver);
  addEventListener("dragenter", (event) => hasFiles(event) && (event.preventDefault(), (depth += 1), hover(true)));
  addEventListener("dragleave", (event) => hasFiles(event) && ((depth -= 1), hover(depth > 0)));
  addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    depth = 0;
    hover(false);
    onFiles([...event.dataTransfer.files]);
  });
}
