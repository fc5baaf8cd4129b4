// ---- wait: what the page shows, and when that changes ----------------------------

const solid = s => s.replace(/\s+/g, '').toLowerCase();
const plain = s => squeeze(s).toLowerCase();

// holds reports whether a root shows a text: first by all its text, which is quick,
// then by what of it is rendered.
function holds(root, want) {
  const top = root.nodeType === 9 ? root.body || root.documentElement : root;
  if (!top) return false;
  if (solid(top.textContent).includes(solid(want))) {
    for (const el of root.nodeType === 9 ? [top] : top.children) if (plain(el.innerText || '').includes(plain(want))) return true;
    // Bare text of a shadow root, and what stands in no HTML element.
    if (root.nodeType !== 9 && plain([...top.childNodes].map(n => n.nodeType === 3 ? n.data : '').join(' ')).includes(plain(want))) return true;
    for (const el of root.querySelectorAll('svg text')) if (el.checkVisibility({visibilityProperty: true}) && plain(el.textContent).includes(plain(want))) return true;
  }
  for (const el of root.querySelectorAll('input[type=submit], input[type=button], input[type=reset]')) if (plain(el.value).includes(plain(want)) && el.checkVisibility({visibilityProperty: true})) return true;
  return false;
}

// shows gives what of a wait's conditions holds in the documents this script reads.
function shows(o) {
  const now = {text: false, gone: false, attached: false, visible: false};
  everyRoot(document, root => {
    if (o.text && !now.text) now.text = holds(root, o.text);
    if (o.gone && !now.gone) now.gone = holds(root, o.gone);
    if (o.selector && !now.visible) for (const el of root.querySelectorAll(o.selector)) {
      now.attached = true;
      if (el.checkVisibility({visibilityProperty: true}) && el.getClientRects().length) { now.visible = true; break; }
    }
  });
  return now;
}

// changes answers when what is shown differs from what the caller knows, or after a
// while. It looks after mutations and other events, not more than an eighth of the
// time; now and then on its own, since a new shadow root and a changed style sheet
// tell nobody.
function changes(o) {
  try { document.querySelector(o.selector || 'a'); } catch { return fail('invalid_arguments', 'The selector is not valid CSS.', NOT_CSS); }
  const same = now => o.known && ['text', 'gone', 'attached', 'visible'].every(k => now[k] === o.known[k]);
  const first = shows(o);
  if (!same(first)) return first;
  return new Promise(done => {
    const end = performance.now() + o.within;
    const seen = new WeakSet();
    const stops = [];
    let next, cost = 0, soon = false;
    const observer = new MutationObserver(() => kick());
    const spread = () => everyRoot(document, root => {
      if (seen.has(root)) return;
      seen.add(root);
      observer.observe(root, {subtree: true, childList: true, characterData: true, attributes: true});
      const target = root.nodeType === 9 ? root.defaultView : root;
      for (const type of ['load', 'transitionend', 'animationend', 'resize', 'toggle']) {
        target.addEventListener(type, kick, true);
        stops.push(() => target.removeEventListener(type, kick, true));
      }
    });
    function plan(ms) { next?.(); next = later(look, ms); }
    function kick() {
      if (soon) return;
      soon = true;
      plan(Math.min(250, cost * 8));
    }
    function look() {
      soon = false;
      const began = performance.now();
      spread();
      const now = shows(o);
      cost = performance.now() - began;
      if (same(now) && performance.now() < end) return plan(Math.max(250, cost * 8));
      observer.disconnect();
      for (const stop of stops) stop();
      done(now);
    }
    spread();
    plan(250);
  });
}

// hold finds the element that an expression is about; held gives it, once.
let holding = null;

function hold(o) {
  const f = find(o);
  if (f.error) return f;
  holding = f.el;
  return {};
}

function held() {
  const el = holding;
  holding = null;
  return el;
}
