// ---- what the page says, for reading -------------------------------------------

// Elements that are worked with, not read.
const UNREAD = new Set([...SILENT, 'INPUT', 'SELECT', 'TEXTAREA', 'BUTTON', 'CANVAS', 'AUDIO', 'VIDEO', 'OBJECT', 'EMBED', 'SVG', 'svg', 'MATH']);
const KEPT = ['href', 'src', 'alt', 'id', 'class', 'role', 'lang', 'start', 'itemprop', 'rel', 'colspan'];
const MAX_READABLE = 4000000; // characters
const escaped = s => s.replace(/[&<>"]/g, c => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'})[c]);

// readable gives the document, or one element, as HTML of what is shown: frames of the same
// origin and shadow roots in their places, without what only works. The page runs nothing for it.
function readable(o) {
  let root = document.documentElement;
  if (o.ref || o.selector) {
    const f = find(o);
    if (f.error) return f;
    root = f.el;
  }
  hid = false;
  const out = [], base = document.baseURI;
  let used = 0, cut = false, foreign = 0;
  const put = s => {
    if (used + s.length > MAX_READABLE) cut = true;
    else { used += s.length; out.push(s); }
  };
  const whole = (url, doc) => { try { return new URL(url, doc.baseURI).href; } catch { return ''; } };
  function visit(node, deep) {
    if (cut || deep > MAX_DEEP) { cut = true; return; }
    if (node.nodeType === 3) { put(escaped(unsaid(node, node.data))); return; }
    if (node.nodeType !== 1 || UNREAD.has(node.tagName)) return;
    const style = getComputedStyle(node);
    if (style.display === 'none') return;
    if (style.display !== 'contents' && !node.checkVisibility({visibilityProperty: false, opacityProperty: true})) return;
    if (isFrame(node)) {
      const doc = frameDocument(node);
      if (doc?.body) { put('<div>'); visit(doc.body, deep + 1); put('</div>'); }
      else foreign++;
      return;
    }
    // What is not visible may hold what is.
    const silent = style.visibility !== 'visible', tag = node.tagName.toLowerCase();
    const name = /^(body|html)$/.test(tag) || tag.includes('-') ? 'div' : /^[a-z][a-z0-9]*$/.test(tag) ? tag : 'span';
    if (!silent) {
      let head = '<' + name;
      for (const k of KEPT) {
        let v = node.getAttribute(k);
        if (v === null || v.length > 2048) continue;
        if (k === 'href' || k === 'src') v = whole(v, node.ownerDocument);
        head += ` ${k}="${escaped(v)}"`;
      }
      put(head + '>');
    }
    const inside = rootOf(node) || (node.tagName === 'SLOT' && node.assignedNodes().length ? {childNodes: node.assignedNodes()} : node);
    for (const k of inside.childNodes) {
      if (silent && k.nodeType === 3) continue;
      visit(k, deep + 1);
    }
    if (!silent && !/^(br|hr|img|wbr|col|source|track|area)$/.test(name)) put(`</${name}>`);
  }
  visit(root, 0);
  return {html: out.join(''), url: location.href, title: document.title, base, cut, foreign, hid};
}

