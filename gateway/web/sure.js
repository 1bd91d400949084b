/** A button that asks once more before it acts: the first press changes its words, the second, soon after, acts. */

const OPEN_MS = 4000;

export function sure(button, question, act) {
  const label = button.querySelector("span") ?? button;
  const words = label.textContent;
  const name = button.getAttribute("aria-label");
  let timer = 0;
  const calm = () => {
    clearTimeout(timer);
    button.classList.remove("sure");
    label.textContent = words;
    if (name) button.setAttribute("aria-label", name);
  };
  button.addEventListener("click", () => {
    if (button.classList.contains("sure")) {
      calm();
      act();
      return;
    }
    button.classList.add("sure");
    label.textContent = question;
    if (name) button.setAttribute("aria-label", `${name}: press again to confirm`);
    timer = setTimeout(calm, OPEN_MS);
  });
  button.addEventListener("blur", calm);
}
