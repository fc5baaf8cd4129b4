package policy

import (
	_ "embed"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// File names of the shipped sources.
const (
	DefaultName = "default.cedar"
	OwnerName   = "owner.cedar"
)

//go:embed default.cedar
var defaultSource []byte

//go:embed owner.cedar
var ownerSource []byte

// DefaultSource is the shipped policy of a gateway, commented for its admin.
func DefaultSource() []byte { return append([]byte(nil), defaultSource...) }

// DefaultOwnerSource is the shipped policy of a node, commented for its owner.
func DefaultOwnerSource() []byte { return append([]byte(nil), ownerSource...) }

// OriginPermit is the text of a policy file that lets the isolated browser open, and pages be
// fetched from, one origin that the shipped policy denies, such as "http://127.0.0.1:3000".
// why is one line that says who wanted it and for what.
func OriginPermit(origin, why string) ([]byte, error) { return originPermit(origin, why, time.Time{}) }

// OriginPermitUntil is OriginPermit for a while: from that time on the rule permits nothing,
// also where nobody takes the file away.
func OriginPermitUntil(origin, why string, until time.Time) ([]byte, error) {
	return originPermit(origin, why, until)
}

func originPermit(origin, why string, until time.Time) ([]byte, error) {
	d := ClassifyURL(origin)
	switch {
	case d.Scheme != "http" && d.Scheme != "https", d.Host == "":
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "an origin looks like http://127.0.0.1:3000")
	case strings.Trim(d.Host, "abcdefghijklmnopqrstuvwxyz0123456789.-_:") != "":
		// It stands inside a string and an ID of the file.
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the host of an origin may hold letters, digits and . - _ : only")
	case strings.TrimSuffix(origin, "/") != d.Origin:
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "write the origin as %s, without a path", d.Origin)
	}
	while, when := "", ""
	if !until.IsZero() {
		while = " until " + until.UTC().Format("2006-01-02 15:04:05 UTC")
		when = fmt.Sprintf(" && context.time < %d", until.Unix())
	}
	return fmt.Appendf(nil, `// %s
// Lets the isolated browser open %s%s, and pages be fetched there.
// Delete this file to take it back.
@id("%s")
permit (
  principal,
  action in [Action::"tool.browser.navigate", Action::"tool.browser.tabs", Action::"tool.web.fetch"],
  resource
)
when { context.given != "session" && context.args.origin == %q%s };
`, comment(why), d.Origin, while, originID(d, why), d.Origin, when), nil
}

// originID is used by no other origin, however long their names are, nor for another
// reason: files written for different ones may permit the same origin, and no ID may be
// used twice.
func originID(d Destination, why string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(why + "\n" + d.Origin))
	id := fmt.Sprintf("origin-%08x-%s-%s-%d", h.Sum32(), d.Scheme, strings.ReplaceAll(d.Host, ":", "."), d.Port)
	return id[:min(len(id), 64)]
}

// NoSandboxPermit is the text of a policy file that accepts Chrome without its
// sandbox on the devices of one trust, such as "local". why is one line that says where
// that is needed.
func NoSandboxPermit(why, trust string) []byte {
	return fmt.Appendf(nil, `// %s
// Accepts devices of that trust whose Chrome runs without its own sandbox. A page
// that breaks out of Chrome is then held by nothing but the device's user account.
// Delete this file to take it back.
@id("accept-chrome-without-sandbox")
permit (
  principal,
  action == Action::"isolation.accept-degraded",
  resource
)
when { context.degraded == "chrome_sandbox" && resource.trust == %q };
`, comment(why), trust)
}

// comment makes a text safe to stand behind "// ": on one line, and read as what it is.
func comment(text string) string {
	return capabilities.Clip(capabilities.EscapeBut(text, spaces), 300)
}

// spaces are the characters that part words in a text of several lines.
var spaces = map[rune]string{'\n': " ", '\r': " ", '\t': " "}
