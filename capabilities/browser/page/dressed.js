// ---- dressed: lists of options that a page draws itself -----------------------------
//
// A native list that is hidden has a face: what the page shows in its place. Its value is set
// first, as a person's choice is told, and a face that follows shows the labels then. One that
// does not, or has no native list behind it, is worked as a person does, step by step from
// outside (unfold.go): it is opened, the options are clicked, and it is closed if it stays open.

// LISTS open a list of options, or are one.
const LISTS = '[role=combobox], [role=listbox], [aria-haspopup=listbox]';
const CONTROLS = 'input:not([type=hidden]), textarea, select, button, [contenteditable], [role=combobox], [role=textbox], [role=button], [role=checkbox], [role=switch], [role=slider]';
const OPTIONISH = '[role=option], [role=menuitem], [role=menuitemradio], [role=menuitemcheckbox], [role=treeitem], [role=radio], [role=checkbox], li';
const AROUND = /^(BODY|HTML|FORM|FIELDSET|TABLE|MAIN)$/; // no part of a control

const OPENS = 1500, FOLLOWS = 400, CLOSES = 600, FINDS = 3000; // milliseconds

const labelIn = x => squeeze(x.label || x.text);

function hasBox(x) {
  const r = x.getBoundingClientRect();
  return r.width > 2 && r.height > 2 && x.checkVisibility({visibilityProperty: true});
}

// hiddenAway: a native list is in the page, and nobody sees or presses it.
function hiddenAway(list) {
  const r = list.getBoundingClientRect(), win = list.ownerDocument.defaultView, {opacity, pointerEvents} = getComputedStyle(list);
  return !hasBox(list) || opacity === '0' && pointerEvents === 'none' || r.right + win.scrollX <= 0 || r.bottom + win.scrollY <= 0;
}

// dresses: y shows what is chosen in the list, holds its options, or opens a list itself.
function dresses(y, list) {
  if (/^(LABEL|OPTION|SELECT|SCRIPT|STYLE|P)$/.test(y.tagName) || !hasBox(y)) return false;
  if (y.matches(LISTS) || y.querySelector(LISTS)) return true;
  if (list.getAttribute('tabindex') === '-1' && y.querySelector('input, textarea, [tabindex]')) return true; // something else takes the focus
  const words = squeeze(y.textContent.replace(list.textContent, ' '));
  const chosen = [...list.selectedOptions].map(labelIn).filter(Boolean), all = [...list.options].map(labelIn).filter(Boolean).slice(0, 5);
  return chosen.length > 0 && chosen.every(l => words.includes(l)) || all.length > 1 && all.every(l => words.includes(l));
}

// faceOf gives what is shown in the place of a hidden native list: beside it, or around it.
function faceOf(list) {
  const around = list.closest('[role=combobox], [aria-haspopup=listbox], [aria-haspopup=true]');
  if (around && hasBox(around) && around.querySelectorAll('select').length === 1) return around;
  for (let x = list, n = 0; x && n < 3 && !AROUND.test(x.tagName); x = x.parentElement, n++) {
    if (n > 0 && x.querySelectorAll('select').length > 1) return null;
    for (const y of [x.nextElementSibling, x.previousElementSibling, n > 0 ? x : null]) if (y && dresses(y, list)) return y;
  }
  return null;
}

// nativeOf gives the hidden native list whose face an element is, or is in.
function nativeOf(el) {
  for (let x = el, n = 0; x && n < 7 && !AROUND.test(x.tagName); x = above(x), n++) {
    const near = [x.previousElementSibling, x.nextElementSibling, ...x.querySelectorAll('select')].filter(s => s?.tagName === 'SELECT' && hiddenAway(s));
    for (const list of near) {
      const face = faceOf(list);
      if (face && (within(face, el) || within(el, face))) return list;
    }
    if (near.length) return null;
  }
  return null;
}

// wrapOf gives the whole of what an element without a native list is shown as.
function wrapOf(el) {
  let face = el;
  for (let x = above(el), n = 0; x && n < 7 && !AROUND.test(x.tagName); x = above(x), n++) {
    if ([...x.querySelectorAll(CONTROLS)].some(k => k !== el && !el.contains(k) && !k.contains(el) && !k.matches(OPTIONISH) && hasBox(k))) break;
    face = x;
  }
  return face;
}

// opensList: what an element says of itself is that it is a list, or opens one.
const opensList = el => byOtherWays(el) === OPEN_LIST;

let unfolding = null;

// dress makes ready to choose in a list that the page draws itself; null: it is none.
function dress(el, wanted) {
  const list = el.tagName === 'SELECT' ? el : nativeOf(el);
  const face = list ? faceOf(list) : null;
  if (!face && el.tagName === 'SELECT') return null;
  if (!face) el = opensList(el) ? el : el.closest('[role=combobox]');
  if (!el) return null;
  const shown = face || wrapOf(el);
  const key = face ? face.matches(LISTS) ? face : face.querySelector(LISTS) || face : el; // the part that opens
  unfolding = {
    el: key, list: face ? list : null, face: shown, wanted, left: [...wanted], was: face ? choiceOf(list) : null,
    seen: new Set(), alike: new Set(), inline: roleOf(key) === 'listbox' && hasBox(key), item: null, box: null, tells: false, tries: 0, several: !!list?.multiple || wanted.length !== 1,
    scrolled: 0, typed: false, closing: 0, cleared: false, picked: [],
  };
  return unfolding;
}

// saysOf gives the words that a list shows while it is closed, whatever it is called, with what
// its fields hold.
function saysOf(face) {
  let out = '';
  const walk = el => {
    if (out.length > 8000) return;
    if (/^(INPUT|TEXTAREA)$/.test(el.tagName)) {
      if (!/^(hidden|checkbox|radio|button|submit)$/.test(el.type) && !isSecret(el)) out += '\n' + el.value + '\n';
      return;
    }
    const inline = getComputedStyle(el).display.startsWith('inline');
    if (!inline) out += '\n';
    for (const k of kids(el)) {
      if (k.nodeType === 3) out += getComputedStyle(el).visibility === 'visible' ? k.data : '';
      else if (k.nodeType === 1 && !SILENT.has(k.tagName) && k.tagName !== 'SELECT' && !/^(none|)$/.test(getComputedStyle(k).display)) walk(k);
    }
    if (!inline) out += '\n';
  };
  if (attached(face)) walk(face);
  return squeeze(out);
}

// showsChoice: a face shows each option that its native list holds, and none that it does not.
function showsChoice(face, list) {
  const says = saysOf(face), held = [...list.selectedOptions].map(labelIn);
  const others = [...list.options].filter(x => !x.selected).map(labelIn).filter(l => l && !held.some(h => h.includes(l)));
  return held.every(l => saysIt(says, l)) && !others.slice(0, 500).some(l => saysIt(says, l));
}

// saysIt: a label stands among those words, by itself.
function saysIt(words, label) {
  for (let at = words.indexOf(label); at >= 0; at = words.indexOf(label, at + 1)) {
    if (!/[\p{L}\p{N}]/u.test(words[at - 1] || ' ') && !/[\p{L}\p{N}]/u.test(words[at + label.length] || ' ')) return true;
  }
  return false;
}

// meansIt: an element has the label, or the value, that is wanted.
function meansIt(x, want, loosely) {
  const same = t => loosely ? t.toLowerCase() === want.toLowerCase() : t === want;
  const role = roleOf(x), text = textOf(x, 300);
  return same(text) || [x.getAttribute('value'), x.getAttribute('data-value')].includes(want) || FROM_CONTENT.has(role) && same(nameOf(x, role));
}

// optionsShown lists what looks like an option and was not there before the list was opened.
function optionsShown(s) {
  const all = [];
  everyRoot(document, root => { for (const x of root.querySelectorAll(OPTIONISH)) if (!s.seen.has(x) && x.tagName !== 'OPTION' && hasBox(x)) all.push(x); });
  const inside = s.inline ? all.filter(x => within(s.el, x)) : all;
  const told = inside.filter(x => x.tagName !== 'LI'); // options by their role, if there are such
  return told.length ? told : inside;
}

// wordsShown lists the innermost elements that show a text.
function wordsShown(want) {
  const all = [];
  everyRoot(document, root => {
    for (const x of root.querySelectorAll('*')) {
      if (x.childElementCount > 4 || SILENT.has(x.tagName) || /^(SELECT|OPTION|LABEL|TITLE)$/.test(x.tagName) && !x.querySelector('input')) continue;
      const text = x.textContent;
      if (text.length < want.length + 60 && squeeze(text).toLowerCase() === want.toLowerCase() && hasBox(x)) all.push(x);
    }
  });
  return all.filter(x => !all.some(y => y !== x && x.contains(y)));
}

// optionFor gives the option that is wanted, if it is shown.
function optionFor(s, want) {
  const shown = optionsShown(s);
  for (const loosely of [false, true]) {
    const all = shown.filter(x => meansIt(x, want, loosely));
    const one = all.find(x => !all.some(y => y !== x && x.contains(y)));
    if (one) return one;
  }
  return s.inline ? null : wordsShown(want).find(x => !s.alike.has(x) && !x.isContentEditable) || null;
}

// isOn: an option says, by itself or its box, or the native list behind, that it is chosen.
// Where one at a time is, some say so of the option that Enter would take.
function isOn(s, x) {
  const behind = s.list && [...s.list.options].find(o => labelIn(o) === textOf(x, 300));
  if (behind) return behind.selected;
  const own = x.closest('[aria-selected], [aria-checked]') || x;
  if (own.getAttribute('aria-checked') === 'true') return true;
  if (own.getAttribute('aria-selected') === 'true' && (s.box?.getAttribute('aria-multiselectable') === 'true' || saysIt(saysOf(s.face), textOf(x, 300)))) return true;
  const box = x.querySelector('input[type=checkbox], input[type=radio]') || x.closest('label, li')?.querySelector('input[type=checkbox], input[type=radio]');
  return !!box?.checked;
}

const isOff = x => x.getAttribute('aria-disabled') === 'true' || !!x.closest('[aria-disabled=true]') || x.matches(':disabled');

// listAround gives the list that an option stands in.
function listAround(s, item) {
  for (let x = above(item), n = 0; x && n < 8 && !AROUND.test(x.tagName); x = above(x), n++) {
    if (within(x, s.el) && !s.inline) break;
    if (x.matches('[role=listbox], [role=menu], [role=tree], [role=grid], [role=radiogroup], ul, ol')) return x;
  }
  return s.inline ? s.el : item.parentElement;
}

// isOpen: the list that was chosen in is still shown.
function isOpen(s) {
  if (s.inline) return false;
  if (s.tells && attached(s.el)) return s.el.getAttribute('aria-expanded') === 'true'; // also while it fades
  for (let x = s.box; x; x = above(x)) if (x.nodeType === 1 && getComputedStyle(x).opacity === '0') return false;
  return !!s.box && attached(s.box) && hasBox(s.box) || attached(s.el) && s.el.getAttribute('aria-expanded') === 'true';
}

// openerOf is the part of a list to be pressed: itself, or what is shown of it.
function openerOf(s) {
  s.face.scrollIntoView({block: 'nearest', inline: 'nearest', behavior: 'instant'});
  return hitPoint(s.el).x === undefined ? s.face : s.el;
}

const pressOn = (x, then) => ({do: 'click', then, ref: refOf(x, roleOf(x), shownName(x, roleOf(x)))});

// until looks, frame by frame, whether something is so.
async function until(is, ms) {
  for (const stop = performance.now() + ms; ; await frame(window)) {
    const now = is();
    if (now || performance.now() > stop) return now;
  }
}

// inDialog: Escape might close what is around the list.
const inDialog = el => !!el.closest('dialog, [role=dialog], [role=alertdialog]');

const optionNames = s => [...new Set(optionsShown(s).map(x => textOf(x, 100)).filter(Boolean))];

// steps of a choice, each of which says what is to be done next: {do: click, type, key} with
// what, and which step is then; done with its verdict; or why not.
const steps = {
  // native sets the hidden list, and looks whether the face follows.
  async native(s) {
    if (!s.list) return steps.open(s);
    if (isBehind(s.face)) return unfocused(s.face);
    const found = optionsIn(s.list, s.wanted);
    if (found.error) return found.error === 'element_not_found' ? steps.open(s) : found;
    s.wanted = [...found.chosen].map(labelIn);
    s.left = [...s.wanted];
    const chosen = new Set([...found.chosen].map(sortOf)), selected = s.wanted.map(l => cut(l, 200));
    const holds = () => attached(s.list) && [...s.list.options].every(x => x.selected === chosen.has(sortOf(x)));
    const shown = () => holds() && showsChoice(s.face, s.list);
    if (shown()) return {do: 'done', verdict: 'same', selected};
    if (!holds()) setList(s.list, chosen);
    // Some faces show it for a moment, and then take it back.
    if (await until(() => !attached(s.face) || shown(), FOLLOWS) && (await rest(), true) && (!attached(s.face) || shown())) return {do: 'done', verdict: attached(s.face) ? 'behind' : 'gone', selected};
    putBack(s.list, s.was);
    return steps.open(s);
  },

  // open says how the list is opened.
  open(s) {
    if (!s.wanted.length) return fail('not_supported', `${describe(s.face)} is a list of the page's own, which cannot be emptied this way.`, 'Click what removes each option: a snapshot shows it.');
    if (isDisabled(s.el)) return disabled(s.el);
    everyRoot(document, root => { for (const x of root.querySelectorAll(OPTIONISH)) if (hasBox(x) && !s.inline) s.seen.add(x); });
    for (const want of s.wanted) for (const x of wordsShown(squeeze(want))) s.alike.add(x);
    const owned = (s.el.getAttribute('aria-controls') || s.el.getAttribute('aria-owns') || '').split(/\s+/).map(id => id && s.el.getRootNode().getElementById?.(id)).find(Boolean);
    if (s.el.getAttribute('aria-expanded') === 'true' && owned) for (const x of s.seen) if (within(owned, x)) s.seen.delete(x);
    if (s.inline || s.el.getAttribute('aria-expanded') === 'true' && owned && hasBox(owned)) return steps.look(s);
    return pressOn(openerOf(s), 'look');
  },

  // look finds the next option of the open list.
  async look(s) {
    const want = squeeze(s.left[0]);
    let item = await until(() => optionFor(s, want) || optionsShown(s).length > 0 && !s.typed, s.typed ? FINDS : OPENS);
    if (item === true) item = await until(() => optionFor(s, want), FOLLOWS); // more of them may come
    const shown = optionsShown(s);
    if (!item && shown.length && !s.typed) item = await scrollTo(s, want, shown.at(-1));
    if (item) {
      s.item = item;
      s.box = listAround(s, item);
      s.tells = s.el.getAttribute('aria-expanded') === 'true';
      if (s.box.getAttribute('aria-multiselectable') === 'true') s.several = true;
      if (isOff(item)) return fail('element_disabled', `The option ${quote(cut(want, 60))} is disabled.`);
      if (s.several && !s.cleared && s.wanted.length) {
        const other = shown.find(x => isOn(s, x) && !s.wanted.some(w => meansIt(x, squeeze(w), true)) && !isOff(x));
        if (other && s.closing++ < 50) return pressOn(other, 'look');
        s.cleared = true;
        s.closing = 0;
      }
      s.picked.push(textOf(item, 200) || want);
      s.left.shift();
      if (s.several && isOn(s, item)) return steps.next(s);
      return {...pressOn(item, 'next'), picks: true};
    }
    const field = focused();
    if (!s.typed && (field.tagName === 'INPUT' && TEXT_INPUTS.has(field.type) || field.tagName === 'TEXTAREA') && !isReadOnly(field) && !isSecret(field)) {
      s.typed = true;
      return {do: 'type', text: want, then: 'look'};
    }
    const names = optionNames(s);
    if (!names.length && !s.typed) return fail('execution_failed', `${custom(s.el)} It was clicked, and no list of options opened.`, OPEN_LIST);
    const all = names.slice(0, 20).map(n => quote(cut(n, 40))).join(', ') + (names.length > 20 ? `, … ${names.length} are shown` : '');
    return fail('element_not_found', `${describe(s.el)} has no option ${quote(cut(want, 60))}${names.length ? `; it shows ${all}` : ''}.`, 'Give one that it has, by its label.');
  },

  // again looks for an option anew that could not be clicked, as in a list that was closing.
  async again(s) {
    if (s.tries++ > 1) return fail('execution_failed', `The option ${quote(cut(s.picked.at(-1) || '', 60))} went away at each try.`, OPEN_LIST);
    s.left.unshift(s.picked.pop());
    return steps.next(s);
  },

  // next goes on after an option was clicked.
  async next(s) {
    if (s.left.length) {
      await frame(window);
      s.typed = false;
      if (!s.inline && !isOpen(s) && attached(s.el)) {
        await rest();
        return pressOn(openerOf(s), 'look');
      }
      return steps.look(s);
    }
    const done = () => !isOpen(s);
    if (!await until(done, s.several && !s.closing ? 150 : CLOSES)) {
      const ways = inDialog(s.el) ? ['press', 'Tab'] : ['Escape', 'press', 'Tab'];
      const way = ways[s.closing++];
      if (way === 'press' && attached(s.el)) return pressOn(openerOf(s), 'next');
      if (way) return {do: 'key', key: way, then: 'next'};
    }
    return steps.judge(s);
  },

  // judge tells what is shown in the end.
  async judge(s) {
    const labels = s.picked.map(squeeze);
    const native = () => s.list && attached(s.list) ? [...s.list.selectedOptions].map(labelIn) : null;
    const shown = () => labels.every(l => saysIt(saysOf(s.face), l));
    await until(shown, FOLLOWS);
    const open = isOpen(s), held = native();
    const holds = held && labels.every(l => held.includes(l)), more = held && s.list.multiple && held.length > labels.length;
    const verdict = more && holds ? 'more' : shown() ? 'shown' : holds || s.item && attached(s.item) && isOn(s, s.item) ? 'held' : 'unshown';
    return {do: 'done', verdict, open, selected: (held && holds ? held : labels).slice(0, 100).map(l => cut(l, 200))};
  },

  // leave closes what was opened for a choice that was not made.
  leave(s) {
    if (s.list && !s.item) putBack(s.list, s.was);
    return isOpen(s) || optionsShown(s).length || s.typed ? {do: 'key', key: inDialog(s.el) ? 'Tab' : 'Escape'} : {do: 'done', verdict: 'left'};
  },
};

// sortOf tells options of a list apart, also where the page makes them anew.
const sortOf = x => x.value + '\0' + labelIn(x);
const choiceOf = list => new Set([...list.selectedOptions].map(sortOf));

// setList chooses options of a hidden native list, and tells the page.
function setList(list, chosen) {
  for (const x of list.options) if (x.selected !== chosen.has(sortOf(x))) x.selected = chosen.has(sortOf(x));
  changed(list);
}

// putBack gives a hidden native list the value that it had, since nothing followed.
function putBack(list, was) {
  if (!attached(list)) return;
  const now = choiceOf(list);
  if (now.size !== was.size || [...was].some(x => !now.has(x))) setList(list, was);
}

// scrollTo turns the pages of a list that draws what is in view only.
async function scrollTo(s, want, last) {
  let scroller = null;
  for (let x = above(last), n = 0; x && n < 8 && !AROUND.test(x.tagName); x = above(x), n++) {
    if (x.scrollHeight > x.clientHeight + 4 && /auto|scroll/.test(getComputedStyle(x).overflowY)) { scroller = x; break; }
  }
  if (!scroller) return null;
  scroller.scrollTop = 0;
  for (let n = 0; n < 60; n++) {
    await frame(window);
    await frame(window);
    const item = optionFor(s, want);
    if (item) return item;
    const before = scroller.scrollTop;
    scroller.scrollTop = before + scroller.clientHeight * 0.8;
    if (scroller.scrollTop === before) return null;
  }
  return null;
}

// unfold takes the next step.
async function unfold(o) {
  return unfolding ? steps[o.step](unfolding) : fail('stale_ref', 'The list is gone from the page.');
}
