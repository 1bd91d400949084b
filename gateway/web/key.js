/** Asks for the gateway's key, in a dialog. */

let asked = null; // the answer that is waited for: requests that need the key at the same time wait for the same one

/** The key that the person gives, or null. `isWrong` says that the last one did not do. */
export function askForKey(isWrong) {
  asked ??= show(isWrong).finally(() => (asked = null));
  return asked;
}

function show(isWrong) {
  const dialog = document.querySelector("#key");
  const form = dialog.querySelector("form");
  const field = dialog.querySelector("input");
  dialog.querySelector(".wrong").hidden = !isWrong;
  field.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  field.focus();
  return new Promise((resolve) => {
    const listening = new AbortController();
    form.addEventListener("submit", (event) => (event.preventDefault(), dialog.close(field.value.trim())), { signal: listening.signal });
    dialog.addEventListener("close", () => (listening.abort(), resolve(dialog.returnValue || null)), { once: true });
  });
}
