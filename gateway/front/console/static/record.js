// Records the lane that is chosen: its screen here as a file, with its calls as chapters.
const byID = (id) => document.getElementById(id);
const button = byID("record"), lane = byID("lane"), state = byID("record-state");
const headers = { "X-Handrail-Csrf": document.body.dataset.csrf, "Content-Type": "application/json" };
const every = 2000;
let film = null, timer = 0;

async function ask(method, path, body) {
  const answer = await fetch(`/console/recordings${path}`, { method, headers, body: body && JSON.stringify(body) });
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) return said;
  throw new Error([said.error?.message, said.error?.hint].filter(Boolean).join(" ") || "The gateway refused.");
}

function show(text) {
  state.textContent = text;
  button.textContent = film ? "Stop recording" : "Record";
  lane.disabled = Boolean(film);
}

// What is over is a file, all of it or a part, or nothing.
function told(now) {
  if (!now.result) { film = now; show(`Recording ${now.lane}.`); return; }
  film = null;
  clearInterval(timer);
  const file = now.result.artifacts?.[0];
  if (now.result.status !== "ok" || !file || file.code) { show([now.result.message || "There is no file.", now.result.hint].filter(Boolean).join(" ")); return; }
  show(now.result.output?.whole ? "Recorded: " : "Only a part was recorded: ");
  const link = document.createElement("a");
  link.href = `/console/artifacts/${file.artifact_id}`;
  link.download = file.name;
  link.textContent = file.name;
  state.append(link);
}

// An answer that was asked for before something newer was told counts for nothing.
async function look() {
  const mine = film;
  if (!mine) return;
  try {
    const now = await ask("GET", `/${mine.recording_id}`);
    if (film === mine) told(now);
  } catch { /* asked again */ }
}

button.addEventListener("click", async () => {
  button.disabled = true;
  try {
    if (film) told(await ask("DELETE", `/${film.recording_id}`));
    else {
      show("Asking. Where policy wants a person's word, it waits under Approvals.");
      told(await ask("POST", "", { lane: lane.value, node_id: byID("stage").dataset.node }));
      clearInterval(timer);
      if (film) timer = setInterval(look, every);
    }
  } catch (e) {
    show(e.message);
  } finally {
    button.disabled = false;
  }
});
