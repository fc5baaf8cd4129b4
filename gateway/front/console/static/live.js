// Keeps a page true: when something that it shows has changed, the page is asked for
// again and its moving part replaced. Forms are sent the same way, so that the focus
// stays. Without this a page is as good, once reloaded.
import { tell } from "./time.js";

const shows = "/console/worker.js";
const trusted = window.trustedTypes?.createPolicy("handrail", {
  createHTML: (s) => s, createScriptURL: (s) => { if (s !== shows) throw new TypeError("not ours"); return s; },
});
// The address of the only worker that there is.
export const worker = () => trusted ? trusted.createScriptURL(shows) : shows;
const body = document.body;
const byID = (id, root = document) => root.getElementById(id);
const say = (text) => { byID("announce").textContent = text; };
// What comes from our own server, made there of text and elements only.
const parse = (text) => new DOMParser().parseFromString(trusted ? trusted.createHTML(text) : text, "text/html");

// What the first paint left out, below the screen, is laid out once that paint is on the screen.
requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => { body.dataset.whole = ""; })));

// For a moment after the questions changed nothing is taken for an answer.
let settling = 0;
function settle() {
  clearTimeout(settling);
  body.dataset.settling = "";
  settling = setTimeout(() => { delete body.dataset.settling; }, 500);
}

function swap(id, doc) {
  const old = byID(id), fresh = doc.getElementById(id);
  if (!old || !fresh || old.outerHTML === fresh.outerHTML) return;
  old.replaceWith(document.adoptNode(fresh));
}

// take puts what has changed of a fresh page into this one.
function take(doc, sent) {
  document.title = doc.title;
  body.dataset.expires = doc.body.dataset.expires ?? "";
  swap("waiting", doc);
  swap("stopped", doc);
  swap("switch", doc);
  if (sent) swap("outcome", doc);
  const old = byID("live"), fresh = doc.getElementById("live");
  if (!fresh || !old) return;
  const had = new Set([...old.querySelectorAll("[data-question]")].map((q) => q.id));
  const typed = [...old.querySelectorAll("input[id],textarea[id],select[id]")].filter((f) => f.type !== "hidden" && (f.value !== f.defaultValue || f.checked !== f.defaultChecked));
  const opened = [...old.querySelectorAll("details[open][id]")].map((d) => d.id);
  const at = document.activeElement;
  const held = old.contains(at) ? at.closest("[id]")?.id : null;
  const precise = old.contains(at) && at.id ? at.id : null;
  const place = held && at.name ? `[name="${CSS.escape(at.name)}"][value="${CSS.escape(at.value)}"]` : null;
  // What is shown once stays until the page is left.
  const once = sent ? null : old.querySelector("[data-once]");
  if (once && !fresh.querySelector("[data-once]")) fresh.prepend(once.cloneNode(true));
  // Nor does what a form says of its own try (a passkey's, a browser's) go with what
  // happens elsewhere, before anybody could read it; the next try clears it.
  for (const told of sent ? [] : old.querySelectorAll("form [data-problem]")) {
    const action = told.closest("form").getAttribute("action");
    if (told.textContent) fresh.querySelector(`form[action="${CSS.escape(action)}"] [data-problem]`)?.replaceWith(told.cloneNode(true));
  }
  tell(fresh);
  if (old.innerHTML === fresh.innerHTML) return;
  for (const q of fresh.querySelectorAll("[data-question]")) if (!had.has(q.id)) q.classList.add("fresh");
  old.replaceWith(document.adoptNode(fresh));
  if (!sent) {
    for (const f of typed) {
      const now = byID(f.id);
      if (now && now.type === f.type) { now.value = f.value; if ("checked" in f) now.checked = f.checked; }
    }
  }
  for (const id of opened) byID(id)?.setAttribute("open", "");
  if (held) {
    // Never on to the next question: what has the focus takes keys.
    const now = byID(precise ?? held);
    const part = !precise && place ? now?.querySelector(place) : null;
    (part ?? now ?? byID("main")).focus({ preventScroll: true });
  }
  const now = [...byID("live").querySelectorAll("[data-question]")].map((q) => q.id);
  if (now.length !== had.size || now.some((id) => !had.has(id))) {
    settle();
    const more = now.filter((id) => !had.has(id));
    if (more.length) say(more.length === 1 ? `A new question: ${byID(more[0]).querySelector("h2").textContent}` : `${more.length} new questions`);
  }
}

// What could not be had is asked for again: no other event may come. Where the gateway
// is away, the stream tells when it is back.
let due = 0, pause = 0;
function later() {
  if (stream?.readyState === EventSource.OPEN) pause ||= setTimeout(() => { pause = 0; soon(); }, 1000);
}

let asking = false, again = false, turn = 0; // turn counts the answers of forms
async function refresh() {
  if (asking) { again = true; return; }
  asking = true;
  const mine = turn;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.status === 401 || new URL(answer.url).pathname === "/console/login") { location.assign("/console/login"); return; }
    // An address that leads elsewhere belongs to the answer of a form, which stays.
    if (answer.ok && !answer.redirected) {
      const text = await answer.text();
      // What was asked for before a form was answered is older than that answer.
      if (mine === turn) take(parse(text), false); else again = true;
    } else if (answer.status >= 500 || answer.status === 429) later();
  } catch { later(); } finally {
    asking = false;
    if (again) { again = false; refresh(); }
  }
}

// One stream while the page is looked at: browsers have few connections, and what is
// not seen need not move.
let stream = null;
const topics = (body.dataset.live ?? "").split(" ").filter(Boolean);
const follow = new Set([...topics, "approval", "packet"]); // the badge and the stop are on every page
function connect() {
  if (stream || document.hidden) return;
  stream = new EventSource("/console/events");
  // What changed between the page's making and the stream's opening is in no event.
  stream.onopen = () => { link(""); refresh(); };
  stream.onerror = () => { link("The gateway does not answer; trying again."); if (stream?.readyState === EventSource.CLOSED) { stream = null; setTimeout(connect, 3000); } };
  for (const topic of follow) stream.addEventListener(topic, soon);
}
function link(text) {
  const at = byID("link");
  at.className = text ? "lost" : "hidden";
  if (at.textContent !== text) at.textContent = text;
}
function soon() { due ||= requestAnimationFrame(() => { due = 0; refresh(); }); }
document.addEventListener("visibilitychange", () => {
  if (document.hidden) { stream?.close(); stream = null; } else connect();
});
window.addEventListener("pagehide", () => { stream?.close(); stream = null; });
window.addEventListener("pageshow", (e) => { if (e.persisted) connect(); });
connect();

// A press on an answer that moved under the pointer a moment ago is not one.
document.addEventListener("click", (e) => {
  if (e.target.closest?.(".answers button") && "settling" in body.dataset) { e.preventDefault(); say("The list has just changed; press again."); }
}, true);

document.addEventListener("submit", async (e) => {
  const form = /** @type {any} */ (e.target);
  if (e.defaultPrevented || form.method !== "post" || !byID("live") || form.closest(".top") || form.dataset.whole !== undefined) return;
  e.preventDefault();
  const data = new URLSearchParams(/** @type {any} */ (new FormData(form, e.submitter)));
  const buttons = [...form.querySelectorAll("button")];
  for (const b of buttons) b.disabled = true;
  try {
    // A file goes as it is: a form would make three times as much of it.
    const file = form.querySelector("input[type=file]")?.files[0];
    const headers = file ? { Accept: "text/html", "Content-Type": "application/x-ndjson", "X-Handrail-Csrf": body.dataset.csrf } : { Accept: "text/html" };
    const answer = await fetch(e.submitter?.getAttribute("formaction") ?? form.action, { method: "POST", body: file ?? data, headers });
    if (answer.url.includes("/console/login")) { location.assign("/console/login"); return; }
    const doc = parse(await answer.text());
    if (!doc.getElementById("live")) throw new Error();
    if (answer.ok && answer.redirected && new URL(answer.url).pathname !== location.pathname) history.pushState(null, "", new URL(answer.url).pathname);
    turn++;
    take(doc, true);
    const said = byID("outcome");
    say(said.textContent);
    if (!document.activeElement || document.activeElement === document.body) byID("main").focus({ preventScroll: true });
  } catch {
    for (const b of buttons) b.disabled = false;
    link("The gateway does not answer. Nothing was sent for sure; look before you repeat it.");
  }
});

// A session that ends soon says so, and can be kept.
setInterval(() => {
  const left = Number(body.dataset.expires) - Date.now(), box = byID("ending");
  const soonOver = body.dataset.expires && left < 10 * 60_000;
  if (soonOver === !box.classList.contains("none")) return;
  box.classList.toggle("none", !soonOver);
  box.replaceChildren();
  if (!soonOver) return;
  const keep = document.createElement("button");
  keep.type = "button";
  keep.textContent = "Stay signed in";
  keep.onclick = async () => {
    const answer = await fetch("/console/session", { method: "POST", headers: { "X-Handrail-Csrf": body.dataset.csrf } });
    if (answer.ok) take(parse(await answer.text()), false);
  };
  box.append("You will be signed out in a few minutes. ", keep);
}, 5000);
