// ---- words about elements: role, name, value -------------------

const loose = /\s\s|[^\S ]|^\s|\s$/;
// What has nothing but characters that nobody sees is no word.
const wordless = /^[\s\u00ad\u034f\u200b-\u200f\u202a-\u202e\u2060-\u206f]+$/;
const squeeze = s => wordless.test(s) ? '' : loose.test(s) ? s.replace(/\s+/g, ' ').trim() : s;
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
const UNNAMED = new Set([...MERGED, 'row', 'list', 'listitem']); // unless an attribute names them
const PLAIN = new Set(['group', 'none', 'presentation', 'figure', 'form', 'article', 'document', 'application']);

// imageOf gives the image that shows an image map's area.
function imageOf(el) {
  const map = el.tagName === 'AREA' && el.closest('map');
  return map ? map.getRootNode().querySelector(`img[usemap="#${CSS.escape(map.name)}"]`) : null;
}

function roleOf(el) {
  const given = el.getAttribute('role'), own = ownRole(el);
  if (given && own !== 'iframe') {
    for (const r of given.toLowerCase().split(/\s+/)) {
      if (ROLES.has(r)) return contradicts(el, own, r) ? own : r;
      if (r === 'none' || r === 'presentation') return isHeld(own) || el.hasAttribute('tabindex') ? own : '';
    }
  }
  return own;
}

// An author's role counts unless it contradicts what the element is: one that takes the
// focus, has a value or holds a document does so whatever it is called.
const VALUES = new Set(['progressbar', 'meter', 'video', 'audio']);
const TICKED = new Set(['checkbox', 'radio', 'switch', 'menuitemcheckbox', 'menuitemradio', 'option', 'treeitem', 'tab']);
const WRITTEN = new Set(['textbox', 'searchbox', 'combobox', 'spinbutton', 'listbox', 'slider']);

const isHeld = own => ACTIVE.has(own) || VALUES.has(own);

function contradicts(el, own, given) {
  if (!isHeld(own)) return false;
  if (VALUES.has(own) || own === 'file' || own === 'color') return true;
  if (own === 'checkbox' || own === 'radio') return !TICKED.has(given) && !(given === 'button' && el.hasAttribute('aria-pressed'));
  if (own === 'button' || own === 'link' || own === 'option') return !ACTIVE.has(given) || given === 'textbox' || given === 'searchbox';
  return !WRITTEN.has(given);
}

// ownRole gives what an element is by itself.
function ownRole(el) {
  if (isFrame(el)) return 'iframe';
  if (editingHost(el)) return 'textbox';
  switch (el.tagName) {
    case 'A': case 'AREA': return el.hasAttribute('href') ? 'link' : '';
    case 'a': return el.hasAttribute('href') || el.hasAttribute('xlink:href') ? 'link' : ''; // SVG's
    case 'INPUT': return el.type === 'hidden' ? '' : INPUTS[el.type] || 'textbox';
    case 'SELECT': return el.multiple || el.size > 1 ? 'listbox' : 'combobox';
    case 'SECTION': return el.hasAttribute('aria-label') || el.hasAttribute('aria-labelledby') ? 'region' : '';
    case 'svg': return el.hasAttribute('aria-label') || el.querySelector(':scope > title') ? 'img' : '';
  }
  return TAGS[el.tagName] || internalsOf(el)?.role || '';
}

function editingHost(el) {
  return el.isContentEditable && !(el.parentElement && el.parentElement.isContentEditable);
}

const hiddenByAria = el => el.getAttribute('aria-hidden') === 'true' || el.inert === true;

// kids gives the children as they are shown: through shadow roots and slots.
function kids(el) {
  const root = rootOf(el);
  if (root) return root.childNodes;
  if (el.tagName === 'SLOT') {
    const given = el.assignedNodes();
    if (given.length) return given;
  }
  return el.childNodes;
}

// strike marks text that is struck out, such as an old price.
const strike = s => s.replace(/\S(.*\S)?/s, '~~$&~~');

// textOf gives the visible text below an element, at most about max characters.
function textOf(el, max) {
  let out = '', shown;
  const walk = node => {
    for (const k of kids(node)) {
      if (out.length > max) return;
      if (k.nodeType === 3) out += k.data;
      else if (k.nodeType === 1) {
        if (hiddenByAria(k) || k.tagName === 'STYLE' || k.tagName === 'SCRIPT' || k.tagName === 'NOSCRIPT' || k.tagName === 'SELECT') continue;
        const own = k.getAttribute('aria-label') || (k.tagName === 'IMG' && k.alt);
        if (own) {
          const {display, visibility} = getComputedStyle(k);
          if (display !== 'none' && display !== '' && !(visibility !== 'visible' && shown)) out += ' ' + own + ' ';
          continue;
        }
        if (k.tagName === 'svg') { const t = k.querySelector('title'); if (t) out += ' ' + t.textContent + ' '; continue; }
        const {display, visibility, textDecorationLine} = getComputedStyle(k);
        if (display === 'none' || display === '' || visibility !== 'visible' && shown) continue; // not shown, or in no slot
        const gap = display.startsWith('inline') ? '' : ' ';
        out += gap;
        const at = out.length;
        walk(k);
        if (textDecorationLine.includes('line-through')) out = out.slice(0, at) + strike(out.slice(at));
        out += gap;
      }
    }
  };
  if (!rootOf(el) && !el.firstElementChild) out = el.textContent;
  else {
    shown = getComputedStyle(el).visibility === 'visible';
    walk(el);
  }
  return squeeze(out);
}

// labelsOf gives what el.labels would, in the order of the tree. That looks through the
// whole document for each element, which takes seconds where there are thousands.
const LABELABLE = new Set(['BUTTON', 'INPUT', 'METER', 'OUTPUT', 'PROGRESS', 'SELECT', 'TEXTAREA']);
function labelsOf(el) {
  const all = el.id ? (labelsById(el.getRootNode()).get(el.id) || []).filter(l => l.control === el) : [];
  const named = all.length;
  for (let l = el.closest('label'); l; l = l.parentElement && l.parentElement.closest('label')) {
    if (l.control === el && !all.includes(l)) all.push(l);
  }
  if (all.length > named && all.length > 1) all.sort((a, b) => a.compareDocumentPosition(b) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1);
  return all;
}

// labelsById gives the labels of a tree by the ID that they name. It holds for as long
// as we run without a pause, since nobody changes the page meanwhile.
let labelled = null;
function labelsById(root) {
  if (!labelled) {
    labelled = new Map();
    queueMicrotask(() => { labelled = null; });
  }
  let by = labelled.get(root);
  if (!by) {
    labelled.set(root, by = new Map());
    for (const l of root.querySelectorAll ? root.querySelectorAll('label[for]') : []) {
      const id = l.htmlFor;
      if (by.has(id)) by.get(id).push(l); else by.set(id, [l]);
    }
  }
  return by;
}

const isCustom = el => el.tagName.includes('-');
const labelOf = el => el ? squeeze(labelsOf(el).map(l => textOf(l, 200)).join(' ')) : '';

// outerOf gives the custom element whose one field el is: labels name that, and not what
// is in its shadow.
function outerOf(el) {
  const root = el.getRootNode();
  return isShadow(root) && isCustom(root.host) && innerField(root.host) === el ? root.host : null;
}

// innerField gives the one field within a custom element.
function innerField(host) {
  const all = rootOf(host)?.querySelectorAll('input:not([type=hidden]), textarea, select, button') ?? [];
  return all.length === 1 ? all[0] : null;
}

const nameOf = (el, role) => unsaid(el, givenName(el, role));

function givenName(el, role) {
  if (UNNAMED.has(role) && !el.hasAttributes()) return '';
  const by = el.getAttribute('aria-labelledby');
  if (by) {
    const root = el.getRootNode();
    const s = squeeze(by.split(/\s+/).map(id => { const x = root.getElementById && root.getElementById(id); return x ? textOf(x, 200) : ''; }).join(' '));
    if (s) return s;
  }
  const label = squeeze(el.getAttribute('aria-label') || '');
  if (label) return label;
  if (LABELABLE.has(el.tagName) || isCustom(el)) {
    const s = labelOf(el) || LABELABLE.has(el.tagName) && labelOf(outerOf(el));
    if (s) return s;
  }
  switch (el.tagName) {
    case 'INPUT':
      if (role === 'button') return squeeze(el.value || el.alt || el.title || (el.type === 'submit' ? 'Submit' : el.type === 'reset' ? 'Reset' : ''));
      return squeeze(el.placeholder || el.title || '');
    case 'TEXTAREA': return squeeze(el.placeholder || el.title || '');
    case 'IMG': case 'AREA': return squeeze(el.alt || el.title || '');
    case 'LABEL': return textOf(el, 300);
    case 'FIELDSET': { const l = el.querySelector(':scope > legend'); return l ? textOf(l, 200) : ''; }
    case 'TABLE': return el.caption ? textOf(el.caption, 200) : '';
    case 'svg': { const t = el.querySelector(':scope > title'); return t ? squeeze(t.textContent) : ''; }
  }
  if (FROM_CONTENT.has(role)) {
    const s = textOf(el, 300) || written(el);
    if (s) return s;
  }
  return squeeze(el.getAttribute('title') || el.getAttribute('aria-placeholder') || el.getAttribute('data-placeholder') || '');
}

// written gives the words that style sheets put into an element without any: those meant
// for reading aloud, where there are such, and not the signs of icon fonts.
function written(el) {
  let out = '';
  for (const x of [el, ...el.querySelectorAll('*')].slice(0, 6)) out += generated(x, '::before') + ' ' + generated(x, '::after') + ' ';
  return squeeze(out);
}

// generated gives what a style sheet puts before or after what is in an element.
function generated(x, at) {
  const {content, display, visibility} = getComputedStyle(x, at);
  let s = '';
  for (const [, words, attribute, slash] of display === 'none' || visibility !== 'visible' ? [] : content.matchAll(/url\("[^"]*"\)|"((?:[^"\\]|\\.)*)"|attr\(([\w-]+)\)|(\/)/g)) {
    s = slash ? '' : s + (words ? words.replace(/\\(.)/g, '$1') : attribute && x.getAttribute(attribute) || '');
  }
  return s.replace(/\p{Co}/gu, '');
}

// generates: a style sheet of that tree puts words before or after what is in elements.
// What cannot be read of them might.
function generates(root) {
  let left = 20000;
  const inRules = rules => [...rules].some(r => --left < 0 || (/:(before|after)\b/.test(r.selectorText || '') && /["'(].*[\p{L}\p{N}]/u.test((r.style?.content || '').replace(/\p{Co}/gu, ''))) || (r.cssRules && inRules(r.cssRules)) || (r.styleSheet && inSheet(r.styleSheet)));
  const inSheet = sheet => { try { return inRules(sheet.cssRules); } catch { return true; } };
  return [...root.styleSheets ?? [], ...root.adoptedStyleSheets ?? []].some(inSheet);
}

// hintOf tells an unnamed control apart: how tests find it, its icon, or how the page's
// author called it.
function hintOf(el) {
  const id = el.getAttribute('data-testid');
  if (id) return id;
  if (FIELDS.has(el.tagName)) { // what its page shows over it
    const up = el.parentElement;
    if (up?.title && up.childElementCount === 1) return up.title;
  }
  const img = el.tagName === 'IMG' || el.type === 'image' ? el : el.querySelector('img[src]');
  if (img && img.src && !img.src.startsWith('data:')) return img.src.split(/[?#]/)[0].split('/').pop();
  const use = el.querySelector('use');
  const href = use && (use.getAttribute('href') || use.getAttribute('xlink:href'));
  if (href) return href.split('#').pop();
  const icon = el.querySelector('[class*=icon],i[class]');
  return el.id || el.getAttribute('name') ||
    (icon && String(icon.className.baseVal ?? icon.className)) || String(el.className.baseVal ?? el.className) ||
    getComputedStyle(el).backgroundImage.match(/url\("(?!data:)[^"]*?([^"/?#]+)(?:[?#][^"]*)?"\)/)?.[1];
}
