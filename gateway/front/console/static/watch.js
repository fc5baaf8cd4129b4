// Shows a device's screen or camera, or has its microphone heard: WebRTC from the device
// itself, begun through the gateway (WHEP). What agents do on the screen meanwhile is
// told beside it.
const byID = (id) => document.getElementById(id);
const { node, source } = byID("stage").dataset;
const sound = source === "microphone", does = sound ? "Listen" : "Watch";
const base = `/console/live/${encodeURIComponent(node)}`;
const guard = { "X-Handrail-Csrf": document.body.dataset.csrf };
const video = byID("screen"), button = byID("watch");
const state = (text) => { byID("watch-state").textContent = text; };
let pc = null, at = null, timer = 0;

async function begin() {
  button.disabled = true;
  state("Asking. Where policy wants a person's word, it waits under Approvals.");
  pc = new RTCPeerConnection();
  const here = pc;
  const way = pc.addTransceiver(sound ? "audio" : "video", { direction: "recvonly" });
  // Frames that say when they were taken tell the delay; where the browser cannot
  // ask for that, it is not shown.
  const wants = way.getHeaderExtensionsToNegotiate?.();
  if (wants) {
    for (const e of wants) if (e.uri.endsWith("abs-capture-time")) e.direction = "recvonly";
    try { way.setHeaderExtensionsToNegotiate(wants); } catch { /* it is as it was */ }
  }
  pc.ontrack = (e) => { video.srcObject = new MediaStream([e.track]); };
  pc.onconnectionstatechange = () => { if (here === pc && ["failed", "closed", "disconnected"].includes(here.connectionState)) end("The view has ended."); };
  try {
    const offer = await pc.createOffer();
    const answer = await fetch(`${base}/${source}/whep`, { method: "POST", headers: { ...guard, "Content-Type": "application/sdp" }, body: offer.sdp });
    const text = await answer.text();
    if (here !== pc) { // left meanwhile: what was begun ends
      const begun = answer.status === 201 && answer.headers.get("Location").replace(/^\/v1/, "/console");
      if (begun) fetch(begun, { method: "DELETE", headers: guard, keepalive: true }).catch(() => {});
      return;
    }
    if (answer.status !== 201) {
      let why = "";
      try { const e = JSON.parse(text).error; why = [e.message, e.hint].filter(Boolean).join(" "); } catch { /* not ours */ }
      end(why || "The gateway refused.");
      return;
    }
    at = answer.headers.get("Location").replace(/^\/v1/, "/console");
    here.setConfiguration({ iceServers: servers(answer.headers.get("Link")) });
    tell(here, at, answer.headers.get("ETag"), offer.sdp);
    await here.setLocalDescription(offer);
    await here.setRemoteDescription({ type: "answer", sdp: text });
    video.muted = !sound;
    // A browser may want a press of its own before it lets sound out.
    const plays = await video.play().then(() => true, (e) => { if (!sound) throw e; return false; });
    if (here !== pc) return;
    state(plays ? "Live." : "Live. Press play to hear it.");
    button.textContent = sound ? "Stop listening" : "Stop watching";
    timer = setInterval(measure, 1000);
    measure();
  } catch {
    if (here === pc) end("The device could not be reached from here.");
  } finally {
    button.disabled = false;
  }
}

// The servers by which a way is found, as the gateway's Link headers tell them.
function servers(links) {
  const all = [];
  for (const [, urls, rest] of (links ?? "").matchAll(/<([^>]+)>([^<]*)/g)) {
    const of = Object.fromEntries([...rest.matchAll(/([\w-]+)="([^"]*)"/g)].map((m) => [m[1], m[2]]));
    if (of.rel === "ice-server") all.push({ urls, ...(of.username && { username: of.username, credential: of.credential }) });
  }
  return all;
}

// What is found of this browser's own addresses the device is told, a few at a time.
function tell(here, to, tag, offer) {
  const name = offer.match(/^a=ice-ufrag:.*$/m)?.[0] ?? "";
  let found = [], soon = 0;
  here.onicecandidate = (e) => {
    if (e.candidate?.candidate) found.push("a=" + e.candidate.candidate);
    soon ||= setTimeout(() => {
      const body = [name, ...found, ""].join("\r\n");
      soon = 0;
      if (found.length && at === to) fetch(to, { method: "PATCH", headers: { ...guard, "If-Match": tag, "Content-Type": "application/trickle-ice-sdpfrag" }, body }).catch(() => {});
      found = [];
    }, 100);
  };
}

function end(why, keepsPicture) {
  const was = pc;
  pc = null;
  clearInterval(timer);
  // The gateway hears it first: a device that notices that its viewer has gone ends the
  // session itself, and then there is none to end.
  const told = at && !keepsPicture && fetch(at, { method: "DELETE", headers: guard, keepalive: true }).catch(() => {});
  Promise.race([told, new Promise((go) => setTimeout(go, 2000))]).then(() => was?.close());
  at = null;
  // A device that is stopped or away has ended the session itself.
  if (keepsPicture) video.pause?.(); else video.srcObject = null;
  document.dispatchEvent(new Event("unwatched"));
  button.textContent = does;
  button.disabled = false;
  draw([]);
  for (const id of ["delay", "network"]) byID(id).textContent = "–";
  state(why);
}

// A frame tells when it arrived, and in some browsers when it was taken; the network's
// part is half the way there and back.
let onTheWay = 0;
function follow(now, frame) {
  const since = frame.captureTime ?? (frame.receiveTime === undefined ? undefined : frame.receiveTime - onTheWay);
  if (since !== undefined) {
    const what = frame.captureTime === undefined ? "since it was sent" : `since the ${source} ${source === "screen" ? "showed" : "saw"} it`;
    byID("delay").textContent = `${Math.max(0, Math.round(frame.expectedDisplayTime - since))} ms ${what}`;
  }
  video.requestVideoFrameCallback(follow);
}
video.requestVideoFrameCallback?.(follow);

async function measure() {
  if (!pc) return;
  for (const s of (await pc.getStats()).values()) {
    if (s.type === "candidate-pair" && s.nominated && s.currentRoundTripTime !== undefined) {
      onTheWay = s.currentRoundTripTime * 500;
      byID("network").textContent = `${onTheWay.toFixed(1)} ms`;
    }
  }
  const answer = await fetch(`${base}/watching`).catch(() => null);
  if (!answer?.ok) return;
  const who = await answer.json();
  byID("watching").textContent = who.watching.filter((w) => w.source === source).map((w) => w.principal).join(", ") || "nobody";
  if (source === "screen") byID("taken").textContent = who.taken.map((t) => t.principal + (t.paused ? " (agents are paused)" : "")).join(", ") || "nobody";
}

// What the device cannot show any more is not shown as if it were live: the last picture is
// dimmed and says so. live.js brings the page's own word on it.
const gone = byID("gone"), surface = byID("surface");
let before = "";
function absent() {
  const why = document.querySelector("#live [data-gone]")?.dataset.gone ?? "";
  if (why && pc) end(why + ".", true);
  if (!why && before && !pc) { // what was kept is old
    video.srcObject = null;
    state(`The device is back. Press ${does} to go on.`);
  }
  before = why;
  surface?.classList.toggle("dim", Boolean(why));
  gone?.classList.toggle("none", !why);
  if (gone && gone.textContent !== why) gone.textContent = why;
  button.disabled = Boolean(why);
}
new MutationObserver(absent).observe(byID("main"), { childList: true });

byID("full")?.addEventListener("click", () => {
  if (document.fullscreenElement) document.exitFullscreen(); else byID("stage").requestFullscreen();
});
document.addEventListener("fullscreenchange", () => { byID("full").textContent = document.fullscreenElement ? "Leave full screen" : "Full screen"; });

button.addEventListener("click", () => { if (pc) end(sound ? "You stopped listening." : "You stopped watching."); else begin(); });
window.addEventListener("pagehide", () => { if (pc) end(""); });

// What an agent does there is told on the picture while it runs.
const calls = new Map(), names = new Map(), shown = byID("call");
const stream = source === "screen" ? new EventSource("/console/events") : null;
stream?.addEventListener("call", (e) => {
  const p = JSON.parse(e.data);
  if (p.node_id !== node || !p.tool_id?.startsWith("tool.desktop.")) return;
  if (p.kind === "tool.call.dispatch") {
    const name = `${p.principal}: ${p.tool_id}`;
    calls.set(p.call_id, name);
    names.set(p.call_id, name);
    if (names.size > 64) names.delete(names.keys().next().value);
  } else if (p.kind === "tool.call.result" || p.kind === "tool.call.failed") calls.delete(p.call_id);
  const now = [...calls.values()].at(-1);
  if (now) byID("latest").textContent = now;
  shown.textContent = now ?? "";
  shown.classList.toggle("none", !now);
});
window.addEventListener("pagehide", () => stream?.close());

// Where on the picture it acts only the device knows. It tells those who watch, all such
// places each time; a call that takes milliseconds stays marked for half a second.
function draw(marks) {
  const percent = (part) => `${part * 100}%`;
  byID("marks")?.replaceChildren(...marks.map((m, i) => {
    const one = document.createElement("div"), point = !m.width && !m.height;
    Object.assign(one.style, { left: percent(m.x), top: percent(m.y) }, point ? {} : { width: percent(m.width), height: percent(m.height) });
    one.className = "mark";
    /** @type {[string, boolean][]} */
    const where = [["point", point], ["right", m.x > 0.6], ["high", m.y < 0.15], ["low", m.y + m.height > 0.85]];
    for (const [name, so] of where) one.classList.toggle(name, so);
    if (marks[i + 1]?.call_id !== m.call_id) {
      const label = document.createElement("span");
      label.textContent = names.get(m.call_id) ?? "a call";
      one.append(label);
    }
    return one;
  }));
}
stream?.addEventListener("mark", (e) => {
  const told = JSON.parse(e.data);
  if (at?.endsWith("/" + told.session_id)) draw(told.marks);
});
stream?.addEventListener("error", () => draw([])); // nobody tells when they go
