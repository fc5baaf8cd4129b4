// ---- what was typed in secret, and what repeats it ------------------------------

const secrets = new WeakSet(); // elements that were ever password fields

// isSecret: what the field holds must not be shown. A list to search in is no password,
// though pages call it one to keep the browser from offering addresses.
function isSecret(el) {
  if (secrets.has(el)) return true;
  let auto = el.getAttribute('autocomplete') || '';
  if (el.getAttribute('role') === 'combobox' && /list|both/.test(el.getAttribute('aria-autocomplete'))) auto = auto.replace('new-password', '');
  if (el.type === 'password' || /(current|new)-password|one-time-code|cc-(number|csc)/.test(auto) ||
      (el.tagName === 'INPUT' && !['', 'none'].includes(getComputedStyle(el).webkitTextSecurity || ''))) {
    secrets.add(el);
    return true;
  }
  return false;
}

// namesOf gives what a form calls a secret field, null for one that is none.
const namesOf = el => isSecret(el) ? [...new Set([el.getAttribute('name'), el.id])].filter(x => x) : null;

// What stands beside a field and holds its value since it was typed is an echo of it. What
// held the same before is not, nor is what stands elsewhere: a PIN is also a year.
const marked = [];             // {el, box, was, said}: a field, what is beside it, what that held before, and its echoes
const NEAR = 60, MIN_ECHO = 3; // elements of a box; characters of a value that is looked for

// boxAround gives the smallest part of the page that belongs to a field.
function boxAround(el) {
  const form = el.closest('form,fieldset,dialog,[role=dialog],[role=form]');
  if (form && form.querySelectorAll('*').length <= 4 * NEAR) return form;
  let box = el;
  for (let x = above(el), i = 0; x && i < 3 && x.querySelectorAll('*').length <= NEAR; x = above(x), i++) box = x;
  return box === el ? el.parentElement || el : box;
}

const VALUED = new Set(['INPUT', 'TEXTAREA', 'OPTION']);

// saidBy gives what an element says by itself, heldBy also what is in it.
const saidBy = el => [...[...el.attributes].map(a => a.value), VALUED.has(el.tagName) ? el.value : ''].join('\n');
const heldBy = el => saidBy(el) + '\n' + el.textContent;

// near lists what is beside a field: elements and their texts.
function near(box) {
  const all = [];
  const walk = node => {
    if (all.length > 40 * NEAR) return;
    all.push(node);
    for (const k of node.nodeType === 1 ? [...kids(node)] : []) if (k.nodeType === 1 || k.nodeType === 3) walk(k);
  };
  walk(box);
  return all;
}

// markSecret notes what stands beside a secret field before something is typed into it.
function markSecret(el) {
  if (!isSecret(el)) return;
  const value = el.value ?? '', known = marked.find(m => m.el.deref() === el);
  if (known && value && value === known.value) return; // more of the same is typed
  const box = boxAround(el), was = new WeakMap();
  for (const x of near(box)) was.set(x, x.nodeType === 3 ? x.data : heldBy(x));
  if (known) marked.splice(marked.indexOf(known), 1);
  if (marked.length > 20) marked.shift();
  marked.push({el: new WeakRef(el), box: new WeakRef(box), was, said: new WeakMap(), value: ''});
}

// wordsOf finds a text as whole words.
const wordsOf = text => new RegExp('(?<![\\p{L}\\p{N}])' + text.replace(/[.*+?^${}()|[\]\\\/]/g, '\\$&') + '(?![\\p{L}\\p{N}])', 'gu');

let hid = false; // something was left out of what is told now

// unsaid leaves the value of a field out of what an echo beside it says.
function unsaid(node, text) {
  if (!marked.length || !text) return text;
  for (const m of marked) {
    const el = m.el.deref(), box = m.box.deref();
    if (!attached(el) || !box || node === el || !(box === node || box.contains(node) || within(box, node.nodeType === 3 ? node.parentElement : node))) continue;
    const now = el.value ?? '';
    if (now.length >= MIN_ECHO) m.value = now;
    const value = now.length >= MIN_ECHO ? now : m.said.get(node);
    if (!value) continue;
    const words = wordsOf(value);
    if (!words.test(text) || wordsOf(value).test(m.was.get(node) ?? '')) continue;
    m.said.set(node, value);
    hid = true;
    text = text.replace(words, '(hidden)');
  }
  return text;
}

// repeated tells of each secret field's value whether the page has it nowhere else, and the
// source of what repeats it.
function repeated() {
  const list = [];
  for (const m of marked) {
    const el = m.el.deref(), box = m.box.deref();
    if (!attached(el) || !box || !el.value) continue;
    const value = el.value, html = new Set(), echoes = new Set([el]);
    for (const x of near(box)) {
      const text = x.nodeType === 3 ? x.data : x.nodeType === 1 ? saidBy(x) : '';
      if (x !== el && unsaid(x, text) === text) continue;
      echoes.add(x);
      html.add((x.nodeType === 3 ? x.parentElement : x).outerHTML);
    }
    let alone = true;
    everyRoot(document, root => {
      const walk = document.createTreeWalker(root, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
      for (let x = walk.nextNode(), n = 0; x && alone && n < 50000; x = walk.nextNode(), n++) {
        if (echoes.has(x)) continue;
        if (x.nodeType === 3 ? x.data.trim() === value && !SILENT.has(x.parentElement?.tagName) : VALUED.has(x.tagName) && x.value === value && !isSecret(x)) alone = false;
      }
    });
    list.push({value, alone, html: [...html].filter(s => s && s.length < 4000 && wordsOf(value).test(s))});
  }
  return list;
}
