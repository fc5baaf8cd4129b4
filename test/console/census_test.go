//go:build unix

package console

import (
	"strings"
)

// census counts what no page of ours has: elements and attributes that only somebody
// else's markup makes, scripts that ran, forms and links that lead elsewhere.
const census = `(() => {
  const ours = new Set("HTML HEAD META TITLE LINK SCRIPT BODY A HEADER NAV UL LI OL SPAN STRONG DIV MAIN H1 H2 H3 P FORM INPUT BUTTON ARTICLE SECTION DL DT DD DETAILS SUMMARY PRE CODE WBR TIME TABLE CAPTION THEAD TBODY TR TH TD SELECT OPTION TEXTAREA LABEL FIELDSET LEGEND DATALIST INS DEL KBD FOOTER svg rect path".split(" "));
  const bad = [];
  if (typeof window.pwned !== "undefined") bad.push("script ran");
  for (const e of document.querySelectorAll("*")) {
    if (!ours.has(e.tagName) && !(e.tagName === "title" && e.parentNode.matches("svg.chart rect"))) bad.push("element " + e.tagName);
    if (e.tagName === "SCRIPT" && (!e.src.includes("/console/static/") || e.textContent)) bad.push("script " + e.src);
    if (e.tagName === "svg" && !e.classList.contains("qr") && !e.classList.contains("chart")) bad.push("svg");
    if (e.tagName === "WBR" && (e.attributes.length || !e.closest("code") || !/[._]$/.test(e.previousSibling?.data ?? ""))) bad.push("a break in " + e.parentNode.outerHTML);
    if (e.tagName === "META" && e.httpEquiv) bad.push("meta " + e.httpEquiv);
    for (const a of e.attributes) {
      if (/^on|^style$|^srcdoc$/i.test(a.name)) bad.push("attribute " + a.name);
      if (/^(href|src|action|formaction)$/i.test(a.name) && new URL(a.value, location.href).origin !== location.origin) bad.push("leads to " + a.value);
    }
    if (e.tagName === "FORM" && new URL(e.getAttribute("action"), location.href).origin !== location.origin) bad.push("form to elsewhere");
  }
  const names = [...document.querySelectorAll("[name=csrf]")].map((e) => e.value);
  if (names.some((v) => v !== document.body.dataset.csrf)) bad.push("a field called csrf that is not ours");
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) bad.push("two elements with the ID " + id);
  for (const e of document.querySelectorAll("form[method=post]")) if (!e.dataset.does && !/^\/console\/(logout|account\/)/.test(e.getAttribute("action"))) bad.push("a control that no route is named for: " + e.getAttribute("action"));
  return bad.slice(0, 20).join("; ");
})()`

// harmless fails the test for whatever on the page is not ours.
func (d *desk) harmless(page string) {
	d.t.Helper()
	if got := d.value(census); got != "" {
		d.t.Errorf("%s: %.2000s", page, got)
	}
	for _, said := range d.words() {
		if strings.Contains(said, "dialog opened") {
			d.t.Errorf("%s: %s", page, said)
		}
	}
}
