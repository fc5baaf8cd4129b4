// ---- aim: everything before the input, in one trip ----------------------------

// deepest gives the element shown at a point, through shadow roots.
function deepest(doc, x, y) {
  let el = doc.elementFromPoint(x, y);
  for (let root; el && (root = rootOf(el)); ) {
    const inner = root.elementFromPoint(x, y);
    if (!inner || inner === el) break;
    el = inner;
  }
  return el;
}

// Not instanceof: frames have their own classes.
const isShadow = root => root.nodeType === 11 && !!root.host;

const above = el => el.assignedSlot || slotOf(el) || el.parentElement || (isShadow(el.getRootNode()) ? el.getRootNode().host : null);

// within reports whether hit is el or inside it, or the label that stands for it.
function within(el, hit) {
  const label = el.tagName === 'LABEL' ? el : null;
  for (let x = hit; x; x = above(x)) {
    if (x === el) return true;
    if (x.tagName === 'LABEL' && x.control === el) return true;
    if (label && label.control === x) return true;
  }
  return false;
}

function describe(el) {
  const role = roleOf(el);
  const id = el.id ? '#' + el.id : '';
  const cls = typeof el.className === 'string' && el.className ? '.' + el.className.trim().split(/\s+/).slice(0, 2).join('.') : '';
  const all = el.tagName === 'BODY' || el.tagName === 'HTML'; // what they hold is the page
  const name = all ? '' : role ? cut(nameOf(el, role), 60) : cut(textOf(el, 60), 60);
  return cut(`<${el.tagName.toLowerCase()}${id}${cls}>`, 80) + (name ? ' ' + quote(name) : '');
}

// toTop gives a point of el's own viewport in that of the top document, and the
// element that covers a frame on the way; out says that the point is not in view.
function toTop(el, x, y) {
  let win = el.ownerDocument.defaultView;
  while (win && win !== window) {
    const frame = win.frameElement;
    if (!frame) break;
    ({x, y} = through(outward(frame), x, y));
    const hit = deepest(frame.ownerDocument, x, y);
    if (hit !== frame) return {x, y, cover: hit, out: true};
    win = frame.ownerDocument.defaultView;
  }
  return {x, y};
}

// boxes gives where an element is shown: its own boxes; of an image map's area, its
// part of the image; of what has no size, the boxes of what is in it.
function boxes(el, deep = 0) {
  if (el.tagName === 'AREA') {
    const img = imageOf(el);
    if (!img) return [];
    const r = img.getBoundingClientRect();
    const c = el.coords.split(',').map(Number);
    let [l, t, R, b] = [0, 0, r.width, r.height];
    if (el.shape === 'circle' || el.shape === 'circ') [l, t, R, b] = [c[0] - c[2] / 2, c[1] - c[2] / 2, c[0] + c[2] / 2, c[1] + c[2] / 2];
    else if (el.shape !== 'default' && c.length >= 4) {
      const xs = c.filter((_, i) => i % 2 === 0), ys = c.filter((_, i) => i % 2 === 1);
      [l, t, R, b] = [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
    }
    return [new DOMRect(r.left + l, r.top + t, R - l, b - t)];
  }
  const own = [...el.getClientRects()];
  if (deep > 4 || own.some(r => r.width >= 1 && r.height >= 1)) return own;
  return [...own, ...[...el.children].slice(0, 20).flatMap(k => boxes(k, deep + 1))];
}

// points lists where an element can be hit: the middle first.
function points(el, position) {
  if (position) {
    const r = el.getBoundingClientRect();
    return [[r.left + position.x, r.top + position.y]];
  }
  const list = [];
  const win = el.ownerDocument.defaultView;
  for (const r of boxes(el)) {
    if (r.width < 1 || r.height < 1) continue;
    // Of a large element, the part in view.
    const l = Math.max(r.left, 0), t = Math.max(r.top, 0), R = Math.min(r.right, win.innerWidth), B = Math.min(r.bottom, win.innerHeight);
    if (R - l >= 1 && B - t >= 1) for (const [fx, fy] of [[.5, .5], [.25, .5], [.75, .5], [.5, .25], [.5, .75]]) list.push([l + (R - l) * fx, t + (B - t) * fy]);
    if (list.length >= 15) break;
  }
  return list;
}

// holdsControl: hit is a control of its own within el.
function holdsControl(el, hit) {
  for (let x = hit; x && x !== el; x = above(x)) if (ACTIVE.has(roleOf(x))) return true;
  return false;
}

// hitPoint finds a point where the element is what is shown; of a row, beside the controls in
// it if there is one.
function hitPoint(el, position) {
  let cover = null, inner = null;
  const row = !position && roleOf(el) === 'row';
  for (const [x, y] of points(el, position)) {
    const hit = deepest(el.ownerDocument, x, y);
    if (!hit) continue; // out of view
    if (!within(el, hit)) { cover = cover || hit; continue; }
    const top = toTop(el, x, y);
    if (!top.out && row && holdsControl(el, hit)) inner ||= top;
    else if (!top.out) return top;
    cover = cover || top.cover;
  }
  return inner || {cover};
}

// later calls f after so many milliseconds, unless what it gives is called before. Where a
// page may run no scripts (a sandboxed frame, as mail is shown in), timers never come, and
// tasks do; elsewhere timers it is, because those of the page that are due before come before.
let timed = false;
setTimeout(() => { timed = true; });

function later(f, ms) {
  const task = timed ? null : new AbortController();
  const stop = () => { clearTimeout(timer); task?.abort(); };
  const come = () => { stop(); f(); };
  const timer = setTimeout(come, ms);
  if (task) scheduler.postTask(come, {delay: ms + 20, signal: task.signal}).catch(() => {});
  return stop;
}

const frame = (win, bound = 50) => new Promise(done => { const stop = later(done, bound); win.requestAnimationFrame(() => { stop(); done(); }); });

// still waits, at most a second, until a running animation has ended moving el.
async function still(el) {
  const moving = () => el.ownerDocument.getAnimations().some(a => a.playState === 'running' && a.effect?.target?.contains?.(el));
  if (!moving()) return;
  const win = el.ownerDocument.defaultView;
  const stop = performance.now() + 1000;
  let last = '';
  while (performance.now() < stop) {
    const r = el.getBoundingClientRect();
    const now = [r.left, r.top, r.width, r.height].join();
    if (now === last) return;
    last = now;
    await frame(win);
  }
}

// painted waits until a frame's document was shown for the first time, at most half a
// second: what presses in a frame of another process are led by is what was shown of it.
let seenPaint = window.parent === window;
async function painted() {
  for (const stop = performance.now() + 500; !seenPaint;) {
    seenPaint = performance.getEntriesByType('paint').length > 0 || performance.now() > stop;
    if (!seenPaint) await frame(window);
  }
}

const TEXT_INPUTS = new Set(['text', 'search', 'email', 'tel', 'url', 'password', 'number']);
const SET_INPUTS = new Set(['date', 'time', 'month', 'week', 'datetime-local', 'color', 'range']);

// fieldOf gives the field that is meant by el: the control of a label, or the one
// field inside.
function fieldOf(el) {
  if (el.tagName === 'LABEL' && el.control) return el.control;
  if (/^(TEXTAREA|INPUT|SELECT)$/.test(el.tagName) || el.isContentEditable || el.editContext) return el;
  const inner = el.querySelectorAll('input:not([type=hidden]), textarea, select, [contenteditable]');
  return inner.length === 1 ? inner[0] : el;
}

const isDisabled = el => el.matches(':disabled') || !!el.closest('[aria-disabled=true]');
const isReadOnly = el => el.readOnly === true || el.getAttribute('aria-readonly') === 'true';

const readOnly = el => fail('element_disabled', `${describe(el)} is read-only.`, 'If it opens a picker or a list: click it, take a snapshot, and choose there.');

// byOtherWays says how to work with what looks like a field and takes no text.
const OPEN_LIST = 'Click it to open it, take a snapshot, and click the option.';
function byOtherWays(el) {
  const role = roleOf(el);
  if (el.tagName === 'SELECT') return 'Use tool.browser.select-option.';
  if (el.tagName === 'CANVAS') return 'Click the place in it where the text is to go, then call type without ref or selector.';
  if (role === 'combobox' || role === 'listbox' || el.getAttribute('aria-haspopup') === 'listbox') return OPEN_LIST;
  if (role === 'slider') return 'Give press-key its ref and ArrowRight, ArrowLeft, Home or End, with a count; or drag it.';
  return undefined;
}

// at gives the element shown at a point of the viewport, through the documents of
// frames that can be looked into; foreign says that the last one cannot.
function at(x, y) {
  let doc = document, el = null;
  for (;;) {
    const hit = deepest(doc, x, y);
    if (!hit) return {el, x, y};
    el = hit;
    if (!isFrame(el)) return {el, x, y};
    const inner = frameDocument(el);
    if (!inner) return {el, x, y, foreign: true};
    ({x, y} = through(outward(el).inverse(), x, y));
    doc = inner;
  }
}

// aimAt is aim for a point of the viewport: whatever is there is meant.
function aimAt(o) {
  if (!(o.x >= 0 && o.y >= 0 && o.x < innerWidth && o.y < innerHeight))
    return fail('invalid_arguments', `The point is outside of the viewport, which is ${innerWidth} by ${innerHeight} pixels.`,
      'Give a point inside; what is outside comes into view with tool.browser.hover and wheel_y.');
  const {el, foreign} = at(o.x, o.y);
  if (o.kind !== 'place') watch(el || document.documentElement, {...o, point: true});
  return {x: o.x, y: o.y, foreign: !!foreign};
}

// focused gives the element that has the focus, through shadow roots and
// frames that can be looked into.
function focused() {
  let a = document.activeElement;
  for (let inner; a && (inner = rootOf(a) ? rootOf(a).activeElement : isFrame(a) && frameDocument(a)?.activeElement);) a = inner;
  return a || document.body || document.documentElement;
}

// hasList: a list of proposals belongs to a field.
const hasList = el => !!el?.matches?.('input, textarea, [contenteditable]') && !!el.closest('[aria-autocomplete], [aria-haspopup=listbox], [role=combobox]');

// unhurried waits until a list that a field opens and closes has been at rest for as long as
// a person takes from one key to the next: until then libraries do not act on its keys.
const PACE = 120; // milliseconds

async function unhurried(el) {
  if (!hasList(el)) return;
  for (const end = performance.now() + 3 * PACE; performance.now() < end && performance.now() - stirred < PACE; ) await new Promise(done => later(done, PACE - (performance.now() - stirred)));
}

// aimKeys is aim for keys: they go to what has the focus, or is given it.
async function aimKeys(o) {
  let el = focused();
  if (o.ref || o.selector) {
    const f = find(o);
    if (f.error) return f;
    el = f.el;
    if (!el.checkVisibility({visibilityProperty: true})) return unseen(el);
    if (isDisabled(el)) return disabled(el);
    if (!el.contains(focused())) el.focus();
    if (!el.matches(':focus-within') && !el.shadowRoot?.activeElement) return unfocused(el);
    el = focused();
    acted = o.ref;
  }
  await unhurried(el);
  watch(el, o);
  return {x: 0, y: 0, foreign: isFrame(el) && isForeign(el)};
}

// aimFocus is aim for text that goes where the focus is: into a field as such, and as keys
// to anything else, as an editor that draws on a canvas.
function aimFocus(o) {
  const el = focused();
  if (isFrame(el) && isForeign(el)) return {x: 0, y: 0, foreign: true};
  const takes = el.tagName === 'INPUT' ? TEXT_INPUTS.has(el.type) || SET_INPUTS.has(el.type) : el.tagName === 'TEXTAREA' || el.isContentEditable || el.editContext;
  if (!takes) {
    watch(el, {...o, kind: 'key'});
    return {x: 0, y: 0, bare: true};
  }
  if (isDisabled(el)) return fail('element_disabled', `${describe(el)} is disabled.`);
  if (isReadOnly(el)) return readOnly(el);
  return {x: 0, y: 0, ...focusField(el, o, editorOf(el))};
}

// standIn gives the label in place of a box that its page hides to draw its own, and the
// editor in place of the field that catches its keys.
function standIn(el) {
  const editor = editorOf(el);
  if (editor) return editor;
  if (el.tagName !== 'INPUT' || (el.type !== 'checkbox' && el.type !== 'radio' && el.type !== 'file') || isDisabled(el)) return el;
  const r = el.getBoundingClientRect(), win = el.ownerDocument.defaultView;
  if (r.width > 1 && r.height > 1 && r.right + win.scrollX > 0 && r.bottom + win.scrollY > 0 && el.checkVisibility({visibilityProperty: true})) return el;
  return [...el.labels].find(l => l.checkVisibility({visibilityProperty: true})) || el;
}

// shellOf gives what wraps a field alone, in the place of one of which nothing can be hit: it
// has no size, or clicks pass through it to that.
function shellOf(el, cover) {
  if (!/^(INPUT|TEXTAREA)$/.test(el.tagName)) return null;
  if (cover ? getComputedStyle(el).pointerEvents !== 'none' || !within(cover, el) : points(el).length > 0) return null;
  for (let x = above(el), n = 0; x && n < 4 && !AROUND.test(x.tagName); x = above(x), n++) {
    if ([...x.querySelectorAll(CONTROLS)].some(k => k !== el && !k.contains(el) && hasBox(k))) return null;
    if (x.getBoundingClientRect().height < 200 && hitPoint(x).x !== undefined) return x;
  }
  return null;
}

const aim = o => o.x !== undefined ? transited(o).then(() => aimAt(o)) : patiently(again => aimNow(o, again), lastOf(o));

// aimNow is one look; again says that there was one before, which scrolled.
async function aimNow(o, again) {
  if (o.kind === 'key') return aimKeys(o);
  if (o.kind === 'type' && !o.ref && !o.selector) return aimFocus(o);
  if (o.kind === 'upload') return aimUpload(o);
  const f = find(o);
  if (f.error) return f;
  let el = f.el;
  if (o.kind === 'data') return aimDrop(el, o);
  if (o.kind === 'type') {
    el = fieldOf(el);
    if (el.tagName === 'INPUT' ? !TEXT_INPUTS.has(el.type) && !SET_INPUTS.has(el.type) : !(el.tagName === 'TEXTAREA' || el.isContentEditable || el.editContext))
      return fail('execution_failed', `${describe(el)} does not take text.`, byOtherWays(el));
  }
  const list = el.tagName === 'OPTION' && el.closest('select');
  if (list && !list.multiple && list.size < 2 && o.kind !== 'rect') return fail('execution_failed', `${describe(el)} belongs to a native list: use select-option on the list.`);
  if (['click', 'hover', 'wheel', 'rect'].includes(o.kind)) el = standIn(el);
  if (!(imageOf(el) || el).checkVisibility({visibilityProperty: true})) return unseen(el);
  const looks = o.kind === 'rect' || o.kind === 'hover' || o.kind === 'wheel' || o.kind === 'place';
  if (!looks && isDisabled(el)) return disabled(el);
  if (o.kind === 'type' && isReadOnly(el)) return readOnly(el);
  if (o.kind === 'rect') {
    el.scrollIntoView({block: 'nearest', inline: 'nearest', behavior: 'instant'});
    await still(el);
    const r = el.getBoundingClientRect();
    const top = toTop(el, r.left, r.top);
    return {x: top.x + window.scrollX, y: top.y + window.scrollY, width: r.width, height: r.height, scroll_x: window.scrollX, scroll_y: window.scrollY};
  }
  await still(el);
  let p = hitPoint(el, o.position);
  let moved = false;
  for (const block of again ? ['nearest'] : ['center', 'start', 'end']) {
    if (p.x !== undefined) break;
    moved = true;
    (imageOf(el) || el).scrollIntoView({block, inline: again ? 'nearest' : 'center', behavior: 'instant'});
    p = hitPoint(el, o.position);
  }
  if (p.x === undefined && o.kind === 'place') {
    // What is dragged may lie over the place where it goes.
    const [first] = points(el, o.position);
    if (first) p = toTop(el, ...first);
  }
  const shell = p.x === undefined && !o.position && /^(click|down|up|hover|wheel)$/.test(o.kind) && shellOf(el, p.cover);
  if (shell) p = hitPoint(el = shell);
  const editor = o.kind === 'type' && editorOf(el);
  if (editor && p.x === undefined) p = hitPoint(editor); // it draws over the field
  if (p.x === undefined) {
    if (p.cover && getComputedStyle(el).pointerEvents === 'none') return passing(fail('element_obscured', `${describe(el)} takes no clicks (pointer-events: none); they go to ${describe(p.cover)}.`,
      'Do first what makes it take them, or use another element.'), el);
    if (p.cover && transits(el.ownerDocument)) return passing(fail('element_obscured', `${describe(el)} is covered: a view transition of the page is running.`), el, p.cover);
    if (p.cover) return passing(fail('element_obscured', `${describe(el)} is covered by ${describe(p.cover)}.`), el, p.cover);
    return passing(fail('element_not_found', `${describe(el)} has no visible part that could be hit.`, 'Scroll or resize so that it shows, or use another element.'), el);
  }
  const out = {x: p.x, y: p.y, moved};
  if (!looks) acted = o.ref;
  if (o.kind === 'type') return {...out, ...focusField(el, o, editor)};
  await painted();
  if (o.kind !== 'place') watch(el, o);
  else if (moved && current) { current.ours(current.el); current.ours(el); } // on the way of a drag that is watched
  return out;
}
