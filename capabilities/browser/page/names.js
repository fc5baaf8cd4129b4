// ---- names: what no page can take ------------------------------------------------

// The fields of a form hide what the form itself has by the same name, in every world:
// of <form><input name=children> the property children is the field. Some elements do
// the same to their document. So what these scripts ask of any element or document has a
// second name here, made up anew by each node (names.go), under which they ask for it.
const HOLDERS = ['EventTarget', 'Node', 'Element', 'HTMLElement', 'SVGElement', 'MathMLElement', 'Document', 'DocumentFragment', 'ShadowRoot', 'Range'];

// rename gives the second names to the classes of a window: each frame has its own.
function rename(win) {
  for (const holder of HOLDERS) {
    const proto = win[holder].prototype;
    for (const [name, second] of NAMES) {
      const is = Object.getOwnPropertyDescriptor(proto, name);
      if (is) Object.defineProperty(proto, second, name === 'tagName' && win.document instanceof win.XMLDocument ? inCapitals(win, is) : is);
    }
  }
}

// inCapitals: in a document of XML, XHTML's elements are called as they are written; under
// the second name they are called as in HTML, and these scripts know one kind only.
/** @param {any} win @param {PropertyDescriptor} is */
function inCapitals(win, {get}) {
  const namespace = Object.getOwnPropertyDescriptor(win.Element.prototype, 'namespaceURI').get;
  return {get() { const name = get.call(this); return namespace.call(this) === 'http://www.w3.org/1999/xhtml' ? name.toUpperCase() : name; }};
}
rename(globalThis);
