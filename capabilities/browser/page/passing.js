// ---- passing: what stands in the way for a moment ----------------------------------
//
// The rule. An element that is disabled, covered, without size or without pointer events
// is looked at again, up to LOOKS, while anything around it moves, fades, loads or changes:
//
//  - the document changed, was typed into or scrolled within the last RECENT, or is being
//    parsed; a control that is not ready may also wait for a page that loaded just now;
//  - an animation or transition that ends runs somewhere, or one that does not end moves
//    the element or its cover; a picture in either of them loads;
//  - the element or its cover has another place, size or opacity than at the look before.
//
// While a view transition runs, the page shows pictures of itself that take no presses. It is
// waited out, as long as the call has time.
//
// A cover that stays is named at once when nothing moves.

const LOOKS = 1000, RECENT = 1000; // milliseconds

// inTheWay: refusal -> {el, cover} where what it says may pass.
const inTheWay = new WeakMap();
const passing = (no, el, cover) => { inTheWay.set(no, {el, cover}); return no; };

const disabled = el => passing(fail('element_disabled', `${describe(el)} is disabled.`), el);

let stirred = -Infinity; // when something last changed
let looking = 0;          // looks that scroll, whose scrolling is no change
const observed = new WeakSet();
const stir = e => { if (e.type !== 'scroll' || !looking) stirred = performance.now(); };

// placeOf is where a record's change is. Those that a page makes in turns, as the dots of a
// spinner, are one place.
const placeOf = r => ({node: r.type === 'childList' ? r.target : r.target.parentNode || r.target, what: r.attributeName || r.type});

// beats: node -> what -> {n, last, gap} of changes while no action was watched: how many, the
// latest, and the shortest time between two.
const beats = new WeakMap();

const stirring = new MutationObserver(records => {
  const now = stirred = performance.now();
  if (current) return;
  const seen = new Set();
  for (const r of records) {
    const {node, what} = placeOf(r);
    let all = beats.get(node);
    if (!all) beats.set(node, all = new Map());
    let b = all.get(what);
    if (!b) all.set(what, b = {n: 0, last: -Infinity, gap: Infinity});
    if (seen.has(b)) continue;
    seen.add(b);
    b.gap = Math.min(b.gap, Math.max(now - b.last, 1));
    b.n++;
    b.last = now;
    if (seen.size > 50) break;
  }
});

// beating reports that a place changes again and again by itself, as a clock does.
function beating(node, what) {
  const b = beats.get(node)?.get(what);
  return !!b && b.n >= 3 && performance.now() - b.last < 2.5 * b.gap + 50;
}

// heed has changes below a document or shadow root told. That costs a page that is at rest
// nothing.
function heed(root) {
  if (observed.has(root)) return;
  observed.add(root);
  stirring.observe(root, {subtree: true, childList: true, characterData: true, attributes: true});
  for (const type of ['input', 'change', 'scroll', 'toggle', 'load', 'transitionrun', 'transitionend', 'animationstart', 'animationend']) root.addEventListener(type, stir, {capture: true, passive: true});
}
heed(document);

// rootsOf lists the document and the shadow roots that an element is in.
function rootsOf(el) {
  const roots = [el.ownerDocument];
  for (let r = el.getRootNode(); isShadow(r); r = r.host.getRootNode()) roots.push(r);
  return roots;
}

// shape is what shows that an element moves or fades.
function shape(el) {
  if (!el) return '';
  const r = el.getBoundingClientRect();
  let seen = 1;
  for (let x = el; x?.nodeType === 1; x = above(x)) seen *= Number(getComputedStyle(x).opacity);
  return [r.left, r.top, r.width, r.height, seen].join();
}

// loadedJustNow: what a page makes ready by script after it was loaded may not be yet.
function loadedJustNow() {
  const t = performance.getEntriesByType('navigation')[0];
  return !!t && performance.now() - Math.max(t.loadEventEnd, t.domContentLoadedEventEnd) < RECENT;
}

// unsettled reports whether anything around an element, or what covers it, is on the move.
function unsettled({el, cover}) {
  if (performance.now() - stirred < RECENT || document.readyState === 'loading' || !cover && loadedJustNow()) return true;
  const both = [el, cover].filter(Boolean);
  if (both.some(x => [...x.querySelectorAll('img')].some(i => i.loading !== 'lazy' && !i.complete))) return true;
  return el.ownerDocument.getAnimations().some(a => {
    if (a.playState !== 'running' || !a.effect) return false;
    const {target} = a.effect;
    return isFinite(a.effect.getComputedTiming().endTime) || both.some(x => target?.contains(x) || x.contains(target));
  });
}

// transits reports whether a view transition of a document runs: it stands before all of it.
function transits(doc) {
  return !!doc.activeViewTransition || doc.getAnimations().some(a => a.playState === 'running' && /^::view-transition/.test(a.effect?.pseudoElement || ''));
}

// lastOf gives until when a view transition is waited out. In a frame the question itself has
// less time.
const lastOf = o => window.parent === window && o.within ? performance.now() + o.within : 0;

// transited waits until no view transition of this document runs.
async function transited(o) {
  for (const last = lastOf(o); performance.now() < last && transits(document); ) await frame(window);
}

// patiently asks look, which has no effect where it refuses, until it does not, or what it
// refuses for will not pass. Its first look and its last are whole ones; those between, told
// by their argument, leave the page as it lies.
async function patiently(look, last = 0, end = performance.now() + LOOKS) {
  let answer, before;
  looking++;
  try {
    answer = await look(false);
    if (inTheWay.has(answer)) await frame(window);
  } finally { looking--; }
  for (let about; (about = inTheWay.get(answer)); answer = await look(true)) {
    for (const root of rootsOf(about.el)) heed(root);
    const now = shape(about.el) + ' ' + shape(about.cover);
    const over = performance.now(), transit = over < last && transits(about.el.ownerDocument);
    if (!transit && (over >= end || before === now && !unsettled(about))) return before === undefined ? answer : look(false);
    before = now;
    await frame(window);
  }
  return answer;
}

