// ---- internals: what custom elements are by ElementInternals ---------------------

// A custom element may have its role and states from its class alone (ElementInternals), where
// no script can see them, but Chrome's accessibility tree does (internals.go asks it). An
// outline notes the elements it may be true of; the answer is kept until the next one.
const internals = new WeakMap(); // element -> {role, states: {checked: 'true', …}, value}
let anyInternals = false;
let customs = [];
const MAX_CUSTOMS = 100;

const internalsOf = el => anyInternals ? internals.get(el) : undefined;

// noteCustom notes an element that takes the focus or presses, or belongs to a form, and
// says nothing of what it is.
function noteCustom(el) {
  if (customs.length >= MAX_CUSTOMS || !isCustom(el) || el.hasAttribute('role') || innerField(el)) return;
  if (el.matches(':enabled, :disabled') || el.hasAttribute('tabindex') || el.tabIndex >= 0 || heard.has(el)) customs.push(el);
}

const customAt = i => customs[i];

// tellInternals takes the answers, in the order of customs, and tells whether they are news.
function tellInternals(list) {
  let news = false;
  list.forEach((is, i) => {
    const el = customs[i], now = is && ROLES.has(is.role) ? is : undefined;
    if (!el || JSON.stringify(now) === JSON.stringify(internals.get(el))) return;
    if (now) { internals.set(el, now); anyInternals = true; } else internals.delete(el);
    news = true;
  });
  return {news};
}
