// ---- refs, and finding elements --------------------------------------------------

const refs = new Map();        // "e12" -> {el: WeakRef, role, name}
const ids = new WeakMap();     // element -> "e12"
let next = 1;

function refOf(el, role, name) {
  let id = ids.get(el);
  if (!id) {
    id = 'e' + next++;
    ids.set(el, id);
  }
  refs.set(id, {el: new WeakRef(el), role, name});
  return id;
}

const attached = el => el && el.isConnected && el.ownerDocument.defaultView;

// everyRoot calls f with the document, every open shadow root and every
// same-origin frame's document below it.
function everyRoot(root, f) {
  f(root);
  for (const el of root.querySelectorAll('*')) {
    if (el.shadowRoot) everyRoot(el.shadowRoot, f);
    else if (el.tagName === 'IFRAME' || el.tagName === 'FRAME') {
      const doc = frameDocument(el);
      if (doc) everyRoot(doc, f);
    }
  }
}

function frameDocument(el) {
  try { return el.contentDocument; } catch { return null; }
}

const fail = (code, message) => ({error: code, message});

// find resolves a ref or a selector to one element, or says why it can not.
function find(o) {
  let ref = o.ref;
  if (!ref && /^ref=e\d+$/.test(o.selector || '')) ref = o.selector.slice(4);
  if (ref) {
    ref = ref.replace(/^\[?(ref=)?/, '').replace(/\]$/, '');
    const known = refs.get(ref);
    if (!known) return fail('stale_ref', `The ref ${quote(cut(ref, 20))} does not belong to the page shown now.`);
    const el = known.el.deref();
    if (attached(el)) return {el};
    // It was rendered anew: the same role and name, if there is only one such.
    const same = [];
    if (known.name) everyRoot(document, root => {
      for (const x of root.querySelectorAll('*')) if (same.length < 2 && roleOf(x) === known.role && x.checkVisibility() && nameOf(x, known.role) === known.name) same.push(x);
    });
    if (same.length === 1) {
      ids.set(same[0], ref);
      refs.set(ref, {...known, el: new WeakRef(same[0])});
      return {el: same[0]};
    }
    return fail('stale_ref', `The element behind ${ref} is gone from the page.`);
  }
  let all = [];
  try {
    all = [...document.querySelectorAll(o.selector)];
    if (!all.length) everyRoot(document, root => { if (root !== document) all.push(...root.querySelectorAll(o.selector)); });
  } catch {
    return fail('invalid_arguments', 'The selector is not valid CSS.');
  }
  if (all.length > 1) {
    const shown = all.filter(el => el.checkVisibility({visibilityProperty: true}));
    if (shown.length) all = shown;
  }
  if (!all.length) return fail('element_not_found', 'No element matches the selector.');
  if (all.length > 1) return fail('element_not_unique', `${all.length} elements match the selector.`);
  return {el: all[0]};
}
