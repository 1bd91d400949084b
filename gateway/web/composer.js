/** The field in which a question is written. Enter sends, Shift and Enter make a line, Escape stops an answer. */

const QUESTION_MOST = 8_000; // as many characters as the server reads

export class Composer {
  constructor(form, { onSend, onStop }) {
    this.form = form;
    this.field = form.querySelector("textarea");
    this.button = form.querySelector("button.go");
    this.isBusy = false;
    this.onSend = onSend;
    this.onStop = onStop;
    this.field.maxLength = QUESTION_MOST;
    form.addEventListener("submit", (event) => (event.preventDefault(), this.#go()));
    this.field.addEventListener("input", () => this.#fit());
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        if (!this.isBusy) this.#go();
      }
    });
    this.#fit();
  }

  /** While an answer comes the button stops it. */
  set busy(isBusy) {
    this.isBusy = isBusy;
    this.button.classList.toggle("stop", isBusy);
    this.button.setAttribute("aria-label", isBusy ? "Stop" : "Send");
    this.#fit();
  }

  put(text) {
    this.field.value = text;
    this.#fit();
    this.focus();
  }

  focus() {
    this.field.focus({ preventScroll: true });
  }

  #go() {
    if (this.isBusy) return this.onStop();
    const question = this.field.value.trim();
    if (!question) return this.focus();
    this.put("");
    return this.onSend(question);
  }

  #fit() {
    this.field.style.height = "auto";
    this.field.style.height = `${this.field.scrollHeight}px`;
    this.button.disabled = !this.isBusy && !this.field.value.trim();
  }
}
