// Takes a device over: what the mouse does on its picture, and what is typed there, are
// calls like an agent's, one after the other. Agents wait meanwhile.
const byID = (id) => document.getElementById(id);
const base = `/console/control/${encodeURIComponent(byID("stage").dataset.node)}`;
const headers = { "X-Handrail-Csrf": document.body.dataset.csrf, "Content-Type": "application/json" };
const surface = byID("surface"), video = byID("screen"), take = byID("take"), pause = byID("pause");
const say = (text) => { byID("take-state").textContent = text; };
const beat = 2000;
let held = null, timer = 0;

async function ask(method, path, body) {
  const answer = await fetch(base + path, { method, headers, body: body && JSON.stringify(body), keepalive: method === "DELETE" });
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) return said;
  throw new Error([said.error?.message, said.error?.hint].filter(Boolean).join(" ") || "The gateway refused.");
}

async function begin(paused) {
  take.disabled = pause.disabled = true;
  say("Asking.");
  const before = held;
  try {
    held = await ask("POST", "", { pause: paused });
    if (before) ask("DELETE", `/${before.session_id}`).catch(() => {});
    clearInterval(timer);
    timer = setInterval(hold, beat);
    show();
    if (!paused) surface.focus();
  } catch (e) {
    say(e.message);
  } finally {
    take.disabled = pause.disabled = false;
  }
}

function show() {
  const mine = held && !held.paused;
  take.textContent = mine ? "Hand back" : "Take over";
  pause.textContent = held?.paused ? "Let agents go on" : "Pause agents";
  pause.classList.toggle("none", Boolean(mine));
  surface.classList.toggle("taken", Boolean(mine));
  if (mine) {
    surface.tabIndex = 0;
    surface.setAttribute("role", "application");
    surface.setAttribute("aria-label", "The device. What you type goes there; Control+Alt+Home leaves it.");
    say("You have mouse and keyboard; agents wait. While the picture has the focus, keys go there; Control+Alt+Home leaves it.");
  } else {
    for (const name of ["tabindex", "role", "aria-label"]) surface.removeAttribute(name);
    say(held ? "Agents wait on this device until you let them go on." : "");
  }
}

// The device is given back by itself when this page falls silent.
async function hold() {
  const mine = held;
  if (!mine) return;
  try {
    const now = await ask("PUT", `/${mine.session_id}`);
    if (held === mine) held = now;
  } catch (e) {
    if (held === mine) lost(e.message);
  }
}

function lost(why) {
  held = null;
  clearInterval(timer);
  queue.length = 0;
  show();
  say(why);
}

async function back() {
  const mine = held;
  if (!mine) return;
  const inside = surface.contains(document.activeElement);
  lost("Handed back. Agents go on.");
  if (inside) take.focus();
  await ask("DELETE", `/${mine.session_id}`).catch(() => {});
}

take.addEventListener("click", () => { if (held && !held.paused) back(); else begin(false); });
pause.addEventListener("click", () => { if (held) back(); else begin(true); });
window.addEventListener("pagehide", () => { if (held) back(); });
document.addEventListener("unwatched", () => { if (held && !held.paused) back(); });

// What is done goes out in order, one call at a time; what is the same as the last that
// waits is put together with it.
const queue = [];
let sending = false;
function put(step) {
  if (!held || held.paused) return;
  const last = queue.at(-1);
  if (last && last.with === step.with && last.args.action === step.args.action) {
    if (step.args.action === "type" && last.args.text.length < 8000) { last.args.text += step.args.text; return; }
    if (step.args.action === "move") {
      // On its way the newest place is all that counts; with a button down, the way is.
      if (last.down && step.down) {
        const way = [...(last.args.path ?? []), { x: last.args.x, y: last.args.y }, ...(step.args.path ?? [])];
        step.args.path = way.length <= 256 ? way : way.filter((_, i) => i % 2 === 0).slice(-256);
      }
      queue[queue.length - 1] = step;
      return;
    }
    if (step.args.action === "scroll") {
      const sum = (a, b) => Math.max(-100, Math.min(100, a + b));
      last.args.scroll_x = sum(last.args.scroll_x, step.args.scroll_x);
      last.args.scroll_y = sum(last.args.scroll_y, step.args.scroll_y);
      return;
    }
  }
  if (queue.length >= 200) { say("The device does not keep up; that was left out."); return; }
  queue.push(step);
  send();
}
async function send() {
  if (sending) return;
  sending = true;
  while (queue.length && held) {
    const step = queue.shift();
    try {
      const result = await ask("POST", `/${held.session_id}/${step.with}`, { args: step.args });
      if (result.status === "ok") { if (held && byID("take-state").dataset.bad) { delete byID("take-state").dataset.bad; show(); } continue; }
      queue.length = 0; // what came after it was meant for what did not happen
      dragBroke();
      byID("take-state").dataset.bad = "1";
      say([result.message, result.code === "stale_frame" ? "" : result.hint].filter(Boolean).join(" "));
      if (result.code === "stale_frame") await hold();
    } catch (e) {
      lost(e.message);
    }
  }
  sending = false;
}

// A point of the picture, in the pixels of the frame that was quoted. While the picture
// is not that frame (the displays have just changed), there is none.
function spot(e) {
  const f = held?.frame, box = video.getBoundingClientRect();
  if (!f || video.videoWidth !== f.width || video.videoHeight !== f.height) return null;
  const x = Math.floor((e.clientX - box.left) * f.width / box.width), y = Math.floor((e.clientY - box.top) * f.height / box.height);
  return x < 0 || y < 0 || x >= f.width || y >= f.height ? null : { x, y };
}
const mouse = (action, at, more) => put({ with: "mouse", args: { action, ...at, frame_id: held.frame.frame_id, ...more } });
const buttons = ["left", "middle", "right"]; // others are this browser's own: going back
const mods = (e) => [["Control", e.ctrlKey], ["Alt", e.altKey], ["Shift", e.shiftKey], ["Meta", e.metaKey]].filter((m) => m[1]).map((m) => m[0]);

// A press that moves, or lasts, is a drag, sent as it goes: down, the way in parts (what
// waits to be sent is one part), up. One with modifiers goes as a whole, because those are
// down only during a call.
let press = null, moved = 0, resting = 0, lasting = 0;
const rests = 500, part = 100;
function drag() {
  press.down = true;
  mouse("down", press.at, { button: press.button });
}
function go() {
  const way = press.path;
  press.path = [];
  press.sent = performance.now();
  if (!way.length) return;
  const more = way.length > 1 ? { path: way.slice(0, -1) } : {};
  put({ with: "mouse", down: true, args: { action: "move", ...way.at(-1), frame_id: held.frame.frame_id, ...more } });
}
// Whatever was done to the drag's calls, its button comes up.
function dragBroke() {
  const was = press;
  press = null;
  clearTimeout(lasting);
  if (was?.down) queue.push({ with: "mouse", args: { action: "up", ...was.last, button: was.button } });
}
video.addEventListener("pointerdown", (e) => {
  const at = spot(e);
  if (!at || press || !buttons[e.button]) return;
  e.preventDefault();
  surface.focus();
  clearTimeout(resting);
  video.setPointerCapture(e.pointerId);
  press = { at, last: at, path: [], button: buttons[e.button], keys: mods(e), since: performance.now(), sent: 0 };
  clearTimeout(lasting);
  if (!press.keys.length) lasting = setTimeout(() => { if (press && !press.down && held && !held.paused) drag(); }, rests);
});
video.addEventListener("pointermove", (e) => {
  const at = spot(e);
  if (!at) return;
  if (press) {
    press.last = at;
    if (press.path.length < 250) press.path.push(at);
    if (press.keys.length || !held || held.paused) return;
    if (!press.down && Math.hypot(at.x - press.at.x, at.y - press.at.y) >= 4) drag();
    if (press?.down && performance.now() - press.sent >= part) go();
    return;
  }
  // A pointer on its way says where it is four times a second, and where it came to rest.
  clearTimeout(resting);
  if (performance.now() - moved > 250) { moved = performance.now(); mouse("move", at); } else resting = setTimeout(() => { if (held) mouse("move", at); }, 120);
});
video.addEventListener("pointerup", (e) => {
  const was = press;
  clearTimeout(lasting);
  const at = spot(e) ?? was?.last;
  if (!was || !at || !held || held.paused) { press = null; return; }
  const more = { button: was.button };
  if (was.down) {
    go();
    press = null;
    mouse("up", at, more);
    return;
  }
  press = null;
  if (was.keys.length) more.modifiers = was.keys;
  if (was.path.every((p) => Math.hypot(p.x - was.at.x, p.y - was.at.y) < 4)) { mouse("click", was.at, more); return; }
  mouse("drag", at, { ...more, path: [was.at, ...was.path], duration_ms: Math.round(Math.max(300, Math.min(5000, performance.now() - was.since))) });
});
video.addEventListener("pointercancel", () => { if (press?.down && held) mouse("up", press.last, { button: press.button }); press = null; clearTimeout(lasting); });
for (const name of ["contextmenu", "dragstart", "auxclick"]) video.addEventListener(name, (e) => { if (held && !held.paused) e.preventDefault(); });
video.addEventListener("wheel", (e) => {
  const at = spot(e);
  if (!at) return;
  e.preventDefault();
  const step = (d) => Math.sign(d) * Math.max(1, Math.round(Math.abs(d) / (e.deltaMode === 0 ? 100 : 3)));
  mouse("scroll", at, { scroll_x: e.deltaX ? step(e.deltaX) : 0, scroll_y: e.deltaY ? step(e.deltaY) : 0 });
}, { passive: false });

const named = new Set(["ArrowDown", "ArrowLeft", "ArrowRight", "ArrowUp", "Backspace", "ContextMenu", "Delete", "End", "Enter", "Escape", "Home", "Insert", "PageDown", "PageUp", "Pause", "PrintScreen", "Tab",
  ...Array.from({ length: 12 }, (_, i) => `F${i + 1}`)]);
surface.addEventListener("keydown", (e) => {
  if (!held || held.paused || e.isComposing) return;
  if (e.key === "Home" && e.ctrlKey && e.altKey) { e.preventDefault(); take.focus(); return; }
  const third = e.getModifierState("AltGraph");
  const one = [...e.key].length === 1;
  if (one && (third || !(e.ctrlKey || e.altKey || e.metaKey))) {
    e.preventDefault();
    put({ with: "keyboard", args: { action: "type", text: e.key } });
    return;
  }
  if (!one && !named.has(e.key)) return; // a modifier alone, a dead key
  e.preventDefault();
  const key = e.key === " " ? "Space" : e.key;
  put({ with: "keyboard", args: { action: "press", key: [...mods(e), key].join("+") } });
});
surface.addEventListener("paste", (e) => {
  const text = e.clipboardData?.getData("text/plain");
  if (!held || held.paused || !text) return;
  e.preventDefault();
  put({ with: "keyboard", args: { action: "type", text: text.slice(0, 8000) } });
});
