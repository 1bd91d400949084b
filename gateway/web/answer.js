/** One answer over the wire: asked once, read as events, taken up again where the network cut it. */

import { EventReader } from "./events.js";
import { send } from "./http.js";

const PAUSES_MS = [300, 700, 1500, 3000, 5000, 8000]; // between tries to take an answer up again: 18 s in all
const QUIET_MS = 45_000; // three pings of the server: after that a connection is dead, whatever the browser thinks

const POSTS_MOST = 3; // of one question while the server cannot be reached; its key makes them one

let keeps = true; // until the server says that it does not know the option

/** Thrown when the network is gone for good and the answer with it. */
export class ConnectionLost extends Error {}

/**
 * Asks, and hands every event to `on` in order and once. Returns after `done`.
 *
 * `onCut` is told when the connection breaks, and `onBack` when the answer goes on. Throws Rejected where the server refuses the
 * question, ConnectionLost, or an AbortError after `signal`.
 */
export async function ask(body, wired) {
  const key = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  const { response, isKept } = await post(body, key, wired.signal, keeps);
  await follow(response, { id: "", count: 0, isKept }, wired);
}

/** Takes up an answer that another visit of the page began; `last` is the id of the last event that was seen. */
export async function takeUp(last, wired) {
  const [id, count] = last.split(".");
  await follow(null, { id, count: Number(count), isKept: true }, wired);
}

/** Tells the server that nobody waits for a kept answer any more; for others the closed connection says it. */
export function drop(answerId) {
  if (keeps && answerId) send(`v1/answers/${answerId}`, { method: "DELETE", keepalive: true }).catch(() => {});
}

/** Posts a question: to be kept where the server does that, else as a plain one. Where the network fails it is posted again. */
async function post(body, key, signal, isKept, posts = 1) {
  try {
    return { response: await send("v1/answers", asked(body, isKept ? key : null, signal)), isKept };
  } catch (error) {
    signal.throwIfAborted();
    if (isKept && refusesToKeep(error)) return post(body, key, signal, false);
    if (isKept && error instanceof TypeError && posts < POSTS_MOST) {
      await pause(PAUSES_MS[posts], signal);
      return post(body, key, signal, true, posts + 1);
    }
    throw error;
  }
}

function asked(body, key, signal) {
  const headers = { "Content-Type": "application/json", Accept: "text/event-stream", ...(key && { "Idempotency-Key": key }) };
  const options = key ? { ...body.options, resumable: true } : body.options;
  return { method: "POST", headers, body: JSON.stringify({ ...body, options }), signal };
}

/** Whether an error is about keeping alone: the server does not know it, or has no room for one more. */
function refusesToKeep(error) {
  if (error.fields?.some(({ path }) => path.endsWith("resumable"))) keeps = false;
  return !keeps || error.type === "too_many_kept";
}

async function follow(response, place, { on, onCut, onBack, signal }) {
  let tries = 0;
  for (;;) {
    if (response && (await read(response, place, on, signal, () => (tries = 0)))) return;
    signal.throwIfAborted();
    if (!place.isKept || !place.id || tries === PAUSES_MS.length) throw new ConnectionLost();
    if (response) onCut();
    await pause(PAUSES_MS[tries], signal);
    tries += 1;
    response = await again(place, signal);
    if (response) onBack();
  }
}

/** The rest of the answer as a response, or null when the server cannot be reached. Throws ConnectionLost when there is no rest. */
async function again(place, signal) {
  try {
    const headers = { Accept: "text/event-stream", "Last-Event-ID": `${place.id}.${place.count}` };
    const response = await send(`v1/answers/${place.id}/events`, { headers, signal });
    if (response.status === 204) throw new ConnectionLost();
    return response;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof ConnectionLost || (error.status >= 400 && error.status < 500)) throw new ConnectionLost();
    return null;
  }
}

/** Reads events until `done` (true) or until the connection ends without it (false). */
async function read(response, place, on, signal, onProgress) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const events = new EventReader();
  try {
    for (;;) {
      const { value, done } = await within(QUIET_MS, reader.read());
      if (done) return false;
      for (const event of events.feed(value)) {
        if (isNew(event, place)) {
          onProgress();
          on(event.name, JSON.parse(event.data), event.id);
        }
        if (event.name === "done") return true;
      }
    }
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof SyntaxError) throw error;
    return false;
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Whether an event was not seen yet; ids are `<answer>.<n>`, n from 1. */
function isNew(event, place) {
  const dot = event.id.lastIndexOf(".");
  const count = Number(event.id.slice(dot + 1));
  if (place.id && count <= place.count) return false;
  place.id = event.id.slice(0, dot);
  place.count = count;
  return true;
}

function within(limitMs, work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new ConnectionLost()), limitMs);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });
}
