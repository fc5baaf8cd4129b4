// ---- field: putting text into one ------------------------------------------------

// focusField puts the caret where the text shall go.
function focusField(el, o) {
  const secret = isSecret(el);
  const direct = el.tagName === 'INPUT' && SET_INPUTS.has(el.type);
  el.focus({preventScroll: true});
  const root = el.getRootNode();
  const active = root.activeElement;
  if (!direct && !(active && (active === el || el.contains(active) || active.shadowRoot))) return fail('execution_failed', `${describe(el)} did not take the focus.`);
  field = {el, before: el.isContentEditable ? el.innerText : el.value, clear: o.clear, fresh: true};
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
  return {secret, direct, end, empty, multiline: el.tagName === 'TEXTAREA' || el.isContentEditable};
}

let field = null;

// setField sets what keys can not reliably reach (dates, colours, sliders).
function setField(o) {
  const el = field.el;
  const proto = el.ownerDocument.defaultView.HTMLInputElement.prototype;
  Object.getOwnPropertyDescriptor(proto, 'value').set.call(el, o.text);
  el.dispatchEvent(new Event('input', {bubbles: true, composed: true}));
  el.dispatchEvent(new Event('change', {bubbles: true}));
  return typed(o);
}

// typed compares what the field holds with what it should; only the verdict
// leaves the page, never the text.
function typed(o) {
  const el = field.el;
  if (o.arm) watch(el, {kind: 'type'});
  if (!attached(el)) return {verdict: 'gone'};
  const now = el.isContentEditable ? el.innerText : el.value;
  let want = (field.clear || SET_INPUTS.has(el.type) ? '' : field.before) + o.text;
  if (el.isContentEditable) return {verdict: squeeze(now).includes(squeeze(o.text)) && (!field.clear || squeeze(now) === squeeze(want)) ? 'match' : now === field.before ? 'unchanged' : 'other'};
  if (el.tagName === 'INPUT') want = want.replace(/[\r\n]/g, '');
  else want = want.replace(/\r\n?/g, '\n');
  return {verdict: now === want ? 'match' : now === field.before ? (want === field.before ? 'match' : 'unchanged') : 'other'};
}
