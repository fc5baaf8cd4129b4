// ---- snapshot -----------------------------------------------------------------

// outline prints what is shown below root, one line per node: indented by its
// depth, "- role "name" [state…] [ref=…]", then where it leads or what it holds.
// Controls of ours in the text: \x01 ends the line of a foreign frame, whose lines
// the node puts there, \x02 stands around a box that it has to translate.
function outline(root, o) {
  const focused = (() => { let a = document.activeElement; while (a) { const inner = rootOf(a) ? rootOf(a).activeElement : isFrame(a) && frameDocument(a)?.activeElement; if (!inner) break; a = inner; } return a; })();
  const active = focused?.getAttribute('aria-activedescendant') && focused.getRootNode().getElementById?.(focused.getAttribute('aria-activedescendant')); // what Enter takes
  const slots = [], nodes = [], modals = [], rows = new Map(), wordy = new Map(), whole = root === (document.body || document.documentElement);
  turn++;
  const goalsIn = new Map(); // document -> goalsOf

  function attrsOf(el, role) {
    const a = [];
    if (UNNAMED.has(role) && !el.hasAttributes()) return a;
    if (el.tagName === 'LABEL' && el.control) el = el.control; // it stands for a hidden one
    const aria = n => el.getAttribute('aria-' + n) ?? internalsOf(el)?.states?.[n];
    const state = (n, native) => { const v = native ?? aria(n); if (v === true || v === 'true') a.push(n); else if (v === 'mixed') a.push(n + '=mixed'); };
    if (role === 'heading') a.push('level=' + (aria('level') || el.tagName[1] || 2));
    state('checked', el.tagName === 'INPUT' && (el.type === 'checkbox' || el.type === 'radio') ? el.indeterminate ? 'mixed' : el.checked : undefined);
    state('disabled', el.matches(':disabled') || aria('disabled') === 'true' || undefined);
    if (aria('expanded')) a.push(aria('expanded') === 'true' ? 'expanded' : 'collapsed');
    else if (el.tagName === 'SUMMARY' && el.parentElement?.tagName === 'DETAILS') a.push(el.parentElement.open ? 'expanded' : 'collapsed');
    if (role === 'option' && el.tagName === 'OPTION' ? el.selected : aria('selected') === 'true') a.push('selected');
    state('pressed');
    if (aria('current') && aria('current') !== 'false') a.push('current');
    if (el === focused && el !== el.ownerDocument.body) a.push('focused');
    if (el === active) a.push('active');
    if (aria('invalid') ? aria('invalid') !== 'false' : FIELDS.has(el.tagName) && el.matches(':user-invalid')) a.push('invalid');
    if (el.required === true || aria('required') === 'true') a.push('required');
    if (el.readOnly === true || aria('readonly') === 'true') a.push('readonly');
    if (el.tagName === 'TEXTAREA' || (role === 'textbox' && el.tagName !== 'INPUT')) a.push('multiline');
    if (el.type === 'password') a.push('password');
    if (isDraggable(el)) a.push('draggable');
    if (aria('haspopup') && aria('haspopup') !== 'false') a.push('haspopup');
    if (RANGED.has(role) && el.type !== 'range') for (const n of ['min', 'max']) if (el[n] || aria('value' + n)) a.push(n + '=' + (el[n] || aria('value' + n)));
    if (role === 'file' && (el.multiple || el.webkitdirectory)) a.push(el.webkitdirectory ? 'folder' : 'multiple');
    if (role === 'file' && el.accept) a.push('accept=' + cut(el.accept, 80));
    if (aria('sort') && aria('sort') !== 'none') a.push('sort=' + aria('sort'));
    if (role === 'listbox' && (el.multiple || aria('multiselectable') === 'true')) a.push('multiple');
    if ((role === 'dialog' || role === 'alertdialog') && (aria('modal') === 'true' || isModal(el))) a.push('modal');
    if (isModal(el)) modals.push(el);
    return a;
  }

  function valueOf(el, role) {
    const most = el === root ? MAX_VALUE : 300;
    const held = s => quote(cut(s, most)) + (s.length > most ? ` (${s.length - most + 1} more characters; ${el === root ? 'evaluate reads them' : 'snapshot with this ref shows them'})` : '');
    const drawing = editor => held(editor.innerText.replaceAll('\xa0', ' ').trim());
    if (el.tagName === 'INPUT' || el.tagName === 'TEXTAREA') {
      if (role === 'button' || role === 'checkbox' || role === 'radio' || role === 'switch') return '';
      if (isSecret(el)) return el.value ? '(filled, hidden)' : '';
      if (role === 'slider') return `${el.value} (${el.min || 0} to ${el.max || 100})`;
      if (role === 'file') return quote([...el.files].map(f => f.name).join(', '));
      const editor = editorOf(el);
      if (editor) return ['', nameOf(el, role)].includes(textOf(editor, 300)) ? drawing(editor) : ''; // what is not hidden from readers, the outline has
      const holds = el.value ? held(unsaid(el, el.value)) : '';
      return el.list ? `${holds || '""'} of ${choices(el.list.options, el)}` : holds;
    }
    if (el.tagName === 'SELECT') {
      const chosen = [...el.selectedOptions].map(x => squeeze(x.label || x.text));
      return `${quote(cut(chosen.join(', '), 200))} of ${choices(el.options, el)}`;
    }
    if (el.tagName === 'PROGRESS' || el.tagName === 'METER') return el.hasAttribute('value') ? `${el.value} of ${el.max}` : '';
    if (el.hasAttribute('aria-valuenow') || el.hasAttribute('aria-valuetext')) return cut(squeeze(el.getAttribute('aria-valuetext') || el.getAttribute('aria-valuenow')), 200);
    const inner = internalsOf(el);
    if (inner?.value && !isSecret(el)) return RANGED.has(role) || VALUES.has(role) ? inner.value : held(unsaid(el, inner.value));
    if (role === 'textbox' || role === 'searchbox') {
      const editor = editorOf(el);
      return isSecret(el) ? '(hidden)' : editor ? drawing(editor) : held(el === root ? el.innerText.trim() : squeeze(el.innerText));
    }
    return '';
  }

  function choices(options, el) {
    let group = '';
    const most = el === root ? 2000 : 12;
    const all = [...options].slice(0, most).map(x => {
      const before = group;
      group = x.closest('optgroup')?.label || '';
      return (group === before ? '' : `in ${quote(cut(squeeze(group), 60))}: `) + quote(cut(squeeze(x.label || x.text || x.value), 60)) + (x.matches(':disabled') ? ' (disabled)' : '');
    });
    return all.join(', ') + (options.length > most ? `, … ${options.length} in all` : '');
  }

  let homeDocument, home, here;
  function homeOf(doc) {
    if (doc !== homeDocument) { homeDocument = doc; home = doc.location.origin; here = doc.location.href.split('#')[0] + '#'; }
    return home;
  }

  function target(el, at) {
    const raw = el.getAttribute(at) || '';
    if (/^\s*javascript:/i.test(raw) || raw === '#') return '';
    let url = el[at]?.baseVal ?? el[at] ?? ''; // a link by its role alone leads nowhere
    const home = homeOf(el.ownerDocument);
    if (url.startsWith(here)) url = url.slice(here.length - 1);
    else if (url.startsWith(home + '/')) url = url.slice(home.length);
    return el === root || url.length <= 92 ? cut(url, 4000) : cut(url, 61) + url.slice(-30); // where it leads, and which it is
  }

  // note words what holds of a whole document: Chrome's viewer paints a PDF, so there are
  // no words of it, or a modal dialog keeps all else from being used.
  function note(doc) {
    if (doc.contentType === 'application/pdf') return '(a PDF: a screenshot shows its pages, and its Download button gives the file; while it loads, that is not listed yet)';
    const all = [...new Set([...doc.querySelectorAll('dialog:modal'), ...modals.filter(d => d.ownerDocument === doc)])];
    const top = all.find(d => hitPoint(d).x !== undefined) || all.at(-1);
    if (!top || within(top, root)) return '';
    const role = roleOf(top), name = shownName(top, role);
    return `(the modal ${role}${name && ' ' + quote(name)} [ref=${refOf(top, role, name)}] is open: nothing outside of it can be used)`;
  }

  // each visits what is in a node, and what style sheets put around that.
  function each(node, list, out, mute, pointing) {
    const tree = node.getRootNode();
    if (!wordy.has(tree)) wordy.set(tree, generates(tree));
    const put = at => { const s = wordy.get(tree) && !mute && !veiled ? generated(node, at) : ''; if (/[\p{L}\p{N}]/u.test(s)) out.push(s); };
    put('::before');
    for (const k of list) visit(k, out, mute, pointing);
    put('::after');
  }

  // visit appends what node shows to out. mute drops text that a name already
  // holds; pointing says that an ancestor is clickable already.
  let deep = 0, row = whole ? null : rowAround(root), veiled = null, struck = false; // veiled: what hides the texts that are visited
  function visit(node, out, mute, pointing) {
    if (node.nodeType === 3) {
      if (mute || veiled) return;
      if (/\S/.test(node.data)) out.push(struck ? unsaid(node, node.data).replace(/\S(.*\S)?/s, '\x03$&\x03') : unsaid(node, node.data));
      else if (node.data && out.length && typeof out[out.length - 1] === 'string') out.push(' ');
      return;
    }
    if (node.nodeType !== 1) return;
    const tag = node.tagName;
    if (SILENT.has(tag)) return;
    if (tag === 'BR') { if (!mute) out.push(' '); return; }
    if (hiddenByAria(node)) return;
    const style = getComputedStyle(node);
    const display = style.display;
    if (display === 'none' && !imageOf(node)?.checkVisibility({visibilityProperty: true})) return;
    if (display === '') { suspect(node.parentElement); return; } // its parent shows something else
    examine(node);
    noteCustom(node);
    let role = roleOf(node);
    const outer = row;
    if (ROWS.has(role)) row = node;
    if (tag === 'CAPTION' || (tag === 'LEGEND' && node.parentElement?.tagName === 'FIELDSET')) mute = true; // it names what it is in
    if (tag === 'LABEL' && node.control) {
      const to = node.control, shown = to.checkVisibility({visibilityProperty: true}) && !to.closest('[aria-hidden=true]');
      const standsIn = !role && !shown && (to.type === 'checkbox' || to.type === 'radio' || to.type === 'file');
      if (standsIn) role = roleOf(to);
      mute ||= (shown || standsIn) && (!isCustom(to) || !!(roleOf(to) || innerField(to))); // it is the control's name
    }
    if (mute && isCustom(node) && node.closest('label')?.control === node) mute = false; // what it shows itself is no label
    const invisible = style.visibility !== 'visible';
    const pointer = style.cursor === 'pointer';
    const clickable = !invisible && isClickable(node, role, style, pointing);
    if (clickable && !TELLING.has(role)) role = 'clickable';
    const doc = node.ownerDocument;
    if (!goalsIn.has(doc)) goalsIn.set(doc, goalsOf(doc));
    const goals = goalsIn.get(doc);
    const takes = !invisible && (zones.size > 0 && zones.has(node) || goals?.marked.has(node)) && tag !== 'BODY' && tag !== 'HTML' && role !== 'textbox';
    const boxed = !takes && !role && !invisible && goals?.boxes > 0 && isBox(node, style) && goals.boxes-- > 0;
    if (takes || boxed) role ||= 'group';
    const block = !display.startsWith('inline') && display !== 'contents';
    const before = veiled, was = struck;
    struck ||= style.textDecorationLine.includes('line-through');
    let shut = false; // what is in it is not shown
    if ((!ACTIVE.has(role) || role === 'listbox' && tag !== 'SELECT') && !(UNNAMED.has(role) && !node.hasAttributes())) {
      if (veiled && leaves(style, veiled)) veiled = null;
      veiled ||= veilOf(node, style);
      shut = style.contentVisibility === 'hidden' && display !== 'inline' && display !== 'contents';
    }
    if (block) out.push(null);
    deep++;
    if (deep > MAX_DEEP) {
      out.push('(nested too deep to be read)');
    } else if (!role || invisible || veiled && !(role === 'iframe' || ACTIVE.has(role) && !unreachable(node, veiled))) {
      each(node, shut ? [] : [...kids(node)].filter(k => !(invisible && k.nodeType === 3)), out, mute, pointing || pointer);
    } else {
      place(node, role, out, mute, pointing || pointer || clickable, shut, clickable, takes, boxed);
    }
    deep--;
    veiled = before;
    struck = was;
    row = outer;
    if (block) out.push(null);
  }

  function place(el, role, out, mute, pointing, shut, clickable, takes, boxed) {
    const active = clickable || ACTIVE.has(role);
    const whole = nameOf(el, role);
    const n = {role, el, row, name: shorten(whole, role), active, kids: []};
    if (role === 'combobox' || FROM_CONTENT.has(role) && whole.length > MAX_NAME) mute = false; // its text is its value, or its name does not hold all of it
    n.attrs = attrsOf(el, role);
    if (struck && n.name) n.attrs.push('struck');
    if (takes) n.attrs.push('dropzone');
    n.ref = takes || boxed;
    if (role === 'iframe') {
      if (el.offsetWidth < 3 || el.offsetHeight < 3) return; // it shows nothing to anyone
      const doc = frameDocument(el);
      if (doc) {
        if (doc.body) { visit(doc.body, n.kids, false, false); n.first = note(doc); }
        if (isBlank(el, doc)) { blank.push(el); n.first ||= '(this frame shows nothing yet)'; n.target = target(el, 'src'); }
      }
      else if (el.contentWindow) { n.slot = slot(el); n.foreign = true; n.target = target(el, 'src'); }
      n.active = n.ref = true;
    } else if (el.tagName === 'SELECT' || el.tagName === 'INPUT' || el.tagName === 'TEXTAREA' || role === 'canvas' || role === 'video') {
      n.value = valueOf(el, role);
    } else {
      n.value = valueOf(el, role);
      if (!(n.value && (role === 'textbox' || role === 'searchbox'))) {
        const quiet = mute || (FROM_CONTENT.has(role) && n.name !== '' && whole.length <= MAX_NAME && !saysMore(el, whole));
        if (el.tagName === 'DETAILS' && !el.open) {
          const s = el.querySelector(':scope > summary');
          if (s) visit(s, n.kids, quiet, pointing);
        } else {
          each(el, shut ? [] : kids(el), n.kids, quiet, pointing);
          // A picture whose words are in the name says nothing more.
          const told = k => k?.role === 'img' && !k.active && k.name && n.name.includes(k.name);
          if (quiet && !mute) { n.told = n.kids.filter(told).map(k => k.name); n.kids = n.kids.filter(k => !told(k)); }
        }
      }
    }
    if (role === 'link') n.target = target(el, 'href');
    if (role === 'canvas' || role === 'video' || role === 'audio' || role === 'dialog' || role === 'alertdialog') n.ref = true;
    if (role === 'img') {
      if (!n.name && mute && !active) return;
      if (!n.name && !active) { const r = el.getBoundingClientRect(); if (r.width < 3 || r.height < 3) return; n.hint = hintOf(el); }
      n.ref = true;
    }
    if (active) {
      n.ref = true;
      if (!n.name) n.hint = hintOf(el);
      else if (n.name.length < 4 && el.title) n.hint = el.title; // a cross that says Delete
    }
    if (mute && !active && role === 'heading') out.push(...n.kids); // the name around it holds its text
    else out.push(n);
  }

  // tidy joins texts, drops empty containers and flattens what adds nothing.
  function tidy(list) {
    /** @type {any[] & {cells?: boolean}} */
    const out = [], cells = new Set(); // where cells stand
    let text = '';
    const flush = () => { const s = squeeze(text); if (s) out.push(s.replace(/\x03(\s*)\x03/g, '$1').replaceAll('\x03', '~~')); text = ''; };
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
            const cell = words.join(' ') + x.attrs.filter(a => a.startsWith('sort=')).map(a => ` (${a})`).join('');
            if (out.length && typeof out[out.length - 1] === 'string' && out.cells) out[out.length - 1] += ' | ' + cell;
            else { cells.add(out.length); out.push(cell); out.cells = true; }
            continue;
          }
          out.cells = false;
          (x.kids.find(k => k.attrs && k.name) || x.kids.find(k => k.attrs))?.attrs.push(...x.attrs.filter(a => a.startsWith('sort=')));
          out.push(...x.kids);
          continue;
        }
        out.cells = false;
        if (x.role === 'clickable' && addsNothing(x)) { out.push(...x.kids); continue; }
        if (!x.active && !x.ref) {
          if (!x.kids.length && !x.name && !x.value && x.role !== 'heading') continue;
          if (PLAIN.has(x.role) && !x.name) { out.push(...x.kids); continue; }
          if (x.role === 'listitem' && x.kids.length === 1 && typeof x.kids[0] !== 'string') { out.push(x.kids[0]); continue; }
        }
        out.push(x);
      }
    }
    flush();
    return out.filter((x, i) => !cells.has(i) || /[^\s|]/.test(x)); // empty ones alone say nothing
  }

  const list = [];
  visit(root, list, false, false);
  const tree = tidy(list);

  const lines = [];
  let used = 0, omitted = 0;
  const plain = s => clean(s).replace(/[[\]]/g, ' ');
  const clean = s => s.replace(/[\x00-\x1f\x7f]/g, ' ');
  function line(s, pad) {
    const text = pad + '- ' + s;
    if (used > MAX_TEXT || lines.length > MAX_LINES) omitted += text.length + 1;
    else { used += text.length + 1; lines.push(text); }
  }
  function rowText(row, most) {
    if (!rows.has(row)) rows.set(row, {text: textOfRow(row, most), pieces: textsOfRow(row, most)});
    return rows.get(row);
  }
  // shownRef gives its ref, which stands for it in the row, or the part, that it is in.
  function shownRef(n) {
    const part = n.row ? undefined : rowText(partAround(n.el), MAX_PART_TEXT), row = rowText(n.row);
    return refOf(n.el, n.role, n.name, row.text, whole, part?.text, (part ?? row).pieces);
  }
  function print(list, pad) {
    for (const n of list) {
      if (typeof n === 'string') { if (!o.interactive) line('text: ' + clean(n), pad); continue; }
      let s = n.role;
      if (n.name) s += ' ' + quote(n.name);
      if (n.hint && n.hint !== n.name) s += ` [hint=${plain(cut(squeeze(unsaid(n.el, n.hint)), 50))}]`;
      for (const a of n.attrs) s += ` [${plain(a)}]`;
      const head = s.length;
      const ref = () => ` [ref=${shownRef(n)}]`;
      if (n.ref) { s += ref(); if (o.collect) nodes.push(n); }
      if (o.boxes && n.ref) s += box(n.el);
      if (n.target) s += ' -> ' + clean(n.target);
      let below = n.kids;
      if (n.value) s += ': ' + clean(n.value);
      else if (!o.interactive && below.length && typeof below[0] === 'string' && (below.length === 1 || n.role === 'row')) { s += ': ' + clean(below[0]); below = below.slice(1); }
      const shown = !o.interactive || n.active;
      const at = lines.length, before = used;
      if (n.foreign) { slots.push(n.slot); s += '\x01'; }
      if (shown) line(s, pad);
      const inner = shown ? pad + '  ' : pad;
      if (n.first) line(n.first, inner);
      print(below, inner);
      // What is large can be read by itself.
      if (!n.ref && shown && at < lines.length && used - before > MAX_PART) lines[at] = pad + '- ' + s.slice(0, head) + ref() + s.slice(head);
    }
  }
  const first = note(root.ownerDocument);
  if (first) line(first, '');
  print(tree, '');
  return o.collect ? {nodes, slots} : {text: lines.join('\n'), slots, omitted};
}

// Bounds of one outline.
const MAX_TEXT = 2000000, MAX_LINES = 40000, MAX_DEEP = 800;
const MAX_VALUE = 200000; // of what one field holds
const MAX_PART = 1500; // characters from which on a part has a ref of its own

const SILENT = new Set(['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'HEAD', 'DATALIST', 'script', 'style', 'defs', 'symbol', 'title', 'desc', 'metadata']);
const RANGED = new Set(['spinbutton', 'slider', 'date', 'time', 'month', 'week', 'datetime']);
const ENTERED = new Set([...RANGED, 'textbox', 'searchbox', 'combobox', 'color']);
const FIELDS = new Set(['INPUT', 'TEXTAREA', 'SELECT']);
const TELLING = new Set('img canvas video heading region note status alert blockquote tooltip'.split(' ')); // also of what takes clicks

function box(el) {
  const b = boxOf(el);
  return `\x02${[b.x, b.y, b.width, b.height].map(Math.round)}\x02`;
}

// isClickable tells what takes clicks without a role that says so; pointing means
// that the pointer's form comes from an ancestor.
function isClickable(el, role, style, pointing) {
  const tag = el.tagName;
  if (role && (ACTIVE.has(role) || !(PLAIN.has(role) || MERGED.has(role) || role === 'listitem' || role === 'row' || TELLING.has(role)))) return false;
  if (el.hasAttribute('onclick')) return true;
  if (tag === 'LABEL' || tag === 'BODY' || tag === 'HTML') return false;
  if (isDraggable(el)) return true; // a card of a board
  if (!pointing && style.cursor === 'pointer' && !isAnchor(el)) return true;
  if (role === 'gridcell' && (el.hasAttribute('tabindex') || isListenedFor(el))) return true; // a grid's cells are what is used of it
  return !role && el.tabIndex >= 0 && el.hasAttribute('tabindex') && !scrollsOnly(el, style) && !guardsFocus(el) || heard.size > 0 && (heard.has(el) ? takesPresses(el) || isPressedRow(el) : isOneOf(el));
}

// Where things are dragged by the pointer's events, nothing tells where they can go. goalsOf
// gives what its author marked as such a goal, and the containers that are to others of
// their kind what one with something to drag in it is, as the empty column of a board; and
// how many plain boxes may get a ref, too. null: nothing is dragged on that page.
const DRAGGED = '[draggable=true],.ui-draggable,[data-rfd-draggable-id],[data-rbd-draggable-id],[aria-grabbed],[aria-roledescription*=drag i],[aria-roledescription*=sortable i]';
const GOALS = '.ui-droppable,[data-rfd-droppable-id],[data-rbd-droppable-id],[aria-dropeffect]:not([aria-dropeffect=none])';
const MAX_BOXES = 60;

function goalsOf(doc) {
  const things = [...doc.querySelectorAll(DRAGGED)].slice(0, 200);
  for (const el of heard.keys()) {
    if (things.length < 200 && el.ownerDocument === doc && el.isConnected && /^(-webkit-)?(grab|move)$/.test(getComputedStyle(el).cursor)) things.push(el);
  }
  if (!things.length) return null;
  const marked = new Set(doc.querySelectorAll(GOALS));
  const seen = new Set();
  for (const thing of things) {
    // From its container up, the neighbours of one kind: what stands at the same place in them.
    const path = [];
    for (let x = thing.parentElement, i = 0; x && x.tagName !== 'BODY' && i < 4; x = x.parentElement, i++) {
      if (seen.has(x)) break;
      seen.add(x);
      for (const y of x.parentElement?.children ?? []) {
        if (y === x || y.tagName !== x.tagName) continue;
        const twin = path.reduceRight((at, [tag, n]) => at?.children[n]?.tagName === tag ? at.children[n] : null, y);
        const home = thing.parentElement;
        const alike = twin && (classes(twin).length ? classes(twin).some(c => classes(home).includes(c)) : !classes(home).length);
        if (alike && !things.includes(twin) && hasRoom(twin)) marked.add(twin).add(home);
      }
      path.push([x.tagName, [...x.parentElement?.children ?? []].indexOf(x)]);
    }
  }
  return {marked, boxes: MAX_BOXES};
}

const classes = el => (el.getAttribute('class') || '').split(/\s+/).filter(c => c);

const hasRoom = el => { const r = el.getBoundingClientRect(); return r.width >= 20 && r.height >= 20; };

// isBox: it is drawn as a place of its own, and holds nothing to act on.
function isBox(el, style) {
  if (style.display.startsWith('inline') && style.display !== 'inline-block' || style.display === 'contents') return false;
  const drawn = parseFloat(style.borderTopWidth) > 0 && style.borderTopStyle !== 'none' || style.backgroundImage !== 'none' || !/^rgba\(.*, 0\)$|^transparent$/.test(style.backgroundColor);
  if (!drawn || el.childElementCount > 3 || !hasRoom(el)) return false;
  const r = el.getBoundingClientRect(), win = el.ownerDocument.defaultView;
  return r.width * r.height * 2 < win.innerWidth * win.innerHeight && ![...el.getElementsByTagName('*')].some(x => ACTIVE.has(roleOf(x)) || heard.has(x));
}

// isAnchor: nothing is there to be pressed, only a place that addresses name.
const isAnchor = el => el.offsetWidth * el.offsetHeight === 0 && !el.hasChildNodes() && ['::before', '::after'].every(x => getComputedStyle(el, x).content === 'none');

// heard holds the elements that listen to presses, zones those that take what is dropped,
// with Chrome's numbers for them (listeners.go).
const heard = new Map(), zones = new Map();

// hear is told which of both there are, and which of those are new here.
function hear([presses, drops, come], all) {
  const known = new Map([...heard, ...zones, ...all.map((el, i) => [el, come[i]])]);
  heard.clear();
  zones.clear();
  for (const [el, id] of known) {
    if (presses.includes(id)) heard.set(el, id);
    if (drops.includes(id)) zones.set(el, id);
  }
}

// addsNothing: all that is clickable of it is in it, and says so: a cell around its link, or
// what a library draws around a field. A press on that passes it, too. What has room of its
// own, such as a picture with a box to tick, is something else.
function addsNothing(n) {
  const [first] = n.kids;
  if (!first || !n.kids.every(k => k.active || k.role === 'img') || !n.attrs.every(a => n.kids.some(k => k.attrs.includes(a)))) return false;
  if (n.kids.length === 1 && first.role === 'clickable' && first.name === n.name && n.name) return true;
  let rest = n.name;
  for (const words of n.told || []) rest = rest.replace(words, '');
  for (const k of n.kids) for (const words of [k.name, ...k.kids]) if (typeof words === 'string') rest = rest.replace(words, '');
  const bare = !rest.trim() || first.name.includes(rest.trim());
  if (!bare || n.kids.some(k => ENTERED.has(k.role))) return bare;
  const [all, part] = [n, first].map(x => { const r = x.el.getBoundingClientRect(); return r.width * r.height; });
  return (n.kids.length === 1 && first.active && (!first.attrs.includes('disabled') || n.attrs.includes('disabled')) || n.kids.every(k => k.role === 'radio')) && (all < 5000 || all < 6 * part);
}

// takesPresses tells what listens for itself from what listens for all that is in it,
// or stands around it: that is large, or holds several things to press, as a menu or a
// table of days does.
function takesPresses(el, alone = true) {
  const win = el.ownerDocument.defaultView, r = el.getBoundingClientRect();
  if (r.width < 3 || r.height < 3 || r.width * r.height * 2 > win.innerWidth * win.innerHeight) return false;
  if (el.closest('a[href],button,summary,[role=button],[role=link]') || el.closest('label')?.control) return false;
  let seen = 0, active = 0, rows = 0;
  for (const x of el.getElementsByTagName('*')) {
    const role = roleOf(x);
    if (++seen > 60 || (heard.has(x) || ACTIVE.has(role)) && ++active > 3) return false;
    if (alone && role === 'row' && (rows += x.hasAttribute('role') ? 2 : 1) > 1) return false;
  }
  return !alone || !holdsSeveral(el);
}

// holdsSeveral: children of one kind, and more than one. What was found out holds for as
// long as we run without a pause: each cell of a table asks about the rows around it.
let several = null;
function holdsSeveral(el) {
  if (el.childElementCount < 2) return false;
  if (!several) {
    several = new Map();
    queueMicrotask(() => { several = null; });
  }
  let is = several.get(el);
  if (is === undefined) several.set(el, is = [...el.children].every(x => x.tagName === el.firstElementChild.tagName));
  return is;
}

// isListenedFor: what a cell of a grid is in listens to presses.
function isListenedFor(el) {
  for (let x = above(el), i = 0; x && i < 16; x = above(x), i++) if (heard.has(x) && x.tagName !== 'BODY' && x.tagName !== 'HTML') return true;
  return false;
}

// isPressedRow: a row of a table listens itself, for what its cells say together. The cells of
// a grid, and the days of a week, are pressed one by one.
function isPressedRow(el) {
  if (!heard.has(el) || roleOf(el) !== 'row' || !holdsSeveral(el) || el.closest('[role=grid], [role=treegrid]')) return false;
  const cells = [...el.children], win = el.ownerDocument.defaultView, r = el.getBoundingClientRect();
  if (r.width < 3 || r.height < 3 || r.height * 2 > win.innerHeight || !cells.every(c => roleOf(c) === 'cell')) return false;
  return cells.some(c => c.textContent.trim().length > 2);
}

// isOneOf: el is one of several in something that listens for them all; of a list, also
// the only one.
function isOneOf(el) {
  const around = [];
  let x = above(el);
  for (; x && !heard.has(x) && around.length < 3; x = above(x)) around.push(x);
  if (!heard.has(x) || isPressedRow(x) || holdsSeveral(el) || !el.textContent.trim()) return false;
  around.push(x);
  return around.every(x => holdsSeveral(x) || x.childElementCount === 1) && (around.some(holdsSeveral) || roleOf(x) === 'list' && roleOf(el) === 'listitem') && takesPresses(x, false);
}

// saysMore: what is written in el is not what its author named it, such as the month on a
// button "Choose a month".
function saysMore(el, name) {
  if (!el.hasAttribute('aria-label') && !el.hasAttribute('aria-labelledby')) return false;
  const bare = s => s.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '');
  return !bare(name).includes(bare(textOf(el, 300)));
}

const isModal = el => el.tagName === 'DIALOG' && el.matches(':modal');

// isDraggable: by its page's word, not because it is a link or an image.
const isDraggable = el => el.getAttribute('draggable') === 'true';

// guardsFocus: nothing is there but a place for the focus, by which a dialog keeps it.
function guardsFocus(el) {
  if (el.childElementCount || el.textContent.trim() || rootOf(el)) return false;
  const r = el.getBoundingClientRect();
  return r.width < 2 || r.height < 2;
}

// scrollsOnly: such an element has a tabindex so that keys can scroll it.
const scrollsOnly = (el, style) => /auto|scroll/.test(style.overflowX + style.overflowY) && (el.scrollHeight > el.clientHeight || el.scrollWidth > el.clientWidth);

// veilOf tells whether the texts in el cannot be seen, though it is rendered: it is
// transparent where the reader looks, and does not change; it is cut to nothing; or it
// lies where no scrolling goes. Controls stay: pages hide theirs under what they draw,
// and tools can work with them. What is 1 pixel large is there to be read aloud.
function veilOf(el, style) {
  const box = () => el.getBoundingClientRect(), win = el.ownerDocument.defaultView;
  if (style.opacity < 0.02) {
    const r = box();
    return r.bottom > 0 && r.right > 0 && r.top < win.innerHeight && r.left < win.innerWidth && !el.getAnimations().some(isUnfinished) ? {} : null;
  }
  const veil = {still: style.position === 'static', cut: true};
  if (style.overflowY !== 'visible' && style.display !== 'inline' && style.display !== 'contents' && el !== el.ownerDocument.body && el.offsetWidth !== undefined && !(el.clientWidth && el.clientHeight)) return veil;
  if (veil.still || style.position === 'sticky') return null;
  const r = box();
  if (r.width <= 1 || r.height <= 1 || r.right + win.scrollX > FAR && r.bottom + win.scrollY > FAR) return null;
  for (let x = el; x; x = above(x)) if (x.scrollTop || x.scrollLeft || getComputedStyle(x).direction === 'rtl') return null; // it can be scrolled to
  veil.cut = false;
  return veil;
}

// unreachable: in what is cut to nothing, only what the browser itself makes a control, or
// takes the focus, can be worked with. The options there are a copy to be read aloud.
const unreachable = (el, veil) => veil.cut && el.tabIndex < 0 && !/^(INPUT|SELECT|TEXTAREA|BUTTON|OPTION)$/.test(el.tagName);

// isUnfinished: the animation goes on, or is paused before its end, as libraries prepare
// what they are about to show.
const isUnfinished = a => a.playState === 'running' || a.playState === 'paused';

const FAR = -500;

// leaves: what is placed by itself is not cut by what it is written in.
const leaves = (style, veil) => style.position === 'fixed' && 'still' in veil || style.position === 'absolute' && veil.still;

const underPointer = el => { const up = above(el); return !!up && getComputedStyle(up).cursor === 'pointer'; };

// rest waits until nothing has changed for a frame or two, at most a quarter of a
// second: what an action started is then mostly done. While a curtain rises or falls over the
// page, twice as long: what it is for comes after it, some frames later.
async function rest() {
  let changed = true, calm = 0, wanted = 1;
  const observer = new MutationObserver(() => { changed = true; });
  observer.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
  for (const start = performance.now(); performance.now() < start + (changed ? 250 : 500); ) {
    const falls = curtain();
    if (falls) wanted = 4;
    if (changed || falls) calm = 0;
    else if (++calm >= wanted) break;
    changed = false;
    await frame(window);
  }
  observer.disconnect();
}

// styled waits, once for a document, until its style sheets are there: before, Chrome
// shows no frame of it, and what they hide is not hidden yet.
let unstyled = 2000;

async function styled() {
  const bound = unstyled;
  unstyled = 0;
  const lacks = bound && document.readyState !== 'complete' && [...document.querySelectorAll('link[rel~=stylesheet i]')].some(l => !l.sheet && !l.disabled);
  if (lacks) await frame(window, bound);
}

// curtain: what lies over most of the viewport is fading or moving, and will be done with it.
const curtain = () => document.getAnimations().some(({playState, effect}) => {
  const el = effect?.target;
  return playState === 'running' && Number(effect.getComputedTiming().endTime) < 1000 && el && /fixed|absolute/.test(getComputedStyle(el).position) && el.clientWidth * el.clientHeight * 2 > innerWidth * innerHeight;
});

async function snapshot(o) {
  await styled();
  if (o.rest || curtain()) await rest();
  next = Math.max(next, o.base);
  let root = document.body || document.documentElement;
  const read = () => {
    suspects = [];
    customs = [];
    strangers = [];
    blank = [];
    hid = false;
    return root ? outline(root, o) : {text: '', slots: [], omitted: 0};
  };
  if (o.ref || o.selector) {
    const f = find({...o, read: true});
    if (f.error) return f;
    root = f.el;
  }
  let out = read();
  if (blank.length && await arrived(blank)) out = read();
  prune();
  return {...out, next, suspects: suspects.length, customs: customs.length, strangers: strangers.length, hid, url: location.href, title: document.title};
}

// marks lists what of the outline's refs is in view, with its box.
function marks(o) {
  next = Math.max(next, o.base);
  strangers = [];
  const root = document.body || document.documentElement;
  const out = root ? outline(root, {interactive: true, collect: true}) : {nodes: [], slots: []};
  const list = [];
  for (const n of out.nodes) {
    if (n.slot !== undefined || n.role === 'iframe') continue;
    const el = standIn(n.el), b = boxOf(el);
    if (b.width < 2 || b.height < 2 || b.x >= innerWidth || b.y >= innerHeight || b.x + b.width <= 0 || b.y + b.height <= 0) continue;
    if (hitPoint(el).x === undefined) continue;
    list.push({ref: refOf(n.el, n.role, n.name), role: n.role, name: n.name, ...b});
  }
  return {marks: list, slots: out.slots, strangers: strangers.length, next};
}
