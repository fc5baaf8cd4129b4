// Gives the fields that hold policy files line numbers and colours, and goes to the line that
// a refusal names. The text itself stays in the textarea, so that everything else about it is
// the browser's own; what is drawn is behind it and for eyes only.
const kinds = /(\/\/[^\n]*)|("(?:\\.|[^"\\\n])*"?)|(@[A-Za-z_]\w*)|\b(permit|forbid|when|unless|principal|action|resource|context|in|is|has|like|if|then|else|true|false)\b/g;
const names = ["comment", "string", "note", "word"];

function paint(into, text) {
  const parts = [];
  let at = 0;
  for (const m of text.matchAll(kinds)) {
    parts.push(text.slice(at, m.index));
    const span = document.createElement("span");
    span.className = names[m.slice(1).findIndex((part) => part !== undefined)];
    span.textContent = m[0];
    parts.push(span);
    at = m.index + m[0].length;
  }
  into.replaceChildren(...parts, text.slice(at), "\n");
}

function number(gutter, count, wrong) {
  if (gutter.childElementCount === count && !wrong) return;
  gutter.replaceChildren(...Array.from({ length: count }, (_, i) => {
    const line = document.createElement("span");
    line.textContent = String(i + 1);
    if (i + 1 === wrong) line.className = "wrong";
    return line;
  }));
}

function dress(field) {
  const box = document.createElement("div"), gutter = document.createElement("div"), drawn = document.createElement("pre");
  box.className = "editor";
  gutter.className = "lines";
  drawn.className = "drawn";
  gutter.ariaHidden = drawn.ariaHidden = "true";
  field.before(box);
  box.append(gutter, drawn, field);
  field.wrap = "off";
  const show = (wrong) => { paint(drawn, field.value); number(gutter, field.value.split("\n").length, wrong); scroll(); };
  const scroll = () => { gutter.scrollTop = drawn.scrollTop = field.scrollTop; drawn.scrollLeft = field.scrollLeft; };
  field.addEventListener("input", () => show());
  field.addEventListener("scroll", scroll);
  show();
  return show;
}

// A rule that somebody came to change has the focus.
const rule = new URLSearchParams(location.search).get("rule");
const shows = new Map([...document.querySelectorAll("textarea[data-cedar]")].map((field) => [field, dress(field)]));
const wrong = document.querySelector(".fault")?.textContent.match(/([\w.-]+\.cedar):(\d+)(?:: column (\d+))?/);
if (wrong) {
  const [, file, line, column] = wrong;
  const field = [...shows.keys()].find((f) => (f.dataset.cedar || document.getElementById("new-name").value.trim()) === file);
  if (field) {
    shows.get(field)(Number(line));
    const before = field.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    const at = before + Math.max(0, (column ?? 1) - 1);
    field.focus();
    field.setSelectionRange(at, at);
  }
}

const mark = `@id(${JSON.stringify(rule)})`;
const holder = rule && !wrong && [...shows.keys()].find((f) => f.value.includes(mark));
if (holder) {
  const at = holder.value.indexOf(mark);
  holder.focus();
  holder.setSelectionRange(at, at + mark.length);
  holder.scrollTop = Math.max(0, holder.value.slice(0, at).split("\n").length - 4) * parseFloat(getComputedStyle(holder).lineHeight);
}
