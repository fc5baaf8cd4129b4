package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// Risk is derived from the keys of a call, never declared (S1-08). The zero
// value is invalid.
type Risk string

// The risk levels, in order.
const (
	RiskLow      Risk = "low"
	RiskMedium   Risk = "medium"
	RiskHigh     Risk = "high"
	RiskCritical Risk = "critical"
)

// rank orders risks; unknown ones rank highest, so that nothing new is taken for
// harmless.
func (r Risk) rank() int {
	switch r {
	case RiskLow:
		return 0
	case RiskMedium:
		return 1
	case RiskHigh:
		return 2
	}
	return 3
}

// Raise returns the risk that is so many levels higher, at most the highest (S1-05). It never
// lowers.
func (r Risk) Raise(levels int) Risk {
	if levels <= 0 {
		return r
	}
	return [...]Risk{RiskLow, RiskMedium, RiskHigh, RiskCritical}[min(r.rank()+levels, 3)]
}

// keyRisks lists the keys whose risk differs from their category's. The most
// specific entry holds: a key itself, then its prefixes.
var keyRisks = map[string]Risk{
	"execution":              RiskLow,
	"execution.proc.spawn":   RiskHigh,
	"execution.browser":      RiskMedium,
	"ui":                     RiskLow,
	"data":                   RiskMedium,
	"data.read.tool_cache":   RiskLow,
	"data.write.temp":        RiskLow,
	"data.read.screen":       RiskHigh,
	"data.read.clipboard":    RiskHigh,
	"data.read.location":     RiskHigh,
	"data.capture":           RiskHigh,
	"network":                RiskMedium,
	"network.ingress":        RiskHigh,
	"privileged":             RiskCritical,
	"privileged.input":       RiskHigh,
	"ui.action":              RiskMedium,
	"data.access.pii_masked": RiskMedium,
}

// DeriveRisk returns the highest risk among the keys; no keys at all are low.
func DeriveRisk(keys []string) Risk {
	risk := RiskLow
	for _, k := range keys {
		if r := riskOf(k); r.rank() > risk.rank() {
			risk = r
		}
	}
	return risk
}

func riskOf(key string) Risk {
	for k := key; k != ""; {
		if r, ok := keyRisks[k]; ok {
			return r
		}
		dot := strings.LastIndexByte(k, '.')
		if dot < 0 {
			break
		}
		k = k[:dot]
	}
	return RiskCritical
}

// DeriveIsolation returns the weakest class that may carry the keys (S1-35, S1-36): t3 if any is
// privileged, else t2 if any is network, else t1 if any is data or may start processes, else t0. A
// key of no known category needs t3.
func DeriveIsolation(keys []string) capabilities.IsolationClass {
	class := capabilities.ClassT0
	for _, k := range keys {
		need := capabilities.ClassT3
		switch category(k) {
		case "execution":
			need = capabilities.ClassT0
			if k == "execution.proc.spawn" {
				need = capabilities.ClassT1
			}
		case "ui":
			need = capabilities.ClassT0
		case "data":
			need = capabilities.ClassT1
		case "network":
			need = capabilities.ClassT2
		}
		if need.Rank() > class.Rank() {
			class = need
		}
	}
	return class
}

// keyConsents lists the keys whose consent class differs from that of their category; the most
// specific entry holds.
var keyConsents = map[string]catalog.Consent{
	"privileged.input":       catalog.ConsentLease,
	"data.read.screen":       catalog.ConsentLease,
	"data.read.clipboard":    catalog.ConsentLease,
	"data.read.location":     catalog.ConsentLease,
	"data.capture":           catalog.ConsentLease,
	"data.capture.screen":    catalog.ConsentCall,  // a film stays and travels; looking on ends
	"execution.proc.spawn":   catalog.ConsentLease, // behind walls; a command beyond them is privileged.system.command
	"network.ingress":        catalog.ConsentCall,
	"execution":              catalog.ConsentSession,
	"ui":                     catalog.ConsentSession,
	"data":                   catalog.ConsentSession,
	"network":                catalog.ConsentSession,
	"privileged":             catalog.ConsentCall,
	"data.access.pii_masked": catalog.ConsentCall,
}

// DeriveConsent returns the longest permission a person may give for keys: one call for
// secrets, administration and commands, a lease for input, screen, camera, microphone,
// clipboard and location, a session for what is safe. No keys at all need no consent; a
// key of no known category gets one call.
func DeriveConsent(keys []string) catalog.Consent {
	class := catalog.ConsentNone
	for _, key := range keys {
		need := catalog.ConsentCall
		for k := key; k != ""; {
			if c, ok := keyConsents[k]; ok {
				need = c
				break
			}
			dot := strings.LastIndexByte(k, '.')
			if dot < 0 {
				break
			}
			k = k[:dot]
		}
		class = shorterConsent(class, need)
	}
	return class
}

// shorterConsent takes the class that permits less. ConsentNone asks for nothing,
// so anything else is shorter; an unknown class is as short as can be.
func shorterConsent(a, b catalog.Consent) catalog.Consent {
	if consentRank(a) == 0 || consentRank(b) == 0 {
		return catalog.ConsentCall
	}
	if consentRank(b) < consentRank(a) {
		return b
	}
	return a
}

// consentRank orders the classes by how long a permission may last; 0 is unknown.
func consentRank(c catalog.Consent) int {
	switch c {
	case catalog.ConsentCall:
		return 1
	case catalog.ConsentLease:
		return 2
	case catalog.ConsentSession:
		return 3
	case catalog.ConsentNone:
		return 4
	}
	return 0
}

// ProfileID is the content hash of a set of keys (S1-08 capability_profile_id): the same keys have
// the same ID, in whatever order they come.
func ProfileID(keys []string) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(keys)))
	b := appendStrings(nil, sorted)
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Privileged reports whether any key is privileged.
func Privileged(keys []string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { return category(k) == "privileged" })
}

// category is the part before the first dot.
func category(key string) string {
	c, _, _ := strings.Cut(key, ".")
	return c
}

// categories are the five of S1-11, in canonical order.
var categories = [...]string{"data", "execution", "network", "privileged", "ui"}

// validKey reports whether key is category.rest in one of the five categories.
func validKey(key string) bool {
	if len(key) > 128 {
		return false
	}
	c, rest, ok := strings.Cut(key, ".")
	if !ok || rest == "" || !slices.Contains(categories[:], c) {
		return false
	}
	for _, r := range []byte(rest) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
		default:
			return false
		}
	}
	return true
}

// Profile is what every call of one tool shares: its declared keys and what is
// derived from them. It is made once per tool; callers must not change it.
type Profile struct {
	Tool         capabilities.ToolID
	Version      string
	ManifestHash string   // "sha256:" + hex of the canonical descriptor
	Keys         []string // declared, full form, sorted: the maximum (S1-02)
	Optional     []string // those of Keys that the tool works without
	ID           string   // capability_profile_id
	Risk         Risk
	Isolation    capabilities.IsolationClass // the least class that may carry it
	InSession    bool                        // it may live in a person's session, too
	Consent      catalog.Consent             // the longest permission a person may give
	Privileged   bool
	// Asks says that a person is asked about every call, whatever a permit says: it has
	// privileged keys (S1-22), or its descriptor requires approval (S1-24).
	Asks bool

	// wide is the profile on a node whose owner named hosts for the tool; nil: the same.
	wide *Profile
}

// On returns the profile of calls on a node whose owner named those hosts for the tool.
func (p *Profile) On(hosts []string) *Profile {
	if len(hosts) == 0 || p.wide == nil {
		return p
	}
	return p.wide
}

// why says why every call of the tool is asked about.
func (p *Profile) why() string {
	if p.Privileged {
		return "A tool with privileged keys always asks a person."
	}
	return "This tool requires a person's approval."
}

// Class is the class by which a call is judged where no device states one: the person's session if
// the tool may live there, else the least that will do; none for a nil Profile.
func (p *Profile) Class() capabilities.IsolationClass {
	switch {
	case p == nil:
		return capabilities.ClassNone
	case p.InSession:
		return capabilities.ClassSession
	}
	return p.Isolation
}

// NewProfile derives the profile of a descriptor. The descriptor's own default
// class can raise the derived one, never lower it.
func NewProfile(d *catalog.Descriptor) *Profile {
	p := newProfile(d, d.Manifest.Keys(), d.Optional)
	if len(d.OwnerKeys) > 0 {
		p.wide = newProfile(d, wideKeys(d), slices.Concat(d.Optional, d.OwnerKeys))
	}
	return p
}

// wideKeys are the declared keys with those of a node whose owner named hosts, sorted.
func wideKeys(d *catalog.Descriptor) []string {
	return slices.Sorted(slices.Values(slices.Concat(d.Manifest.Keys(), d.OwnerKeys)))
}

func newProfile(d *catalog.Descriptor, keys, optional []string) *Profile {
	hash := d.Hash()
	return &Profile{
		Tool:         d.Tool,
		Version:      d.Version,
		ManifestHash: "sha256:" + hex.EncodeToString(hash[:]),
		Keys:         keys,
		Optional:     optional,
		ID:           ProfileID(keys),
		Risk:         DeriveRisk(keys),
		Isolation:    strongerClass(DeriveIsolation(keys), d.Defaults.Isolation),
		InSession:    d.InSession(),
		Consent:      shorterConsent(DeriveConsent(keys), d.Consent),
		Privileged:   Privileged(keys),
		Asks:         Privileged(keys) || d.Defaults.RequiresApproval,
	}
}

// strongerClass takes the stronger of the two. ClassSession as a default says
// where a tool must live, not how strongly it is confined, so it raises nothing.
func strongerClass(derived, declared capabilities.IsolationClass) capabilities.IsolationClass {
	if declared != capabilities.ClassSession && declared.Rank() > derived.Rank() {
		return declared
	}
	return derived
}
