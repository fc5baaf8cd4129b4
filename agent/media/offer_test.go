package media

import (
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// chrome is an offer as Chrome makes it, shortened: sound first, video second, in one
// bundle, candidates with the first.
const chrome = "v=0\r\no=- 4611 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0 1\r\na=extmap-allow-mixed\r\na=msid-semantic: WMS\r\n" +
	"m=audio 9 UDP/TLS/RTP/SAVPF 111 63\r\nc=IN IP4 0.0.0.0\r\na=candidate:1 1 udp 2113937151 192.0.2.1 50000 typ host\r\n" +
	"a=ice-ufrag:au\r\na=ice-pwd:audiopassword\r\na=fingerprint:sha-256 AA:BB\r\na=setup:actpass\r\na=mid:0\r\na=recvonly\r\na=rtcp-mux\r\na=rtpmap:111 opus/48000/2\r\n" +
	"m=video 9 UDP/TLS/RTP/SAVPF 98 96 97\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:vi\r\na=ice-pwd:videopassword\r\na=fingerprint:sha-256 CC:DD\r\na=setup:actpass\r\na=mid:1\r\n" +
	"a=extmap:3 http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01\r\na=extmap:5/recvonly http://www.webrtc.org/experiments/rtp-hdrext/playout-delay\r\n" +
	"a=extmap:20 http://www.webrtc.org/experiments/rtp-hdrext/abs-capture-time\r\na=recvonly\r\na=rtcp-mux\r\na=rtcp-rsize\r\n" +
	"a=rtpmap:98 VP9/90000\r\na=rtpmap:96 VP8/90000\r\na=rtcp-fb:96 goog-remb\r\na=rtcp-fb:96 nack\r\na=rtcp-fb:96 nack pli\r\na=rtcp-fb:98 ccm fir\r\na=rtpmap:97 rtx/90000\r\n"

func TestOffer(t *testing.T) {
	o, err := parseOffer(chrome)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(o.video, o.payload, o.feedback, o.ufrag, o.password, o.prints, o.client(), len(o.candidates), o.extensions[transportURI], o.extensions[playoutDelayURI], o.extensions[captureTimeURI])
	if want := "1 96 [goog-remb nack nack pli] vi videopassword [{sha-256 CC:DD}] true 1 3 5 0\n"; got != want {
		t.Errorf("understood %s\n     want %s", got, want)
	}
	answer := o.answer(said{session: 8, ufrag: "u", password: "p", digest: "EE:FF", ssrc: 7, candidates: []string{"1 1 udp 1 192.0.2.9 1 typ host"}})
	for _, want := range []string{
		"v=0\r\n", "a=group:BUNDLE 1\r\n", "m=audio 0 UDP/TLS/RTP/SAVPF 0\r\nc=IN IP4 0.0.0.0\r\na=mid:0\r\na=inactive\r\n", "m=video 9 UDP/TLS/RTP/SAVPF 96\r\n", "a=setup:active\r\n",
		"a=ice-ufrag:u\r\n", "a=fingerprint:sha-256 EE:FF\r\n", "a=sendonly\r\na=rtcp-mux\r\na=rtcp-rsize\r\na=rtpmap:96 VP8/90000\r\n", "a=rtcp-fb:96 nack pli\r\n", "a=extmap:3 " + transportURI, "a=candidate:1 1 udp",
	} {
		if !strings.Contains(answer, want) {
			t.Errorf("the answer has no %q:\n%s", want, answer)
		}
	}
	if strings.Contains(answer, "ccm fir") || strings.Contains(answer, captureTimeURI) {
		t.Errorf("the answer has what was not offered for VP8, or cannot be written:\n%s", answer)
	}
}

func TestOfferVariants(t *testing.T) {
	cut := func(old, with string) string { return strings.ReplaceAll(chrome, old, with) }
	for name, c := range map[string]struct {
		offer string
		ok    func(*offer) bool
	}{
		"only line feeds":          {cut("\r\n", "\n"), func(o *offer) bool { return o.payload == 96 }},
		"the viewer begins":        {cut("a=setup:actpass", "a=setup:active"), func(o *offer) bool { return !o.client() }},
		"credentials of the other": {cut("a=ice-ufrag:vi\r\na=ice-pwd:videopassword\r\na=fingerprint:sha-256 CC:DD\r\n", ""), func(o *offer) bool { return o.ufrag == "au" && o.prints[0].digest == "AA:BB" }},
		"credentials before all": {"v=0\r\na=ice-ufrag:s\r\na=ice-pwd:session\r\na=fingerprint:SHA-256 11\r\nm=video 9 RTP/SAVPF 100\r\n" +
			"m=video 9 UDP/TLS/RTP/SAVPF 100\r\na=rtcp-mux\r\na=rtpmap:100 vp8/90000\r\na=rtcp-fb:* nack\r\n", func(o *offer) bool {
			return o.video == 1 && o.payload == 100 && o.ufrag == "s" && o.prints[0].hash == "sha-256" && len(o.feedback) == 1
		}},
	} {
		o, err := parseOffer(c.offer)
		if err != nil || !c.ok(o) {
			t.Errorf("%s: %v %+v", name, err, o)
		}
	}
	for name, bad := range map[string]string{
		"nothing": "", "nonsense": "nonsense", "no media": "v=0\r\n", "a line that is none": chrome + "x\r\n", "a return within a line": cut("a=mid:1", "a=mid:1\rm=video"),
		"no video": cut("m=video", "m=application"), "no VP8": cut("VP8", "AV1"), "VP8 of no format": cut(" 98 96 97", " 98"), "sends only": cut("recvonly", "sendonly"),
		"no mux": cut("a=rtcp-mux\r\n", ""), "no DTLS": cut("UDP/TLS/RTP", "RTP"), "no fingerprint": cut("a=fingerprint", "a=x"), "no password": cut("a=ice-pwd", "a=x"),
		"on hold": cut("actpass", "holdconn"), "too much media": "v=0\r\n" + strings.Repeat("m=audio 9 RTP/AVP 0\r\n", maxMedia+1), "too long": chrome + strings.Repeat("a=x\r\n", maxOffer/5),
	} {
		if o, err := parseOffer(bad); err == nil {
			t.Errorf("%s: taken as %+v", name, o)
		}
	}
}

func TestFingerprint(t *testing.T) {
	own, err := newCertificate()
	if err != nil {
		t.Fatal(err)
	}
	der := own.Certificate[0]
	long := sha512.Sum512(der)
	for _, good := range []fingerprint{{"sha-256", digestOf(der)}, {"sha-256", strings.ToLower(digestOf(der))}, {"sha-512", hex.EncodeToString(long[:])}} {
		if !matches(der, []fingerprint{{"sha-256", "00"}, good}) {
			t.Errorf("%v is not known", good)
		}
	}
	for _, bad := range []fingerprint{{"sha-256", ""}, {"sha-256", digestOf(der[1:])}, {"sha-1", digestOf(der)}, {"sha-512", digestOf(der)}, {"sha-256", "zz"}} {
		if matches(der, []fingerprint{bad}) {
			t.Errorf("%v counts", bad)
		}
	}
	if matches(der, nil) {
		t.Error("no fingerprint counts")
	}
}

// FuzzOffer holds that whatever is understood has an answer of its own form: as many
// descriptions of media, one of them not refused, and no line that nobody wrote.
func FuzzOffer(f *testing.F) {
	f.Add(chrome)
	f.Add("v=0\r\na=ice-ufrag:s\r\na=ice-pwd:session\r\na=fingerprint:sha-256 11\r\nm=video 9 UDP/TLS/RTP/SAVPF 100\r\na=rtcp-mux\r\na=rtpmap:100 VP8/90000\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		o, err := parseOffer(text)
		if err != nil {
			return
		}
		if o.video >= len(o.media) || len(o.media) > maxMedia || len(o.candidates) > maxCandidates || o.ufrag == "" || len(o.prints) == 0 || o.payload > 127 {
			t.Fatalf("%+v", o)
		}
		answer := o.answer(said{digest: "EE"})
		if !strings.HasSuffix(answer, "\r\n") || strings.Count(answer, "\nm=") != len(o.media) || strings.Count(answer, "\nm=video 9 ") != 1 && !strings.Contains(answer, "=video 0 ") {
			t.Fatalf("%q\n%s", text, answer)
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(answer, "\r\n"), "\r\n") {
			if len(line) < 2 || line[1] != '=' || strings.ContainsAny(line, "\r\n") {
				t.Fatalf("line %q", line)
			}
		}
	})
}
