/** The two ways in which a question ends without its answer: an honest refusal, and a fault. They never look alike. */

import { h, icon, link, outside, withoutHeading } from "./dom.js";

const TITLES = {
  insufficient_evidence: "Your documents do not answer this",
  ungrounded: "Stopped: the sources do not say this",
  grader_unavailable: "No answer: its sources could not be checked",
  budget_exhausted: "No answer within the time allowed",
  declined: "The model declined to answer",
};

export function refusalCard({ reason, message, missing, searched, closest }, isAfterText) {
  const title = isAfterText && reason === "ungrounded" ? "The answer stops here: the sources do not say what came next" : TITLES[reason];
  const facts = [];
  if (missing && !message.includes(missing)) facts.push(h("dt", {}, "Missing"), h("dd", {}, missing));
  if (searched?.length) facts.push(h("dt", {}, "Searched for"), searched.map((query) => h("dd", {}, query)));
  return h(
    "section",
    { class: "card refusal", "aria-label": "No answer" },
    h("h3", {}, icon("no"), title ?? "No answer"),
    h("p", {}, message),
    facts.length ? h("dl", {}, facts) : null,
    closest?.length ? nearest(closest) : null,
  );
}

function nearest(closest) {
  return [
    h("h4", {}, "Nearest passages", h("span", { class: "tag" }, "not an answer")),
    h("ul", { class: "nearest" }, closest.map(({ title, url, snippet }) => {
      const address = outside(url);
      return h("li", {}, h("p", { class: "title" }, address ? link(address, title) : title), h("p", {}, withoutHeading(title, snippet)));
    })),
  ];
}

export function faultCard({ message, retryable }, isAfterText) {
  return h(
    "section",
    { class: "card fault", "aria-label": "Fault" },
    h("h3", {}, icon("warn"), isAfterText ? "The answer broke off" : "Something went wrong"),
    h("p", {}, sentence(message)),
    h("p", { class: "hint" }, retryable ? "Asking again may help." : "Asking again will not help until this is put right."),
  );
}

function sentence(text) {
  const upper = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(upper) ? upper : `${upper}.`;
}
