// Times in the person's own zone and words. Without this they are shown as UTC.
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" }); // with the zone
const words = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const steps = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

function relative(at) {
  const off = Math.round((at - Date.now()) / 1000);
  for (const [unit, size] of steps) {
    if (Math.abs(off) >= size || unit === "second") return words.format(Math.trunc(off / size), unit);
  }
}

export function tell(root = document) {
  for (const t of root.querySelectorAll("time[datetime]")) {
    const at = Date.parse(t.getAttribute("datetime"));
    if (Number.isNaN(at)) continue;
    const text = "relative" in t.dataset ? relative(at) : full.format(at);
    if (t.textContent !== text) t.textContent = text;
    t.title = full.format(at);
  }
}

tell();
setInterval(() => document.hidden || tell(), 1000);
