//go:build linux

package browser

import (
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/outline"
)

// reusing is a page that draws its list as frameworks without keys do: the element at a
// place is used again for what stands there now.
const reusing = `<div id=list></div><script>
let names = ['Ann', 'Ben', 'Cid', 'Dan'], done = '', extra = {};
const kinds = {
	table: ['table', 'tr', n => '<td>' + n + '<td><button>Delete</button>'],
	items: ['ul', 'li', n => n + ' <button>Delete</button>'],
	cards: ['div', 'div', n => '<h3>' + n + '</h3><p>A person</p><span><button>Delete</button></span>'],
	labelled: ['div', 'div', n => '<b>' + n + '</b><button aria-label="Delete ' + n + '">x</button>'],
	icons: ['ul', 'li', n => n + '<button aria-label=Delete></button>'],
	named: ['div', 'div', n => '<button>Delete ' + n + '</button>'],
	links: ['ul', 'li', n => '<a href="#">' + n + '</a>'],
};
let [outer, inner, draw] = kinds[new URLSearchParams(location.search).get('kind')];
const box = document.createElement(outer);
list.append(box);
function show() {
	while (box.children.length > names.length) box.lastChild.remove();
	while (box.children.length < names.length) {
		const x = document.createElement(inner);
		x.innerHTML = draw('?');
		x.querySelector('button,a').onclick = e => { e.preventDefault(); done = names[[...box.children].indexOf(x)]; };
		box.append(x);
	}
	names.forEach((n, i) => { // only texts and attributes change, as in a virtual DOM
		const fresh = document.createElement(inner);
		fresh.innerHTML = draw(n);
		if (extra[n]) fresh.append(Object.assign(document.createElement('i'), {textContent: extra[n]}));
		const walk = (a, b) => {
			for (const at of b.attributes ?? []) a.setAttribute(at.name, at.value);
			if (a.nodeType === 3 && a.data !== b.data) a.data = b.data;
			[...b.childNodes].forEach((k, j) => a.childNodes[j] ? walk(a.childNodes[j], k) : a.append(k.cloneNode(true)));
		};
		walk(box.children[i], fresh);
	});
}
show();
</script>`

// A ref to a row that was drawn elsewhere meanwhile follows it there, and one to a row that
// went is refused: it never acts on another.
func TestRefsFollowRowsThatAreUsedAgain(t *testing.T) {
	t.Parallel()
	refsFollowRows(t, true)
}

func TestRefsFollowRowsThatAreUsedAgainAtLength(t *testing.T) { refsFollowRows(t, false) }

// refsFollowRows changes rows of one kind in every way and those of each other kind in two, or
// does the rest.
func refsFollowRows(t *testing.T, few bool) {
	s, n := newPage(t, map[string]string{"/": html(reusing)})
	for _, kind := range []string{"table", "items", "cards", "labelled", "named", "links"} {
		for _, c := range []struct{ change, want string }{
			{"names.unshift('New')", "Cid"}, {"names.shift()", "Cid"}, {"names.reverse()", "Cid"}, {"names.splice(1, 0, 'Bob')", "Cid"},
			{"names.splice(2, 1)", ""}, {"names = ['Eve', 'Fay', 'Gus', 'Hal']", ""}, {"names[2] = 'Zed'", ""},
		} {
			if few != (kind == "table" || c.change == "names.unshift('New')" || c.change == "names.splice(2, 1)") {
				continue
			}
			if kind == "named" || kind == "links" {
				if c.change == "names[2] = 'Zed'" {
					continue // a control of its own that says something else is that control
				}
			}
			n.goTo(s.URL + "/?kind=" + kind)
			word := "Delete"
			if kind == "labelled" || kind == "named" {
				word = "Delete Cid"
			} else if kind == "links" {
				word = "Cid"
			}
			snap := n.snap()
			at := strings.Index(snap, "Cid")
			if kind == "labelled" || kind == "named" || kind == "links" {
				at = strings.Index(snap, `"`+word+`"`)
			}
			_, rest, _ := strings.Cut(snap[at:], "[ref=")
			ref, _, _ := strings.Cut(rest, "]")
			n.eval(c.change + "; show(); 1")
			_, err := n.try("click", obj{"ref": ref})
			if got := n.eval("done"); got != c.want || (err != nil) != (c.want == "") {
				t.Errorf("%s, %s: acted on %q, %v", kind, c.change, got, err)
			}
			if err != nil && err.Code != capabilities.CodeStaleRef {
				t.Errorf("%s, %s: %v", kind, c.change, err)
			}
		}
	}
}

// A row that only changed is what it was: its old ref goes on working.
func TestRefsStayWithRowsThatChange(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(reusing)})
	for _, change := range []string{
		"extra.Cid = 'is away'", "extra = {Ann: '1 min ago', Ben: '2 min ago', Cid: '3 min ago', Dan: '4 min ago'}", "extra.Ann = 'x', extra.Dan = 'y'",
	} {
		for _, kind := range []string{"table", "items", "cards"} {
			n.goTo(s.URL + "/?kind=" + kind)
			snap := n.snap()
			_, rest, _ := strings.Cut(snap[strings.Index(snap, "Cid"):], "[ref=")
			ref, _, _ := strings.Cut(rest, "]")
			n.eval(change + "; show(); 1")
			n.must("click", obj{"ref": ref})
			if got := n.eval("done"); got != "Cid" {
				t.Errorf("%s, %s: %v", kind, change, got)
			}
		}
	}
}

// A control keeps its ref, whatever its own doing makes of it and of its row.
func TestRefsStayWithWhatTheyDid(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<ul><li><button id=p onclick="this.textContent = this.textContent === 'Play' ? 'Pause' : 'Play'; n.textContent = ++c">Play</button></li><li><button>Other</button></li></ul><b id=n></b>
<ul><li><span id=a>Milk</span> <b id=q>1</b> <button onclick="q.textContent = ++k">More</button> <button onclick="q.textContent = --k">Less</button></li></ul>
<script>let c = 0, k = 1</script>`)})
	n.goTo(s.URL + "/")
	play, more, less := n.ref(`"Play"`), n.ref(`"More"`), n.ref(`"Less"`)
	for range 3 {
		n.must("click", obj{"ref": play})
	}
	for _, ref := range []string{more, more, less, more} {
		n.must("click", obj{"ref": ref})
	}
	if n.eval("n.textContent + ' ' + q.textContent") != "3 3" {
		t.Error(n.snap())
	}
}

// The same of a virtual list, whose elements go round.
func TestRefsInVirtualLists(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<div id=v style="height:300px;overflow:auto;position:relative"><div style="height:30000px"></div></div><script>
let fired = -1;
const rows = Array.from({length: 11}, () => { const x = document.createElement('div'); x.style.cssText = 'position:absolute;height:30px'; x.innerHTML = '<span></span> <button>Fire</button>'; v.append(x); return x; });
const draw = () => { const f = Math.floor(v.scrollTop / 30); rows.forEach((x, i) => { x.style.top = (f + i) * 30 + 'px'; x.firstChild.textContent = 'Person ' + (f + i); x.lastChild.onclick = () => { fired = f + i; }; }); };
v.onscroll = draw; draw();
</script>`)})
	n.goTo(s.URL + "/")
	snap := n.snap()
	_, rest, _ := strings.Cut(snap[strings.Index(snap, "Person 5"):], "[ref=")
	ref, _, _ := strings.Cut(rest, "]")
	n.eval("v.scrollTop = 600; 1")
	n.until("the list was drawn", func() bool { return n.eval("rows[0].firstChild.textContent") == "Person 20" })
	n.refused(capabilities.CodeStaleRef, "click", obj{"ref": ref})
	n.eval("v.scrollTop = 60; 1")
	n.until("the list was drawn", func() bool { return n.eval("rows[0].firstChild.textContent") == "Person 2" })
	n.must("click", obj{"ref": ref})
	if got := n.eval("fired"); got != 5.0 {
		t.Error(got)
	}
}

// A row that is used again for another whose text begins with all of the old one's is
// another row; one that got more to say stays itself.
func TestRowsThatBeginAlike(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(reusing)})
	for _, kind := range []string{"table", "items", "cards", "icons"} {
		for _, change := range []string{"names[1] = 'Ben Stone'", "names = ['Ann Lee', 'Ben Stone', 'Cid Vane', 'Dan Wu']", "names = ['Eve', 'Ben Stone']"} {
			n.goTo(s.URL + "/?kind=" + kind)
			ref := n.refs(`"Delete"`)[1]
			n.eval(change + "; show(); 1")
			if a, err := n.try("click", obj{"ref": ref}); err == nil || err.Code != capabilities.CodeStaleRef {
				t.Errorf("%s after %s: %v deleted (%s, %v)", kind, change, n.eval("done"), a.Evidence, err)
			}
			if done := n.eval("done"); done != "" {
				t.Errorf("%s after %s: %v was deleted", kind, change, done)
			}
		}
		for _, change := range []string{"box.children[1].append(Object.assign(document.createElement('i'), {textContent: 'seen today'}))", "extra.Ben = '(3)'; show()",
			"[...box.children].forEach(x => x.append(Object.assign(document.createElement('i'), {textContent: 'still here'})))"} {
			n.goTo(s.URL + "/?kind=" + kind)
			ref := n.refs(`"Delete"`)[1]
			n.eval(change + "; 1")
			n.must("click", obj{"ref": ref})
			if done := n.eval("done"); done != "Ben" {
				t.Errorf("%s after %s: %v was deleted", kind, change, done)
			}
		}
	}
}

// refs returns those of the lines with all of the words.
func (n *node) refs(words ...string) (list []string) {
	for _, r := range outline.Rows(n.snap()) {
		if ref := r.Ref(); ref != "" && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(r.Text, w) }) {
			list = append(list, ref)
		}
	}
	return list
}
