package pairing_test

import (
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/pairing"
)

func TestWorkerPaste(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &pairing.WorkerPaste{Key: key, Name: "box", Addrs: []string{"10.0.0.1:7480", "[::1]:7480"}, Sum: strings.Repeat("0a", 32)}
	text := p.Encode()
	q, err := pairing.ParseWorkerPaste(" " + text[:20] + "\n" + text[20:])
	if err != nil || q.Encode() != text || !q.Key.Equal(key) || q.Name != "box" || len(q.Addrs) != 2 {
		t.Errorf("%v %v", q, err)
	}
	if shown := fmt.Sprintf("%v %+v %s", p, p, p); strings.Contains(shown, "box") {
		t.Error(shown)
	}
	for _, bad := range []string{
		"", "satellite" + text[6:], strings.Replace(text, "/box", "/Box", 1), strings.Replace(text, "sum=0a", "sum=0", 1),
		strings.Replace(text, ":7480", "", 1), strings.Replace(text, "worker://", "worker://a", 1), text + strings.Repeat("a", 1024),
	} {
		if _, err := pairing.ParseWorkerPaste(bad); capabilities.CodeOf(err) != capabilities.CodePasteInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A signature counts for the ask that it is over, and for no other field of it.
func TestWorkerAsk(t *testing.T) {
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	ask := pairing.WorkerAsk{Invite: "i", Key: pairing.KeyText(pub), Host: "box", Platform: "linux/amd64", Agent: "handrail", Seq: 1}
	sig, err := ask.Sign(key)
	if err != nil || ask.Verify(ask.Key, sig) != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*pairing.WorkerAsk){
		func(a *pairing.WorkerAsk) { a.Invite = "j" }, func(a *pairing.WorkerAsk) { a.Host = "other" },
		func(a *pairing.WorkerAsk) { a.Platform = "" }, func(a *pairing.WorkerAsk) { a.Agent = "" },
		func(a *pairing.WorkerAsk) { a.Seq = 2 }, func(a *pairing.WorkerAsk) { a.Host, a.Platform = "box\nlinux/amd64", "" },
	} {
		other := ask
		change(&other)
		if other.Verify(ask.Key, sig) == nil {
			t.Errorf("%+v has the signature of another", other)
		}
	}
	if ask.Verify("", sig) == nil || ask.Verify(ask.Key, "") == nil {
		t.Error("no key, or no signature, counts")
	}
}
