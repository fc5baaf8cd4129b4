package media

import (
	"fmt"
	"strings"
	"testing"
)

// start is what stands before all else in an offer.
const start = "v=0\r\no=- 4611 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"

// chrome is an offer as Chrome makes it, shortened: sound first, then a data channel and
// video, in one bundle, candidates with the first.
const chrome = start + "a=group:BUNDLE 0 2 1\r\na=extmap-allow-mixed\r\na=msid-semantic: WMS\r\n" +
	"m=audio 9 UDP/TLS/RTP/SAVPF 111 63\r\nc=IN IP4 0.0.0.0\r\na=candidate:1 1 udp 2113937151 192.0.2.1 50000 typ host\r\n" +
	"a=ice-ufrag:au\r\na=ice-pwd:audiopassword\r\na=fingerprint:sha-256 AA:BB\r\na=setup:actpass\r\na=mid:0\r\na=recvonly\r\na=rtcp-mux\r\na=rtpmap:111 opus/48000/2\r\n" +
	"m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:da\r\na=ice-pwd:datapassword\r\na=fingerprint:sha-256 EE:FF\r\na=setup:actpass\r\na=mid:2\r\na=sctp-port:5000\r\na=max-message-size:262144\r\n" +
	"m=video 9 UDP/TLS/RTP/SAVPF 98 96 97\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:vi\r\na=ice-pwd:videopassword\r\na=fingerprint:sha-256 CC:DD\r\na=setup:actpass\r\na=mid:1\r\n" +
	"a=extmap:3 http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01\r\na=extmap:5/recvonly http://www.webrtc.org/experiments/rtp-hdrext/playout-delay\r\n" +
	"a=extmap:20 http://www.webrtc.org/experiments/rtp-hdrext/abs-capture-time\r\na=recvonly\r\na=rtcp-mux\r\na=rtcp-rsize\r\n" +
	"a=rtpmap:98 VP9/90000\r\na=rtpmap:96 VP8/90000\r\na=rtcp-fb:96 goog-remb\r\na=rtcp-fb:96 nack\r\na=rtcp-fb:96 nack pli\r\na=rtcp-fb:98 ccm fir\r\na=rtpmap:97 rtx/90000\r\n"

func TestOffer(t *testing.T) {
	o, err := parseOffer(chrome)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(o.chosen, o.payload, o.feedback, o.ufrag, o.password, o.print, o.client(), len(o.candidates), o.extensions[transportURI], o.extensions[playoutDelayURI], o.extensions[captureTimeURI])
	if want := "2 96 [goog-remb nack nack pli] vi videopassword sha-256 CC:DD true 1 3 5 0\n"; got != want {
		t.Errorf("understood %s\n     want %s", got, want)
	}
	p, answer := answered(t, &door{}, chrome)
	for _, want := range []string{
		"v=0\r\n", "a=group:BUNDLE 1\r\n", "m=audio 0 UDP/TLS/RTP/SAVPF 0\r\nc=IN IP4 0.0.0.0\r\na=mid:0\r\na=inactive\r\n",
		"m=application 0 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=mid:2\r\na=inactive\r\nm=video 9 UDP/TLS/RTP/SAVPF 96\r\n", "a=mid:1\r\n", "a=setup:active\r\n",
		"a=ice-ufrag:", "a=fingerprint:sha-256 ", "a=sendonly\r\n", "a=rtcp-mux\r\n", "a=rtcp-rsize\r\n", "a=rtpmap:96 VP8/90000\r\n", "a=rtcp-fb:96 nack pli\r\n", "a=extmap:3 " + transportURI + "\r\n",
		"a=extmap:5 " + playoutDelayURI + "\r\n", "a=extmap-allow-mixed\r\n", "a=msid:" + streamID + " " + trackID, fmt.Sprintf("a=ssrc:%d cname:", p.track.header.SSRC), " 1 udp ", " typ host", "a=end-of-candidates\r\n",
	} {
		if !strings.Contains(answer, want) {
			t.Errorf("the answer has no %q:\n%s", want, answer)
		}
	}
	for _, never := range []string{"ccm fir", captureTimeURI, " 2 udp ", "sctp", "a=ssrc:1 "} {
		if strings.Contains(answer, never) {
			t.Errorf("the answer has %q: what was not offered for VP8, cannot be written, or is ours:\n%s", never, answer)
		}
	}
}

// answered is what the node answers to an offer through a door.
func answered(t *testing.T, d *door, text string, wants ...codec) (*peer, string) {
	t.Helper()
	if err := d.enter(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.leave)
	p, answer, err := d.answer(t.Context(), text, nil, func() {}, wants...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p, answer
}

// The answer leaves out what viewers leave out of their offers.
func TestAnswerWithout(t *testing.T) {
	for name, c := range map[string]struct {
		offer       string
		want, never string
		codec       codec
	}{
		"a bundle":         {strings.Replace(chrome, "a=group:BUNDLE 0 2 1\r\n", "", 1), "m=video 9 ", "BUNDLE", vp8Codec},
		"names":            {strings.NewReplacer("a=group:BUNDLE 0 2 1\r\n", "", "a=mid:0\r\n", "", "a=mid:1\r\n", "", "a=mid:2\r\n", "").Replace(chrome), "m=video 9 ", "a=mid", vp8Codec},
		"small packets":    {strings.Replace(chrome, "a=rtcp-rsize\r\n", "", 1), "a=rtcp-mux", "rsize", vp8Codec},
		"an actpass":       {strings.ReplaceAll(chrome, "actpass", "active"), "a=setup:passive", "a=setup:active", vp8Codec},
		"video, for sound": {chrome, "m=audio 9 UDP/TLS/RTP/SAVPF 111\r\n", "m=video 9", opusCodec},
		"another port":     {strings.ReplaceAll(chrome, "UDP/TLS/RTP/SAVPF", "TCP/TLS/RTP/SAVPF"), "m=video 9 TCP/TLS/RTP/SAVPF 96\r\n", "UDP/TLS/RTP", vp8Codec},
		"a rtpmap": {start + "a=ice-ufrag:s\r\na=ice-pwd:session\r\na=fingerprint:sha-256 11\r\nm=audio 9 UDP/TLS/RTP/SAVPF 8 0\r\na=rtcp-mux\r\n",
			"m=audio 9 UDP/TLS/RTP/SAVPF 0\r\n", "SAVPF 8", pcmuCodec},
	} {
		t.Run(name, func(t *testing.T) {
			_, answer := answered(t, &door{}, c.offer, c.codec)
			if !strings.Contains(answer, c.want) || strings.Contains(answer, c.never) {
				t.Errorf("want %q, and no %q:\n%s", c.want, c.never, answer)
			}
		})
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
		"no line feed at its end":  {strings.TrimSuffix(chrome, "\r\n"), func(o *offer) bool { return o.payload == 96 }},
		"two fingerprints":         {cut("a=fingerprint:sha-256 CC:DD", "a=fingerprint:sha-1 00\r\na=fingerprint:sha-512 77"), func(o *offer) bool { return o.print == "sha-512 77" }},
		"credentials of the other": {cut("a=ice-ufrag:vi\r\na=ice-pwd:videopassword\r\na=fingerprint:sha-256 CC:DD\r\n", ""), func(o *offer) bool { return o.ufrag == "au" && o.print == "sha-256 AA:BB" }},
		"credentials before all": {start + "a=ice-ufrag:s\r\na=ice-pwd:session\r\na=fingerprint:SHA-256 11\r\nm=video 9 RTP/SAVPF 100\r\n" +
			"m=video 9 UDP/TLS/RTP/SAVPF 100\r\na=rtcp-mux\r\na=rtpmap:100 vp8/90000\r\na=rtcp-fb:* nack\r\n", func(o *offer) bool {
			return o.chosen == 1 && o.payload == 100 && o.ufrag == "s" && o.print == "sha-256 11" && len(o.feedback) == 1
		}},
	} {
		o, err := parseOffer(c.offer)
		if err != nil || !c.ok(o) {
			t.Errorf("%s: %v %+v", name, err, o)
		}
	}
	for name, bad := range map[string]string{
		"nothing": "", "nonsense": "nonsense", "no media": start, "a line that is none": chrome + "x\r\n", "a return within a line": cut("a=mid:1", "a=mid:1\rm=video"),
		"no video": cut("m=video", "m=application"), "no VP8": cut("VP8", "AV1"), "VP8 of no format": cut(" 98 96 97", " 98"), "sends only": cut("recvonly", "sendonly"),
		"no mux": cut("a=rtcp-mux\r\n", ""), "no DTLS": cut("UDP/TLS/RTP", "RTP"), "no fingerprint": cut("a=fingerprint", "a=x"), "an old hash": cut("sha-256", "sha-1"), "a digest that is none": cut("sha-256 ", "sha-256 zz"), "no password": cut("a=ice-pwd", "a=x"),
		"on hold": cut("actpass", "holdconn"), "too much media": chrome + strings.Repeat("m=audio 9 RTP/AVP 0\r\n", maxMedia), "too long": chrome + strings.Repeat("a=x\r\n", maxOffer/5),
	} {
		if o, err := parseOffer(bad); err == nil {
			t.Errorf("%s: taken as %+v", name, o)
		}
	}
}

// FuzzOffer holds that whatever is understood the library agrees on, and that it has an answer of
// its own form: as many descriptions of media, one of them not refused and none of data.
func FuzzOffer(f *testing.F) {
	f.Add(chrome)
	f.Add(start + "a=ice-ufrag:s\r\na=ice-pwd:session\r\na=fingerprint:sha-256 11\r\nm=video 9 UDP/TLS/RTP/SAVPF 100\r\na=rtcp-mux\r\na=rtpmap:100 VP8/90000\r\n")
	f.Add(start + "a=ice-lite\r\na=ice-ufrag:s\r\na=ice-pwd:session\r\na=fingerprint:sha-256 11\r\nm=audio 9 UDP/TLS/RTP/SAVP 0 100\r\na=mid:a\r\na=rtcp-mux\r\na=rtpmap:100 opus/48000/2\r\na=extmap:1 " + transportURI + "\r\na=rtcp-fb:* transport-cc\r\n")
	d := &door{}
	if err := d.enter(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(d.leave)
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range []codec{vp8Codec, opusCodec, pcmuCodec} {
			o, err := parseOffer(text, c)
			if err != nil {
				continue
			}
			if o.chosen >= len(o.media) || len(o.media) > maxMedia || len(o.candidates) > maxCandidates || o.ufrag == "" || o.print == "" || o.payload > 127 {
				t.Fatalf("%+v", o)
			}
			checkAnswer(t, d, o, text)
		}
	})
}

func checkAnswer(t *testing.T, d *door, o *offer, text string) {
	p, err := d.peer(o, nil, func() {})
	if err != nil {
		t.Fatalf("%q\n%v", text, err)
	}
	defer p.close()
	own, err := p.agree(o)
	if err != nil {
		t.Fatalf("%q\n%v", text, err)
	}
	answer, err := o.widened(own.SDP)
	if err != nil {
		t.Fatalf("%q\n%v\n%s", text, err, own.SDP)
	}
	taken := 0
	for line := range strings.SplitSeq(strings.TrimSuffix(answer, "\r\n"), "\r\n") {
		if len(line) < 2 || line[1] != '=' || strings.ContainsAny(line, "\r\n") {
			t.Fatalf("line %q", line)
		}
		if f := strings.Fields(line); line[0] == 'm' && f[1] != "0" {
			if taken++; f[0] != "m="+o.codec.kind {
				t.Fatalf("%q is taken", line)
			}
		}
	}
	if !strings.HasSuffix(answer, "\r\n") || strings.Count(answer, "\nm=") != len(o.media) || taken != 1 {
		t.Fatalf("%q\n%s", text, answer)
	}
}
