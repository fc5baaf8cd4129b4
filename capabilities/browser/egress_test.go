//go:build linux

package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// named returns a node to which the hosts lead to the site, and its port.
func named(t *testing.T, s *site, change func(*Options), hosts ...string) (*node, string) {
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	var origins []string
	for _, h := range hosts {
		origins = append(origins, "http://"+h+":"+port)
	}
	o, log := options(t, origins...)
	change(&o)
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	h.rules.Lookup = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	return &node{t: t, h: h, lane: "lane-1", log: log}, port
}

func (n *node) granted(tool string, args any, grants ...string) (map[string]any, *capabilities.Error) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.(*testing.T).Context(), patience)
	defer cancel()
	raw, _ := json.Marshal(args)
	out, err := n.h.Handle(ctx, capabilities.Invocation{Capability: capabilities.CapabilityID("tyrum.browser." + tool), Lane: n.lane, Args: raw, Grants: grants})
	if err != nil {
		return nil, capabilities.AsError(err)
	}
	b, _ := json.Marshal(out.Result)
	var m map[string]any
	json.Unmarshal(b, &m)
	return m, nil
}

// The grants of a call say where its lane may go: pages, requests, and tunnels
// that are open already.
func TestGrantsNarrowTheWayOut(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("<p>here</p>"), "/api": "ok"})
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				from := bufio.NewReader(c)
				asked, err := http.ReadRequest(from) // its bytes may come in pieces
				if err != nil {
					return
				}
				key := asked.Header.Get("Sec-WebSocket-Key")
				fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", acceptKey(key))
				_, _ = io.Copy(io.Discard, from) // until the other side lets go
			}()
		}
	}()
	_, wsPort, _ := net.SplitHostPort(echo.Addr().String())
	n, port := named(t, s, func(o *Options) { o.AllowOrigins = append(o.AllowOrigins, "http://b.test:"+wsPort) }, "a.test", "b.test", "www.a.test")
	a, b := "http://a.test:"+port, "http://b.test:"+port
	grant := egress.DomainGrant + "a.test"
	if _, err := n.granted("navigate", obj{"url": b + "/"}, grant); err == nil || err.Code != capabilities.CodeURLBlocked || !strings.Contains(err.Message, "policy") || s.count("/") != 0 {
		t.Fatal(err)
	}
	if _, err := n.granted("navigate", obj{"url": "http://www.a.test:" + port + "/"}, grant); err == nil {
		t.Fatal("a name below the granted one was reached")
	}
	if _, err := n.granted("navigate", obj{"url": "http://www.a.test:" + port + "/"}, egress.DomainGrant+"*.a.test"); err != nil {
		t.Fatal(err)
	}
	if _, err := n.granted("navigate", obj{"url": a + "/"}, grant, "network.browser.session"); err != nil {
		t.Fatal(err)
	}
	get := func(url string, grants ...string) any {
		m, err := n.granted("evaluate", obj{"expression": "fetch('" + url + "',{mode:'no-cors'}).then(()=>'reached',()=>'blocked')"}, grants...)
		if err != nil {
			t.Fatal(err)
		}
		return m["result"]
	}
	if got := get(b+"/api", grant); got != "blocked" {
		t.Error(got)
	}
	if got := get(b+"/api", grant, egress.DomainGrant+"b.test"); got != "reached" { // and leaves a connection that could be used again
		t.Error(got)
	}
	if got := get(b+"/api", grant); got != "blocked" {
		t.Error("a connection that was open already was used:", got)
	}
	if got := get(b + "/api"); got != "reached" {
		t.Error("without such a grant nothing is narrowed:", got)
	}
	// A socket that is open when the grant goes is cut.
	if m, err := n.granted("evaluate", obj{"expression": "new Promise(f=>{window.w=new WebSocket('ws://b.test:" + wsPort + "/');w.onopen=()=>f('open');w.onerror=()=>f('failed')})"}); err != nil || m["result"] != "open" {
		t.Fatal(m, err)
	}
	if m, err := n.granted("evaluate", obj{"expression": "new Promise(f=>{if(w.readyState>1)f('cut');w.onclose=()=>f('cut')})"}, grant); err != nil || m["result"] != "cut" {
		t.Error(m, err)
	}
}

func TestOwnersDomains(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("<p>here</p>")})
	n, port := named(t, s, func(o *Options) { o.BlockDomains = []string{"*.b.test"} }, "a.test", "b.test", "x.b.test")
	n.goTo("http://a.test:" + port + "/")
	for _, host := range []string{"b.test", "x.b.test"} {
		if err := n.refused(capabilities.CodeURLBlocked, "navigate", obj{"url": "http://" + host + ":" + port + "/"}); !strings.Contains(err.Message, "owner blocks") {
			t.Error(err)
		}
	}
	n, port = named(t, s, func(o *Options) { o.AllowDomains = []string{"c.test"} }, "a.test")
	n.goTo("http://a.test:" + port + "/") // an origin that the owner named
	if err := n.refused(capabilities.CodeURLBlocked, "navigate", obj{"url": "http://d.test/"}); !strings.Contains(err.Message, "other hosts only") {
		t.Error(err)
	}
	o, _ := options(t)
	o.BlockDomains = []string{"https://x"}
	if _, err := New(o); err == nil {
		t.Error("a URL was taken for a domain")
	}
}

// Nothing that a page can start connects past the proxy: no stream and no packet
// reaches an address that is not named.
func TestNothingPassesTheProxy(t *testing.T) {
	t.Parallel()
	var streams, packets atomic.Int64
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			streams.Add(1)
			c.Close()
		}
	}()
	port := tcp.Addr().(*net.TCPAddr).Port
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		t.Skip("the same port is not free for UDP")
	}
	defer udp.Close()
	go func() {
		buf := make([]byte, 2048)
		for {
			if _, _, err := udp.ReadFrom(buf); err != nil {
				return
			}
			packets.Add(1)
		}
	}()
	at := fmt.Sprintf("127.0.0.1:%d", port)
	s := newSite(t, map[string]string{
		"/": html("<p>page</p>"), "/ok": "ok",
		"/frame": html("<iframe src=http://" + at + "/></iframe><link rel=stylesheet href=http://" + at + "/><script src=http://" + at + "/></script>"),
	})
	n := newNodeAlone(t, s.URL)
	n.goTo(s.URL + "/")
	bad := "http://" + at + "/"
	try := func(name, expression string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		a, err := n.within(ctx, "evaluate", obj{"expression": expression})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := a.m["result"]; got != "blocked" {
			t.Errorf("%s: %v", name, got)
		}
	}
	q := func(s string) string { return strings.NewReplacer("BAD", bad, "AT", at).Replace(s) }
	// The page serves its own workers: a blob is of the page's origin.
	try("service worker", q(`navigator.serviceWorker.register('/sw.js').then(()=>'registered',()=>'blocked')`))
	try("shared worker", q(`new Promise(f=>{const w=new SharedWorker(URL.createObjectURL(new Blob(["onconnect=e=>fetch('BAD',{mode:'no-cors'}).then(()=>e.ports[0].postMessage('reached'),()=>e.ports[0].postMessage('blocked'))"])));w.port.onmessage=e=>f(e.data);w.onerror=()=>f('error')})`))
	try("worker socket", q(`new Promise(f=>{const w=new Worker(URL.createObjectURL(new Blob(["const s=new WebSocket('ws://AT/');s.onopen=()=>postMessage('reached');s.onerror=()=>postMessage('blocked')"])));w.onmessage=e=>f(e.data)})`))
	try("beacon", q(`navigator.sendBeacon('BAD','x');fetch('BAD',{keepalive:true,mode:'no-cors'}).then(()=>'reached',()=>'blocked')`))
	try("prefetch", q(`new Promise(f=>{for(const rel of ['prefetch','preconnect','dns-prefetch','modulepreload','preload','icon']){const l=document.createElement('link');l.rel=rel;l.href='BAD';if(rel=='preload')l.as='image';document.head.append(l)}const p=document.createElement('link');p.rel='prefetch';p.onerror=()=>f('blocked');p.onload=()=>f('reached');p.href='BADx';document.head.append(p)})`))
	try("speculation", q(`const r=document.createElement('script');r.type='speculationrules';r.textContent=JSON.stringify({prefetch:[{source:'list',urls:['BAD'],eagerness:'immediate'}],prerender:[{source:'list',urls:['BAD'],eagerness:'immediate'}]});document.head.append(r);fetch('BAD',{mode:'no-cors'}).then(()=>'reached',()=>'blocked')`))
	try("ping and form", q(`const a=document.createElement('a');a.href='#p';a.ping='BAD';document.body.append(a);a.click();const fr=document.createElement('iframe');fr.name='fr';document.body.append(fr);const fo=document.createElement('form');fo.action='BAD';fo.method='post';fo.target='fr';document.body.append(fo);fo.submit();new Promise(f=>{fr.onload=()=>f('blocked')})`))
	try("media and css", q(`new Promise(f=>{document.body.style.background='url(BADbg)';const v=document.createElement('video');v.src='BADv';v.onerror=()=>f('blocked');v.onloadeddata=()=>f('reached')})`))
	try("web transport", q(`typeof WebTransport==='undefined'?'blocked':(async()=>{try{const w=new WebTransport('https://AT/');await w.ready;return 'reached'}catch{return 'blocked'}})()`))
	try("stun, turn", q(`(async()=>{const p=new RTCPeerConnection({iceServers:[{urls:'stun:AT'},{urls:['turn:AT?transport=udp','turn:AT?transport=tcp','turns:AT?transport=tcp'],username:'u',credential:'c'}]});p.createDataChannel('x');const seen=[];p.onicecandidate=e=>e.candidate&&seen.push(e.candidate.candidate);await p.setLocalDescription();await new Promise(f=>{p.onicegatheringstatechange=()=>p.iceGatheringState=='complete'&&f();setTimeout(f,4000)});p.close();return seen.length?seen.join():'blocked'})()`))
	try("two peers", q(`(async()=>{const a=new RTCPeerConnection,b=new RTCPeerConnection;let n=0;a.onicecandidate=e=>{if(e.candidate){n++;b.addIceCandidate(e.candidate)}};b.onicecandidate=e=>{if(e.candidate){n++;a.addIceCandidate(e.candidate)}};const c=a.createDataChannel('x');const up=new Promise(f=>{c.onopen=()=>f('reached');setTimeout(()=>f('blocked'),1500)});await a.setLocalDescription();await b.setRemoteDescription(a.localDescription);await b.setLocalDescription();await a.setRemoteDescription(b.localDescription);
		await a.addIceCandidate({candidate:'candidate:1 1 udp 2122260223 127.0.0.1 PORT typ host',sdpMid:'0',sdpMLineIndex:0}).catch(()=>0);return up})()`))
	n.must("navigate", obj{"url": s.URL + "/frame", "wait_until": "domcontentloaded"})
	n.eval("fetch('/ok').then(r=>r.text())") // what was started before it is on its way by now
	n.h.Close()
	if streams.Load() != 0 || packets.Load() != 0 {
		t.Errorf("%d streams and %d packets went past the proxy", streams.Load(), packets.Load())
	}
}

// Another local process gets nothing from a lane's proxy, Chrome everything.
func TestProxyIsForChromeOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("<p>page</p>")})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	n.h.mu.Lock()
	addr := n.h.lanes[n.lane].egress.Addr()
	n.h.mu.Unlock()
	before := s.count("/")
	c, err := net.Dial("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET %s/ HTTP/1.1\r\nHost: x\r\n\r\n", s.URL)
	c.SetReadDeadline(time.Now().Add(patience))
	if k, err := c.Read(make([]byte, 100)); k > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a stranger got %d bytes, %v", k, err)
	}
	if s.count("/") != before {
		t.Error("a stranger reached the site")
	}
	n.goTo(s.URL + "/")
}

// Each Chrome of a node that is root has an account of its own.
func TestChromesAccount(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give accounts")
	}
	s := newSite(t, map[string]string{"/": html("<p>page</p>")})
	seen := map[uint32]bool{}
	for range 2 {
		n := newNodeAlone(t, s.URL)
		n.goTo(s.URL + "/")
		info, err := os.Stat(n.process().Program.Scratch())
		if err != nil {
			t.Fatal(err)
		}
		uid := info.Sys().(*syscall.Stat_t).Uid
		for _, dir := range processesOf(t, n.process().Program.Scratch()) {
			if strings.Contains(dir, "self") {
				continue
			}
			p, err := os.Stat(dir)
			cmdline, _ := os.ReadFile(dir + "/cmdline")
			if err == nil && strings.Contains(string(cmdline), "--type=") && p.Sys().(*syscall.Stat_t).Uid == 65534 {
				t.Errorf("%s runs under the shared account", cmdline)
			}
		}
		if uid < 61184 || uid > 65519 || seen[uid] {
			t.Errorf("account %d, seen %v", uid, seen)
		}
		seen[uid] = true
	}
}
