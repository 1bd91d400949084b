/** What a screen reader is told: where the answer stands, and the answer once, when it is whole. Never token by token. */

import { headline, unsupported } from "./turn.js";

const SETTLE_MS = 400; // of several quick changes only the last is said
const READ_MOST = 700; // characters: a longer answer is announced, and read by going to it

export class Announcer {
  #timer = 0;
  #last = "";

  constructor(region) {
    this.region = region;
  }

  say(text) {
    if (text === this.#last) return;
    this.#last = text;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.region.textContent = text;
    }, SETTLE_MS);
  }

  /** Says where a turn stands. */
  follow(turn) {
    if (turn.state === "answering" && !turn.isCut) return this.say("The answer is coming");
    if (turn.state !== "done") return this.say(turn.failed ? `Fault: ${turn.failed.message}` : headline(turn));
    return this.say(ending(turn));
  }
}

function ending(turn) {
  const { text, refusal, failed, sources } = turn;
  if (failed) return `The answer broke off: ${failed.message}`;
  if (refusal) return `No answer. ${refusal.message}`;
  const doubtful = unsupported(turn).length;
  const end = `${sources.length} sources.${doubtful ? ` ${doubtful} sentences are not in the sources.` : ""}`;
  if (text.length <= READ_MOST) return `Answer: ${text} ${end}`;
  return `The answer is complete: ${text.split(/\s+/).length} words, ${end}`;
}
