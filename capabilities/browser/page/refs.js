// ---- refs, and finding elements --------------------------------------------------

const refs = new Map();        // "e12" -> {el: WeakRef, role, name}
const ids = new WeakMap();     // element -> "e12"
let next = 1;

function refOf(el, role, name) {
  let id = ids.get(el);
  if (!id) {
    id = prefix + 'e' + next++;
    ids.set(el, id);
  }
  const known = refs.get(id);
  if (known && known.el.deref() === el) Object.assign(known, {role, name});
  else refs.set(id, {el: new WeakRef(el), role, name});
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

const unseen = el => fail('element_not_found', `${describe(el)} is in the page but not visible.`,
  'Do first what shows it, such as opening its menu; a snapshot holds what is visible.');

const unfocused = el => fail('execution_failed', `${describe(el)} did not take the focus.`, 'Click it first, or choose another element.');

const MAX_NAME = 200;

// shorten: what is longer than a name stands below the element, as its text.
const shorten = (name, role) => name.length <= MAX_NAME || !FROM_CONTENT.has(role) ? cut(name, MAX_NAME) : role === 'clickable' ? '' : cut(name, 80);

const shownName = (el, role) => shorten(nameOf(el, role), role);

// twin finds the one visible element with a role and name, if there is only one.
function twin(role, name) {
  const same = [];
  if (name) everyRoot(document, root => {
    for (const x of root.querySelectorAll('*')) {
      if (same.length > 1) return;
      const is = role === 'clickable' ? !ACTIVE.has(roleOf(x)) && isClickable(x, roleOf(x), getComputedStyle(x), underPointer(x)) : roleOf(x) === role;
      if (is && x.checkVisibility() && shownName(x, role) === name) same.push(x);
    }
  });
  return same.length === 1 ? same[0] : null;
}

// find resolves a ref or a selector to one element, or says why it can not.
function find(o) {
  let ref = o.ref;
  if (!ref && /^ref=(f\d+)?e\d+$/.test(o.selector || '')) ref = o.selector.slice(4);
  if (ref) {
    ref = ref.replace(/^\[?(ref=)?/, '').replace(/\]$/, '');
    // The node remembers what a ref of an earlier document of this address was.
    const known = refs.get(ref) || o.was;
    if (!known) return fail('stale_ref', `The ref ${quote(cut(ref, 20))} does not belong to the page shown now.`);
    const el = known.el?.deref();
    if (attached(el)) return {el};
    // It was rendered anew: the same role and name, if there is only one such.
    const same = twin(known.role, known.name);
    if (same) {
      if (!ids.has(same)) ids.set(same, ref);
      refs.set(ref, {role: known.role, name: known.name, el: new WeakRef(same)});
      return {el: same};
    }
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
