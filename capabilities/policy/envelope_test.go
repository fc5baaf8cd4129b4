package policy

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

var update = flag.Bool("update", false, "write golden files")

// navigateProfile is written out, so that the golden envelope does not change
// with a word in the catalog.
func navigateProfile() *Profile {
	keys := []string{"data.write.temp", "network.browser.session"}
	return &Profile{
		Tool: "tool.browser.navigate-back", Version: "1.2.3", ManifestHash: "sha256:" + strings.Repeat("ab", 32),
		Keys: keys, ID: ProfileID(keys), Risk: DeriveRisk(keys), Isolation: DeriveIsolation(keys), Consent: DeriveConsent(keys),
	}
}

var firstHash = strings.Repeat("0f", 32)

func envelopeInput() EnvelopeInput {
	return EnvelopeInput{
		Profile: navigateProfile(), Principal: "alice", Role: "agent", Lane: "lane/1", Requested: "n1", Selected: "n1", Mode: capabilities.SelectExplicit,
		Node:       Node{ID: "n1", Label: "Büro \"desk\"", Platform: "linux", Trust: "trusted", Labels: []string{"b", "a"}},
		ArgsDigest: bytes.Repeat([]byte{0xc0, 0x01}, 16), Policy: "sha256:policy", Created: testTime, Expires: testTime.Add(30 * time.Second),
	}
}

func mustBuild(t testing.TB, in EnvelopeInput) *Sealed {
	t.Helper()
	s, err := BuildEnvelope(in)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The golden envelopes hold the names, the order and the addresses (S1-08): a change
// here is a change of the contract with every node and every ledger.
func TestEnvelopeGolden(t *testing.T) {
	escalated := envelopeInput()
	escalated.Requested, escalated.Mode = "", capabilities.SelectSole
	escalated.Withheld = []string{"data.write.temp"}
	escalated.Escalation = &Escalation{Code: EscalatedByCall, From: firstHash, Reason: "one download, granted by bob", Grant: "g1", Delta: []string{"ui.output.download", "privileged.secret.read"}}
	gateway := envelopeInput()
	gateway.Profile = &Profile{Tool: "tool.node.list", Version: "1.0.0", ManifestHash: "sha256:x", ID: ProfileID(nil), Risk: RiskLow, Isolation: capabilities.ClassT0, Consent: DeriveConsent(nil)}
	gateway.Requested, gateway.Selected, gateway.Mode, gateway.Node = "", "", "", Node{}
	for name, in := range map[string]EnvelopeInput{"explicit": envelopeInput(), "escalated": escalated, "gateway": gateway} {
		t.Run(name, func(t *testing.T) {
			s := mustBuild(t, in)
			file := filepath.Join("testdata", "envelope-"+name+".golden")
			got := string(s.Bytes) + "\n" + s.HashHex() + "\n"
			if *update {
				if err := os.MkdirAll("testdata", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Fatalf("got\n%swant\n%s", got, want)
			}
			opened, err := OpenEnvelope(s.Bytes)
			if err != nil || opened.Hash != s.Hash || !bytes.Equal(opened.Bytes, s.Bytes) {
				t.Fatalf("%v", err)
			}
			if err := opened.Verify(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The bytes written by hand are those of the canonical package.
func TestEnvelopeIsCanonicalJSON(t *testing.T) {
	s := mustBuild(t, envelopeInput())
	fromValue, err := canonical.Marshal(s.Envelope)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := canonical.Parse(s.Bytes, canonical.Limits{})
	if err != nil || !bytes.Equal(parsed, s.Bytes) || !bytes.Equal(fromValue, s.Bytes) {
		t.Fatalf("%v\n%s\n%s\n%s", err, s.Bytes, fromValue, parsed)
	}
}

func TestEffectiveGrants(t *testing.T) {
	in := envelopeInput()
	plain := mustBuild(t, in)
	if !slices.Equal(plain.Grants, in.Profile.Keys) || plain.Isolation != "t2" || plain.Risk != RiskMedium {
		t.Fatalf("%+v", plain.Envelope)
	}
	in.Withheld = []string{"network.browser.session"}
	less := mustBuild(t, in)
	if strings.Join(less.Grants, " ") != "data.write.temp" || less.Isolation != "t2" || len(less.Capabilities.Network) != 1 {
		t.Fatalf("%+v", less.Envelope)
	}
	in.Withheld = nil
	in.Escalation = &Escalation{Code: EscalatedByLease, From: firstHash, Reason: "r", Delta: []string{"privileged.secret.read"}}
	more := mustBuild(t, in)
	if strings.Join(more.Grants, " ") != "data.write.temp network.browser.session privileged.secret.read" || more.Isolation != "t3" || more.Risk != RiskCritical {
		t.Fatalf("%+v", more.Envelope)
	}
	// S1-38: the delta is part of the snapshot; the first envelope stays as it was.
	if more.Snapshot == plain.Snapshot || plain.Verify() != nil {
		t.Fatal("the escalation is not in the snapshot, or reached the envelope before it")
	}
	in.Escalation.Reason = "another"
	if again := mustBuild(t, in); again.Snapshot == more.Snapshot {
		t.Fatal("the reason is not in the snapshot")
	}
	if len(more.Capabilities.Privileged) != 0 {
		t.Fatal("an escalation changes what is granted, not what is declared")
	}
}

// A host that a running call was granted is one hop from the envelope that it runs by, whatever was
// added to that before, and nothing else of it is another call's (S1-38).
func TestWidens(t *testing.T) {
	in := envelopeInput()
	plain := mustBuild(t, in)
	const one, two = capabilities.NarrowDomains + "one.example:443", capabilities.NarrowDomains + "two.example:443"
	by := func(from string, change func(*EnvelopeInput), delta ...string) *Sealed {
		in := envelopeInput()
		in.Escalation = &Escalation{Code: EscalatedByCall, From: from, Reason: "r", Delta: delta}
		if change != nil {
			change(&in)
		}
		return mustBuild(t, in)
	}
	lease := by(plain.HashHex(), nil, "data.read.screen")
	for name, c := range map[string]struct {
		before, now *Sealed
		want        bool
	}{
		"one host":             {plain, by(plain.HashHex(), nil, one), true},
		"a second":             {plain, by(plain.HashHex(), nil, one, two), true},
		"beside a lease's key": {lease, by(plain.HashHex(), nil, one, "data.read.screen"), true},
		"no escalation":        {plain, plain, false},
		"another host":         {plain, by(plain.HashHex(), nil, two), false},
		"a key besides":        {plain, by(plain.HashHex(), nil, one, "data.read.screen"), false},
		"two hops":             {lease, by(lease.HashHex(), nil, one), false},
		"another lane":         {plain, by(plain.HashHex(), func(in *EnvelopeInput) { in.Lane = "other" }, one), false},
		"other arguments":      {plain, by(plain.HashHex(), func(in *EnvelopeInput) { in.ArgsDigest = make([]byte, 32) }, one), false},
		"another principal":    {plain, by(plain.HashHex(), func(in *EnvelopeInput) { in.Principal = "eve" }, one), false},
	} {
		if got := c.now.Widens(c.before, one); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestBuildEnvelopeRefuses(t *testing.T) {
	for name, change := range map[string]func(*EnvelopeInput){
		"no profile":          func(in *EnvelopeInput) { in.Profile = nil },
		"no principal":        func(in *EnvelopeInput) { in.Principal = "" },
		"no lane":             func(in *EnvelopeInput) { in.Lane = "" },
		"long lane":           func(in *EnvelopeInput) { in.Lane = capabilities.LaneID(strings.Repeat("x", 129)) },
		"control character":   func(in *EnvelopeInput) { in.Principal = "a\nb" },
		"invalid UTF-8":       func(in *EnvelopeInput) { in.Principal = "a\xff" },
		"no policy":           func(in *EnvelopeInput) { in.Policy = "" },
		"no digest":           func(in *EnvelopeInput) { in.ArgsDigest = nil },
		"no time":             func(in *EnvelopeInput) { in.Expires = in.Created },
		"no mode":             func(in *EnvelopeInput) { in.Mode = "" },
		"unknown mode":        func(in *EnvelopeInput) { in.Mode = "nearest" },
		"explicit to another": func(in *EnvelopeInput) { in.Selected = "n2" },
		"implicit though asked": func(in *EnvelopeInput) {
			in.Mode = capabilities.SelectAttached
		},
		"withheld is not declared": func(in *EnvelopeInput) { in.Withheld = []string{"data.read.screen"} },
		"escalation with no reason": func(in *EnvelopeInput) {
			in.Escalation = &Escalation{Code: EscalatedByCall, From: firstHash, Delta: []string{"data.read.screen"}}
		},
		"escalation of nothing": func(in *EnvelopeInput) {
			in.Escalation = &Escalation{Code: EscalatedByLease, From: firstHash, Reason: "r"}
		},
		"escalation to a no key": func(in *EnvelopeInput) {
			in.Escalation = &Escalation{Code: EscalatedByLease, From: firstHash, Reason: "r", Delta: []string{"root"}}
		},
		"a key of no category": func(in *EnvelopeInput) {
			in.Profile.Keys = []string{"quantum.leap"}
		},
		"session is no class of an envelope": func(in *EnvelopeInput) { in.Profile.Isolation = capabilities.ClassSession },
	} {
		in := envelopeInput()
		change(&in)
		if s, err := BuildEnvelope(in); err == nil || s != nil || capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// S1-09, S1-10: the same input makes the same bytes, any other input makes others, and nothing the
// caller does afterwards reaches the sealed envelope.
func TestEnvelopeIsContentAddressed(t *testing.T) {
	changes := map[string]func(*EnvelopeInput){
		"principal": func(in *EnvelopeInput) { in.Principal = "bob" },
		"role":      func(in *EnvelopeInput) { in.Role = "admin" },
		"no role":   func(in *EnvelopeInput) { in.Role = "" },
		"taint":     func(in *EnvelopeInput) { in.Taint = []string{"web"} },
		"families":  func(in *EnvelopeInput) { in.Taint = []string{"mp3", "node-js"} }, // of providers
		"narrowed":  func(in *EnvelopeInput) { in.Narrowed = []string{"network.egress.domain_allowlist:*.example.com"} },
		"lane":      func(in *EnvelopeInput) { in.Lane = "lane/2" },
		"node":      func(in *EnvelopeInput) { in.Requested, in.Selected = "n2", "n2" },
		"trust":     func(in *EnvelopeInput) { in.Node.Trust = "guest" },
		"labels":    func(in *EnvelopeInput) { in.Node.Labels = []string{"a"} },
		"mode":      func(in *EnvelopeInput) { in.Requested, in.Mode = "", capabilities.SelectSole },
		"digest":    func(in *EnvelopeInput) { in.ArgsDigest = []byte{1} },
		"policy":    func(in *EnvelopeInput) { in.Policy = "sha256:other" },
		"created":   func(in *EnvelopeInput) { in.Created = in.Created.Add(time.Millisecond) },
		"expires":   func(in *EnvelopeInput) { in.Expires = in.Expires.Add(time.Millisecond) },
		"manifest":  func(in *EnvelopeInput) { in.Profile.ManifestHash = "sha256:other" },
		"withheld":  func(in *EnvelopeInput) { in.Withheld = []string{"data.write.temp"} },
		"delta": func(in *EnvelopeInput) {
			in.Escalation = &Escalation{Code: EscalatedByLease, From: firstHash, Reason: "r", Delta: []string{"data.write.temp"}}
		},
	}
	seen := map[string]string{}
	for name, change := range changes {
		in := envelopeInput()
		change(&in)
		s := mustBuild(t, in)
		if again := mustBuild(t, in); !bytes.Equal(again.Bytes, s.Bytes) || again.Hash != s.Hash {
			t.Errorf("%s: the same input gives other bytes", name)
		}
		if other, taken := seen[s.HashHex()]; taken {
			t.Errorf("%s and %s share an address", name, other)
		}
		seen[s.HashHex()] = name
	}

	in := envelopeInput()
	in.Escalation = &Escalation{Code: EscalatedByLease, From: firstHash, Reason: "r", Delta: []string{"data.read.screen"}}
	s := mustBuild(t, in)
	before := bytes.Clone(s.Bytes)
	in.Profile.Keys[0] = "data.read.clipboard"
	in.Escalation.Delta[0], in.Escalation.Reason = "ui.output.download", "other"
	in.ArgsDigest[0], in.Node.Labels[0] = 0, "z"
	if err := s.Verify(); err != nil || !bytes.Equal(s.Bytes, before) {
		t.Fatalf("the envelope changed with its input: %v", err)
	}
	for name, tamper := range map[string]func(*Sealed){
		"grant":  func(s *Sealed) { s.Grants[0] = "privileged.admin.mutate_policy" },
		"class":  func(s *Sealed) { s.Isolation = capabilities.ClassT0 },
		"bytes":  func(s *Sealed) { s.Bytes[10]++ },
		"hash":   func(s *Sealed) { s.Hash[0]++ },
		"reason": func(s *Sealed) { s.Escalation.Reason = "nothing" },
	} {
		s := mustBuild(t, in)
		tamper(s)
		if s.Verify() == nil {
			t.Errorf("%s: tampering was not found", name)
		}
	}
}

func TestEnvelopeProperty(t *testing.T) {
	text := rapid.StringMatching(`[a-zA-Z0-9._@/-]{1,40}`)
	rapid.Check(t, func(t *rapid.T) {
		in := envelopeInput()
		in.Principal = capabilities.PrincipalID(text.Draw(t, "principal"))
		in.Lane = capabilities.LaneID(text.Draw(t, "lane"))
		in.Node.Label = rapid.String().Draw(t, "label")
		in.Node.Labels = rapid.SliceOf(text).Draw(t, "labels")
		in.Profile.Keys = slices.Compact(slices.Sorted(slices.Values(rapid.SliceOf(rapid.SampledFrom(someKeys)).Draw(t, "keys"))))
		if rapid.Bool().Draw(t, "escalated") {
			in.Escalation = &Escalation{Code: EscalatedByCall, From: firstHash, Reason: text.Draw(t, "reason"), Delta: rapid.SliceOfN(rapid.SampledFrom(someKeys), 1, 4).Draw(t, "delta")}
		}
		in.ArgsDigest = rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest")
		in.Created = time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, "created"))
		in.Expires = in.Created.Add(time.Second)
		s, err := BuildEnvelope(in)
		if err != nil {
			t.Fatal(err)
		}
		opened, err := OpenEnvelope(s.Bytes)
		if err != nil || opened.Hash != s.Hash || opened.Verify() != nil {
			t.Fatalf("%v %s", err, s.Bytes)
		}
		if who := PrincipalIn(s.Bytes); who != in.Principal {
			t.Fatalf("%q calls, not %q: %s", who, in.Principal, s.Bytes)
		}
		in.Node.Labels = rapid.Permutation(in.Node.Labels).Draw(t, "label order")
		if again, err := BuildEnvelope(in); err != nil || again.Hash != s.Hash {
			t.Fatal("the order of labels changed the address")
		}
		// S1-02: nothing is granted but what was declared or escalated.
		for _, k := range opened.Grants {
			if !slices.Contains(in.Profile.Keys, k) && (in.Escalation == nil || !slices.Contains(in.Escalation.Delta, k)) {
				t.Fatalf("%s came from nowhere", k)
			}
		}
	})
}

func TestOpenEnvelopeRefuses(t *testing.T) {
	in := envelopeInput()
	in.Escalation = &Escalation{Code: EscalatedByLease, From: firstHash, Reason: "r", Delta: []string{"data.read.screen"}}
	good := string(mustBuild(t, in).Bytes)
	replace := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%q is not in %s", old, good)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, data := range map[string]string{
		"empty":              "",
		"null":               "null",
		"list":               "[]",
		"cut":                good[:len(good)-1],
		"more behind":        good + " ",
		"two":                good + good,
		"space":              replace(`,"v":2`, `, "v":2`),
		"unknown field":      replace(`,"v":2`, `,"u":1,"v":2`),
		"duplicate":          replace(`,"v":2`, `,"v":2,"v":2`),
		"case folded":        replace(`"v":2`, `"V":1`),
		"other version":      replace(`"v":2`, `"v":1`),
		"other number":       replace(`"v":2`, `"v":2.0`),
		"order":              replace(`{"action":"navigate-back",`, `{`)[:1] + `"v":2,"action":"x"}`,
		"escaped":            replace(`"alice"`, `"\u0061lice"`),
		"slug and ID differ": replace(`"tool_slug":"browser"`, `"tool_slug":"desktop"`),
		"unknown class":      replace(`"isolation_class":"t2"`, `"isolation_class":"t9"`),
		"class none":         replace(`"isolation_class":"t2"`, `"isolation_class":"none"`),
		"unknown consent":    replace(`"consent_class":"lease"`, `"consent_class":"ever"`),
		"bad taint":          replace(`"taint":[]`, `"taint":["A"]`),
		"no taint":           replace(`"taint":[],`, ``),
		"bad reason code":    replace(`"code":"lease_grant"`, `"code":"because"`),
		"no first envelope":  replace(`"from":"0f`, `"from":"0`),
		"value in a delta":   replace(`"delta":["data.read.screen"]`, `"delta":["data.read.screen:x"]`),
		"value of no key":    replace(`["data.read.screen","data.write.temp",`, `["data.read.screen","data.write.temp","data.x:Y",`),
		"unknown risk":       replace(`"risk_level":"high"`, `"risk_level":"nil"`),
		"no grants":          replace(`"effective_grants":["data.read.screen","data.write.temp","network.browser.session"]`, `"effective_grants":null`),
		"unsorted grants":    replace(`["data.read.screen","data.write.temp",`, `["data.write.temp","data.read.screen",`),
		"double grants":      replace(`["data.read.screen","data.write.temp",`, `["data.read.screen","data.read.screen",`),
		"no category":        replace(`"privileged":[],`, ``),
		"null category":      replace(`"privileged":[]`, `"privileged":null`),
		"bad digest":         replace(`"args_digest":"c0`, `"args_digest":"zz`),
		"other time":         replace(`.089Z`, `.089+00:00`),
		"no node":            replace(`"selected_node_id":"n1",`, ``),
		"wrong type":         replace(`"principal":"alice"`, `"principal":7`),
		"empty delta":        replace(`"delta":["data.read.screen"]`, `"delta":[]`),
		"too large":          `{"action":"` + strings.Repeat("x", MaxEnvelopeBytes) + `"}`,
	} {
		s, err := OpenEnvelope([]byte(data))
		if err == nil || s != nil || capabilities.CodeOf(err) != capabilities.CodeTicketInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenEnvelope([]byte(good)); err != nil {
		t.Fatal(err)
	}
}

// A field that is looked up without decoding is what decoding returns, also where a name or another
// text tries to look like the field.
func TestPrincipalIn(t *testing.T) {
	for _, name := range []capabilities.PrincipalID{"alice", "Zoë", `a"b`, `a\`, `","principal":"eve`} {
		in := envelopeInput()
		in.Principal = name
		in.Escalation = &Escalation{Code: EscalatedByLease, From: firstHash, Reason: `"principal":"eve"`, Delta: []string{"data.read.screen"}}
		s := mustBuild(t, in)
		if who := PrincipalIn(s.Bytes); who != name {
			t.Errorf("%q calls, not %q: %s", who, name, s.Bytes)
		}
	}
	for _, data := range []string{"", "{}", `{"principal":"`, `{"principal":"a`, `{"principal":"a\`, `{"principal":7}`} {
		if who := PrincipalIn([]byte(data)); who != "" {
			t.Errorf("%q calls in %q", who, data)
		}
	}
}

func FuzzOpenEnvelope(f *testing.F) {
	in := envelopeInput()
	f.Add(mustBuild(f, in).Bytes)
	in.Escalation = &Escalation{Code: EscalatedByLease, From: firstHash, Reason: "r", Delta: []string{"data.read.screen"}}
	f.Add(mustBuild(f, in).Bytes)
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := OpenEnvelope(data)
		if err != nil {
			if s != nil {
				t.Fatal("a value on error")
			}
			return
		}
		if !bytes.Equal(s.Bytes, data) || s.Verify() != nil {
			t.Fatalf("opened %q as %q", data, s.Bytes)
		}
		if who := PrincipalIn(data); who != s.Principal {
			t.Fatalf("%q calls, not %q: %q", who, s.Principal, data)
		}
		if _, err := canonical.Parse(data, canonical.Limits{}); err != nil {
			t.Fatalf("not strict JSON: %v", err)
		}
		var again Envelope
		if err := json.Unmarshal(data, &again); err != nil || again.Tool != s.Tool {
			t.Fatalf("%v", err)
		}
		if _, err := hex.DecodeString(s.ArgsDigest); err != nil {
			t.Fatal(err)
		}
	})
}

// A conversation that has read from every provider of a site can go on, whatever they are called.
func TestTaintsOfProviders(t *testing.T) {
	in := envelopeInput()
	for i := range 200 {
		in.Taint = append(in.Taint, fmt.Sprintf("provider-%d", i))
	}
	s := mustBuild(t, in)
	if opened, err := OpenEnvelope(s.Bytes); err != nil || len(opened.Envelope.Taint) != 200 {
		t.Errorf("%v", err)
	}
}
