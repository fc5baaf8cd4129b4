// ---- rows: which of several alike a ref stands for --------------------------------

const ROWS = new Set(['row', 'listitem', 'article', 'treeitem']);

function rowAround(el) {
  while (el && !ROWS.has(roleOf(el))) el = above(el);
  return el;
}

// textOfRow gives what tells a row from others; '': nothing does. Its texts stay apart.
function textOfRow(row, most = 2000) {
  const s = textsOfRow(row, most).join(' ');
  return s.length > most ? '' : s;
}

// textsOfRow gives the texts in it, none of what is far too long.
function textsOfRow(row, most = 2000) {
  const all = [];
  if (!row || row.textContent.length > 2 * most) return all;
  const walk = row.ownerDocument.createTreeWalker(row, NodeFilter.SHOW_TEXT);
  for (let x = walk.nextNode(); x; x = walk.nextNode()) { const s = squeeze(x.data); if (s) all.push(s); }
  return all;
}

// partAround gives the part of the page around an element that is one of several alike,
// where nothing says that it is a row: cards, lists made of plain boxes.
function partAround(el) {
  let x = el.parentElement;
  for (let i = 0; x && i < 5 && x.tagName !== 'BODY' && x.tagName !== 'MAIN'; x = x.parentElement, i++) {
    if ((x.previousElementSibling || x.nextElementSibling)?.tagName === x.tagName) return x;
  }
  return null;
}

const MAX_PART_TEXT = 400;

// twin finds the one visible element that a ref stands for now: with its role and name,
// where no other of both was ever shown beside it, else in a row of the same text, where
// no other such row was. Of a row that went, the ref must never mean the next one.
function twin(ref, known) {
  const {role, name, row} = known, same = [];
  const beside = [...refs].filter(([id, x]) => id !== ref && x.role === role && x.name === name && x.first <= known.last && x.last >= known.first);
  const byRow = beside.length > 0 || row && !known.whole;
  if (byRow && (!row || beside.some(([, x]) => x.row === row))) return null;
  if (name) everyRoot(document, root => {
    for (const x of root.querySelectorAll('*')) {
      if (same.length > 1) return;
      const is = role === 'clickable' ? !ACTIVE.has(roleOf(x)) && isClickable(x, roleOf(x), getComputedStyle(x), underPointer(x)) : roleOf(x) === role;
      if (is && x.checkVisibility() && shownName(x, role) === name && !(byRow && textOfRow(rowAround(x)) !== row)) same.push(x);
    }
  });
  return same.length === 1 ? same[0] : null;
}

// Lists use their elements again for other data: frameworks without a key, virtual lists.
// A ref stands for the row that it was shown in. So where its row reads otherwise, it is
// followed to where the row is now, or refused; never does it mean the next one. A row that
// only changed stays what it is: it grew, its figures changed, or it alone changed and keeps
// a text with words that no other has. Whole texts are compared: where "Ben" became "Ben
// Stone" in its place, nobody can tell the row of another from one that says more.

let acted = ''; // the ref acted on last: what it reads now may be its own doing

const wordsIn = s => s.split(/[^\p{L}\p{N}]+/u).filter(x => x);
const figureless = s => wordsIn(s).filter(w => !/\p{N}/u.test(w)).join(' ');

// shownIn gives what tells the surroundings of an element with a known ref: as they were,
// and as they are.
function shownIn(known, el) {
  const row = known.row ? rowAround(el) : known.part ? partAround(el) : null;
  return {row, was: known.row || known.part || '', now: row ? textOfRow(row) : '', texts: textsOfRow(row)};
}

// alike lists what other refs of the same role and the same outline stand in, each row once.
function alike(ref, known, row) {
  const list = [], seen = new Set([row]);
  for (const [id, k] of refs) {
    if (id === ref || k.role !== known.role || k.last !== known.last || !(k.row || k.part)) continue;
    const el = k.el.deref();
    if (!attached(el)) { list.push({was: k.row || k.part, now: '', name: k.name}); continue; }
    const s = shownIn(k, el);
    if (seen.has(s.row)) continue;
    seen.add(s.row);
    list.push({...s, name: k.name});
    if (list.length > 200) break;
  }
  return list;
}

const build = row => [row, ...row.children].map(x => x.tagName).join();

// isReused tells whether the element behind a ref stands for something else now.
function isReused(ref, known, el) {
  if (!ACTIVE.has(known.role)) return false;
  const {row, was, now, texts} = shownIn(known, el);
  if (!was || was === now) return !!nameTaken(known, el);
  const others = alike(ref, known, row);
  // Plain boxes are a list only where another one holds the same control, or is built alike.
  if (!known.row && !others.some(x => x.name === known.name || row && x.row?.parentElement === row.parentElement && build(x.row) === build(row))) return !!nameTaken(known, el);
  if (others.some(x => x.now === was && x.was !== was) || places(known, el).length) return true;
  const kept = wordsIn(now), all = wordsIn(was);
  const changed = others.filter(x => x.now !== x.was).length;
  if (ref === acted && !changed) return false;
  const common = new Set(others.flatMap(x => wordsIn(x.was)));
  const own = all.filter(w => !common.has(w));
  const pieces = known.pieces ?? [was];
  const whole = s => texts.includes(s) || !!figureless(s) && texts.some(x => figureless(x) === figureless(s));
  const telling = words => pieces.filter(s => wordsIn(s).some(w => words.includes(w)));
  if (own.length && now.startsWith(was + ' ') && telling(own).every(whole)) return false; // it grew
  if (!others.length) return !(all.every(w => kept.includes(w)) && pieces.every(whole)) && figureless(was) !== figureless(now);
  if (!changed) return !telling(own).some(whole);
  if (figureless(was) === figureless(now) && figureless(was) && !others.some(x => figureless(x.was) === figureless(was))) return false;
  const lasting = own.filter(w => !/\p{N}/u.test(w));
  return !lasting.length || !telling(lasting).every(whole);
}

// candidates lists the visible elements of a role and a name, without el.
function candidates(known, el) {
  const list = [];
  if (known.name) everyRoot(document, root => {
    for (const x of root.querySelectorAll('*')) {
      if (list.length > 200) return;
      if (x === el) continue;
      const is = known.role === 'clickable' ? !ACTIVE.has(roleOf(x)) && isClickable(x, roleOf(x), getComputedStyle(x), underPointer(x)) : roleOf(x) === known.role;
      if (is && x.checkVisibility() && shownName(x, known.role) === known.name) list.push(x);
    }
  });
  return list;
}

// knownAs gives what an element was when it was last outlined, nothing of a new one.
const knownAs = el => refs.get(ids.get(el));

// places lists where the row of a ref is now: what reads like it, and did not before.
function places(known, el) {
  const was = known.row || known.part;
  return candidates(known, el).filter(x => { const k = knownAs(x); return shownIn(known, x).now === was && !(k && (k.row || k.part) === was); });
}

// nameTaken lists what took the name of el, which has another now.
function nameTaken(known, el) {
  if (!known.name || shownName(el, known.role) === known.name) return null;
  const list = candidates(known, el).filter(x => { const k = knownAs(x); return k && k.name !== known.name; });
  return list.length ? list : null;
}

// moved gives where what a ref stood for is now, if that is one place and was one.
function moved(ref, known, el) {
  const was = known.row || known.part, same = x => x.name === known.name && (x.row || x.part) === was;
  if (was && [...refs].some(([id, x]) => id !== ref && x.role === known.role && x.last === known.last && same(x))) return null;
  const list = was ? places(known, el) : [], all = list.length ? list : nameTaken(known, el) || [];
  return all.length === 1 ? all[0] : null;
}

// saidOf words what a ref stood in.
const saidOf = known => known.row || known.part ? `in ${quote(cut(known.row || known.part, 80))}` : `for ${known.role} ${quote(cut(known.name, 60))}`;
