// ---- frames -----------------------------------------------------------------------

// Documents of frames that this one may read belong to it. The others (foreign
// ones) have a page script of their own; here they are known by their owner
// element and the identifier that Chrome gives the frame (see frames.go).
const frameOf = new WeakMap();   // owner element -> identifier
const ownerOf = new Map();       // identifier -> WeakRef of the owner element
let strangers = [];              // owners whose identifier is not known yet
let prefix = '';                 // of the refs given in this document

const isFrame = el => el.tagName === 'IFRAME' || el.tagName === 'FRAME' || (el.tagName === 'OBJECT' && !!el.contentWindow);

function frameDocument(el) {
  try {
    const doc = el.contentDocument;
    // New to us? The window tells; its document may have been met before, by an element of it.
    if (doc && el.contentWindow.EventTarget.prototype.addEventListener === undefined) rename(el.contentWindow);
    return doc;
  } catch { return null; }
}

// isBlank: the frame still has the empty document that it began with, or nothing of the one
// that it leads to.
function isBlank(el, doc) {
  if (doc.body?.hasChildNodes()) return false;
  if (doc.URL !== 'about:blank') return doc.readyState === 'loading';
  return el.hasAttribute('srcdoc') || /^(?!about:|javascript:)./i.test(el.src || el.data || '');
}

// blank are those that the outline shows, which begins with none.
let blank = [];

// arrivals: owner -> the address whose document was waited for, so that one which never comes
// is waited for once.
const arrivals = new WeakMap();
const ARRIVES = 1500; // milliseconds

// arrived waits until frames that are on their way show a document, and reports whether one
// does now.
async function arrived(list) {
  const comes = list.filter(el => arrivals.get(el) !== el.src && (el.loading !== 'lazy' || inView(el)));
  const still = () => comes.filter(el => { const doc = attached(el) && frameDocument(el); return doc && isBlank(el, doc); });
  let left = comes;
  for (const end = performance.now() + ARRIVES; left.length && performance.now() < end; left = still()) await frame(window);
  for (const el of left) arrivals.set(el, el.src);
  return left.length < comes.length;
}

const inView = el => { const r = el.getBoundingClientRect(), win = el.ownerDocument.defaultView; return r.bottom > 0 && r.right > 0 && r.top < win.innerHeight && r.left < win.innerWidth; };

const isForeign = el => !!el.contentWindow && !frameDocument(el);

// join tells this document which prefix its refs have. One that came back from
// history has one already.
function join(given) {
  if (!prefix) prefix = given;
  return prefix;
}

// slot gives the identifier of a foreign frame, '' for one that has to be asked for.
function slot(el) {
  const id = frameOf.get(el) || '';
  if (!id) strangers.push(el);
  return id;
}

const strangerAt = i => strangers[i];

function own(el, id) {
  frameOf.set(el, id);
  ownerOf.set(id, new WeakRef(el));
}

// foreignFrames lists all shown foreign frames.
function foreignFrames() {
  strangers = [];
  const slots = [];
  everyRoot(document, root => { for (const el of root.querySelectorAll('iframe, frame, object')) if (isFrame(el) && isForeign(el) && el.checkVisibility()) slots.push(slot(el)); });
  return {slots, strangers: strangers.length};
}

// outward gives the map from the viewport of an owner's frame to the viewport that
// the owner itself is in. The middle of an element's bounding box is the middle of
// the element under every affine transform; around it the linear parts of all
// transforms apply, and the zoom.
function outward(owner) {
  const r = owner.getBoundingClientRect();
  const style = getComputedStyle(owner);
  const left = parseFloat(style.paddingLeft) + owner.clientLeft, top = parseFloat(style.paddingTop) + owner.clientTop;
  const zoom = owner.currentCSSZoom || 1;
  let linear = new DOMMatrix([zoom, 0, 0, zoom, 0, 0]), plain = zoom === 1;
  const apply = m => { linear = new DOMMatrix([m.a, m.b, m.c, m.d, 0, 0]).multiply(linear); plain = false; };
  for (let x = owner; x && x.nodeType === 1; x = above(x)) {
    const s = x === owner ? style : getComputedStyle(x);
    if (s.transform !== 'none') apply(new DOMMatrix(s.transform));
    if (s.scale && s.scale !== 'none') { const [a, b] = s.scale.split(' ').map(Number); apply({a, b: 0, c: 0, d: b ?? a}); }
    if (s.rotate && s.rotate !== 'none' && !s.rotate.includes(' ')) apply(new DOMMatrix().rotate(parseFloat(s.rotate)));
  }
  if (plain) return new DOMMatrix([1, 0, 0, 1, r.left + left, r.top + top]);
  return new DOMMatrix([1, 0, 0, 1, r.left + r.width / 2, r.top + r.height / 2]).multiply(linear).translate(left - owner.offsetWidth / 2, top - owner.offsetHeight / 2);
}

const through = (m, x, y) => ({x: m.a * x + m.c * y + m.e, y: m.b * x + m.d * y + m.f});

// toRoot maps a point of el's viewport to that of this script's own window.
function toRoot(doc, x, y) {
  for (let win = doc.defaultView; win && win !== window; ) {
    const owner = win.frameElement;
    if (!owner) break;
    ({x, y} = through(outward(owner), x, y));
    win = owner.ownerDocument.defaultView;
  }
  return {x, y};
}

// boxOf gives an element's box in the viewport of this script's own window.
function boxOf(el) {
  const r = el.getBoundingClientRect();
  if (el.ownerDocument === document) return {x: r.left, y: r.top, width: r.width, height: r.height};
  const a = toRoot(el.ownerDocument, r.left, r.top), b = toRoot(el.ownerDocument, r.right, r.bottom);
  return {x: Math.min(a.x, b.x), y: Math.min(a.y, b.y), width: Math.abs(a.x - b.x), height: Math.abs(a.y - b.y)};
}

// placeOfFrames gives the maps of foreign frames to this script's window, and the
// owners' boxes there.
function placeOfFrames(o) {
  const maps = {};
  for (const id of o.frames) {
    const owner = ownerOf.get(id)?.deref();
    if (!attached(owner)) continue;
    const m = outward(owner);
    const a = toRoot(owner.ownerDocument, m.e, m.f), b = toRoot(owner.ownerDocument, m.a + m.e, m.b + m.f), c = toRoot(owner.ownerDocument, m.c + m.e, m.d + m.f);
    const box = boxOf(owner);
    maps[id] = {map: [b.x - a.x, b.y - a.y, c.x - a.x, c.y - a.y, a.x, a.y], box: [box.x, box.y, box.width, box.height]};
  }
  return {maps};
}

// lift brings a point of a foreign frame's viewport into view here, and gives it in
// the viewport of this script's own window. It refuses what is covered.
const lift = o => patiently(() => liftNow(o), lastOf(o));

async function liftNow(o) {
  const owner = ownerOf.get(o.frame)?.deref();
  if (!attached(owner)) return fail('stale_ref', 'The frame of the element is gone from the page.');
  if (!owner.checkVisibility({visibilityProperty: true})) return passing(fail('element_not_found', 'The frame of the element is not visible.'), owner);
  if (!o.rect) await still(owner);
  if (o.moved) await settled(owner); // the scrolling of a frame goes on in those around it
  for (let moved = false; ; moved = true) {
    const p = through(outward(owner), o.x, o.y);
    if (o.rect) {
      const a = toRoot(owner.ownerDocument, p.x, p.y), q = through(outward(owner), o.x + o.width, o.y + o.height), b = toRoot(owner.ownerDocument, q.x, q.y);
      return {x: Math.min(a.x, b.x), y: Math.min(a.y, b.y), width: Math.abs(a.x - b.x), height: Math.abs(a.y - b.y), scroll_x: scrollX, scroll_y: scrollY};
    }
    const hit = deepest(owner.ownerDocument, p.x, p.y);
    const at = hit === owner ? toTop(owner, p.x, p.y) : {out: true, cover: hit};
    if (!at.out) {
      return {x: at.x, y: at.y, scroll_x: scrollX, scroll_y: scrollY, moved};
    }
    if (moved && at.cover) return passing(fail('element_obscured', `The frame of the element is covered by ${describe(at.cover)}.`), owner, at.cover);
    if (moved) return fail('element_not_found', 'The element has no part in view that could be hit.');
    bring(owner, o.x, o.y, !!at.cover);
  }
}

// settled waits until a frame has been in its place for two frames' time, at most a
// third of a second.
async function settled(owner) {
  const where = () => { const r = boxOf(owner); return [r.x, r.y].join(); };
  for (let last = '', same = 0, n = 0; same < 2 && n < 20; n++) {
    const now = where();
    same = now === last ? same + 1 : 0;
    last = now;
    if (same < 2) await frame(window);
  }
}

// pointed tells whether the pointer's moves arrive in the window of the element that
// was aimed at, within a short time.
function pointed(o) {
  const win = current?.el?.ownerDocument?.defaultView || window;
  return new Promise(done => {
    const end = yes => { stop(); win.removeEventListener('pointermove', arrived, true); done({arrived: yes}); };
    const arrived = e => { if (e.isTrusted) end(true); };
    const stop = later(() => end(false), o.wait);
    win.addEventListener('pointermove', arrived, true);
  });
}

// frameAt gives the foreign frame at a point, and the point in the frame's viewport.
function frameAt(o) {
  strangers = [];
  const {el, x, y} = at(o.x, o.y);
  if (!el || !isFrame(el) || !isForeign(el)) return {slots: []};
  const p = through(outward(el).inverse(), x, y);
  return {slots: [slot(el)], strangers: strangers.length, x: p.x, y: p.y};
}

// frameFocused gives the foreign frame that has the focus.
function frameFocused() {
  strangers = [];
  const el = focused();
  return isFrame(el) && isForeign(el) ? {slots: [slot(el)], strangers: strangers.length} : {slots: []};
}

// bring scrolls everything around a frame so that a point of the frame's viewport
// comes into view; away from the edges if it is covered there.
function bring(owner, x, y, covered) {
  const chain = [];
  for (let el = owner; el; el = el.ownerDocument.defaultView === window ? null : el.ownerDocument.defaultView.frameElement) {
    chain.push(el);
    const point = () => chain.reduce((p, e) => through(outward(e), p.x, p.y), {x, y});
    for (let box = above(el); box; box = above(box)) {
      const root = box === box.ownerDocument.scrollingElement;
      const s = getComputedStyle(box);
      if (!root && !/auto|scroll|hidden/.test(s.overflowX + s.overflowY)) continue;
      const win = box.ownerDocument.defaultView;
      const r = root ? {left: 0, top: 0, right: win.innerWidth, bottom: win.innerHeight} : box.getBoundingClientRect();
      const p = point();
      const left = covered || p.x < r.left + 1 || p.x > r.right - 1 ? p.x - (r.left + r.right) / 2 : 0;
      const top = covered || p.y < r.top + 1 || p.y > r.bottom - 1 ? p.y - (r.top + r.bottom) / 2 : 0;
      if (left || top) (root ? win : box).scrollBy({left, top, behavior: 'instant'});
    }
  }
}
