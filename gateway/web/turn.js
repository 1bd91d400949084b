/** A turn: a question and what became of it. Events go in; what a page shows can be read off. Plain data, so that it can be kept. */

/** A question that was just asked. */
export function newTurn(question) {
  return {
    question,
    state: "working", // working, answering, done, stopped, lost, rejected
    next: null, // what a retry said will be searched
    steps: [], // what was done: {what, attempt, state: now|ok|bad, query?, missing?, verdict?}
    text: "",
    citations: [],
    sources: [],
    verification: null,
    refusal: null,
    failed: null,
    done: null,
    answerId: null,
    traceId: null,
    lastId: null,
    isCut: false,
  };
}

export function isOpen(turn) {
  return turn.state === "working" || turn.state === "answering";
}

/** Takes one event of the wire. An event of a later version, unknown here, changes nothing. */
export function take(turn, name, data, id) {
  turn.lastId = id;
  switch (name) {
    case "started":
      turn.answerId = data.answer_id;
      turn.traceId = data.trace_id;
      break;
    case "status":
      takeStatus(turn, data);
      break;
    case "retry":
      takeRetry(turn, data);
      break;
    case "sources":
      turn.sources = data.passages;
      settle(turn, "ok");
      break;
    case "token":
      turn.state = "answering";
      turn.text += data.text;
      break;
    case "citation":
      turn.citations.push(data);
      break;
    case "verification":
      turn.verification = data;
      break;
    case "refusal":
      turn.refusal = data;
      settle(turn, "bad");
      break;
    case "failed":
      turn.failed = data;
      settle(turn, "bad");
      break;
    case "done":
      turn.done = data;
      turn.state = "done";
      settle(turn, "ok");
      break;
  }
}

function takeStatus(turn, { attempt, stage }) {
  const what = { retrieving: "search", grading: "check", generating: "write", verifying: "verify" }[stage];
  if (!what) return; // a correction is told by its retry
  const last = turn.steps.at(-1);
  if (last && last.what === what && last.attempt === attempt) return;
  settle(turn, "ok");
  turn.steps.push({ what, attempt, state: "now", query: what === "search" ? (turn.next ?? null) : null });
}

function takeRetry(turn, { attempt, verdict, missing, query }) {
  const judged = turn.steps.findLast((step) => step.attempt === attempt);
  if (judged) Object.assign(judged, { state: "bad", verdict, missing });
  const searched = turn.steps.findLast((step) => step.attempt === attempt + 1 && step.what === "search");
  if (searched) searched.query = query;
  else turn.next = query;
}

function settle(turn, state) {
  const last = turn.steps.at(-1);
  if (last?.state === "now") last.state = state;
}

/** Ends a turn whose events will not go on: `stopped` by the person, `lost` with the network, `rejected` by the server. */
export function end(turn, state, failed = null) {
  turn.state = state;
  turn.isCut = false;
  turn.failed ??= failed;
  settle(turn, "bad");
}

/** What a step says, in words. */
export function wordsOf(step) {
  switch (step.what) {
    case "search":
      return step.query ? `Searching again for “${short(step.query)}”` : "Searching your documents";
    case "check":
      if (step.state === "bad" && step.verdict) return foundWords(step);
      return step.state === "now" ? "Checking whether what was found answers it" : "Checked what was found";
    case "write":
      return step.state === "now" ? "Writing the answer" : "Wrote the answer";
    case "verify":
      if (step.state === "bad" && step.verdict) return "A sentence was not supported by its sources";
      return step.state === "now" ? "Checking each sentence against its sources" : "Checked each sentence against its sources";
    default:
      return "";
  }
}

/** Why a set of passages was not enough. */
function foundWords({ verdict, missing }) {
  const lacking = missing ? `“${short(missing)}”` : "what was asked";
  return verdict === "partial" ? `Found a part, but nothing on ${lacking}` : `Found nothing on ${lacking}`;
}

/** The line that says where a turn stands. */
export function headline(turn) {
  if (turn.isCut) return "Connection lost, taking the answer up again";
  if (turn.state === "stopped") return "Stopped by you";
  if (turn.state === "lost") return "The connection was lost";
  if (turn.state === "rejected") return "The question was not taken";
  if (turn.state === "done") return outcome(turn);
  const now = turn.steps.at(-1);
  if (!now) return "Sending";
  const before = turn.steps.findLast((step) => step.state === "bad");
  if (now.what === "search" && before) return `${wordsOf(before)}. Searching again`;
  return wordsOf(now);
}

function outcome({ done, refusal, verification }) {
  const searches = done.attempts === 1 ? "1 search" : `${done.attempts} searches`;
  if (refusal) return `No answer after ${searches}`;
  if (done.path === "failed") return "The answer broke off";
  if (done.path === "recovered") return `Found at search ${done.attempts}, after checking`;
  return verification?.grounded ? "Checked before and after it was written" : "Checked before you saw it";
}

/** Sentences of the answer that its sources do not say, as ranges of characters. */
export function unsupported(turn) {
  return turn.verification?.claims.filter((claim) => !claim.supported) ?? [];
}

function short(text) {
  return text.length > 90 ? `${text.slice(0, 89)}…` : text;
}
