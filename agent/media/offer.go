package media

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pion/sdp/v3"
)

// Bounds of an offer.
const (
	maxOffer      = 64 << 10 // bytes
	maxMedia      = 16       // descriptions of media
	maxCandidates = 64
)

// The feedback that the parts of a peer make use of, as rtcp-fb names it.
var feedbacks = [...]string{"goog-remb", "ccm fir", "nack", "nack pli", "transport-cc"}

// hashes are those by which a certificate counts (RFC 8122); older ones do not.
var hashes = [...]string{"sha-256", "sha-384", "sha-512"}

// offer is what matters of a viewer's offer (RFC 8866, RFC 8829): how to reach it, by
// what it is known, and the one description of media that is answered.
type offer struct {
	reach
	media      []*sdp.MediaDescription // all, as they came
	bundled    []string                // the mids of its BUNDLE group
	lite       bool
	allowMixed bool

	chosen     int              // the index in media of what is answered
	codec      codec            // with what
	payload    uint8            // its type there
	feedback   []string         // of ours, what the viewer knows, too
	extensions map[string]uint8 // by URI: the IDs of those of ours that it knows
	candidates []string
}

// reach is what stands in a description of media, or for all of them before the first.
type reach struct {
	ufrag, password string
	print           string // of its certificate: the hash and the digest
	setup           string
}

// codec is what a description of media is answered with.
type codec struct {
	kind, name string // such as video, VP8/90000
	clock      uint32 // of its timestamps, in Hz
	channels   uint16 // of sound
}

// The codecs that a viewer can get.
var (
	vp8Codec  = codec{kind: "video", name: "VP8/90000", clock: 90000}
	opusCodec = codec{kind: "audio", name: "opus/48000/2", clock: 48000, channels: 2}
	pcmuCodec = codec{kind: "audio", name: "PCMU/8000", clock: 8000}
)

// mime is the codec's type as the library names it.
func (c codec) mime() string {
	name, _, _ := strings.Cut(c.name, "/")
	return c.kind + "/" + name
}

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
	// The parser takes a return within a line for a part of its end.
	if strings.Count(text, "\r") != strings.Count(text, "\r\n") {
		return nil, errors.New("a line of the offer has a return in it")
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\r\n"
	}
	var whole sdp.SessionDescription
	if err := whole.UnmarshalString(text); err != nil {
		return nil, err
	}
	if len(whole.MediaDescriptions) > maxMedia {
		return nil, errors.New("a description of media is one too many")
	}
	o := &offer{media: whole.MediaDescriptions, extensions: map[string]uint8{}}
	if group, ok := whole.Attribute(sdp.AttrKeyGroup); ok {
		if f := strings.Fields(group); len(f) > 0 && f[0] == "BUNDLE" {
			o.bundled = f[1:]
		}
	}
	_, o.lite = whole.Attribute(sdp.AttrKeyICELite)
	_, o.allowMixed = whole.Attribute(sdp.AttrKeyExtMapAllowMixed)
	return o, o.choose(wants, reachOf(whole.Attributes))
}

// reachOf reads attributes.
func reachOf(attributes []sdp.Attribute) (r reach) {
	for _, a := range attributes {
		switch a.Key {
		case "ice-ufrag":
			r.ufrag = a.Value
		case "ice-pwd":
			r.password = a.Value
		case sdp.AttrKeyConnectionSetup:
			r.setup = a.Value
		case "fingerprint":
			f := strings.Fields(a.Value)
			if r.print != "" || len(f) != 2 || !slices.Contains(hashes[:], strings.ToLower(f[0])) {
				continue
			}
			if _, err := hex.DecodeString(strings.ReplaceAll(f[1], ":", "")); err == nil {
				r.print = strings.ToLower(f[0]) + " " + f[1]
			}
		}
	}
	return r
}

// choose finds the description to answer, and what is agreed on with it.
func (o *offer) choose(wants []codec, session reach) error {
	o.chosen = -1
found:
	for _, c := range wants {
		for i, m := range o.media {
			payload, ok := payloadOf(m, c)
			if m.MediaName.Media == c.kind && ok && receives(m) && has(m, sdp.AttrKeyRTCPMux) && strings.Contains(protoOf(m), "TLS/RTP/") {
				o.chosen, o.codec, o.payload = i, c, payload
				break found
			}
		}
	}
	if o.chosen < 0 {
		return fmt.Errorf("it has no description of %s that is received as %s over DTLS, with rtcp-mux", wants[0].kind, wants[0].name)
	}
	m := o.media[o.chosen]
	// In a bundle all go one way, which may be told with any of them.
	o.reach = reachOf(m.Attributes)
	o.candidates = values(m, sdp.AttrKeyCandidate)
	if o.inBundle(midOf(m)) {
		for i, other := range o.media {
			if i != o.chosen && o.inBundle(midOf(other)) {
				o.fill(reachOf(other.Attributes))
				o.candidates = append(o.candidates, values(other, sdp.AttrKeyCandidate)...)
			}
		}
	}
	o.fill(session)
	if len(o.candidates) > maxCandidates {
		o.candidates = o.candidates[:maxCandidates]
	}
	if o.ufrag == "" || o.password == "" || o.print == "" {
		return errors.New("it has no ice-ufrag, ice-pwd or fingerprint")
	}
	switch o.setup {
	case "", "actpass", "active", "passive":
	default:
		return fmt.Errorf("its setup is %.20q", o.setup)
	}
	for _, f := range values(m, "rtcp-fb") {
		at, what, _ := strings.Cut(f, " ")
		if (at == "*" || at == strconv.Itoa(int(o.payload))) && slices.Contains(feedbacks[:], what) {
			o.feedback = append(o.feedback, what)
		}
	}
	for _, e := range values(m, sdp.AttrKeyExtMap) {
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
func (r *reach) fill(other reach) {
	if r.ufrag == "" || r.password == "" {
		r.ufrag, r.password = other.ufrag, other.password
	}
	if r.print == "" {
		r.print = other.print
	}
	if r.setup == "" {
		r.setup = other.setup
	}
}

func (o *offer) inBundle(mid string) bool { return mid != "" && slices.Contains(o.bundled, mid) }

func has(m *sdp.MediaDescription, key string) bool { _, ok := m.Attribute(key); return ok }

func midOf(m *sdp.MediaDescription) string { mid, _ := m.Attribute(sdp.AttrKeyMID); return mid }

func protoOf(m *sdp.MediaDescription) string { return strings.Join(m.MediaName.Protos, "/") }

// values are all of one attribute.
func values(m *sdp.MediaDescription, key string) (all []string) {
	for _, a := range m.Attributes {
		if a.Key == key {
			all = append(all, a.Value)
		}
	}
	return all
}

// receives reports whether the viewer takes what is sent there, which it does without a word.
func receives(m *sdp.MediaDescription) bool {
	direction := sdp.AttrKeySendRecv
	for _, a := range m.Attributes {
		switch a.Key {
		case sdp.AttrKeySendRecv, sdp.AttrKeySendOnly, sdp.AttrKeyRecvOnly, sdp.AttrKeyInactive:
			direction = a.Key
		}
	}
	return direction == sdp.AttrKeySendRecv || direction == sdp.AttrKeyRecvOnly
}

// payloadOf returns the payload type of a codec. PCMU has one without a word.
func payloadOf(m *sdp.MediaDescription, c codec) (uint8, bool) {
	for _, v := range values(m, "rtpmap") {
		at, name, _ := strings.Cut(v, " ")
		if !strings.EqualFold(strings.TrimSpace(name), c.name) {
			continue
		}
		id, err := strconv.ParseUint(at, 10, 7)
		if err == nil && slices.Contains(m.MediaName.Formats, at) {
			return uint8(id), true
		}
	}
	return 0, c == pcmuCodec && slices.Contains(m.MediaName.Formats, "0")
}

// client reports whether we begin the handshake: so it is unless the viewer wants to.
func (o *offer) client() bool { return o.setup != "active" }

// ownMid is what the one description of media is called between the library and us.
const ownMid = "0"

// narrowed returns the offer as the library gets it: the description that is answered, with what
// we make use of. The library cannot agree on anything else, such as a data channel.
func (o *offer) narrowed() (string, error) {
	d, err := sdp.NewJSEPSessionDescription(false)
	if err != nil {
		return "", err
	}
	if o.lite {
		d.WithPropertyAttribute(sdp.AttrKeyICELite)
	}
	if o.allowMixed {
		d.WithPropertyAttribute(sdp.AttrKeyExtMapAllowMixed)
	}
	d.WithValueAttribute(sdp.AttrKeyGroup, "BUNDLE "+ownMid) // without one it refuses all media
	m := sdp.NewJSEPMediaDescription(o.codec.kind, nil).
		WithValueAttribute(sdp.AttrKeyMID, ownMid).
		WithICECredentials(o.ufrag, o.password).
		WithValueAttribute("fingerprint", o.print).
		WithPropertyAttribute(sdp.AttrKeyRecvOnly).
		WithPropertyAttribute(sdp.AttrKeyRTCPMux).
		// It takes packets of a source that nobody declared for media, but not beside one that is.
		WithValueAttribute(sdp.AttrKeySSRC, "1 cname:-")
	if o.setup != "" {
		m.WithValueAttribute(sdp.AttrKeyConnectionSetup, o.setup)
	}
	m.MediaName.Formats = []string{strconv.Itoa(int(o.payload))}
	m.WithValueAttribute("rtpmap", fmt.Sprintf("%d %s", o.payload, o.codec.name))
	for _, f := range o.feedback {
		m.WithValueAttribute("rtcp-fb", fmt.Sprintf("%d %s", o.payload, f))
	}
	for uri, id := range o.extensions {
		m.WithValueAttribute(sdp.AttrKeyExtMap, fmt.Sprintf("%d %s", id, uri))
	}
	raw, err := d.WithMedia(m).Marshal()
	return string(raw), err
}

// widened returns the library's answer as the viewer gets it: for all that it offered, with
// everything but the chosen description refused.
func (o *offer) widened(text string) (string, error) {
	var d sdp.SessionDescription
	if err := d.UnmarshalString(text); err != nil {
		return "", err
	}
	if len(d.MediaDescriptions) != 1 || d.MediaDescriptions[0].MediaName.Port.Value == 0 {
		return "", errors.New("media: the library did not answer what was chosen")
	}
	own, mid := d.MediaDescriptions[0], midOf(o.media[o.chosen])
	d.Attributes = slices.DeleteFunc(d.Attributes, func(a sdp.Attribute) bool { return a.Key == sdp.AttrKeyGroup })
	if o.inBundle(mid) {
		d.WithValueAttribute(sdp.AttrKeyGroup, "BUNDLE "+mid)
	}
	own.MediaName.Protos = o.media[o.chosen].MediaName.Protos
	own.Attributes = slices.DeleteFunc(own.Attributes, func(a sdp.Attribute) bool {
		switch a.Key {
		case sdp.AttrKeyMID, sdp.AttrKeyEndOfCandidates:
			return true
		case sdp.AttrKeyRTCPRsize:
			return !has(o.media[o.chosen], a.Key)
		case sdp.AttrKeyCandidate: // RTCP goes the same way
			f := strings.Fields(a.Value)
			return len(f) < 2 || f[1] != "1"
		}
		return false
	})
	if mid != "" {
		own.WithValueAttribute(sdp.AttrKeyMID, mid)
	}
	own.WithPropertyAttribute(sdp.AttrKeyEndOfCandidates)
	d.MediaDescriptions = nil
	for i, m := range o.media {
		if i == o.chosen {
			d.WithMedia(own)
		} else {
			d.WithMedia(refused(m))
		}
	}
	raw, err := d.Marshal()
	return string(raw), err
}

// refused returns the answer to media that we do not send.
func refused(m *sdp.MediaDescription) *sdp.MediaDescription {
	format := "0" // one has to stand there; this one says nothing more
	if f := m.MediaName.Formats; len(f) > 0 && !strings.Contains(protoOf(m), "RTP/") {
		format = f[0]
	}
	no := sdp.NewJSEPMediaDescription(m.MediaName.Media, nil)
	no.MediaName.Port.Value, no.MediaName.Protos, no.MediaName.Formats = 0, m.MediaName.Protos, []string{format}
	if mid := midOf(m); mid != "" {
		no.WithValueAttribute(sdp.AttrKeyMID, mid)
	}
	return no.WithPropertyAttribute(sdp.AttrKeyInactive)
}
