package push

import (
	"crypto/ecdh"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/push/pushtest"
)

func raw(t testing.TB, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The example of RFC 8291 section 5, octet for octet.
func TestSealIsThatOfTheRFC(t *testing.T) {
	at, err := readTarget("https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV",
		"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4", "BTBZMqHH6r4Tts7J_aSIgg", []string{"push.example.net"})
	if err != nil {
		t.Fatal(err)
	}
	ours, err := ecdh.P256().NewPrivateKey(raw(t, "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := seal(at, []byte("When I grow up, I want to be a watermelon"), ours, raw(t, "DGv6ra1nlYgDCS1FRnbzlw"), 0)
	if err != nil {
		t.Fatal(err)
	}
	const want = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_" +
		"yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
	if s := base64.RawURLEncoding.EncodeToString(got); s != want {
		t.Errorf("%s\nwant %s", s, want)
	}
}

// Every message is as long as every other, no two are alike, and only the browser that
// it is for opens it.
func TestOnlyItsBrowserOpensAMessage(t *testing.T) {
	o, other := pushtest.NewBrowser(t), pushtest.NewBrowser(t)
	at, err := readTarget("https://push.example.net/x", o.P256dh(), o.Auth(), []string{"push.example.net"})
	if err != nil {
		t.Fatal(err)
	}
	seen, length := map[string]bool{}, 0
	for _, text := range []string{"a", strings.Repeat("b", 1000), "a"} {
		body, err := sealed(at, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := o.Open(body); err != nil || string(got) != text {
			t.Errorf("%.20q opened as %.20q: %v", text, got, err)
		}
		if got, err := other.Open(body); err == nil {
			t.Errorf("another browser opened it: %q", got)
		}
		if length == 0 {
			length = len(body)
		}
		if seen[string(body)] || len(body) != length || len(body) > recordSize {
			t.Errorf("%d bytes, the first had %d; seen before: %v", len(body), length, seen[string(body)])
		}
		seen[string(body)] = true
		body[len(body)-1] ^= 1
		if _, err := o.Open(body); err == nil {
			t.Error("a changed message opens")
		}
	}
	if _, err := sealed(at, make([]byte, 4000)); err == nil {
		t.Error("a message that no push service takes was sealed")
	}
}

func TestTargets(t *testing.T) {
	o := pushtest.NewBrowser(t)
	services := Services()
	good := []string{"https://fcm.googleapis.com/fcm/send/x:y", "https://web.push.apple.com/Q", "https://wns2-am3p.notify.windows.com/w/?token=B", "https://FCM.googleapis.com/x"}
	for _, endpoint := range good {
		at, err := readTarget(endpoint, o.P256dh(), o.Auth()+"==", services)
		if err != nil {
			t.Errorf("%s: %v", endpoint, err)
			continue
		}
		if s := fmt.Sprintf("%v %+v %#v %s", at, at, at, at); strings.Contains(s, "token=") || strings.Contains(s, "/x") {
			t.Errorf("it prints: %s", s)
		}
	}
	bad := [][3]string{
		{"http://fcm.googleapis.com/x", o.P256dh(), o.Auth()}, {"https://127.0.0.1/x", o.P256dh(), o.Auth()}, {"https://fcm.googleapis.com.evil.example/x", o.P256dh(), o.Auth()},
		{"https://user@fcm.googleapis.com/x", o.P256dh(), o.Auth()}, {"https://fcm.googleapis.com:8443/x", o.P256dh(), o.Auth()}, {"https://evil.example/?fcm.googleapis.com", o.P256dh(), o.Auth()},
		{"https://push.apple.com.example/x", o.P256dh(), o.Auth()}, {"https://evilpush.apple.com.x/", o.P256dh(), o.Auth()}, {"https://fcm.googleapis.com/#x", o.P256dh(), o.Auth()},
		{"https://169.254.169.254/latest", o.P256dh(), o.Auth()}, {"https://fcm.googleapis.com@127.0.0.1/", o.P256dh(), o.Auth()}, {"", o.P256dh(), o.Auth()}, {"https://fcm.googleapis.com/" + strings.Repeat("x", 3000), o.P256dh(), o.Auth()},
		{good[0], "", o.Auth()}, {good[0], o.Auth(), o.Auth()}, {good[0], base64.RawURLEncoding.EncodeToString(append([]byte{4}, make([]byte, 64)...)), o.Auth()}, {good[0], o.P256dh(), ""}, {good[0], o.P256dh(), o.P256dh()},
	}
	for _, b := range bad {
		if at, err := readTarget(b[0], b[1], b[2], services); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%.80q gave %v, %v", b, at.endpoint, err)
		}
	}
}

// A target leads to a push service over TLS, whatever a browser says, and what is sealed
// for it can be sealed.
func FuzzTarget(f *testing.F) {
	o := pushtest.NewBrowser(f)
	f.Add("https://fcm.googleapis.com/fcm/send/x", o.P256dh(), o.Auth())
	f.Add("https://web.push.apple.com:443/x", o.P256dh(), o.Auth()+"==")
	f.Add("https://\\fcm.googleapis.com@evil/x", "BA", "AA")
	f.Fuzz(func(t *testing.T, endpoint, key, auth string) {
		at, err := readTarget(endpoint, key, auth, Services())
		if err != nil {
			return
		}
		if at.endpoint.Scheme != "https" || !known(at.endpoint.Host, Services()) || at.endpoint.User != nil {
			t.Fatalf("%q leads to %s", endpoint, at.endpoint)
		}
		if _, err := sealed(at, []byte("x")); err != nil {
			t.Fatal(err)
		}
	})
}
