//go:build unix

package console

import (
	"bufio"
	"bytes"
	"fmt"
	"image/png"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/gateway/principal"
)

// A page of somebody else's, of the same site as browsers count it so that the cookie
// goes along, frames the console, posts to it, and sends the person there with an
// address of its own choosing: nothing is shown in a frame, nothing changes, and no
// page of ours asks anybody else for anything.
func TestAForeignPageGetsNothing(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleAdmin)
	var gateway string
	hits := atomic.Int64{}
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/frame":
			fmt.Fprintf(w, `<iframe src="%s/console/stop" style="border:0;width:900px;height:900px"></iframe><script>window.framed = new Promise(r => document.querySelector("iframe").onload = r)</script>`, gateway)
		case "/post":
			fmt.Fprintf(w, `<iframe name=f></iframe><form target=f method=post action="%s/console/stop"><input name=reason value=x></form>`, gateway)
		case "/favicon.ico":
		default:
			hits.Add(1)
		}
	}))
	defer evil.Close()
	gateway = d.URL()

	d.open(evil.URL + "/frame")
	d.await(`document.querySelector("iframe")`)
	must(t, d.run(`window.framed`, nil))
	if said := strings.Join(d.words(), "\n"); !strings.Contains(said, "frame-ancestors") && !strings.Contains(said, "status of 403") {
		t.Errorf("the console is shown in a frame; the browser said: %s", said)
	}
	if seen := d.picture(); !uniform(t, seen) {
		t.Error("something is seen in the frame")
	}
	d.open(evil.URL + "/post")
	must(t, d.run(`new Promise(r => { document.querySelector("iframe").onload = () => r(1); document.querySelector("form").submit() })`, nil))
	must(t, d.run(fmt.Sprintf(`fetch(%q, {method: "POST", mode: "no-cors", credentials: "include", body: new URLSearchParams("reason=x")}).then(() => 1, () => 0)`, gateway+"/console/stop"), nil))
	must(t, d.run(fmt.Sprintf(`navigator.sendBeacon(%q, new URLSearchParams("reason=x"))`, gateway+"/console/stop"), nil))
	must(t, d.run(fmt.Sprintf(`fetch(%q, {method: "PUT", credentials: "include"}).then(() => 1, () => 0)`, gateway+"/console/account/password"), nil))
	if _, on := d.Switch.Now(); on {
		t.Error("a foreign page stopped the site")
	}
	var read string
	must(t, d.run(fmt.Sprintf(`fetch(%q, {credentials: "include"}).then(r => r.text(), e => "refused")`, gateway+"/console/approvals"), &read))
	if read != "refused" {
		t.Errorf("a foreign page reads the console: %.200s", read)
	}
	// The session was not used up by any of it, and an address chooses no gateway.
	for _, path := range []string{"/console/approvals?gateway=%s&gatewayUrl=%s&url=%s", "/console/?next=%s&return_to=%s&redirect=%s", "/console/login?next=%s&api=%s#gateway=%s", "/console//%s/%s/%s"} {
		d.open(gateway + fmt.Sprintf(path, evil.URL, url.QueryEscape(evil.URL), strings.Replace(evil.URL, "http", "ws", 1)))
		if at := d.value("location.origin"); at != gateway {
			t.Errorf("%s leads to %s", path, at)
		}
	}
	d.goTo("/console/stop")
	d.await(`document.body.innerText.includes("Stop everything now")`)
	if n := hits.Load(); n > 0 {
		t.Errorf("our pages asked the other server %d times", n)
	}
}

// uniform reports whether a picture is of one colour but for what a browser draws
// where a frame failed: nothing of a page of ours, which has a green button in it.
func uniform(t *testing.T, data []byte) bool {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	must(t, err)
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			if r, g, b, _ := img.At(x, y).RGBA(); max(r, g, b)-min(r, g, b) > 0x3000 {
				return false
			}
		}
	}
	return true
}

// Strangers who hold connections open, send bodies that never end or are huge, keep
// nobody out, and what is huge is not read.
func TestStrangersKeepNobodyOut(t *testing.T) {
	d := startSite(t)
	address := strings.TrimPrefix(d.URL(), "http://")
	for i := range 300 {
		c, err := net.Dial("tcp", address)
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		switch i % 3 {
		case 0: // half a header
			_, err = fmt.Fprintf(c, "POST /console/login HTTP/1.1\r\nHost: %s\r\n", address)
		case 1: // a body that never comes
			_, err = fmt.Fprintf(c, "POST /console/login/password HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100000\r\n\r\nname=", address, d.URL())
		}
		must(t, err)
	}
	d.session(principal.RoleViewer) // a person signs in meanwhile
	for name, head := range map[string]string{
		"by length": "Content-Length: 1073741824", "by chunks": "Transfer-Encoding: chunked",
	} {
		c, err := net.Dial("tcp", address)
		must(t, err)
		defer c.Close()
		must(t, c.SetDeadline(time.Now().Add(within)))
		_, err = fmt.Fprintf(c, "POST /console/login HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\nContent-Type: application/x-www-form-urlencoded\r\n%s\r\n\r\n", address, d.URL(), head)
		must(t, err)
		sent := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			block := strings.Repeat("a", 64<<10)
			for sent < 1<<30 {
				n, err := io.WriteString(c, map[bool]string{true: fmt.Sprintf("%x\r\n%s\r\n", len(block), block), false: block}[name == "by chunks"])
				sent += n
				if err != nil {
					return
				}
			}
		}()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil { // or it hung up at once
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("%s: %d", name, resp.StatusCode)
			}
		}
		_ = c.Close()
		<-done
		if sent > 64<<20 {
			t.Errorf("%s: %d bytes were taken", name, sent)
		}
	}
}
