package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// controls are what the operations work on, and the script that counts what
// really happened. With it a body has 27 elements.
const controls = `<h1>Orders</h1>
<nav><a href="#a">Open</a> <a href="#b">Closed</a></nav>
<button id="save" type="button">Save</button><output id="count">0</output>
<button id="dead" type="button">Nothing</button>
<input id="plain" aria-label="Note">
<form><label>Name <input id="name"></label><label>City <input id="city"></label><label>Street <input id="street"></label>
<label for="sort">Sort</label><select id="sort"><option>Newest</option><option>Oldest</option></select></form>
<button id="keys" type="button">Keys</button>
<ul><li>One</li><li>Two</li><li>Three</li></ul>
<p>Some <b>text</b>.</p>
<script>
var seen={clicks:0,dead:0,notes:0,hovers:0,keys:0},$=function(id){return document.getElementById(id)}
$('save').onclick=function(){$('count').textContent=++seen.clicks}
document.addEventListener('click',function(e){if(e.target.id==='dead')seen.dead++},true)
$('plain').oninput=function(){seen.notes++}
document.querySelectorAll('nav a').forEach(function(a){a.onmouseenter=function(){$('count').title='over '+a.textContent+' '+(++seen.hovers)}})
$('keys').onkeydown=function(e){if(e.key==='ArrowRight')$('count').title='key '+(++seen.keys)}
function state(){
  var s='state[view='+(new URLSearchParams(location.search).get('v')||'none')
  for(var k in seen)s+=';'+k+'='+seen[k]
  return s+['plain','name','city','street','sort'].map(function(id){return ';'+id+'='+$(id).value}).join('')+']'
}
</script>`

// The large page's parts; its main document, its frames of the same origin and
// its shadow roots have 5,100 elements together.
const (
	tableRows   = 500
	shadowRoots = 60
	depth       = 3 // of nested frames, and of nested shadow roots
	extraItems  = 186
)

func smallPage() string {
	return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Small page</title></head><body>` + controls + `</body></html>`
}

// largePage has everything that makes pages slow to read: a long table, shadow
// roots in shadow roots, frames in frames, and one frame of another site.
func largePage(other string) string {
	var b strings.Builder
	b.WriteString(`<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Large page</title></head><body>` + controls)
	b.WriteString(`<table><thead><tr><th>Pick</th><th>Order</th><th>Customer</th><th>Action</th></tr></thead><tbody>`)
	for i := 1; i <= tableRows; i++ {
		fmt.Fprintf(&b,
			`<tr><td><input type="checkbox" aria-label="Pick %d"></td><td><a href="#o%d">Order %d</a></td><td>Customer <span>%d</span></td><td><button type="button">Edit %d</button></td></tr>`,
			i, i, i, i, i)
	}
	b.WriteString(`</tbody></table><ul>`)
	for i := 1; i <= extraItems; i++ {
		fmt.Fprintf(&b, `<li><a href="#p%d">Page %d</a></li>`, i, i)
	}
	fmt.Fprintf(&b, `</ul><div id="shadows"></div>
<script>(function(){var n=0
for(var g=0;g<%d;g++){var at=$('shadows')
for(var d=0;d<%d;d++){var host=document.createElement('div');at.appendChild(host)
at=host.attachShadow({mode:'open'});n++
at.innerHTML='<span>Part '+n+'</span><button type="button">Shadow '+n+'</button>'}}})()</script>
<iframe src="/frame?depth=1" title="Frame 1"></iframe><iframe src="%s/other" title="Elsewhere"></iframe></body></html>`, shadowRoots/depth,
		depth, other)
	return b.String()
}

// framePage is a frame of the same origin, which holds the next one.
func framePage(level int) string {
	next := ""
	if level < depth {
		next = fmt.Sprintf(`<iframe src="/frame?depth=%d" title="Frame %d"></iframe>`, level+1, level+1)
	}
	return fmt.Sprintf(
		`<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Frame %d</title></head><body><p>Frame %d</p><button type="button">Framed %d</button>%s</body></html>`,
		level, level, level, next)
}

const otherPage = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Elsewhere</title></head><body><p>Another site</p><button type="button">Foreign</button></body></html>`

// pages serves both pages on one site, and the foreign frame on another: loopback
// by number and by name are two sites to Chrome, so that frame has a process of
// its own.
type pages struct {
	main, other string // origins
	servers     []*http.Server
}

func servePages() (*pages, error) {
	p := &pages{}
	listen := func(h http.Handler) (string, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
		p.servers = append(p.servers, s)
		go func() { _ = s.Serve(l) }()
		_, port, err := net.SplitHostPort(l.Addr().String())
		return port, err
	}
	html := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Cache-Control", "no-store")
			_, _ = w.Write([]byte(text))
		}
	}
	port, err := listen(html(otherPage))
	if err != nil {
		return nil, err
	}
	p.other = "http://localhost:" + port
	mux := http.NewServeMux()
	mux.HandleFunc("/favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/small", html(smallPage()))
	mux.HandleFunc("/large", html(largePage(p.other)))
	mux.HandleFunc("/frame", func(w http.ResponseWriter, r *http.Request) {
		level := 1
		_, _ = fmt.Sscan(r.URL.Query().Get("depth"), &level)
		html(framePage(level))(w, r)
	})
	if port, err = listen(mux); err != nil {
		p.close()
		return nil, err
	}
	p.main = "http://127.0.0.1:" + port
	return p, nil
}

func (p *pages) close() {
	for _, s := range p.servers {
		_ = s.Close()
	}
}

// url is the address of a page; view tells one opening from the next.
func (p *pages) url(page string, view int) string {
	return fmt.Sprintf("%s/%s?v=%d", p.main, page, view)
}
