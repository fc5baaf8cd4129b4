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
