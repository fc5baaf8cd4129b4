// ---- field: putting text and choices into fields ----------------------------------

// focusField puts the caret where the text shall go.
function focusField(el, o, editor) {
  const secret = isSecret(el), names = namesOf(el) || [];
  markSecret(el);
  const direct = el.tagName === 'INPUT' && SET_INPUTS.has(el.type);
  el.focus({preventScroll: true});
  const root = el.getRootNode();
  const active = root.activeElement;
  if (!direct && !(active && (active === el || el.contains(active) || active.shadowRoot))) return unfocused(el);
  field = {el, before: el.isContentEditable ? el.innerText : el.value, clear: o.clear, fresh: true, editor};
  if (editor) return {secret, names, veiled: isVeiled(el), multiline: true, drawn: true, line: isLine(el)};
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
  return {secret, names, direct, listed: hasList(el), veiled: isVeiled(el), end, empty, multiline: el.tagName === 'TEXTAREA' || el.isContentEditable, rich: el.isContentEditable};
}

// isLine: an editor says that it takes one line, as a terminal does. Its caret stands where
// that ends, and keys that move it are its program's.
const isLine = el => el.getAttribute('aria-multiline') === 'false';

let field = null;

// isVeiled: the page's own world, asked from the top of this document, does not
// come to the element, so nobody can tell whether it listens to keys.
function isVeiled(el) {
  if (el.ownerDocument !== document) return true;
  for (let root = el.getRootNode(); isShadow(root); root = root.host.getRootNode()) if (!root.host.shadowRoot) return true;
  return false;
}

// setField sets what keys cannot reliably reach (dates, colours, sliders).
function setField(o) {
  const el = field.el;
  const proto = el.ownerDocument.defaultView.HTMLInputElement.prototype;
  Object.getOwnPropertyDescriptor(proto, 'value').set.call(el, o.text);
  el.dispatchEvent(new Event('input', {bubbles: true, composed: true}));
  el.dispatchEvent(new Event('change', {bubbles: true}));
  return typed(o);
}

// reacted waits until the page's script has reacted to what was done to a field.
const reacted = () => new Promise(next => { const c = new MessageChannel(); c.port1.onmessage = () => { c.port1.close(); next(); }; c.port2.postMessage(0); });

// typeIn puts text where nothing listens to how it comes, and compares; without a
// verdict Chrome would not edit.
async function typeIn(o) {
  if (!field.el.ownerDocument.execCommand('insertText', false, o.text)) return {};
  await reacted();
  return typed(o);
}

// typed compares what the field holds with what it should; only the verdict
// leaves the page, never the text.
async function typed(o) {
  const el = field.el;
  if (o.arm) watch(el, {kind: 'type'});
  if (!attached(el)) return {verdict: 'gone'};
  if (field.editor) return {verdict: await drawnText(field.editor, o.text, field.clear)};
  const now = el.isContentEditable ? el.innerText : el.value;
  let want = (field.clear || SET_INPUTS.has(el.type) ? '' : field.before) + o.text;
  if (el.isContentEditable) return {verdict: squeeze(now).includes(squeeze(o.text)) && (!field.clear || squeeze(now) === squeeze(want)) ? 'match' : now === field.before ? 'unchanged' : 'other'};
  if (el.tagName === 'INPUT') want = want.replace(/[\r\n]/g, '');
  else want = want.replace(/\r\n?/g, '\n');
  return {verdict: now === want ? 'match' : now === field.before ? (want === field.before ? 'match' : 'unchanged') : 'other'};
}

// setNative gives a field its value past a framework's own property, and tells it
// as a person's change is told.
function setNative(el, value) {
  const win = el.ownerDocument.defaultView;
  const proto = el.tagName === 'TEXTAREA' ? win.HTMLTextAreaElement : win.HTMLInputElement;
  Object.getOwnPropertyDescriptor(proto.prototype, 'value').set.call(el, value);
  changed(el);
}

function changed(el) {
  el.dispatchEvent(new Event('input', {bubbles: true, composed: true}));
  el.dispatchEvent(new Event('change', {bubbles: true}));
}

// putText replaces what a field holds by real editing: input events are trusted,
// maxlength has its say.
function putText(el, text) {
  el.select();
  if (text !== '') el.ownerDocument.execCommand('insertText', false, text);
  else if (el.value !== '') el.ownerDocument.execCommand('delete');
}

const currentText = el => el.isContentEditable ? el.innerText.replace(/\n$/, '') : el.value;
const FORMS = {date: 'YYYY-MM-DD', time: 'HH:MM', month: 'YYYY-MM', week: 'YYYY-Www', 'datetime-local': 'YYYY-MM-DDTHH:MM', color: '#rrggbb', number: 'a number', range: 'a number'};

// judgeText judges a field after it was filled; nothing of its value leaves the page.
function judgeText(el, before, want) {
  if (!attached(el)) return 'gone';
  const now = currentText(el);
  const same = el.isContentEditable ? squeeze(now) === squeeze(want) : now === want || (el.type === 'number' && now !== '' && Number(now) === Number(want));
  if (same && want !== '' && el.getAttribute('aria-expanded') === 'true' && el.getRootNode().activeElement === el) return 'open';
  return same ? 'match' : now === before ? 'unchanged' : 'other';
}

// barred: el did not take the focus since a modal dialog is open, or it is inert; a person
// could not set it either.
const barred = el => el.getRootNode().activeElement !== el && !!(el.closest('[inert]') || el.ownerDocument.querySelector('dialog:modal'));

// isBehind: el is inert, or outside of each modal dialog that is open.
function isBehind(el) {
  const open = [...el.ownerDocument.querySelectorAll('dialog:modal')];
  return !!el.closest('[inert]') || open.length > 0 && !open.some(d => within(d, el));
}

// slide makes a slider of the page's own ready for the keys that move it, or judges it.
function slide(el, o) {
  const now = Number(el.getAttribute('aria-valuenow')), want = Number(o.value);
  if (o.value.trim() === '' || isNaN(want)) return fail('invalid_arguments', `${describe(el)} takes a number.`, byOtherWays(el));
  const [min, max] = ['aria-valuemin', 'aria-valuemax'].map(at => el.hasAttribute(at) ? Number(el.getAttribute(at)) : NaN);
  if (want < min || want > max) return fail('invalid_arguments', `${describe(el)} takes ${min} to ${max}.`);
  if (isDisabled(el)) return disabled(el);
  if (now === want) return {verdict: 'match'};
  if (o.check) return {verdict: 'other'};
  el.scrollIntoView({block: 'nearest', inline: 'nearest', behavior: 'instant'});
  el.focus({preventScroll: true});
  if (el.getRootNode().activeElement !== el) return unfocused(el);
  return {slide: true, off: want - now};
}

// fillOne gives one field its value: {verdict}, {press: true} where it takes a
// click, or why not.
function fillOne(o, keyed) {
  const f = find(o);
  if (f.error) return f;
  const el = fieldOf(f.el);
  const role = roleOf(el);
  const toggle = el.type === 'checkbox' || el.type === 'radio' || role === 'checkbox' || role === 'switch' || role === 'radio' || role === 'menuitemcheckbox';
  if (toggle) {
    if (o.value !== 'true' && o.value !== 'false') return fail('invalid_arguments', `${describe(el)} takes "true" or "false".`);
    if (isDisabled(el)) return disabled(el);
    const on = el.tagName === 'INPUT' ? el.checked && !el.indeterminate : el.getAttribute('aria-checked') === 'true';
    if (String(on) === o.value) return {verdict: 'match'};
    if (o.value === 'false' && (el.type === 'radio' || role === 'radio')) return fail('invalid_arguments', `${describe(el)} is a radio button: it is unset by setting another of its group.`);
    return o.again ? {verdict: 'unchanged'} : {press: true};
  }
  if (el.tagName === 'INPUT' && el.type === 'file') return fail('execution_failed', `${describe(el)} takes files.`, 'Use tool.browser.upload-file.');
  if (el.tagName !== 'SELECT' && (el.tagName === 'INPUT' ? !TEXT_INPUTS.has(el.type) && !SET_INPUTS.has(el.type) : el.tagName !== 'TEXTAREA' && !el.isContentEditable && !el.editContext)) {
    if (role === 'slider' && el.hasAttribute('aria-valuenow')) return slide(el, o);
    if (byOtherWays(el) === OPEN_LIST) return fail('execution_failed', custom(el), OPEN_LIST);
    return fail('execution_failed', `${describe(el)} is no field that can be filled.`, byOtherWays(el));
  }
  if (!el.checkVisibility({visibilityProperty: true})) return unseen(el);
  if (isDisabled(el)) return disabled(el);
  if (isReadOnly(el)) return readOnly(el);
  if (el.tagName === 'SELECT') {
    const was = choiceOf(el), face = hiddenAway(el) && faceOf(el);
    const done = chooseIn(el, el.multiple ? o.value.split('\n').filter(Boolean) : [o.value]);
    if (done.error || !face) return done.error ? done : {verdict: done.verdict};
    return {judge: async () => {
      if (await until(() => showsChoice(face, el), FOLLOWS)) return 'match';
      putBack(el, was);
      return 'unchanged';
    }};
  }
  markSecret(el);
  const before = el.editContext ? '' : currentText(el);
  if (SET_INPUTS.has(el.type)) {
    el.focus({preventScroll: true});
    if (barred(el)) return unfocused(el);
    if (before === o.value) return {verdict: 'match'};
    const probe = el.cloneNode();
    probe.value = o.value;
    if (o.value !== '' && (el.type === 'range' ? isNaN(Number(o.value)) : el.type === 'color' ? probe.value !== o.value.toLowerCase() : probe.value === ''))
      return fail('invalid_arguments', `${describe(el)} takes ${FORMS[el.type]}.`);
    setNative(el, o.value);
    return {judge: () => judgeText(el, before, el.type === 'color' ? o.value.toLowerCase() : o.value)};
  }
  if (el.type === 'number' && o.value !== '' && isNaN(Number(o.value))) return fail('invalid_arguments', `${describe(el)} takes a number.`);
  const want = el.tagName === 'INPUT' ? o.value.replace(/[\r\n]/g, '') : o.value.replace(/\r\n?/g, '\n');
  el.scrollIntoView({block: 'nearest', inline: 'nearest', behavior: 'instant'});
  const away = !el.matches(':focus-within');
  el.focus({preventScroll: true});
  const holder = el.getRootNode().activeElement;
  if (!holder || !(el === holder || el.contains(holder))) return unfocused(el);
  const names = namesOf(el) || [], secret = isSecret(el), editor = editorOf(el);
  if (editor) return o.check ? {judge: () => drawnText(editor, want, true), secret, names} : {keys: true, keyed: true, multiline: true, drawn: true, line: isLine(el), secret, names};
  if (o.check) return {judge: () => judgeText(el, o.empty ? '' : null, want), away, secret, names};
  if (before === want) return {verdict: 'match', secret, names};
  if (!o.whole && (keyed || el.isContentEditable || el.getRootNode() !== document)) {
    // Rich text and what listens to keys get real keys, which come from outside.
    if (el.isContentEditable) el.ownerDocument.defaultView.getSelection().selectAllChildren(el);
    else el.select();
    return {keys: true, keyed: keyed || isVeiled(el), listed: hasList(el), rich: el.isContentEditable, empty: before === '', multiline: el.tagName !== 'INPUT', secret, names};
  }
  putText(el, want);
  if (attached(el) && judgeText(el, before, want) === 'unchanged') setNative(el, want);
  return {judge: () => judgeText(el, before, want), text: el, secret, names};
}

// TEXTS is what fill.go looks through for listeners, in the same order.
const TEXTS = 'input:not([type=hidden]):not([type=checkbox]):not([type=radio]), textarea, [contenteditable]';

// secretsAmong gives the names of the fields that hold what must not be shown, null for others.
const secretsAmong = o => o.fields.map(f => { const x = find(f); return x.el ? namesOf(fieldOf(x.el)) : null; });

// meant gives role, name and secrecy of an element that is only talked about, or of what
// has the focus; null for none.
const meant = o => {
  const x = o.kind === 'focus' ? {el: focused()} : find({...o, read: true});
  if (!x.el || o.kind === 'focus' && (x.el === document.body || x.el === document.documentElement)) return null;
  const field = fieldOf(x.el), role = roleOf(x.el);
  return {role: role || '', name: shownName(x.el, role), secret: isSecret(x.el) || isSecret(field)};
};

const TAKES_BACK = 250; // milliseconds

// floats: x lies over the page, as what opens at a field does.
const floats = x => x.nodeType === 1 && [x, ...x.querySelectorAll('*')].slice(0, 4).some(y => /absolute|fixed/.test(getComputedStyle(y).position));

// fill gives fields their values; a field that real input has to finish says so.
// They are judged once the page has reacted: frameworks write their state back.
async function fill(o) {
  const list = o.keyed?.length ? [...document.querySelectorAll(TEXTS)] : [];
  const keyed = o.fields.map(f => { const x = list.length ? find(f) : {}; return !!x.el && o.keyed.includes(list.indexOf(fieldOf(x.el))); });
  const done = [];
  let last = null, opened = false;
  const added = new Set();
  const until = lastOf(o), end = performance.now() + LOOKS; // of all fields together
  const observer = new MutationObserver(all => { for (const r of all) { opened ||= !!r.attributeName; r.addedNodes.forEach(x => added.add(x)); } });
  observer.observe(document, {subtree: true, childList: true, attributeFilter: ['aria-expanded']});
  for (let i = 0; i < o.fields.length; i++) {
    let r;
    try { r = await patiently(() => fillOne(o.fields[i], keyed[i] || !!o.fields[i].keys), until, end); } catch { r = fail('execution_failed', 'The field could not be filled.'); }
    last = r.text || last;
    done.push(r);
    await null;
  }
  // The others told their change when they lost the focus.
  if (last && attached(last)) last.dispatchEvent(new Event('change', {bubbles: true}));
  if (done.some(r => r.judge)) await reacted();
  observer.disconnect();
  // A list or picker takes back what was not chosen in it, some time after the focus went on,
  // and each of them in its own time.
  if (opened || [...added].some(floats)) {
    for (const stop = performance.now() + TAKES_BACK; o.fields.length > 1 && performance.now() < stop; ) await frame(window);
    await rest();
  }
  const fields = await Promise.all(done.map(async ({judge, text, ...r}) => judge ? {...r, verdict: await judge()} : r));
  return fields.length === 1 && fields[0].error ? fields[0] : {fields};
}

const custom = el => `${describe(el)} is no native list.`;

// optionsIn finds options of a native list by value or label: {chosen}, or why not.
function optionsIn(el, wanted) {
  if (wanted.length > 1 && !el.multiple) return fail('invalid_arguments', `${describe(el)} takes one option.`);
  const options = [...el.options];
  const chosen = new Set();
  for (const want of wanted) {
    const w = squeeze(want);
    const found = options.find(x => x.value === want) || options.find(x => labelIn(x) === w) || options.find(x => labelIn(x).toLowerCase() === w.toLowerCase());
    if (!found) {
      const all = options.slice(0, 20).map(x => quote(cut(labelIn(x), 40))).join(', ') + (options.length > 20 ? `, … ${options.length} in all` : '');
      return fail('element_not_found', `${describe(el)} has no option ${quote(cut(w, 60))}; it has ${all || 'none'}.`, 'Give one that it has, by label or value.');
    }
    if (found.disabled || found.parentElement?.disabled) return fail('element_disabled', `The option ${quote(cut(labelIn(found), 60))} is disabled.`);
    chosen.add(found);
  }
  return {chosen};
}

// press gives a native list the focus, as a press does: what a page opened around it would
// close at the focus alone. Chrome opens no list upon that.
function press(el) {
  if (el.matches(':focus')) return;
  const win = el.ownerDocument.defaultView, {left, top, width, height} = el.getBoundingClientRect();
  const at = {bubbles: true, cancelable: true, composed: true, view: win, clientX: left + width / 2, clientY: top + height / 2, detail: 1};
  const tell = (name, buttons) => {
    el.dispatchEvent(new PointerEvent('pointer' + name, {...at, buttons, pointerId: 1, pointerType: 'mouse', isPrimary: true}));
    el.dispatchEvent(new MouseEvent('mouse' + name, {...at, buttons}));
  };
  tell('down', 1);
  el.focus({preventScroll: true});
  tell('up', 0);
}

// chooseIn selects options of a native list by value or label. With byKey it only
// makes ready what one arrow key then selects, as a person would: the page sees
// trusted events.
function chooseIn(el, wanted, byKey) {
  const found = optionsIn(el, wanted);
  if (found.error) return found;
  const {chosen} = found, options = [...el.options], label = labelIn;
  const same = options.every(x => x.selected === chosen.has(x));
  if (!same) {
    // Its own rule would choose another at once.
    if (!chosen.size && !el.multiple && el.size < 2) return fail('invalid_arguments', `${describe(el)} always holds one option: give one.`);
    if (isBehind(el)) el.focus({preventScroll: true});
    else press(el);
    if (barred(el)) return unfocused(el);
    if (byKey && !el.multiple && el.size < 2 && chosen.size === 1 && el.matches(':focus')) {
      const [want] = chosen;
      const open = options.filter(x => !x.disabled && !x.parentElement.disabled && (x === want || getComputedStyle(x).display !== 'none'));
      const i = open.indexOf(want);
      const beside = open[i - 1] || open[i + 1];
      if (beside) {
        el.selectedIndex = beside.index;
        return {key: open[i - 1] ? 'ArrowDown' : 'ArrowUp', selected: [cut(label(want), 200)]};
      }
    }
    for (const x of options) if (x.selected !== chosen.has(x)) x.selected = chosen.has(x);
    changed(el);
  }
  const now = attached(el) ? [...el.selectedOptions] : [];
  const holds = now.length === chosen.size && now.every(x => chosen.has(x) || [...chosen].some(y => y.value === x.value && label(y) === label(x)));
  return {verdict: !attached(el) ? 'gone' : !holds ? 'other' : same ? 'same' : 'match', selected: now.slice(0, 100).map(x => cut(label(x), 200))};
}

// choose carries out select-option.
const choose = o => patiently(() => chooseNow(o), lastOf(o));

function chooseNow(o) {
  const f = find(o);
  if (f.error) return f;
  let el = f.el;
  if (el.tagName === 'OPTION') el = el.closest('select') || el;
  const native = fieldOf(el);
  if (native.tagName !== 'SELECT' || hiddenAway(native)) {
    // The page draws the list itself, over a native one or without.
    const s = dress(native, o.values) || dress(el, o.values);
    if (s && !hasBox(s.face)) return unseen(s.face);
    if (s && isDisabled(s.el)) return disabled(s.el);
    if (s) return {verdict: 'dressed'};
  }
  el = native;
  if (el.tagName !== 'SELECT') return fail('execution_failed', `${describe(el)} is no list of options.`);
  if (!el.checkVisibility({visibilityProperty: true})) return unseen(el);
  if (isDisabled(el)) return disabled(el);
  el.scrollIntoView({block: 'nearest', inline: 'nearest', behavior: 'instant'});
  return chooseIn(el, o.values, o.button === 'key');
}

let upload = null;
const uploadTo = () => upload;

// aimUpload finds the file input that is meant. Pages often hide it behind a
// button or a label, so it need not be visible.
function aimUpload(o) {
  const f = find(o);
  if (f.error) return f;
  const isFile = x => x && x.tagName === 'INPUT' && x.type === 'file';
  let el = f.el.tagName === 'LABEL' && isFile(f.el.control) ? f.el.control : f.el;
  if (!isFile(el)) {
    const inner = el.querySelectorAll('input[type=file]');
    if (inner.length === 1) el = inner[0];
  }
  if (!isFile(el)) return aimDrop(f.el, o);
  if (isDisabled(el)) return disabled(el);
  if (el.webkitdirectory) return fail('not_supported', `${describe(el)} takes a whole folder, which cannot be given.`, 'Give files to another input, or drop them on what is marked [dropzone].');
  if (o.count > 1 && !el.multiple) return fail('invalid_arguments', 'The file input takes one file.');
  upload = el;
  return {x: 0, y: 0};
}

// aimDrop aims at what is no file input for a drop of files or data.
function aimDrop(el, o) {
  let p = hitPoint(el);
  if (p.x === undefined) {
    el.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
    p = hitPoint(el);
  }
  if (p.x === undefined) return noDrop(el, o.kind === 'data');
  watch(el, {...o, kind: 'drop', data: o.kind === 'data'});
  return {x: p.x, y: p.y, drop: true};
}

const noInput = el => fail('execution_failed', `${describe(el)} is no file input, and takes no files that are dropped on it. If it opens a file chooser, click it and then call upload-file without ref or selector.`);

const noDrop = (el, data) => data ? fail('execution_failed', `${describe(el)} takes no data that is dropped on it.`, 'A snapshot marks with [dropzone] what takes drops.') : noInput(el);

// takesDrop tells whether what is held over the page would be taken: by the page, or, if it
// is data, by a field for text.
function takesDrop() {
  const el = current?.el || document.documentElement, hit = current?.overHit;
  if (current?.over?.defaultPrevented) return {};
  if (current?.data && hit && !isReadOnly(hit) && !isDisabled(hit) && (hit.isContentEditable || hit.tagName === 'TEXTAREA' || hit.tagName === 'INPUT' && TEXT_INPUTS.has(hit.type))) return {};
  return noDrop(el, current?.data);
}
