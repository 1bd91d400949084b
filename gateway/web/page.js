/** The page, put together: a question goes out, its turn is drawn as events come in, and kept in this browser. */

import { ask, ConnectionLost, drop, takeUp } from "./answer.js";
import { Composer } from "./composer.js";
import { Documents } from "./documents.js";
import { h, icon } from "./dom.js";
import { asHistory, History, newChat } from "./history.js";
import { useKeyDialog } from "./http.js";
import { askForKey } from "./key.js";
import { Announcer } from "./say.js";
import { SourceSheet } from "./sheet.js";
import { sure } from "./sure.js";
import { end, isOpen, newTurn, take } from "./turn.js";
import { TurnView } from "./turn_view.js";

const SAVE_EVERY_MS = 500;
const NEAR_END_PX = 120; // closer to the end than this, the page follows what is written
const COLLECTION = new URLSearchParams(location.search).get("collection") ?? "default";

const $ = (selector) => document.querySelector(selector);

const past = new History();
const say = new Announcer($("#said"));
const sheet = new SourceSheet($("#source"));
const composer = new Composer($("#composer"), { onSend: (question) => askNow(question), onStop: stop });
const documents = new Documents($("#documents"), COLLECTION, welcomeWith);
const thread = $("#thread");
const checks = $("#checks");

let chat = newChat();
let views = [];
let current = null; // {turn, view, abort}: the answer that is coming
let saved = 0;
let isLeaving = false; // the browser breaks connections as it leaves; the answer is taken up by the next visit

function start() {
  $("#new").addEventListener("click", () => (openChat(newChat()), closeMenu()));
  $("#open-documents").addEventListener("click", () => (closeMenu(), documents.open()));
  $("#menu").addEventListener("click", () => setMenu(!document.documentElement.classList.contains("menu-open")));
  $("#scrim").addEventListener("click", closeMenu);
  $("#theme").addEventListener("click", turnTheme);
  $("#down").addEventListener("click", () => scrollToEnd("smooth"));
  sure($("#clear"), "Really delete all?", () => (past.clear(), openChat(newChat())));
  checks.checked = stored("gateway.verify") === "annotate";
  checks.addEventListener("change", () => store("gateway.verify", checks.checked ? "annotate" : ""));
  thread.addEventListener("click", openSource);
  $("#examples").addEventListener("click", (event) => event.target.closest("button") && askNow(event.target.closest("button").textContent));
  addEventListener("keydown", onKey);
  addEventListener("scroll", showDown, { passive: true });
  addEventListener("pagehide", () => ((isLeaving = true), save()));
  addEventListener("pageshow", (event) => event.persisted && location.reload()); // its connections are gone
  addEventListener("hashchange", () => location.hash.slice(1) !== chat.id && openFromAddress());
  addEventListener("storage", (event) => event.key === "gateway.chats" && (past.reload(), drawHistory()));
  openFromAddress();
  documents.list();
}

// One conversation

function openFromAddress() {
  openChat(past.find(location.hash.slice(1)) ?? newChat());
}

function openChat(opened) {
  if (current) stop();
  chat = opened;
  views = chat.turns.map(viewOf);
  thread.replaceChildren(...views.map(({ element }) => element));
  settlePlace();
  drawHistory();
  const last = chat.turns.at(-1);
  if (last && isOpen(last)) goOn(last, views.at(-1));
  scrollToEnd();
  composer.focus();
}

function viewOf(turn) {
  return new TurnView(turn, { onAgain: again, onCopy: copy });
}

/** The address names the conversation, so that a reload comes back to it; without turns there is the welcome. */
function settlePlace() {
  const isEmpty = chat.turns.length === 0;
  document.documentElement.classList.toggle("welcomes", isEmpty);
  $("#title").textContent = chat.title;
  document.title = chat.title || "Ask your documents";
  history.replaceState(null, "", isEmpty ? location.pathname + location.search : `#${chat.id}`);
}

async function askNow(question) {
  if (current) return;
  const earlier = asHistory(chat.turns);
  const turn = newTurn(question);
  if (!chat.turns.length) chat.title = question.slice(0, 80);
  chat.turns.push(turn);
  const view = viewOf(turn);
  views.push(view);
  thread.append(view.element);
  settlePlace();
  scrollToEnd();
  const options = checks.checked ? { verify: "annotate" } : {};
  const body = { question, collection: COLLECTION, options, ...(earlier.length && { history: earlier }) };
  await run(turn, view, (wired) => ask(body, wired));
}

/** Takes up an answer that was coming when the page was last left. */
async function goOn(turn, view) {
  if (!turn.lastId) {
    end(turn, "lost");
    view.draw();
    return;
  }
  turn.isCut = true;
  await run(turn, view, (wired) => takeUp(turn.lastId, wired));
}

async function run(turn, view, start) {
  const abort = new AbortController();
  const mine = { turn, view, abort, chat };
  current = mine;
  composer.busy = true;
  changed(mine);
  const on = (name, data, id) => (take(turn, name, data, id), changed(mine));
  const onCut = () => ((turn.isCut = true), changed(mine));
  const onBack = () => ((turn.isCut = false), changed(mine));
  try {
    await start({ on, onCut, onBack, signal: abort.signal });
    turn.isCut = false;
  } catch (error) {
    if (isLeaving) return;
    if (isOpen(turn)) endWith(turn, error, abort.signal.aborted);
  }
  if (current === mine) {
    current = null;
    composer.busy = false;
  }
  changed(mine);
  save(mine.chat);
  drawHistory();
}

function endWith(turn, error, isStopped) {
  if (isStopped) end(turn, "stopped");
  else if (error.status) end(turn, "rejected", { message: error.message, retryable: error.retryable });
  else if (error instanceof ConnectionLost || error instanceof TypeError) {
    end(turn, "lost", { message: "the connection to the gateway was lost", retryable: true });
  } else {
    end(turn, "lost", { message: "the page could not read the answer", retryable: true });
    console.error(error);
  }
}

function stop() {
  if (!current) return;
  drop(current.turn.answerId);
  current.abort.abort();
  end(current.turn, "stopped");
  changed(current);
}

/** Asks the question of a turn once more: in its place where it was the last one. */
function again(view) {
  if (current) return;
  const place = views.indexOf(view);
  if (place === views.length - 1) {
    chat.turns.pop();
    views.pop();
    view.element.remove();
  }
  askNow(view.turn.question);
  composer.focus();
}

async function copy(view) {
  const { text, sources, citations } = view.turn;
  const cited = new Set(citations.map(({ n }) => n));
  const notes = sources.filter(({ n }) => cited.has(n)).map(({ n, title, url }) => `[${n}] ${title}${url ? ` ${url}` : ""}`);
  const isCopied = await intoClipboard([text.trim(), notes.join("\n")].filter(Boolean).join("\n\n"));
  say.say(isCopied ? "Copied" : "Copying is not allowed here");
  const label = view.actions.querySelector(".copy span");
  label.textContent = isCopied ? "Copied" : "Not allowed";
  setTimeout(() => (label.textContent = "Copy"), 1600);
}

async function intoClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = h("textarea", { class: "unseen" }); // where the page is not served safely there is only the old way
    field.value = text;
    document.body.append(field);
    field.select();
    const isCopied = document.execCommand("copy");
    field.remove();
    return isCopied;
  }
}

function openSource(event) {
  const button = event.target.closest("[data-source]");
  const view = button && views.find(({ element }) => element.contains(button));
  if (view) sheet.open(view.turn, Number(button.dataset.source));
}

// Drawing and keeping

const waiting = new Set();

/** Draws a turn with the next frame, however many events come before it, and keeps it now and then. */
function changed({ turn, view, chat: itsChat }) {
  say.follow(turn);
  if (Date.now() - saved > SAVE_EVERY_MS) save(itsChat);
  if (waiting.size === 0) requestAnimationFrame(drawWaiting);
  waiting.add(view);
}

function drawWaiting() {
  const follows = isNearEnd();
  for (const view of waiting) view.draw();
  if (follows) scrollToEnd();
  for (const view of waiting) if (view.turn.refusal) showFromTop(view.element);
  waiting.clear();
  showDown();
}

function save(itsChat = chat) {
  if (!(itsChat?.turns?.length)) return;
  saved = Date.now();
  itsChat.at = saved;
  past.reload();
  past.put(itsChat);
}

function drawHistory() {
  const items = past.chats.map((one) => {
    const remove = h("button", { type: "button", class: "quiet round", "aria-label": `Delete ${one.title}` }, icon("trash"));
    remove.addEventListener("click", () => {
      past.reload();
      past.remove(one.id);
      if (one.id === chat.id) openChat(newChat());
      else drawHistory();
    });
    const open = h("button", { type: "button", class: "chat", "aria-current": one.id === chat.id ? "true" : null }, one.title);
    open.addEventListener("click", () => (openChat(past.find(one.id) ?? newChat()), closeMenu()));
    return h("li", {}, open, remove);
  });
  $("#chats").replaceChildren(...items);
  $("#clear").hidden = items.length === 0;
}

// The welcome

/** What the welcome offers: examples of this project's own documents, the names of others, or a place to drop some. */
function welcomeWith(listed) {
  const isOwn = listed?.some(({ name }) => name.endsWith("how-it-works.md")) && listed.some(({ name }) => name.endsWith("wire.md"));
  $("#examples").hidden = listed !== null && !isOwn;
  const hint = $("#library");
  hint.hidden = listed === null;
  if (listed === null) return;
  const titles = listed.slice(0, 3).map(({ title }) => title);
  const more = listed.length > 3 ? ` and ${listed.length - 3} more` : "";
  hint.replaceChildren(
    listed.length ? `Ready to answer from ${titles.join(", ")}${more}.` : "There are no documents yet.",
    h("button", { type: "button", onclick: () => documents.open() }, "Add documents"),
  );
}

// Place, keys, theme

function isNearEnd() {
  return document.documentElement.scrollHeight - innerHeight - scrollY < NEAR_END_PX;
}

function scrollToEnd(behavior = "instant") {
  scrollTo({ top: document.documentElement.scrollHeight, behavior });
}

/** A refusal is read from its first line: what does not fit is below, not above. */
function showFromTop(element) {
  if (element.getBoundingClientRect().top < 0) element.scrollIntoView({ block: "start" });
}

function showDown() {
  $("#down").hidden = isNearEnd();
}

function onKey(event) {
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
    if (document.documentElement.classList.contains("menu-open")) closeMenu();
    else stop();
  }
  const isTyping = event.target.closest?.("input, textarea, dialog");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    composer.focus();
  }
}

function setMenu(isOpened) {
  document.documentElement.classList.toggle("menu-open", isOpened);
  $("#menu").setAttribute("aria-expanded", String(isOpened));
  if (isOpened) $("#new").focus();
}

function closeMenu() {
  if (document.documentElement.classList.contains("menu-open")) {
    setMenu(false);
    $("#menu").focus();
  }
}

function turnTheme() {
  const isDark = getComputedStyle(document.documentElement).getPropertyValue("--is-dark").trim() === "1";
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
  store("gateway.theme", document.documentElement.dataset.theme);
}

function stored(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function store(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // kept for this visit only
  }
}

useKeyDialog(askForKey);
start();
document.documentElement.classList.add("runs"); // what is pressed from now on is heard
