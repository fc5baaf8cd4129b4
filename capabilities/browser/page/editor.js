// ---- editor: editors that draw what they hold beside the field that gets the keys ----

// editorOf gives where the editor is drawn that a field only catches keys for: the field
// is too small or too clear to be seen, or an edit context, which shows nothing by itself.
function editorOf(el) {
  if (el.tagName !== 'TEXTAREA' && !el.editContext) return null;
  const r = el.getBoundingClientRect(), up = el.parentElement;
  const tiny = r.width < 4 || r.height < 4 || !!up && (up.clientWidth < 4 || up.clientHeight < 4) && getComputedStyle(up).overflowY !== 'visible';
  if (!tiny && Number(getComputedStyle(el).opacity) >= 0.02) return null;
  for (let x = above(el), i = 0; x && i < 6 && x.tagName !== 'BODY'; x = above(x), i++) {
    const b = x.getBoundingClientRect();
    if (b.width > 20 && b.height > 10) return x;
  }
  return null;
}

// drawnText tells whether an editor shows each line of a text, in their order, and, if that
// is to be all, nothing else but numbers of lines. It draws a frame or two after it was
// told, or when a server answers.
async function drawnText(editor, text, all) {
  const lines = text.split('\n').map(bare).filter(Boolean);
  for (const stop = performance.now() + 150; ; ) {
    await frame(editor.ownerDocument.defaultView);
    if (!attached(editor)) return 'gone';
    let rest = bare(editor.innerText), other = '';
    const shown = lines.every(l => {
      const at = rest.indexOf(l);
      other += rest.slice(0, Math.max(at, 0));
      rest = rest.slice(at + l.length);
      return at >= 0;
    });
    const more = all && /\D/.test(other + rest);
    if (shown && !more) return 'drawn';
    if (performance.now() > stop) return shown ? 'more' : 'elsewhere';
  }
}

const bare = s => s.replace(/[\s\u200b\ufeff]+/g, '');

// paste hands the focused editor a text as pasting does, which is taken as it is: where
// text is typed, editors indent it, close brackets and make lists. It reports whether the
// page took it; the clipboard stays as it was.
function paste(o) {
  const data = new DataTransfer();
  data.setData('text/plain', o.text);
  const e = new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true, composed: true});
  focused().dispatchEvent(e);
  return {taken: e.defaultPrevented || e.cancelBubble};
}
