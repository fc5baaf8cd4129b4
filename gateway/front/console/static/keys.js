// One key for each answer, on the question that has the focus and on no other: with
// the focus elsewhere the first key only goes to the first question.
const questions = () => [...document.querySelectorAll("[data-question]")];

// A notice's Allow or Deny leads here with the button that it means: it has the focus, and is
// pressed by nobody but the person.
function meant() {
  const value = { "#allow": "call", "#deny": "deny" }[location.hash];
  const button = value && document.querySelector(`[data-question] button[name="answer"][value="${value}"]`);
  if (!button) return;
  button.focus();
  button.scrollIntoView({ block: "center" });
}
meant();
addEventListener("hashchange", meant);

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.altKey || e.metaKey || e.repeat || e.target.closest?.("input,textarea,select,[contenteditable]")) return;
  if (e.key === "s" && !e.target.closest?.(".taken")) { document.getElementById("stop")?.focus(); return; }
  const all = questions(), here = e.target.closest?.("[data-question]");
  if (!all.length) return;
  const at = all.indexOf(here);
  if (e.key === "j" || e.key === "k") {
    const next = at < 0 ? 0 : Math.min(all.length - 1, Math.max(0, at + (e.key === "j" ? 1 : -1)));
    all[next].focus();
    all[next].scrollIntoView({ block: "nearest" });
    e.preventDefault();
    return;
  }
  const key = e.key === "5" ? "f" : e.key; // as in the terminal
  const answer = here?.querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (answer) { e.preventDefault(); answer.click(); return; }
  if (at < 0 && /^[afd5]$/.test(e.key) && e.target === document.body) { all[0].focus(); e.preventDefault(); }
});
