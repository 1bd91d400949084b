/** Requests to the gateway, with the key where it wants one. */

const KEY = "gateway.key"; // in sessionStorage: gone with the tab

let askForKey = null;

/** Thrown when the gateway answers with an error; carries its status, type, words and whether asking again may help. */
export class Rejected extends Error {
  constructor(status, error) {
    super(error.message ?? `the gateway answered ${status}`);
    this.status = status;
    this.type = error.type ?? "unknown";
    this.retryable = error.retryable ?? status >= 500;
    this.fields = error.fields ?? [];
  }
}

/** `ask` is called when a key is wanted, and resolves to one, or to null when the person gives none. */
export function useKeyDialog(ask) {
  askForKey = ask;
}

export function keyHeaders() {
  const key = sessionStorage.getItem(KEY);
  return key ? { Authorization: `Bearer ${key}` } : {};
}

/** Sends and returns the response. Asks for a key on 401, and sends again. Throws Rejected for any other error status. */
export async function send(path, init = {}) {
  const response = await fetch(path, { ...init, headers: { ...init.headers, ...keyHeaders() }, credentials: "omit" });
  if (response.ok) return response;
  const rejected = await rejection(response);
  if (response.status === 401 && (await wantsToGiveKey())) return send(path, init);
  throw rejected;
}

/** The error of a response that is none of success. */
export async function rejection(response) {
  const said = await response.json().catch(() => ({}));
  return new Rejected(response.status, said.error ?? {});
}

/** Asks for a key; true when one was given. */
export async function wantsToGiveKey() {
  const was = sessionStorage.getItem(KEY);
  const key = askForKey ? await askForKey(was !== null) : null;
  if (!key) return false;
  sessionStorage.setItem(KEY, key);
  return true;
}
