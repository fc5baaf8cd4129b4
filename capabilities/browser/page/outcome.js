// ---- outcome: what the input started -------------------------------------------

let current = null;

// LAST is the event that ends each kind of input; what comes after it without a
// change is a no-op.
const LAST = {down: 'mousedown', up: 'mouseup', hover: 'mousemove', wheel: 'wheel', key: 'keydown', type: 'keydown', drag: 'mouseup', drop: 'drop'};

function lastEvent(o) {
  if (LAST[o.kind]) return LAST[o.kind];
  return o.button === 'right' ? 'contextmenu' : o.button === 'middle' ? 'auxclick' : o.count === 2 ? 'dblclick' : 'click';
}

// INPUT are the events of the input's own tasks. What changes while one is handled is
// the input's doing. A listener for the wheel costs a frame: only those who turn it have one.
const INPUT = ('pointerover pointermove mouseover mousemove pointerdown mousedown pointerup mouseup click auxclick dblclick contextmenu ' +
  'keydown keypress keyup beforeinput input change focusin focus focusout blur submit reset').split(' ');
const DRAGS = ['dragstart', 'dragenter', 'dragover', 'dragleave', 'drop', 'dragend'];

// What changes later may be the page's own doing: a clock, a spinner. It is if the same
// place changes in the same way once more within AGAIN, in milliseconds, and a frame, or did
// so in a beat before, while no action was watched (passing.js).
const AGAIN = 60;

// watch arms observers before the input: the first evidence of what it started
// resolves the outcome.
function watch(el, o) {
  if (current) current.stop();
  following?.stop();
  following = null;
  const win = el.ownerDocument.defaultView;
  /** @type {Record<string, any>} */
  const w = current = {el, kind: o.kind, data: o.data, found: null, pressed: false, missed: false, event: null, drag: null, navigates: false, at: 0, waiters: [], handles: null, later: []};
  const stops = [];
  const on = (target, type, f, capture = true) => {
    target.addEventListener(type, f, {capture, passive: type === 'wheel'});
    stops.push(() => target.removeEventListener(type, f, {capture}));
  };
  w.stop = () => { for (const s of stops) try { s(); } catch { /* the frame shows another site by now */ } w.settle(); };
  const wake = () => { for (const f of w.waiters.splice(0)) f(); };
  w.settle = wake;
  w.evidence = what => {
    if (!w.pressed) w.early = w.early || what;
    if (w.found || !w.pressed) return;
    w.found = what;
    wake();
  };
  for (const type of o.kind === 'drag' || o.kind === 'drop' ? [...INPUT, ...DRAGS] : o.kind === 'wheel' ? [...INPUT, 'wheel'] : INPUT) on(win, type, e => { if (e.isTrusted) w.handles = e; });
  const seen = e => { w.pressed = true; w.event = e; w.hit = hitOf(e); w.at = performance.now(); wake(); };
  const through = e => { const path = e.composedPath(); const hit = hitOf(e); return o.point || path.includes(el) || (hit?.nodeType === 1 && within(el, hit)); };
  const keys = o.kind === 'key' || o.kind === 'type';
  if (keys) {
    // Armed by the key; typing itself is verified by the field's value.
    on(win, 'keyup', e => { if (e.isTrusted && w.event) w.at = performance.now(); });
    on(win, 'keydown', e => { if (e.isTrusted && !w.event && (o.kind === 'key' || e.key === 'Enter')) seen(e); });
  } else if (o.kind === 'drop') {
    on(win, 'dragover', e => { if (e.isTrusted) { w.over = e; w.overHit = hitOf(e); w.pressed = true; } });
    on(win, 'drop', e => { if (e.isTrusted) { seen(e); w.evidence('drop'); } });
  } else if (o.kind === 'hover' || o.kind === 'wheel') {
    // The pointer's coming already starts things.
    for (const type of ['pointerover', 'pointermove']) on(win, type, e => { if (e.isTrusted && through(e)) w.pressed = true; });
    on(win, lastEvent(o), e => { if (!e.isTrusted || w.event) return; if (through(e)) seen(e); else if (o.kind === 'hover') { w.missed = true; wake(); } });
  } else {
    // The press must reach the element. If the page moved it away meanwhile, the
    // event is swallowed and the click is aimed anew: nothing else gets clicked.
    const first = o.kind === 'up' ? 'pointerup' : 'pointerdown';
    const guard = e => {
      w.pointed = true;
      if (!e.isTrusted || w.event) return;
      if (e.type === first) {
        w.missed = !through(e) && o.kind !== 'up';
        w.pressed = !w.missed;
      }
      if (w.missed) { e.preventDefault(); e.stopImmediatePropagation(); if (e.type === 'mouseup' || e.type === 'click' || (e.type === 'mousedown' && o.kind === 'down')) wake(); }
    };
    for (const type of ['pointerdown', 'mousedown', 'pointerup', 'mouseup']) on(win, type, guard);
    if (o.kind === 'drag') {
      on(win, 'dragstart', e => { if (e.isTrusted) w.drag = e; });
      on(win, 'dragend', e => { if (e.isTrusted) seen(e); });
      on(win, 'drop', e => { if (e.isTrusted) w.evidence('drop'); });
      w.stayed = stays(el, stops);
    }
    on(win, lastEvent(o), e => {
      if (!e.isTrusted || !w.pressed || w.event || (o.count === 3 && e.detail !== 3)) return;
      seen(e);
      const picks = x => x?.tagName === 'INPUT' && x.type === 'file' && !isDisabled(x);
      w.chooses = o.kind === 'click' && o.button === 'left' && e.composedPath().some(x => picks(x) || (x.tagName === 'LABEL' && picks(x.control)));
      const link = o.kind === 'click' && e.composedPath().find(x => x.tagName === 'A' && x.href);
      if (link && o.button === 'left') {
        const here = el.ownerDocument.location.href.split('#')[0];
        const leaves = link.href.split('#')[0] !== here && (!link.target || link.target === '_self');
        w.navigates = link.hasAttribute('download') || (/^https?:/.test(link.href) && (leaves || !/^(_self|_parent|_top)?$/i.test(link.target)));
      }
    });
  }
  // An address of another program makes Chrome ask the person, in a window of its own
  // that no tool reaches and that takes the tab's input: the page does not get there.
  for (const n of new Set([win.navigation, window.navigation])) if (n) on(n, 'navigate', e => {
    if (/^(https?|about|blob|data|javascript|file|filesystem|chrome|chrome-extension|devtools|view-source):/.test(e.destination.url) || !e.cancelable) return;
    e.preventDefault();
    w.outside = true;
    w.evidence('program');
  });
  const href = location.href;
  const roots = new Set([document, el.ownerDocument]);
  for (let r = el.getRootNode(); isShadow(r); r = r.host.getRootNode()) roots.add(r);
  const look = records => {
    const now = new Set();
    for (const r of records) {
      if (r.type === 'attributes' && r.target.getAttribute(r.attributeName) === r.oldValue) continue;
      if (w.handles?.eventPhase) { w.evidence('change'); return; }
      const {node, what} = placeOf(r);
      let c = w.later.find(x => x.node === node && x.what === what);
      if (c) c.again = c.again || !now.has(c);
      else if (w.closed) {
        w.beyond = w.beyond || !beating(node, what);
        continue;
      } else if (w.later.length > 200) continue;
      else {
        const again = beating(node, what);
        w.later.push(c = {node, what, at: performance.now(), before: again || !w.pressed, again});
        wake();
      }
      now.add(c);
      if (now.size > 50) break;
    }
  };
  const observer = new MutationObserver(look);
  for (const r of roots) heed(r);
  for (const r of roots) observer.observe(r, {subtree: true, childList: true, characterData: true, attributes: true, attributeOldValue: true});
  stops.push(() => { look(observer.takeRecords()); observer.disconnect(); });
  on(win, 'input', () => w.evidence('value'));
  if (o.kind !== 'type') on(win, 'change', () => w.evidence('value')); // Enter commits the field anyway
  if (o.kind === 'key' || o.kind === 'drag' && o.point) on(el.ownerDocument, 'selectionchange', () => w.evidence('selection'));
  if (o.kind === 'key') for (const type of ['copy', 'cut', 'paste']) on(win, type, e => {
    if (type !== 'paste' && e.isTrusted) w.copied = selectedText().slice(0, 1 << 20);
    w.evidence(type === 'paste' ? 'paste' : 'copy');
  });
  on(win, 'submit', e => { if (w.pressed) { w.submitted = e; w.sends = sends(e.composedPath()[0], e.submitter, el.baseURI); w.evidence('submit'); } });
  on(win, 'invalid', () => w.evidence('invalid'));
  // Scrolling into view brings late scroll events; those are ours, not the click's.
  const places = new Map();
  w.ours = from => {
    for (let x = from; x; x = above(x) || x.ownerDocument.defaultView?.frameElement) {
      places.set(x, [x.scrollLeft, x.scrollTop].join());
      places.set(x.ownerDocument, [x.ownerDocument.defaultView?.scrollX, x.ownerDocument.defaultView?.scrollY].join());
    }
  };
  w.ours(el);
  on(win, 'scroll', e => {
    const x = e.target;
    const now = x.nodeType === 9 ? [x.defaultView?.scrollX, x.defaultView?.scrollY].join() : [x.scrollLeft, x.scrollTop].join();
    if (places.get(x) !== now) w.evidence('scroll');
  });
  on(win, 'play', () => w.evidence('play'));
  on(win, 'pause', () => w.evidence('pause'));
  on(win, 'toggle', () => w.evidence('toggle'));
  on(win, 'focusin', e => {
    const x = hitOf(e);
    const takesText = x?.nodeType === 1 && (x.isContentEditable || x.editContext || x.tagName === 'TEXTAREA' || x.tagName === 'SELECT' || (x.tagName === 'INPUT' && INPUTS[x.type] !== 'button' && x.type !== 'checkbox' && x.type !== 'radio'));
    if (takesText) w.evidence('field');
    else if (!within(el, x) && !within(x, el)) w.evidence('focus');
  });
  w.address = () => location.href !== href;
  // A field that had the focus already takes the caret; that is what such a click is for.
  w.held = () => { if (keys || o.kind === 'drag') return false; const a = el.getRootNode().activeElement; return a === el && (el.isContentEditable || el.tagName === 'TEXTAREA' || (el.tagName === 'INPUT' && TEXT_INPUTS.has(el.type))); };
}

// SCROLLS are keys that may scroll, which starts smoothly, some frames later.
const SCROLLS = /^(Page(Up|Down)|Arrow\w+|Home|End| )$/;

// sends reports whether a form that is submitted goes to a server: not one that
// closes its dialog, or runs a script.
function sends(form, by, base) {
  const says = (el, name) => Element.prototype.getAttribute.call(el, name); // a form's fields may take its properties' names
  const said = name => (by && says(by, 'form' + name)) ?? says(form, name) ?? '';
  if (said('method').toLowerCase() === 'dialog') return false;
  try { return /^https?:/.test(new URL(said('action'), base).href); } catch { return false; }
}

// drawnOn reports whether what got the event is a canvas, or shows one there.
function drawnOn(hit, e) {
  if (!hit?.tagName || /^(BODY|HTML)$/.test(hit.tagName)) return false;
  const there = ({left, top, right, bottom}) => e.clientX === undefined || (e.clientX >= left && e.clientX < right && e.clientY >= top && e.clientY < bottom);
  return hit.tagName === 'CANVAS' || [...hit.querySelectorAll('canvas')].some(c => there(c.getBoundingClientRect()));
}

// outcome resolves at the first evidence, or some time after an event that
// changed nothing.
async function outcome(o) {
  const w = current;
  if (!w) return {found: '', missed: false, seen: false, handled: false, navigates: false};
  const until = ms => new Promise(done => { const stop = later(done, ms); w.waiters.push(() => { stop(); done(); }); });
  const stop = performance.now() + o.wait;
  const quiet = () => w.swallowed || w.kind === 'hover' ? 0 : w.kind === 'wheel' || SCROLLS.test(w.event?.key) ? Math.max(o.quiet, 150) : o.quiet;
  while (!w.event && !w.missed && !w.found && performance.now() < stop) await until(stop - performance.now());
  // A timer of the page's that is due before ours has run by then, however late both are.
  while (w.event && !w.found) {
    const now = performance.now(), left = w.at + quiet() - now;
    w.closed = left <= 0;
    const lone = w.kind !== 'hover' && w.later.find(c => !c.again && !c.before && c.node.isConnected);
    if (!lone && w.closed) break;
    if (lone) lone.end ||= Math.max(lone.at + AGAIN, now + 1);
    if (!lone) await until(left);
    else if (now < lone.end) await until(lone.end - now);
    else if (!lone.framed) lone.framed = await frame(window, 1000) || true;
    else w.found = 'change';
  }
  // Let the task that brought the evidence finish: what it does next belongs to it.
  if (w.event ? w.event.eventPhase !== 0 : w.found) await new Promise(done => { const c = new MessageChannel(); c.port1.onmessage = () => { c.port1.close(); done(); }; c.port2.postMessage(0); });
  if (!w.found && w.pressed && w.address()) w.found = 'address';
  if (!w.found && w.event && w.held()) w.found = 'field';
  if (!w.found && w.event && w.kind === 'hover') w.found = 'over';
  const result = {
    found: w.found || '', missed: w.missed, seen: !!w.event, ms: w.at ? Math.round(performance.now() - w.at) : 0,
    ticks: w.later.some(c => c.again), ticked: w.later.every(c => c.before || !c.again),
    outside: !!w.outside, chooses: !!w.chooses && !w.event.defaultPrevented, canvas: !!w.event && drawnOn(w.hit || w.el, w.event), handled: !!w.event && w.event.defaultPrevented, copied: w.copied || '',
    stayed: !!w.stayed?.() && !w.drag && (!w.found || w.found === 'change'),
    navigates: (w.navigates && !!w.event && !w.event.defaultPrevented) || (!!w.submitted && !w.submitted.defaultPrevented && w.sends),
  };
  if (w.kind === 'key' && window.top === window && /^https?:/.test(location.href)) result.place = {url: location.href.slice(0, 40000), title: document.title.slice(0, 5000)};
  if (current === w) { w.stop(); heedAfter(w); current = null; }
  return result;
}

// follow heeds what changes from now on, beside what the input changed already; what changes
// again and again by itself is left out. An input in this document is followed from its outcome
// on, however late the question comes. followed tells, and ends it.
let following = null;
function follow(o) {
  if (current || !o.own || !following) heedAfter(current);
  return {};
}
function heedAfter(w) {
  following?.stop();
  /** @type {Record<string, any>} */
  const f = following = {changed: !!w && (w.found === 'change' || !!w.beyond || w.later.some(c => !c.before && !c.again))};
  f.look = records => {
    for (const r of records) {
      if (r.type === 'attributes' && r.target.getAttribute(r.attributeName) === r.oldValue) continue;
      const {node, what} = placeOf(r);
      if (!beating(node, what)) { f.changed = true; return; }
    }
  };
  const observer = new MutationObserver(f.look);
  observer.observe(document, {subtree: true, childList: true, characterData: true, attributes: true, attributeOldValue: true});
  f.stop = () => { f.look(observer.takeRecords()); observer.disconnect(); };
}
function followed() {
  const f = following;
  following = null;
  f?.stop();
  return {changed: !!f?.changed};
}

// swallowed ends the wait for an event that the page had by now, but that did not
// get here: something stopped it before, or a disabled control never sends it.
function swallowed() {
  const w = current;
  if (!w || w.event || w.missed || w.found || w.kind === 'wheel') return; // a wheel's turn is acknowledged before the page has it
  w.pressed = true;
  w.found = w.early || null;
  w.event = {eventPhase: 0, defaultPrevented: !w.pointed};
  w.at = performance.now();
  w.swallowed = true;
  for (const c of w.later) c.before = false;
  w.settle();
}

// selectedText gives what a copy would take.
function selectedText() {
  const el = focused();
  if ((el.tagName === 'INPUT' || el.tagName === 'TEXTAREA') && typeof el.selectionStart === 'number') return isSecret(el) ? '' : el.value.slice(el.selectionStart, el.selectionEnd);
  return String(el.ownerDocument.defaultView.getSelection());
}

// setClipboard puts a text there by a copy of our own, which the page's listeners
// do not get to see.
function setClipboard(text) {
  let done = false;
  const copy = e => {
    e.preventDefault();
    e.stopImmediatePropagation();
    e.clipboardData.setData('text/plain', text);
    done = true;
  };
  const may = e => { e.preventDefault(); e.stopImmediatePropagation(); };
  window.addEventListener('beforecopy', may, true);
  window.addEventListener('copy', copy, true);
  document.execCommand('copy');
  window.removeEventListener('beforecopy', may, true);
  window.removeEventListener('copy', copy, true);
  return done;
}

// stays watches what is dragged: the function that it gives tells whether all that changed
// is how that itself is marked, as lists do that then waited for the pointer to rest.
function stays(el, stops) {
  const place = () => { const r = el.getBoundingClientRect(); return [r.left, r.top, r.width, r.height].map(Math.round).join(); };
  const was = place();
  let alone = true;
  const look = records => { if (records.some(r => r.type !== 'attributes' || !el.contains(r.target))) alone = false; };
  const observer = new MutationObserver(look);
  for (const root of rootsOf(el)) observer.observe(root, {subtree: true, childList: true, characterData: true, attributes: true});
  stops.push(() => observer.disconnect());
  return () => { look(observer.takeRecords()); return alone && el.isConnected && place() === was; };
}

// dragging tells whether the page began a drag of its own, and let it be.
function dragging() {
  return {started: !!current?.drag, refused: !!current?.drag?.defaultPrevented};
}

// comeToRest waits until nothing around a drag moves or changes: lists do not hear of it
// while they make room.
async function comeToRest(o) {
  let changed = true;
  const observer = new MutationObserver(() => { changed = true; });
  observer.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
  const moves = () => document.getAnimations().some(a => a.playState === 'running' && Number(a.effect?.getComputedTiming().endTime) < 2000);
  let quiet = 0;
  for (const stop = performance.now() + 800; performance.now() < stop && quiet < 3; ) {
    quiet = changed || moves() ? 0 : quiet + 1;
    changed = false;
    await frame(window);
  }
  observer.disconnect();
  const there = o.x !== undefined && at(o.x, o.y).el;
  return {own: !!there && !!current && within(current.el, there)}; // what is dragged took that place already
}

// unselect takes back what a drag that began nothing selected on its way.
function unselect() {
  const {activeElement: a} = document;
  if (!a?.isContentEditable && a?.tagName !== 'INPUT' && a?.tagName !== 'TEXTAREA') getSelection()?.removeAllRanges();
  return {};
}
