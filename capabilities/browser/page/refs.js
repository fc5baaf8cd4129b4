// ---- refs, and finding elements --------------------------------------------------

// "e12" -> {el: WeakRef, role, name, row, part, pieces, first, last, whole}: the text of the
// row or item of a list that it stands in, with the texts that it is made of, that of one of several parts alike (rows.js), the first
// and the last outline that showed it, and whether one of them was of all of the document.
const refs = new Map();
const ids = new WeakMap();     // element -> "e12"
let next = 1;
let turn = 0;                  // the outline that is made

function refOf(el, role, name, row, whole, part, pieces) {
  let id = ids.get(el);
  if (!id) {
    id = prefix + 'e' + next++;
    ids.set(el, id);
  }
  let known = refs.get(id);
  if (known?.el.deref() !== el) refs.set(id, known = {el: new WeakRef(el), first: turn});
  Object.assign(known, {role, name, last: turn, row: row ?? known.row, part: part ?? known.part, pieces: pieces ?? known.pieces, whole: known.whole || whole});
  return id;
}

// prune forgets refs of elements that are long gone, once there are very many.
function prune() {
  if (refs.size < 20000) return;
  for (const [id, known] of refs) {
    if (refs.size < 10000) return;
    if (!attached(known.el.deref())) refs.delete(id);
  }
}

const attached = el => el && el.isConnected && el.ownerDocument.defaultView;

// everyRoot calls f with the document, every shadow root and every readable frame's
// document below it.
function everyRoot(root, f) {
  f(root);
  for (const el of root.querySelectorAll('*')) {
    const inner = rootOf(el);
    if (inner) everyRoot(inner, f);
    else if (isFrame(el)) {
      const doc = frameDocument(el);
      if (doc) everyRoot(doc, f);
    }
  }
}

// fail says no. A hint says what to do where the code's own would not.
const fail = (code, message, hint) => ({error: code, message, hint});
const NOT_CSS = 'Selectors are CSS, and CSS knows no texts: act on a ref from a snapshot, and wait for words with text.';

const unseen = el => passing(fail('element_not_found', `${describe(el)} is in the page but not visible.`,
  'Do first what shows it, such as opening its menu; a snapshot holds what is visible.'), el);

const unfocused = el => fail('execution_failed', `${describe(el)} did not take the focus.`, 'Click it first, or choose another element.');

const MAX_NAME = 200;

// shorten: what is longer than a name stands below the element, as its text.
const shorten = (name, role) => name.length <= MAX_NAME || !FROM_CONTENT.has(role) ? cut(name, MAX_NAME) : role === 'clickable' ? '' : cut(name, 80);

const shownName = (el, role) => shorten(nameOf(el, role), role);

// ours: what a ref stands for was made sure of when the action began, or is only read.
const ours = o => o.read || o.again || o.check || o.keys || o.kind === 'place' && current?.kind === 'drag';

// find resolves a ref or a selector to one element, or says why it cannot.
function find(o) {
  let ref = o.ref;
  if (!ref && /^ref=(f\d+)?e\d+$/.test(o.selector || '')) ref = o.selector.slice(4);
  if (ref) {
    ref = ref.replace(/^\[?(ref=)?/, '').replace(/\]$/, '');
    // The node remembers what a ref of an earlier document of this address was.
    const known = refs.get(ref) || o.was;
    if (!known) return fail('stale_ref', `The ref ${quote(cut(ref, 20))} does not belong to the page shown now.`);
    const el = known.el?.deref(), there = attached(el);
    if (there && (ours(o) || !isReused(ref, known, el))) return {el};
    const same = there ? moved(ref, known, el) : twin(ref, known); // it was rendered anew
    if (same) {
      if (!ids.has(same)) ids.set(same, ref);
      refs.set(ref, {first: turn, last: turn, ...known, el: new WeakRef(same)});
      return {el: same};
    }
    if (there) return fail('stale_ref', `${describe(el)}, which ${ref} stood for, is used for other data now: it stood ${saidOf(known)}.`, 'Take a new snapshot and act on the ref that is there now.');
    return fail('stale_ref', `The element behind ${ref}${known.name ? ` (${known.role} ${quote(cut(known.name, 60))})` : ''} is gone from the page.`);
  }
  let all = [];
  try {
    all = [...document.querySelectorAll(o.selector)];
    if (!all.length) everyRoot(document, root => { if (root !== document) all.push(...root.querySelectorAll(o.selector)); });
  } catch {
    return fail('invalid_arguments', 'The selector is not valid CSS.', NOT_CSS);
  }
  if (all.length > 1) {
    const shown = all.filter(el => el.checkVisibility({visibilityProperty: true}));
    if (shown.length) all = shown;
  }
  if (!all.length) return fail('element_not_found', 'No element matches the selector.');
  if (all.length > 1) return fail('element_not_unique', `${all.length} elements match the selector.`);
  return {el: all[0]};
}
