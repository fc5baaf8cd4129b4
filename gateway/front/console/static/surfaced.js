// Tells the gateway what this page offers, as it really stands in the page: each
// control by the route it leads to, each key by the call that it was shown for. What
// should not be there is drift.
const body = document.body;
let told = "", due = 0;

function report() {
  due = 0;
  const controls = [...new Set([...document.querySelectorAll("[data-does]")].map((e) => e.dataset.does))].sort().slice(0, 200);
  const keys = [...document.querySelectorAll("[data-grant]")].slice(0, 200).map((e) => ({ call_id: e.dataset.call, key: e.dataset.grant }));
  const text = JSON.stringify({ surface: "console", page: location.pathname.slice(0, 200), controls, keys });
  if (text === told || (!controls.length && !keys.length)) return;
  told = text;
  fetch("/console/surfaced", { method: "POST", keepalive: true, headers: { "Content-Type": "application/json", "X-Handrail-Csrf": body.dataset.csrf }, body: text })
    .catch(() => { told = ""; }); // the gateway is away; the next change tells it
}

function soon() { due ||= setTimeout(report, 200); }
new MutationObserver(soon).observe(body, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-does", "data-grant", "data-call"] });
soon();
