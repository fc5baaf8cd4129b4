//go:build linux

package console

import (
	"fmt"
	"strings"
	"testing"

	x "github.com/handrail-dev/handrail/test/desk"
)

const fragmentType = "application/trickle-ice-sdpfrag"

// A viewer that knows no address of the node can be found by the node alone, and only once it has
// said where it is: by PATCH, as a client that trickles does. A candidate that is not of its
// session is refused as WHEP has it, and the view goes on.
func TestTrickleOnly(t *testing.T) {
	w := startWatched(t, "320x208")
	w.browser = startChrome(t)
	w.Grant("ann", w.node, "tool.live.screen")
	w.browser.open(w.URL() + "/healthz")
	must(t, w.run(receiver, nil))
	var offer string
	must(t, w.run("whep.offer()", &offer))
	offer = without(offer, "a=candidate:")
	answer, body := w.whep("POST", w.door(), "application/sdp", offer)
	if answer.StatusCode != 201 {
		t.Fatalf("POST: %d %s", answer.StatusCode, body)
	}
	at, tag := answer.Header.Get("Location"), answer.Header.Get("ETag")
	if !strings.Contains(body, "a=candidate:") {
		t.Errorf("the answer has no candidates:\n%s", body)
	}
	must(t, w.run(fmt.Sprintf("whep.pc.setRemoteDescription({ type: \"answer\", sdp: %q })", without(body, "a=candidate:")), nil))
	w.await("whep.gathered")
	var found []string
	must(t, w.run("whep.found", &found))
	media := "m=video 9 UDP/TLS/RTP/SAVPF 96\r\na=mid:0\r\n"
	name := ""
	for line := range strings.Lines(offer) {
		if strings.HasPrefix(line, "a=ice-ufrag:") {
			name = line
		}
	}
	whole := name + media + strings.Join(found, "\r\n") + "\r\na=end-of-candidates\r\n"
	for _, c := range []struct {
		what, tag, kind, body string
		status                int
	}{
		{"another type", tag, "text/plain", whole, 400},
		{"no entity tag", "", fragmentType, whole, 428},
		{"another's entity tag", `"other"`, fragmentType, whole, 412},
		{"nonsense", tag, fragmentType, "nonsense", 400},
		{"nothing", tag, fragmentType, "", 400},
		{"too much", tag, fragmentType, strings.Repeat("a=x\r\n", 4<<10), 400},
		{"a restart", "*", fragmentType, "a=ice-ufrag:anew\r\na=ice-pwd:anewanewanewanewanewanew\r\n" + strings.Join(found, "\r\n"), 422},
		{"the end", tag, fragmentType, "a=end-of-candidates\r\n", 204},
	} {
		if answer, body := w.whepOf(c.tag, "PATCH", at, c.kind, c.body); answer.StatusCode != c.status {
			t.Errorf("%s: %d, want %d: %s", c.what, answer.StatusCode, c.status, body)
		}
	}
	if n := len(w.packets("tool.live.trickle")); n != 0 {
		t.Errorf("%d packets of candidates that were none", n)
	}
	if state := w.value("whep.pc.connectionState"); state == "connected" {
		t.Error("it is connected to a node that it knows no address of")
	}
	if answer, body := w.whepOf(tag, "PATCH", at, fragmentType, whole); answer.StatusCode != 204 || answer.Header.Get("ETag") != "" || body != "" {
		t.Errorf("PATCH: %d %v %s", answer.StatusCode, answer.Header, body)
	}
	must(t, w.run("whep.video.play().then(() => true)", nil))
	w.await("whep.frames > 0 && whep.video.videoWidth === 320")
	kinds := ""
	for _, p := range w.packets("tool.live.trickle") {
		kinds += string(p.Kind) + " "
	}
	if !strings.HasSuffix(kinds, "tool.call.dispatch tool.call.result ") {
		t.Errorf("the ledger has %s", kinds)
	}
	if n := w.grantsOf("tool.live.trickle"); n != 1 {
		t.Errorf("%d grants for candidates", n)
	}
	if answer, body := w.whep("DELETE", at, "", ""); answer.StatusCode != 200 {
		t.Fatalf("DELETE: %d %s", answer.StatusCode, body)
	}
	x.Await(t, "the word for the candidates to be taken back", func() bool { return w.grantsOf("tool.live.trickle") == 0 })
	if answer, _ := w.whepOf(tag, "PATCH", at, fragmentType, whole); answer.StatusCode != 404 {
		t.Errorf("PATCH of a session that has ended: %d", answer.StatusCode)
	}
}

// grantsOf counts the grants of a tool that hold.
func (w *watched) grantsOf(tool string) (n int) {
	for _, g := range w.Consent.Grants() {
		if g.Tools[0] == tool {
			n++
		}
	}
	return n
}

// without leaves out the lines that begin so.
func without(sdp, prefix string) string {
	var b strings.Builder
	for line := range strings.Lines(sdp) {
		if !strings.HasPrefix(line, prefix) {
			b.WriteString(line)
		}
	}
	return b.String()
}
