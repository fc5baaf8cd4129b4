// ---- shadow roots, open and closed ----------------------------------------------

// A closed root cannot be reached from its host. Chrome tells which elements have
// one (closed.go asks it about the suspects below); from then on every walk passes
// through it as through an open one. The page's own world is not touched.
const closedRoots = new WeakMap();    // host -> its closed root
const examined = new WeakMap();  // element that was a suspect -> what it looked like then
let anyClosed = false;
let suspects = [];
const maxSuspects = 200; // at one time; the others' turn comes at the next

const rootOf = el => el.shadowRoot || (anyClosed && closedRoots.get(el)) || null;

const HOSTS = new Set(('ARTICLE ASIDE BLOCKQUOTE BODY DIV FOOTER H1 H2 H3 H4 H5 H6 HEADER MAIN NAV P SECTION SPAN').split(' '));

// suspect notes an element that may have a closed root: a custom element, or one
// that shows something other than its children.
function suspect(el) {
  if (suspects.length >= maxSuspects || !el || el.shadowRoot || closedRoots.has(el) || suspects.at(-1) === el) return;
  if (!HOSTS.has(el.tagName) && !el.tagName.includes('-')) return;
  const look = el.offsetWidth + 'x' + el.offsetHeight + el.matches(':defined');
  if (examined.get(el) === look) return;
  examined.set(el, look);
  suspects.push(el);
}

// examine notes el if it looks like the host of a closed root. That its children
// are not rendered shows at them: see visit.
function examine(el) {
  const tag = el.tagName;
  if (el.shadowRoot) return;
  if (tag.includes('-')) suspect(el);
  else if (!el.firstElementChild && HOSTS.has(tag) && el.offsetWidth > 0 && el.offsetHeight > 0 && !textShown(el)) suspect(el);
}

const probe = document.createRange();
const rendered = new WeakSet(); // elements whose own text was seen to be rendered

// textShown reports whether the text in el, which has no elements in it, is rendered.
function textShown(el) {
  if (rendered.has(el)) return true;
  if (!el.firstChild || !/\S/.test(el.textContent)) return false;
  try {
    probe.selectNodeContents(el);
    const shown = probe.getClientRects().length > 0;
    if (shown) rendered.add(el);
    return shown;
  } finally {
    probe.setStart(document, 0);
    probe.collapse(true);
  }
}

// suspectsIn looks for suspects everywhere: before a selector finds nothing.
function suspectsIn() {
  suspects = [];
  everyRoot(document, root => { for (const el of root.querySelectorAll('*')) examineAll(el); });
  return {suspects: suspects.length};
}

function examineAll(el) {
  const child = el.firstElementChild;
  if (child && HOSTS.has(el.tagName) && !rootOf(el) && getComputedStyle(child).display === '') suspect(el);
  else examine(el);
}

const suspectAt = i => suspects[i];

// openUp makes a closed root known.
function openUp(root) {
  closedRoots.set(root.host, root);
  anyClosed = true;
}

// slotOf gives the slot that el is shown in, of a closed root: el itself does not
// tell.
function slotOf(el) {
  const root = anyClosed && el.parentElement && closedRoots.get(el.parentElement);
  return root ? [...root.querySelectorAll('slot')].find(s => s.assignedNodes().includes(el)) : null;
}

// hitOf gives the element that an event reached: from outside of a closed root its
// path ends at the host.
function hitOf(e) {
  const path = e.composedPath();
  const first = path[0];
  return anyClosed && first?.nodeType === 1 && closedRoots.has(first) && e.clientX !== undefined ? deepest(first.ownerDocument, e.clientX, e.clientY) || first : first;
}
