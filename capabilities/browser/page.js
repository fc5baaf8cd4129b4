// What Handrail runs inside pages. It lives in an isolated world: it sees the
// page's DOM, the page can neither see nor change it. It changes nothing in the
// DOM itself. It is put into a document at the first call that needs it.
(() => {
'use strict';
if (globalThis.__handrail) return;

const refs = new Map();        // "e12" -> {el: WeakRef, role, name}
const ids = new WeakMap();     // element -> "e12"
const secrets = new WeakSet(); // elements that were ever password fields
let next = 1;

// ---- words about elements -------------------------------------------------

const squeeze = s => s.replace(/\s+/g, ' ').trim();
const cut = (s, max) => s.length > max ? s.slice(0, max - 1).replace(/[\ud800-\udbff]$/, '') + '…' : s;
const quote = s => JSON.stringify(s);

const INPUTS = {
  button: 'button', submit: 'button', reset: 'button', image: 'button', checkbox: 'checkbox', radio: 'radio',
  range: 'slider', number: 'spinbutton', search: 'searchbox', email: 'textbox', tel: 'textbox', url: 'textbox',
  text: 'textbox', password: 'textbox', file: 'file', color: 'color', date: 'date', time: 'time', month: 'month',
  week: 'week', 'datetime-local': 'datetime',
};
const TAGS = {
  BUTTON: 'button', TEXTAREA: 'textbox', H1: 'heading', H2: 'heading', H3: 'heading', H4: 'heading', H5: 'heading',
  H6: 'heading', IMG: 'img', UL: 'list', OL: 'list', LI: 'listitem', TABLE: 'table', TR: 'row', TD: 'cell', TH: 'cell',
  NAV: 'navigation', MAIN: 'main', ASIDE: 'complementary', FORM: 'form', DIALOG: 'dialog', SUMMARY: 'button',
  FIELDSET: 'group', OPTION: 'option', PROGRESS: 'progressbar', METER: 'meter', IFRAME: 'iframe', FRAME: 'iframe',
  CANVAS: 'canvas', VIDEO: 'video', AUDIO: 'audio', ARTICLE: 'article', HR: 'separator', DETAILS: 'group',
};
const ROLES = new Set(('alert alertdialog application article banner blockquote button cell checkbox columnheader combobox ' +
  'complementary contentinfo dialog document feed figure form grid gridcell group heading img link list listbox listitem log ' +
  'main marquee math menu menubar menuitem menuitemcheckbox menuitemradio meter navigation note option progressbar radio ' +
  'radiogroup region row rowheader scrollbar search searchbox separator slider spinbutton status switch tab table tablist ' +
  'tabpanel textbox timer toolbar tooltip tree treegrid treeitem').split(' '));
const ACTIVE = new Set(('button link checkbox radio slider spinbutton searchbox textbox combobox listbox option switch tab ' +
  'menuitem menuitemcheckbox menuitemradio treeitem file color date time month week datetime clickable').split(' '));
const FROM_CONTENT = new Set(('button link heading option tab menuitem menuitemcheckbox menuitemradio treeitem checkbox ' +
  'radio switch clickable tooltip').split(' '));
const MERGED = new Set(['cell', 'gridcell', 'columnheader', 'rowheader']);
const PLAIN = new Set(['group', 'none', 'presentation', 'figure', 'form', 'article', 'document', 'application']);

function roleOf(el) {
  const given = el.getAttribute('role');
  if (given) {
    for (const r of given.toLowerCase().split(/\s+/)) {
      if (ROLES.has(r)) return r;
      if (r === 'none' || r === 'presentation') return '';
    }
  }
  switch (el.tagName) {
    case 'A': case 'AREA': return el.hasAttribute('href') ? 'link' : '';
    case 'INPUT': return el.type === 'hidden' ? '' : INPUTS[el.type] || 'textbox';
    case 'SELECT': return el.multiple || el.size > 1 ? 'listbox' : 'combobox';
    case 'SECTION': return el.hasAttribute('aria-label') || el.hasAttribute('aria-labelledby') ? 'region' : '';
    case 'svg': return el.hasAttribute('aria-label') || el.querySelector(':scope > title') ? 'img' : '';
  }
  return TAGS[el.tagName] || (editingHost(el) ? 'textbox' : '');
}

function editingHost(el) {
  return el.isContentEditable && !(el.parentElement && el.parentElement.isContentEditable);
}

const hiddenByAria = el => el.getAttribute('aria-hidden') === 'true' || el.inert === true;

// kids gives the children as they are shown: through open shadow roots and slots.
function kids(el) {
  if (el.shadowRoot) return el.shadowRoot.childNodes;
  if (el.tagName === 'SLOT') {
    const given = el.assignedNodes();
    if (given.length) return given;
  }
  return el.childNodes;
}

// textOf gives the visible text below an element, at most about max characters.
function textOf(el, max) {
  let out = '';
  const walk = node => {
    for (const k of kids(node)) {
      if (out.length > max) return;
      if (k.nodeType === 3) out += k.data;
      else if (k.nodeType === 1) {
        if (hiddenByAria(k) || k.tagName === 'STYLE' || k.tagName === 'SCRIPT' || k.tagName === 'NOSCRIPT') continue;
        const own = k.getAttribute('aria-label') || (k.tagName === 'IMG' && k.alt);
        if (own) { out += ' ' + own + ' '; continue; }
        if (k.tagName === 'svg') { const t = k.querySelector('title'); if (t) out += ' ' + t.textContent + ' '; continue; }
        const display = getComputedStyle(k).display;
        if (display === 'none') continue;
        const gap = display.startsWith('inline') ? '' : ' ';
        out += gap; walk(k); out += gap;
      }
    }
  };
  if (!el.shadowRoot && !el.firstElementChild) out = el.textContent; else walk(el);
  return squeeze(out);
}

function nameOf(el, role) {
  const by = el.getAttribute('aria-labelledby');
  if (by) {
    const root = el.getRootNode();
    const s = squeeze(by.split(/\s+/).map(id => { const x = root.getElementById && root.getElementById(id); return x ? textOf(x, 200) : ''; }).join(' '));
    if (s) return s;
  }
  const label = squeeze(el.getAttribute('aria-label') || '');
  if (label) return label;
  if (el.labels && el.labels.length) {
    const s = squeeze([...el.labels].map(l => textOfLabel(l, el)).join(' '));
    if (s) return s;
  }
  switch (el.tagName) {
    case 'INPUT':
      if (role === 'button') return squeeze(el.value || el.alt || el.title || (el.type === 'submit' ? 'Submit' : el.type === 'reset' ? 'Reset' : ''));
      return squeeze(el.placeholder || el.title || '');
    case 'TEXTAREA': return squeeze(el.placeholder || el.title || '');
    case 'IMG': return squeeze(el.alt || el.title || '');
    case 'FIELDSET': { const l = el.querySelector(':scope > legend'); return l ? textOf(l, 200) : ''; }
    case 'TABLE': return el.caption ? textOf(el.caption, 200) : '';
    case 'svg': { const t = el.querySelector(':scope > title'); return t ? squeeze(t.textContent) : ''; }
  }
  if (FROM_CONTENT.has(role)) {
    const s = textOf(el, 300);
    if (s) return s;
  }
  return squeeze(el.getAttribute('title') || el.getAttribute('aria-placeholder') || el.getAttribute('data-placeholder') || '');
}

// A label's text without that of the control it may contain.
function textOfLabel(label, control) {
  let s = textOf(label, 200);
  if (label.contains(control) && control.tagName === 'SELECT') s = s.replace(squeeze(control.textContent), '');
  return s;
}

// hintOf tells an unnamed control apart: its icon, or how the page's author
// called it.
function hintOf(el) {
  const img = el.tagName === 'IMG' ? el : el.querySelector('img[src]');
  if (img && img.src && !img.src.startsWith('data:')) return img.src.split(/[?#]/)[0].split('/').pop();
  const use = el.querySelector('use');
  const href = use && (use.getAttribute('href') || use.getAttribute('xlink:href'));
  if (href) return href.split('#').pop();
  const icon = el.querySelector('[class*=icon],i[class]');
  return el.id || el.getAttribute('name') || el.getAttribute('data-testid') ||
    (icon && String(icon.className.baseVal ?? icon.className)) || String(el.className.baseVal ?? el.className);
}

// isSecret: what the field holds must not be shown.
function isSecret(el) {
  if (secrets.has(el)) return true;
  const auto = el.getAttribute('autocomplete') || '';
  if (el.type === 'password' || /(current|new)-password|one-time-code|cc-(number|csc)/.test(auto) ||
      (el.tagName === 'INPUT' && !['', 'none'].includes(getComputedStyle(el).webkitTextSecurity || ''))) {
    secrets.add(el);
    return true;
  }
  return false;
}

// ---- refs -------------------------------------------------------------------

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

// ---- snapshot -----------------------------------------------------------------

// outline builds the tree of what is shown below el: nodes {role, name, attrs,
// value, el, text, kids}; a bare text is a string.
function outline(root, o) {
  const focused = (() => { let a = document.activeElement; while (a) { const inner = a.shadowRoot ? a.shadowRoot.activeElement : a.tagName === 'IFRAME' && frameDocument(a)?.activeElement; if (!inner) break; a = inner; } return a; })();

  function attrsOf(el, role) {
    const a = [];
    const aria = n => el.getAttribute('aria-' + n);
    const state = (n, native) => { const v = native ?? aria(n); if (v === true || v === 'true') a.push(n); else if (v === 'mixed') a.push(n + '=mixed'); };
    if (role === 'heading') a.push('level=' + (aria('level') || el.tagName[1] || 2));
    state('checked', el.tagName === 'INPUT' && (role === 'checkbox' || role === 'radio' || role === 'switch') ? el.indeterminate ? 'mixed' : el.checked : undefined);
    state('disabled', el.matches(':disabled') || aria('disabled') === 'true' || undefined);
    if (aria('expanded')) a.push(aria('expanded') === 'true' ? 'expanded' : 'collapsed');
    else if (el.tagName === 'SUMMARY' && el.parentElement?.tagName === 'DETAILS') a.push(el.parentElement.open ? 'expanded' : 'collapsed');
    if (role === 'option' && el.tagName === 'OPTION' ? el.selected : aria('selected') === 'true') a.push('selected');
    state('pressed');
    if (aria('current') && aria('current') !== 'false') a.push('current');
    if (el === focused && el !== el.ownerDocument.body) a.push('focused');
    if (aria('invalid') && aria('invalid') !== 'false') a.push('invalid');
    if (el.required || aria('required') === 'true') a.push('required');
    if (el.readOnly || aria('readonly') === 'true') a.push('readonly');
    if (el.tagName === 'TEXTAREA' || (role === 'textbox' && el.tagName !== 'INPUT')) a.push('multiline');
    if (el.type === 'password') a.push('password');
    if (aria('haspopup') && aria('haspopup') !== 'false') a.push('haspopup');
    return a;
  }

  function valueOf(el, role) {
    if (el.tagName === 'INPUT' || el.tagName === 'TEXTAREA') {
      if (role === 'button' || role === 'checkbox' || role === 'radio' || role === 'switch') return '';
      if (isSecret(el)) return el.value ? '(filled, hidden)' : '';
      if (role === 'slider') return `${el.value} (${el.min || 0} to ${el.max || 100})`;
      if (role === 'file') return quote([...el.files].map(f => f.name).join(', '));
      return el.value ? quote(cut(el.value, 300)) : '';
    }
    if (el.tagName === 'SELECT') {
      const chosen = [...el.selectedOptions].map(x => squeeze(x.label || x.text));
      const all = [...el.options].slice(0, 12).map(x => quote(cut(squeeze(x.label || x.text), 60)));
      const more = el.options.length > 12 ? `, … ${el.options.length} in all` : '';
      return `${quote(cut(chosen.join(', '), 200))} of ${all.join(', ')}${more}`;
    }
    if (el.tagName === 'PROGRESS' || el.tagName === 'METER') return el.hasAttribute('value') ? `${el.value} of ${el.max}` : '';
    if (el.hasAttribute('aria-valuenow') || el.hasAttribute('aria-valuetext')) return el.getAttribute('aria-valuetext') || el.getAttribute('aria-valuenow');
    if (role === 'textbox' || role === 'searchbox') return isSecret(el) ? '(hidden)' : quote(cut(squeeze(el.innerText), 300));
    return '';
  }

  function target(el) {
    const raw = el.getAttribute('href') || '';
    if (/^\s*javascript:/i.test(raw) || raw === '#') return '';
    let url = el.href.baseVal ?? el.href;
    const origin = el.ownerDocument.location.origin;
    if (url.startsWith(origin + '/')) url = url.slice(origin.length);
    return cut(url, 120);
  }

  // visit appends what node shows to out. mute drops text that a name already
  // holds; pointing says that an ancestor is clickable already.
  function visit(node, out, mute, pointing) {
    if (node.nodeType === 3) {
      if (!mute && /\S/.test(node.data)) out.push(node.data);
      else if (!mute && node.data && out.length && typeof out[out.length - 1] === 'string') out.push(' ');
      return;
    }
    if (node.nodeType !== 1) return;
    const tag = node.tagName;
    if (tag === 'SCRIPT' || tag === 'STYLE' || tag === 'NOSCRIPT' || tag === 'TEMPLATE' || tag === 'HEAD') return;
    if (tag === 'BR') { if (!mute) out.push(' '); return; }
    if (hiddenByAria(node)) return;
    const style = getComputedStyle(node);
    if (style.display === 'none') return;
    if (tag === 'LABEL' && node.control) mute = true; // it is the control's name
    const invisible = style.visibility !== 'visible';
    let role = roleOf(node);
    const pointer = style.cursor === 'pointer';
    if (!invisible && !pointing && (!role || !ACTIVE.has(role)) && (node.hasAttribute('onclick') ||
        (pointer && tag !== 'LABEL' && tag !== 'BODY' && tag !== 'HTML') || (node.tabIndex >= 0 && node.hasAttribute('tabindex') && !role))) {
      if (!role || PLAIN.has(role) || MERGED.has(role) || role === 'listitem' || role === 'row' || role === 'img') role = role === 'img' ? 'img' : node.tabIndex >= 0 && !pointer && !node.hasAttribute('onclick') ? role : 'clickable';
    }
    const block = !style.display.startsWith('inline') && style.display !== 'contents';
    if (block) out.push(null);
    if (!role || invisible) {
      for (const k of kids(node)) if (!(invisible && k.nodeType === 3)) visit(k, out, mute, pointing || pointer);
    } else {
      place(node, role, out, mute, pointing || pointer || role === 'clickable');
    }
    if (block) out.push(null);
  }

  function place(el, role, out, mute, pointing) {
    const active = ACTIVE.has(role);
    const n = {role, el, name: cut(nameOf(el, role), 200), active, kids: []};
    n.attrs = attrsOf(el, role);
    if (role === 'iframe') {
      const doc = frameDocument(el);
      if (doc && doc.body) visit(doc.body, n.kids, false, false);
      else n.attrs.push('other origin');
      n.active = true;
    } else if (el.tagName === 'SELECT' || el.tagName === 'INPUT' || el.tagName === 'TEXTAREA' || role === 'canvas' || role === 'video') {
      n.value = valueOf(el, role);
    } else {
      n.value = valueOf(el, role);
      if (!(n.value && (role === 'textbox' || role === 'searchbox'))) {
        const quiet = mute || (FROM_CONTENT.has(role) && n.name !== '');
        if (el.tagName === 'DETAILS' && !el.open) {
          const s = el.querySelector(':scope > summary');
          if (s) visit(s, n.kids, quiet, pointing);
        } else {
          for (const k of kids(el)) visit(k, n.kids, quiet, pointing);
        }
      }
    }
    if (role === 'link') n.target = target(el);
    if (role === 'canvas' || role === 'video' || role === 'audio' || role === 'dialog' || role === 'alertdialog') n.ref = true;
    if (role === 'img') {
      if (!n.name && mute) return;
      if (!n.name && !active) { const r = el.getBoundingClientRect(); if (r.width < 3 || r.height < 3) return; n.hint = hintOf(el); }
      n.ref = true;
    }
    if (active) {
      n.ref = true;
      if (!n.name) n.hint = hintOf(el);
    }
    out.push(n);
  }

  // tidy joins texts, drops empty containers and flattens what adds nothing.
  function tidy(list) {
    const out = [];
    let text = '';
    const flush = () => { const s = squeeze(text); if (s) out.push(s); text = ''; };
    for (const x of list) {
      if (x === null) flush();
      else if (typeof x === 'string') text += x;
      else {
        flush();
        x.kids = tidy(x.kids);
        if (MERGED.has(x.role)) {
          // Cells with text only stand in one line with their neighbours.
          const words = x.kids.filter(k => typeof k === 'string');
          if (x.kids.length === words.length) {
            const cell = words.join(' ');
            if (out.length && typeof out[out.length - 1] === 'string' && out.cells) out[out.length - 1] += ' | ' + cell;
            else { out.push(cell); out.cells = true; }
            continue;
          }
          out.cells = false;
          out.push(...x.kids);
          continue;
        }
        out.cells = false;
        if (!x.active && !x.ref) {
          if (!x.kids.length && !x.name && !x.value && x.role !== 'heading') continue;
          if (PLAIN.has(x.role) && !x.name) { out.push(...x.kids); continue; }
        }
        out.push(x);
      }
    }
    flush();
    return out;
  }

  const list = [];
  visit(root, list, false, false);
  const tree = tidy(list);

  // print: one line per node; past the cap lines are only counted, and get no ref.
  const lines = [];
  let used = 0, omitted = 0;
  function line(s, pad) {
    const size = pad.length + s.length + 3;
    if (omitted || used + size > o.max) omitted += size;
    else { used += size; lines.push(pad + '- ' + s); }
  }
  function print(list, pad) {
    for (const n of list) {
      if (typeof n === 'string') { if (!o.interactive) line('text: ' + n, pad); continue; }
      let s = n.role;
      if (n.name) s += ' ' + quote(n.name);
      else if (n.hint) s += ` [hint=${cut(squeeze(n.hint), 50)}]`;
      for (const a of n.attrs) s += ` [${a}]`;
      if (n.ref || n.role === 'iframe') s += ` [ref=${omitted || used + s.length + pad.length + 20 > o.max ? 'e0000' : refOf(n.el, n.role, n.name)}]`;
      if (n.target) s += ' -> ' + n.target;
      let below = n.kids;
      if (n.value) s += ': ' + n.value;
      else if (!o.interactive && below.length && typeof below[0] === 'string' && (below.length === 1 || n.role === 'row')) { s += ': ' + below[0]; below = below.slice(1); }
      if (!o.interactive || n.active) line(s, pad);
      print(below, o.interactive && !n.active ? pad : pad + '  ');
    }
  }
  print(tree, '');
  return {text: lines.join('\n'), omitted};
}

function snapshot(o) {
  next = Math.max(next, o.base);
  let root = document.body || document.documentElement;
  if (o.ref || o.selector) {
    const f = find(o);
    if (f.error) return f;
    root = f.el;
  }
  const out = root ? outline(root, o) : {text: '', omitted: 0};
  return {...out, next, url: location.href, title: document.title};
}

// ---- aim: everything before the input, in one trip ----------------------------

// deepest gives the element shown at a point, through open shadow roots.
function deepest(doc, x, y) {
  let el = doc.elementFromPoint(x, y);
  while (el && el.shadowRoot) {
    const inner = el.shadowRoot.elementFromPoint(x, y);
    if (!inner || inner === el) break;
    el = inner;
  }
  return el;
}

// Not instanceof: frames have their own classes.
const isShadow = root => root.nodeType === 11 && !!root.host;

const above = el => el.assignedSlot || el.parentElement || (isShadow(el.getRootNode()) ? el.getRootNode().host : null);

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
  const name = role ? cut(nameOf(el, role), 60) : cut(textOf(el, 60), 60);
  return cut(`<${el.tagName.toLowerCase()}${id}${cls}>`, 80) + (name ? ' ' + quote(name) : '');
}

// toTop gives a point of el's own viewport in that of the top document, and the
// element that covers a frame on the way; out says that the point is not in view.
function toTop(el, x, y) {
  let win = el.ownerDocument.defaultView;
  while (win && win !== window) {
    const frame = win.frameElement;
    if (!frame) break;
    const r = frame.getBoundingClientRect();
    const s = getComputedStyle(frame);
    x += r.left + frame.clientLeft + parseFloat(s.paddingLeft);
    y += r.top + frame.clientTop + parseFloat(s.paddingTop);
    const hit = deepest(frame.ownerDocument, x, y);
    if (hit !== frame) return {x, y, cover: hit, out: true};
    win = frame.ownerDocument.defaultView;
  }
  return {x, y};
}

// points lists where an element can be hit: the middle first.
function points(el, position) {
  if (position) {
    const r = el.getBoundingClientRect();
    return [[r.left + position.x, r.top + position.y]];
  }
  const list = [];
  const win = el.ownerDocument.defaultView;
  for (const r of el.getClientRects()) {
    if (r.width < 1 || r.height < 1) continue;
    // Of a large element, the part in view.
    const l = Math.max(r.left, 0), t = Math.max(r.top, 0), R = Math.min(r.right, win.innerWidth), B = Math.min(r.bottom, win.innerHeight);
    if (R - l >= 1 && B - t >= 1) for (const [fx, fy] of [[.5, .5], [.25, .5], [.75, .5], [.5, .25], [.5, .75]]) list.push([l + (R - l) * fx, t + (B - t) * fy]);
    if (list.length >= 15) break;
  }
  return list;
}

// hitPoint finds a point where the element is what is shown.
function hitPoint(el, position) {
  let cover = null;
  for (const [x, y] of points(el, position)) {
    const hit = deepest(el.ownerDocument, x, y);
    if (!hit) continue; // out of view
    if (!within(el, hit)) { cover = cover || hit; continue; }
    const top = toTop(el, x, y);
    if (!top.out) return top;
    cover = cover || top.cover;
  }
  return {cover};
}

const frame = win => new Promise(done => { const t = setTimeout(done, 50); win.requestAnimationFrame(() => { clearTimeout(t); done(); }); });

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

const TEXT_INPUTS = new Set(['text', 'search', 'email', 'tel', 'url', 'password', 'number']);
const SET_INPUTS = new Set(['date', 'time', 'month', 'week', 'datetime-local', 'color', 'range']);

async function aim(o) {
  const f = find(o);
  if (f.error) return f;
  let el = f.el;
  if (o.kind === 'type') {
    if (el.tagName === 'LABEL' && el.control) el = el.control;
    if (!(el.tagName === 'TEXTAREA' || el.tagName === 'INPUT' || el.isContentEditable)) {
      const inner = el.querySelectorAll('input:not([type=hidden]), textarea, [contenteditable]');
      if (inner.length === 1) el = inner[0];
    }
    if (el.tagName === 'INPUT' ? !TEXT_INPUTS.has(el.type) && !SET_INPUTS.has(el.type) : !(el.tagName === 'TEXTAREA' || el.isContentEditable))
      return fail('execution_failed', `${describe(el)} does not take text.`);
  }
  if (!el.checkVisibility({visibilityProperty: true})) return fail('element_not_found', `${describe(el)} is in the page but not visible.`);
  if (o.kind !== 'rect' && (el.matches(':disabled') || el.closest('[aria-disabled=true]'))) return fail('element_disabled', `${describe(el)} is disabled.`);
  if (o.kind === 'type' && (el.readOnly || el.getAttribute('aria-readonly') === 'true')) return fail('element_disabled', `${describe(el)} is read-only.`);
  if (o.kind === 'rect') {
    el.scrollIntoView({block: 'nearest', inline: 'nearest', behavior: 'instant'});
    await still(el);
    const r = el.getBoundingClientRect();
    const top = toTop(el, r.left, r.top);
    return {x: top.x + window.scrollX, y: top.y + window.scrollY, width: r.width, height: r.height};
  }
  await still(el);
  let p = hitPoint(el, o.position);
  for (const block of ['center', 'start', 'end']) {
    if (p.x !== undefined) break;
    el.scrollIntoView({block, inline: 'center', behavior: 'instant'});
    p = hitPoint(el, o.position);
  }
  if (p.x === undefined) {
    if (p.cover) return fail('element_obscured', `${describe(el)} is covered by ${describe(p.cover)}.`);
    return fail('element_not_found', `${describe(el)} has no visible part that could be hit.`);
  }
  const out = {x: p.x, y: p.y};
  if (o.kind === 'type') return {...out, ...focusField(el, o)};
  watch(el, o);
  return out;
}

// focusField puts the caret where the text shall go.
function focusField(el, o) {
  const secret = isSecret(el);
  const direct = el.tagName === 'INPUT' && SET_INPUTS.has(el.type);
  el.focus({preventScroll: true});
  const root = el.getRootNode();
  const active = root.activeElement;
  if (!direct && !(active && (active === el || el.contains(active) || active.shadowRoot))) return fail('execution_failed', `${describe(el)} did not take the focus.`);
  field = {el, before: el.isContentEditable ? el.innerText : el.value, clear: o.clear, fresh: true};
  let end = false;
  if (el.isContentEditable) {
    const s = el.ownerDocument.defaultView.getSelection();
    s.selectAllChildren(el);
    if (!o.clear) s.collapseToEnd();
  } else if (!direct) {
    if (o.clear) el.select();
    else {
      try { el.setSelectionRange(el.value.length, el.value.length); } catch { el.select(); end = el.value !== ''; }
    }
  }
  const empty = !(el.isContentEditable ? squeeze(el.innerText) : el.value);
  return {secret, direct, end, empty, multiline: el.tagName === 'TEXTAREA' || el.isContentEditable};
}

let field = null;

// setField sets what keys can not reliably reach (dates, colours, sliders).
function setField(o) {
  const el = field.el;
  const proto = el.ownerDocument.defaultView.HTMLInputElement.prototype;
  Object.getOwnPropertyDescriptor(proto, 'value').set.call(el, o.text);
  el.dispatchEvent(new Event('input', {bubbles: true, composed: true}));
  el.dispatchEvent(new Event('change', {bubbles: true}));
  return typed(o);
}

// typed compares what the field holds with what it should; only the verdict
// leaves the page, never the text.
function typed(o) {
  const el = field.el;
  if (o.arm) watch(el, {kind: 'type'});
  if (!attached(el)) return {verdict: 'gone'};
  const now = el.isContentEditable ? el.innerText : el.value;
  let want = (field.clear || SET_INPUTS.has(el.type) ? '' : field.before) + o.text;
  if (el.isContentEditable) return {verdict: squeeze(now).includes(squeeze(o.text)) && (!field.clear || squeeze(now) === squeeze(want)) ? 'match' : now === field.before ? 'unchanged' : 'other'};
  if (el.tagName === 'INPUT') want = want.replace(/[\r\n]/g, '');
  else want = want.replace(/\r\n?/g, '\n');
  return {verdict: now === want ? 'match' : now === field.before ? (want === field.before ? 'match' : 'unchanged') : 'other'};
}

// ---- outcome: what the input started -------------------------------------------

let current = null;

// watch arms observers before the input: the first evidence of what it started
// resolves the outcome.
function watch(el, o) {
  if (current) current.stop();
  const win = el.ownerDocument.defaultView;
  const w = current = {el, found: null, pressed: false, missed: false, event: null, navigates: false, at: 0, waiters: []};
  const stops = [];
  const on = (target, type, f, capture = true) => {
    target.addEventListener(type, f, {capture, passive: false});
    stops.push(() => target.removeEventListener(type, f, {capture}));
  };
  w.stop = () => { for (const s of stops) s(); w.settle(); };
  const wake = () => { for (const f of w.waiters.splice(0)) f(); };
  w.settle = wake;
  w.evidence = what => {
    if (w.found || !w.pressed) return;
    w.found = what;
    wake();
  };
  const through = e => { const path = e.composedPath(); return path.includes(el) || (path[0]?.nodeType === 1 && within(el, path[0])); };
  if (o.kind === 'type') {
    // Armed by the key; typing itself is verified by the field's value.
    on(win, 'keydown', e => { if (e.isTrusted && e.key === 'Enter') { w.pressed = true; w.at = performance.now(); w.event = e; wake(); } });
  } else {
    // The press must reach the element. If the page moved it away meanwhile, the
    // event is swallowed and the click is aimed anew: nothing else gets clicked.
    const guard = e => {
      if (!e.isTrusted || w.event) return;
      if (e.type === 'pointerdown') {
        w.missed = !through(e);
        w.pressed = !w.missed;
      }
      if (w.missed) { e.preventDefault(); e.stopImmediatePropagation(); if (e.type === 'mouseup' || e.type === 'click') wake(); }
    };
    for (const type of ['pointerdown', 'mousedown', 'pointerup', 'mouseup']) on(win, type, guard);
    const last = o.button === 'right' ? 'contextmenu' : o.button === 'middle' ? 'auxclick' : o.count === 2 ? 'dblclick' : 'click';
    on(win, last, e => {
      if (!e.isTrusted || !w.pressed || (o.count === 3 && e.detail !== 3)) return;
      w.event = e;
      w.at = performance.now();
      const link = e.composedPath().find(x => x.tagName === 'A' && x.href);
      if (link && o.button === 'left') {
        const here = el.ownerDocument.location.href.split('#')[0];
        w.navigates = link.href.split('#')[0] !== here && /^https?:/.test(link.href) && (!link.target || link.target === '_self') && !link.hasAttribute('download');
      }
      wake();
    });
  }
  const href = location.href;
  const roots = new Set([document, el.ownerDocument]);
  for (let r = el.getRootNode(); isShadow(r); r = r.host.getRootNode()) roots.add(r);
  const observer = new MutationObserver(records => {
    if (!w.pressed) return;
    for (const r of records) {
      if (r.type === 'attributes' && r.target.getAttribute(r.attributeName) === r.oldValue) continue;
      w.evidence('the page changed');
      return;
    }
  });
  for (const r of roots) observer.observe(r, {subtree: true, childList: true, characterData: true, attributes: true, attributeOldValue: true});
  stops.push(() => observer.disconnect());
  on(win, 'input', () => w.evidence('a value changed'));
  if (o.kind !== 'type') on(win, 'change', () => w.evidence('a value changed')); // Enter commits the field anyway
  on(win, 'submit', e => { if (w.pressed) { w.submitted = e; w.evidence('a form was submitted'); } });
  on(win, 'invalid', () => w.evidence('the form refused a value'));
  // Scrolling into view brings late scroll events; those are ours, not the click's.
  const places = new Map();
  for (let x = el; x; x = above(x) || x.ownerDocument.defaultView?.frameElement) {
    places.set(x, [x.scrollLeft, x.scrollTop].join());
    places.set(x.ownerDocument, [x.ownerDocument.defaultView?.scrollX, x.ownerDocument.defaultView?.scrollY].join());
  }
  on(win, 'scroll', e => {
    const x = e.target;
    const now = x.nodeType === 9 ? [x.defaultView?.scrollX, x.defaultView?.scrollY].join() : [x.scrollLeft, x.scrollTop].join();
    if (places.get(x) !== now) w.evidence('the page scrolled');
  });
  on(win, 'play', () => w.evidence('media started'));
  on(win, 'pause', () => w.evidence('media paused'));
  on(win, 'toggle', () => w.evidence('something was opened or closed'));
  on(win, 'focusin', e => {
    const x = e.composedPath()[0];
    const takesText = x?.nodeType === 1 && (x.isContentEditable || x.tagName === 'TEXTAREA' || x.tagName === 'SELECT' || (x.tagName === 'INPUT' && INPUTS[x.type] !== 'button' && x.type !== 'checkbox' && x.type !== 'radio'));
    if (takesText) w.evidence('the field has the focus');
    else if (!within(el, x) && !within(x, el)) w.evidence('the focus moved');
  });
  w.address = () => location.href !== href;
  // A field that had the focus already takes the caret; that is what such a click is for.
  w.held = () => { const a = el.getRootNode().activeElement; return a === el && (el.isContentEditable || el.tagName === 'TEXTAREA' || (el.tagName === 'INPUT' && TEXT_INPUTS.has(el.type))); };
}

// outcome resolves at the first evidence, or some time after an event that
// changed nothing.
async function outcome(o) {
  const w = current;
  const until = ms => new Promise(done => { const t = setTimeout(done, ms); w.waiters.push(() => { clearTimeout(t); done(); }); });
  const stop = performance.now() + o.wait;
  while (!w.event && !w.missed && !w.found && performance.now() < stop) await until(stop - performance.now());
  while (w.event && !w.found && performance.now() < w.at + o.quiet) await until(w.at + o.quiet - performance.now());
  // Let the task that brought the evidence finish: what it does next belongs to it.
  if (w.found) await new Promise(done => { const c = new MessageChannel(); c.port1.onmessage = () => { c.port1.close(); done(); }; c.port2.postMessage(0); });
  if (!w.found && w.pressed && w.address()) w.found = 'the address changed';
  if (!w.found && w.event && w.held()) w.found = 'the field has the focus';
  const result = {
    found: w.found || '', missed: w.missed, seen: !!w.event, ms: w.at ? Math.round(performance.now() - w.at) : 0,
    handled: !!w.event && w.event.defaultPrevented,
    navigates: (w.navigates && !!w.event && !w.event.defaultPrevented) || (!!w.submitted && !w.submitted.defaultPrevented),
  };
  if (current === w) { w.stop(); current = null; }
  return result;
}

globalThis.__handrail = {snapshot, aim, outcome, typed, setField};
})();
