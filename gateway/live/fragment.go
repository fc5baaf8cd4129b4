package live

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxFragment bounds a fragment, in bytes.
const MaxFragment = 16 << 10

// Bounds of what a fragment holds.
const (
	maxCandidates = 64
	maxCandidate  = 512 // bytes
	maxUfrags     = 16
	maxUfrag      = 256 // bytes (RFC 8839 section 5.4)
)

// fragment is a piece of SDP that tells of candidates found after the offer (RFC 8840
// section 9):
//
//	a=group:BUNDLE 0
//	m=video 9 UDP/TLS/RTP/SAVPF 96
//	a=mid:0
//	a=ice-ufrag:EsAw
//	a=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1
//	a=candidate:1387637174 1 udp 2122260223 192.0.2.1 61764 typ host
//	a=end-of-candidates
type fragment struct {
	ufrags     []string // whose candidates these are
	candidates []string // without "candidate:"; of all media, which are one bundle
}

// parseFragment reads one. It leaves alone the lines that it does not know, as SDP asks.
func parseFragment(text string) (fragment, error) {
	var f fragment
	if text == "" || len(text) > MaxFragment {
		return f, fmt.Errorf("candidates have 1 to %d bytes", MaxFragment)
	}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			continue
		}
		if len(line) < 2 || line[1] != '=' || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return fragment{}, fmt.Errorf("%.40q is no line of SDP", line)
		}
		if line[0] != 'a' {
			continue
		}
		name, value, _ := strings.Cut(line[2:], ":")
		switch name {
		case "ice-ufrag":
			if value == "" || len(value) > maxUfrag || len(f.ufrags) == maxUfrags {
				return fragment{}, errors.New("an ice-ufrag is malformed, or one too many")
			}
			if !slices.Contains(f.ufrags, value) {
				f.ufrags = append(f.ufrags, value)
			}
		case "candidate":
			if value == "" || len(value) > maxCandidate || len(f.candidates) == maxCandidates {
				return fragment{}, fmt.Errorf("a candidate is empty or longer than %d bytes, or there are more than %d", maxCandidate, maxCandidates)
			}
			f.candidates = append(f.candidates, value)
		}
	}
	return f, nil
}

// ufragsOf returns the names that an offer's viewer is known by, at most maxUfrags.
func ufragsOf(offer string) (all []string) {
	for line := range strings.SplitSeq(offer, "\n") {
		if name, ok := strings.CutPrefix(strings.TrimSuffix(line, "\r"), "a=ice-ufrag:"); ok && len(all) < maxUfrags &&
			!slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}
