package live

import (
	"slices"
	"strings"
	"testing"
)

// whole is a fragment as Chrome and the WHEP draft have it.
const whole = "a=group:BUNDLE 0 1\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=mid:0\r\na=ice-ufrag:EsAw\r\na=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1\r\n" +
	"a=candidate:1387637174 1 udp 2122260223 192.0.2.1 61764 typ host generation 0 ufrag EsAw network-id 1\r\n" +
	"a=candidate:473322822 1 tcp 1518280447 192.0.2.1 9 typ host tcptype active generation 0 ufrag EsAw network-id 1\r\na=end-of-candidates\r\n"

func TestFragment(t *testing.T) {
	f, err := parseFragment(whole)
	if err != nil || !slices.Equal(f.ufrags, []string{"EsAw"}) || len(f.candidates) != 2 || !strings.HasPrefix(f.candidates[1], "473322822 1 tcp ") {
		t.Errorf("%+v %v", f, err)
	}
	if f, err := parseFragment("a=end-of-candidates\n"); err != nil || f.candidates != nil {
		t.Errorf("%+v %v", f, err)
	}
	const one = "a=candidate:1 1 udp 1 192.0.2.1 1 typ host\r\n"
	for name, bad := range map[string]string{
		"nothing": "", "nonsense": "candidates", "too long": strings.Repeat("a=x\n", MaxFragment/4+1), "too many": strings.Repeat(one, maxCandidates+1),
		"an empty one": "a=candidate:\r\n", "a long one": "a=candidate:" + strings.Repeat("x", maxCandidate+1), "a return within": "a=candidate:1\r1\n",
		"a name too long": "a=ice-ufrag:" + strings.Repeat("u", maxUfrag+1), "a zero": "a=x\x00",
	} {
		if f, err := parseFragment(bad); err == nil || f.candidates != nil || f.ufrags != nil {
			t.Errorf("%s: %+v %v", name, f, err)
		}
	}
	if got := ufragsOf(whole + "a=ice-ufrag:two\na=ice-ufrag:EsAw\n"); !slices.Equal(got, []string{"EsAw", "two"}) {
		t.Error(got)
	}
}

// FuzzFragment holds that what is understood keeps its bounds, has no line breaks, and
// is understood alike when it is written anew.
func FuzzFragment(f *testing.F) {
	f.Add(whole)
	f.Add("a=ice-ufrag:u\na=candidate:1 1 udp 1 ::1 1 typ host")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseFragment(text)
		if err != nil {
			if got.candidates != nil || got.ufrags != nil {
				t.Fatalf("a value and %v", err)
			}
			return
		}
		if len(got.candidates) > maxCandidates || len(got.ufrags) > maxUfrags {
			t.Fatalf("%+v", got)
		}
		var b strings.Builder
		for _, u := range got.ufrags {
			b.WriteString("a=ice-ufrag:" + u + "\r\n")
		}
		for _, c := range got.candidates {
			if c == "" || len(c) > maxCandidate || strings.ContainsAny(c, "\r\n\x00") {
				t.Fatalf("candidate %q", c)
			}
			b.WriteString("a=candidate:" + c + "\r\n")
		}
		if b.Len() == 0 || b.Len() > MaxFragment {
			return
		}
		again, err := parseFragment(b.String())
		if err != nil || !slices.Equal(again.candidates, got.candidates) || !slices.Equal(again.ufrags, got.ufrags) {
			t.Fatalf("%+v, written anew %+v %v", got, again, err)
		}
	})
}
