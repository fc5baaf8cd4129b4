package media

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Bounds of an offer.
const (
	maxOffer      = 64 << 10 // bytes
	maxMedia      = 16       // descriptions of media
	maxCandidates = 64
)

// The feedback that the parts of a peer make use of, as rtcp-fb names it.
var feedbacks = [...]string{"goog-remb", "ccm fir", "nack", "nack pli", "transport-cc"}

// offer is what matters of a viewer's offer (RFC 8866, RFC 8829): how to reach it, by
// what it is known, and the one description of media that is answered with video.
type offer struct {
	reach
	media      []section
	bundled    []string // the mids of its BUNDLE group
	lite       bool
	allowMixed bool

	video      int              // the index in media of what is answered
	codec      codec            // with what
	payload    uint8            // its type there
	feedback   []string         // of ours, what the viewer knows, too
	extensions map[string]uint8 // by URI: the IDs of those of ours that it knows
	candidates []string
}

// reach is what stands in a section, or for all of them before the first.
type reach struct {
	ufrag, password string
	prints          []fingerprint
	setup           string
}

// fingerprint is a digest of a certificate (RFC 8122).
type fingerprint struct{ hash, digest string }

// section is one description of media.
type section struct {
	reach
	kind, port, proto string
	formats           []string
	mid, direction    string
	mux, reduced      bool // RTCP on the port of RTP; in small packets
	maps, feedback    []string
	extensions        []string
	candidates        []string
}

// codec is what a description of media is answered with.
type codec struct {
	kind, name string // such as video, VP8/90000
	clock      int    // of its timestamps, in Hz
}

// The codecs that a viewer can get.
var (
	vp8Codec  = codec{"video", "VP8/90000", 90000}
	opusCodec = codec{"audio", "opus/48000/2", 48000}
	pcmuCodec = codec{"audio", "PCMU/8000", 8000}
)

// parseOffer reads an offer to receive one of wants, video as VP8 if nothing is named. Of several
// such descriptions the first counts, and of wants the first that it has. It leaves alone the lines
// that it does not know, as SDP asks.
func parseOffer(text string, wants ...codec) (*offer, error) {
	if len(wants) == 0 {
		wants = []codec{vp8Codec}
	}
	if len(text) > maxOffer {
		return nil, errors.New("the offer is too long")
	}
	o := &offer{extensions: map[string]uint8{}}
	first := true
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if first && line != "v=0" {
			return nil, errors.New("an offer begins with v=0")
		}
		first = false
		if line == "" {
			continue
		}
		if len(line) < 2 || line[1] != '=' || strings.Contains(line, "\r") {
			return nil, fmt.Errorf("%.40q is no line of SDP", line)
		}
		switch line[0] {
		case 'm':
			f := strings.Fields(line[2:])
			if len(f) < 4 || len(o.media) == maxMedia {
				return nil, errors.New("a description of media is malformed, or one too many")
			}
			o.media = append(o.media, section{kind: f[0], port: f[1], proto: f[2], formats: f[3:], direction: "sendrecv"})
		case 'a':
			name, value, _ := strings.Cut(line[2:], ":")
			if len(o.media) == 0 {
				o.attribute(name, value)
			} else {
				o.media[len(o.media)-1].attribute(name, value)
			}
		}
	}
	return o, o.choose(wants)
}

// attribute takes one that stands before all media.
func (o *offer) attribute(name, value string) {
	switch name {
	case "group":
		if f := strings.Fields(value); len(f) > 0 && f[0] == "BUNDLE" {
			o.bundled = f[1:]
		}
	case "ice-lite":
		o.lite = true
	case "extmap-allow-mixed":
		o.allowMixed = true
	default:
		o.reach.attribute(name, value)
	}
}

func (r *reach) attribute(name, value string) {
	switch name {
	case "ice-ufrag":
		r.ufrag = value
	case "ice-pwd":
		r.password = value
	case "setup":
		r.setup = value
	case "fingerprint":
		if hash, digest, ok := strings.Cut(value, " "); ok {
			r.prints = append(r.prints, fingerprint{strings.ToLower(hash), strings.TrimSpace(digest)})
		}
	}
}

func (s *section) attribute(name, value string) {
	switch name {
	case "mid":
		s.mid = value
	case "sendrecv", "sendonly", "recvonly", "inactive":
		s.direction = name
	case "rtcp-mux":
		s.mux = true
	case "rtcp-rsize":
		s.reduced = true
	case "rtpmap":
		s.maps = append(s.maps, value)
	case "rtcp-fb":
		s.feedback = append(s.feedback, value)
	case "extmap":
		s.extensions = append(s.extensions, value)
	case "candidate":
		s.candidates = append(s.candidates, value)
	default:
		s.reach.attribute(name, value)
	}
}

// choose finds the description to answer, and what is agreed on with it.
func (o *offer) choose(wants []codec) error {
	o.video = -1
found:
	for _, c := range wants {
		for i := range o.media {
			s := &o.media[i]
			payload, ok := s.payload(c)
			if s.kind == c.kind && ok && (s.direction == "recvonly" || s.direction == "sendrecv") && s.mux && strings.Contains(s.proto, "TLS/RTP/") {
				o.video, o.codec, o.payload = i, c, payload
				break found
			}
		}
	}
	if o.video < 0 {
		return fmt.Errorf("it has no description of %s that is received as %s over DTLS, with rtcp-mux", wants[0].kind, wants[0].name)
	}
	s := &o.media[o.video]
	// In a bundle all go one way, which may be told with any of them.
	how := s.reach
	o.candidates = s.candidates
	if o.inBundle(s.mid) {
		for i := range o.media {
			if m := &o.media[i]; i != o.video && o.inBundle(m.mid) {
				how.fill(&m.reach)
				o.candidates = append(o.candidates, m.candidates...)
			}
		}
	}
	how.fill(&o.reach)
	o.reach = how
	if len(o.candidates) > maxCandidates {
		o.candidates = o.candidates[:maxCandidates]
	}
	if o.ufrag == "" || o.password == "" || len(o.prints) == 0 {
		return errors.New("it has no ice-ufrag, ice-pwd or fingerprint")
	}
	switch o.setup {
	case "", "actpass", "active", "passive":
	default:
		return fmt.Errorf("its setup is %.20q", o.setup)
	}
	for _, f := range s.feedback {
		at, what, _ := strings.Cut(f, " ")
		if at != "*" && at != strconv.Itoa(int(o.payload)) {
			continue
		}
		for _, known := range feedbacks {
			if what == known {
				o.feedback = append(o.feedback, known)
			}
		}
	}
	for _, e := range s.extensions {
		at, uri, _ := strings.Cut(e, " ")
		uri, _, _ = strings.Cut(uri, " ")
		at, _, _ = strings.Cut(at, "/")
		// 15 is the end of the short form, which is the one we write.
		id, err := strconv.ParseUint(at, 10, 8)
		if err != nil || id == 0 || id > 14 {
			continue
		}
		switch uri {
		case playoutDelayURI: // sound that is played at once has gaps
			if o.codec.kind == "audio" {
				continue
			}
			fallthrough
		case transportURI, captureTimeURI:
			o.extensions[uri] = uint8(id)
		}
	}
	return nil
}

// fill takes from other what is still missing.
func (r *reach) fill(other *reach) {
	if r.ufrag == "" || r.password == "" {
		r.ufrag, r.password = other.ufrag, other.password
	}
	if len(r.prints) == 0 {
		r.prints = other.prints
	}
	if r.setup == "" {
		r.setup = other.setup
	}
}

func (o *offer) inBundle(mid string) bool {
	for _, m := range o.bundled {
		if m == mid && mid != "" {
			return true
		}
	}
	return false
}

// payload returns the payload type of a codec. PCMU has one without a word.
func (s *section) payload(c codec) (uint8, bool) {
	for _, m := range s.maps {
		at, name, _ := strings.Cut(m, " ")
		if !strings.EqualFold(strings.TrimSpace(name), c.name) {
			continue
		}
		id, err := strconv.ParseUint(at, 10, 7)
		if err != nil {
			continue
		}
		for _, f := range s.formats {
			if f == at {
				return uint8(id), true
			}
		}
	}
	if c == pcmuCodec {
		for _, f := range s.formats {
			if f == "0" {
				return 0, true
			}
		}
	}
	return 0, false
}

// client says whether we begin the handshake: so it is unless the viewer wants to.
func (o *offer) client() bool { return o.setup != "active" }

// said is our side of the answer.
type said struct {
	session         uint64 // names it
	ufrag, password string
	digest          string // of our certificate, SHA-256
	ssrc            uint32
	candidates      []string
}

// answer writes the answer. Everything but the video is refused.
func (o *offer) answer(w said) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\r\n", args...) }
	line("v=0")
	line("o=- %d 2 IN IP4 127.0.0.1", w.session>>1)
	line("s=-")
	line("t=0 0")
	line("a=msid-semantic: WMS %s", streamID)
	if o.allowMixed {
		line("a=extmap-allow-mixed")
	}
	if mid := o.media[o.video].mid; o.inBundle(mid) {
		line("a=group:BUNDLE %s", mid)
	}
	for i := range o.media {
		s := &o.media[i]
		if i != o.video {
			format := s.formats[0]
			if strings.Contains(s.proto, "RTP/") {
				format = "0" // one has to stand there; this one says nothing more
			}
			line("m=%s 0 %s %s", s.kind, s.proto, format)
			line("c=IN IP4 0.0.0.0")
			if s.mid != "" {
				line("a=mid:%s", s.mid)
			}
			line("a=inactive")
			continue
		}
		line("m=%s 9 %s %d", o.codec.kind, s.proto, o.payload)
		line("c=IN IP4 0.0.0.0")
		if s.mid != "" {
			line("a=mid:%s", s.mid)
		}
		line("a=ice-ufrag:%s", w.ufrag)
		line("a=ice-pwd:%s", w.password)
		line("a=fingerprint:sha-256 %s", w.digest)
		if o.client() {
			line("a=setup:active")
		} else {
			line("a=setup:passive")
		}
		line("a=sendonly")
		line("a=rtcp-mux")
		if s.reduced {
			line("a=rtcp-rsize")
		}
		line("a=rtpmap:%d %s", o.payload, o.codec.name)
		for _, f := range o.feedback {
			line("a=rtcp-fb:%d %s", o.payload, f)
		}
		for _, uri := range [...]string{transportURI, playoutDelayURI, captureTimeURI} {
			if id := o.extensions[uri]; id != 0 {
				line("a=extmap:%d %s", id, uri)
			}
		}
		line("a=msid:%s %s", streamID, trackID)
		line("a=ssrc:%d cname:%s", w.ssrc, streamID)
		line("a=ssrc:%d msid:%s %s", w.ssrc, streamID, trackID)
		for _, c := range w.candidates {
			line("a=candidate:%s", c)
		}
		line("a=end-of-candidates")
	}
	return b.String()
}
