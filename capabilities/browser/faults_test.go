//go:build linux

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestNavigateRefusals(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("here"), "/alert": html("<script>alert(1);document.title='after '+confirm('x')</script>"),
		"/leave": html(`<script>onbeforeunload=e=>{e.preventDefault();return 'stay'}</script><input id=i><select id=s><option>a<option>b</select>`)})
	other := newSite(t, map[string]string{"/": html("not named")})
	n := newNode(t, s.URL)
	for _, url := range []string{"file:///etc/passwd", "chrome://version", "devtools://devtools/x", "view-source:" + s.URL, "javascript:alert(1)",
		"about:config", "ftp://example.com/", "blob:" + s.URL + "/x", "http://169.254.169.254/latest", other.URL, "http://10.0.0.1/", "http://[::1]/", "http://0x7f000001/", "http://localhost:1/", "http://2130706433/"} {
		err := n.refused(capabilities.CodeURLBlocked, "navigate", obj{"url": url})
		if err.Message == "" {
			t.Error(url, "no message")
		}
	}
	if err := n.refused(capabilities.CodeURLBlocked, "navigate", obj{"url": "localhost:8131"}); !strings.Contains(err.PublicHint(), "http://") {
		t.Error(err.PublicHint())
	}
	if other.count("/") != 0 {
		t.Error("a blocked origin was reached")
	}
	n.refused(capabilities.CodeURLBlocked, "navigate", obj{"url": s.URL + "/redirect?to=" + other.URL})
	if other.count("/") != 0 {
		t.Error("a redirect to a blocked origin was followed")
	}
	n.refused(capabilities.CodeInvalidArguments, "navigate", obj{"url": "http://%zz/"})
	n.refused(capabilities.CodeNavigationFailed, "navigate", obj{"url": s.URL + "/204"})
	if a := n.goTo(s.URL + "/missing"); a.m["status"] != 404.0 || a.Effect != capabilities.EffectPartial {
		t.Error(a.json, a.Effect)
	}
	if a := n.goTo(s.URL + "/alert"); a.m["dialog"] == nil || !strings.Contains(a.Evidence, "dialog") {
		t.Error(a.json, a.Evidence)
	}
	n.must("handle-dialog", obj{"accept": true}) // the alert
	if a := n.must("handle-dialog", obj{"accept": false}); a.m["title"] != "after false" {
		t.Error(a.json, a.Evidence)
	}
	n.goTo("about:blank")
	n.goTo("data:text/html,<title>inline</title>" + strings.Repeat("x", 2000))
	for tool, args := range map[string]obj{
		"type": {"selector": "#i", "text": "activation"}, "fill-form": {"selector": "#i", "value": "activation"}, "select-option": {"selector": "#s", "values": []string{"b"}},
	} {
		n.goTo(s.URL + "/leave")
		n.must(tool, args)
		if a := n.goTo(s.URL + "/"); a.m["dialog"] == nil || a.m["url"] != s.URL+"/leave" {
			t.Errorf("after %s beforeunload was not reported: %s %s", tool, a.json, a.Evidence)
			continue
		}
		if a := n.must("handle-dialog", obj{"accept": true}); a.m["url"] != s.URL+"/" {
			t.Error(a.json, a.Evidence)
		}
	}
	if a := n.goTo(s.URL + "/#part"); !strings.Contains(a.Evidence, "within the document") {
		t.Error(a.Evidence)
	}
}

func TestNavigateRefusedServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	origin := "http://" + l.Addr().String()
	l.Close()
	n := newNode(t, origin)
	if e := n.refused(capabilities.CodeNavigationFailed, "navigate", obj{"url": origin}); !strings.Contains(e.Message, "does not answer") {
		t.Error(e.Message)
	}
}

// A server that never answers ends at the deadline, is cancelled, and the next
// call works.
func TestNavigateHang(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html("here"), "/slow": html("<p>Text</p><img src=/hang>")})
	n.goTo(s.URL + "/")
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	if _, err := n.within(ctx, "navigate", obj{"url": s.URL + "/hang"}); err == nil || err.Code != capabilities.CodeDeadlineExceeded {
		t.Fatal(err)
	}
	before := s.count("/hang")
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		for s.count("/hang") == before && t.Context().Err() == nil { // then the request is on its way: cancel now
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if _, err := n.within(ctx, "navigate", obj{"url": s.URL + "/hang"}); err == nil || err.Code != capabilities.CodeCancelled {
		t.Fatal(err)
	}
	n.goTo(s.URL + "/")
	// A page whose image never comes is there; it says so.
	if a := n.goTo(s.URL + "/slow"); a.Effect != capabilities.EffectConfirmed || a.Evidence != "the document was opened; still open: 1 image" {
		t.Errorf("%s (%s)", a.Effect, a.Evidence)
	}
	if !strings.Contains(n.snap(), "Text") {
		t.Error("an incomplete page cannot be read")
	}
	n.must("navigate", obj{"url": s.URL + "/slow", "wait_until": "domcontentloaded"})
	n.must("navigate", obj{"url": s.URL + "/slow", "wait_until": "none"})
}

// A promise that never resolves ends at its deadline, with a code that says so,
// and does not hold up the lane meanwhile.
func TestEvaluateHang(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<button onclick="document.title=9">B</button>`), "/hangs": ""})
	n.goTo(s.URL + "/")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n.before(3*time.Second, func(bounded context.Context) error {
		hung := make(chan *capabilities.Error, 1)
		go func() {
			_, err := n.within(bounded, "evaluate", obj{"expression": "document.title='waiting', new Promise(() => {})"})
			hung <- err
		}()
		n.until("the promise is waited for", func() bool { return n.eval("document.title") == "waiting" || bounded.Err() != nil })
		n.must("click", obj{"selector": "button"})
		early := bounded.Err()
		if err := <-hung; err == nil || err.Code != capabilities.CodeDeadlineExceeded || early == nil && !strings.Contains(err.Message, "promise never resolved") {
			t.Fatal(err)
		}
		return early
	})
	// A loop that never ends: the deadline stops it in the page.
	for _, expression := range []string{"for(;;);", "(async () => { await 1; for(;;); })()"} {
		began := time.Now()
		bounded, stop := context.WithTimeout(ctx, time.Second)
		if a, err := n.within(bounded, "evaluate", obj{"expression": expression}); err == nil || err.Code != capabilities.CodeDeadlineExceeded {
			t.Fatal(expression, err, a.json, a.Evidence, time.Since(began))
		}
		stop()
		if got := n.eval("1+1"); got != 2.0 {
			t.Fatal("the page did not come back:", got)
		}
	}
	// So does a cancel.
	bounded, stop := context.WithCancel(ctx)
	time.AfterFunc(300*time.Millisecond, stop)
	if _, err := n.within(bounded, "evaluate", obj{"expression": "for(;;);"}); err == nil || err.Code != capabilities.CodeCancelled {
		t.Fatal(err)
	}
	if got := n.eval("1+1"); got != 2.0 {
		t.Fatal("the page did not come back:", got)
	}
	// A page that hangs by itself.
	n.eval("setTimeout(()=>{const r=new XMLHttpRequest;r.open('GET','/hangs',false);r.send();for(;;);}); 1")
	for s.count("/hangs") == 0 { // from here on it answers nobody
		time.Sleep(time.Millisecond)
	}
	bounded, stop = context.WithTimeout(ctx, time.Second)
	defer stop()
	if _, err := n.within(bounded, "snapshot", obj{}); err == nil || err.Code != capabilities.CodeDeadlineExceeded {
		t.Fatal(err)
	}
	n.snap()
}

// Everything a page sends goes by the egress proxy.
func TestEgress(t *testing.T) {
	t.Parallel()
	secret := newSite(t, map[string]string{"/": html("internal")})
	s := newSite(t, map[string]string{"/": html("page"), "/w.js": "", "/api": "ok"})
	n := newNode(t, s.URL)
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	var mu sync.Mutex
	var hosts []string
	raw, _ := json.Marshal(obj{"url": s.URL + "/"})
	if _, err := n.h.Handle(t.Context(), capabilities.Invocation{Capability: "tyrum.browser.navigate", Lane: n.lane, Args: raw,
		Observe: func(key, detail string) { mu.Lock(); hosts = append(hosts, key+" "+detail); mu.Unlock() }}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	if len(hosts) == 0 || hosts[0] != "network.browser.session 127.0.0.1" {
		t.Errorf("observed %q", hosts)
	}
	mu.Unlock()
	if got := n.eval("fetch('/api').then(r=>r.text())"); got != "ok" {
		t.Error(got)
	}
	for _, expression := range []string{
		`fetch('%[1]s/',{mode:'no-cors'}).then(()=>'reached',()=>'blocked')`,
		`new Promise(f=>{const i=new Image;i.onload=()=>f('reached');i.onerror=()=>f('blocked');i.src='%[1]s/'})`,
		`new Promise(f=>{const w=new WebSocket('%[2]s/');w.onopen=()=>f('reached');w.onerror=()=>f('blocked')})`,
		`new Promise(f=>{const w=new Worker(URL.createObjectURL(new Blob(["fetch('%[1]s/',{mode:'no-cors'}).then(()=>postMessage('reached'),()=>postMessage('blocked'))"])));w.onmessage=e=>f(e.data)})`,
		`new Promise(f=>{const e=new EventSource('%[1]s/');e.onopen=()=>f('reached');e.onerror=()=>f('blocked')})`,
	} {
		expression = fmt.Sprintf(expression, secret.URL, strings.Replace(secret.URL, "http", "ws", 1))
		if got := n.eval(expression); got != "blocked" {
			t.Errorf("%v: %s", got, expression)
		}
	}
	n.eval(fmt.Sprintf(`(async()=>{const p=new RTCPeerConnection({iceServers:[{urls:'stun:%s'}]});p.createDataChannel('x');await p.setLocalDescription();await new Promise(f=>{p.onicegatheringstatechange=()=>p.iceGatheringState=='complete'&&f();setTimeout(f,1500)});return p.localDescription.sdp})()`, udp.LocalAddr()))
	udp.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if k, _, err := udp.ReadFrom(make([]byte, 100)); err == nil {
		t.Errorf("%d bytes of UDP went past the proxy", k)
	}
	if secret.count("/") != 0 {
		t.Error("the unnamed origin was reached")
	}
}

// A value that a page made undecodable is no fault of the browser's: the call fails, and
// others go on in the same Chrome.
func TestUndecodableValue(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.goTo("about:blank")
	other, before := n.on("lane-2"), n.process()
	other.goTo("about:blank")
	for _, expression := range []string{`({"\ud800": 1, "\ud801": 2})`, `({a: [{"\udc00": 1, "\udc01": 2}]})`} {
		n.refused(capabilities.CodeExecutionFailed, "evaluate", obj{"expression": expression})
		if got := n.eval(`"\ud83d\ude42" + 1`); got != "🙂1" {
			t.Errorf("after %s: %v", expression, got)
		}
	}
	if other.eval("1+1") != 2.0 || n.process() != before || !before.Alive() {
		t.Error("it is another Chrome")
	}
}
