/** Conversations, kept in this browser and nowhere else. */

const CHATS = "gateway.chats";
const CHATS_MOST = 50;
const TURNS_SENT = 10; // of a conversation, with the next question: what a rewrite of it can use
const CHARACTERS_SENT = 20_000; // far below what the server reads

export class History {
  #chats = [];

  constructor() {
    this.reload();
  }

  /** Conversations, the latest first. */
  get chats() {
    return this.#chats;
  }

  /** Reads what is stored, also what another tab stored since. */
  reload() {
    try {
      const stored = JSON.parse(localStorage.getItem(CHATS) ?? "[]");
      this.#chats = Array.isArray(stored) ? stored.filter((chat) => Array.isArray(chat?.turns)) : [];
    } catch {
      this.#chats = [];
    }
  }

  find(id) {
    return this.#chats.find((chat) => chat.id === id);
  }

  /** Stores a conversation as the latest one; the oldest go where there is no room. */
  put(chat) {
    this.#chats = [chat, ...this.#chats.filter(({ id }) => id !== chat.id)].slice(0, CHATS_MOST);
    while (!this.#store() && this.#chats.length > 1) this.#chats.pop();
  }

  remove(id) {
    this.#chats = this.#chats.filter((chat) => chat.id !== id);
    this.#store();
  }

  clear() {
    this.#chats = [];
    this.#store();
  }

  #store() {
    try {
      localStorage.setItem(CHATS, JSON.stringify(this.#chats));
      return true;
    } catch {
      return false;
    }
  }
}

export function newChat() {
  return { id: crypto.randomUUID?.() ?? String(Math.random()).slice(2), at: Date.now(), title: "", turns: [] };
}

/** The earlier turns of a conversation as the server takes them: answered ones only, the latest, in order. */
export function asHistory(turns) {
  const sent = [];
  let size = 0;
  for (const { question, text, state, refusal } of turns.slice(-TURNS_SENT).reverse()) {
    if (!text || refusal || state !== "done") continue;
    size += question.length + text.length;
    if (size > CHARACTERS_SENT) break;
    sent.unshift({ role: "user", content: question }, { role: "assistant", content: text });
  }
  return sent;
}
