package remote

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

func sample() Heartbeat {
	return Heartbeat{
		Contract: Version, Satellite: "t7k2m9qxw3dz8tch5", Service: "voice", Host: "box", Subjects: []string{"factory.tool.voice.t7k2m9qxw3dz8tch5"},
		Manifest: "sha256:" + strings.Repeat("0a", 32), Ready: true, Active: 1, Load: 0.25, Connected: true, UptimeS: 5, TS: "2026-11-26T22:00:00.120Z", Seq: 7,
	}
}

// A heartbeat is read as it was signed, whatever its time looks like, and any change of it breaks
// the signature.
func TestHeartbeatsAreSigned(t *testing.T) {
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := sample().Sign(func(b []byte) ([]byte, error) { return ed25519.Sign(key, b), nil })
	if err != nil {
		t.Fatal(err)
	}
	h, signed, sig, err := ReadHeartbeat(data)
	if err != nil || !ed25519.Verify(pub, signed, sig) || h.Seq != 7 || h.Time().IsZero() {
		t.Fatalf("%+v %v", h, err)
	}
	forged := bytes.Replace(data, []byte(`"ready":true`), []byte(`"ready":false`), 1)
	if _, signed, sig, err := ReadHeartbeat(forged); err != nil || ed25519.Verify(pub, signed, sig) {
		t.Errorf("a changed heartbeat verifies (%v)", err)
	}
}

// A key is agreed on by both halves and the satellite's signature; nobody between them has it, and
// no other half, satellite or signature leads to one.
func TestKeysAreAgreedOn(t *testing.T) {
	pub, own, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(b []byte) ([]byte, error) { return ed25519.Sign(own, b), nil }
	verify := func(data, sig []byte) error {
		if !ed25519.Verify(pub, data, sig) {
			return errors.New("another's")
		}
		return nil
	}
	begin := func(id string) *Agreement {
		t.Helper()
		a, err := NewAgreement(id)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := begin("t1aaa")
	answer, theirs, err := AnswerKey("t1aaa", a.Request().Key, sign)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := a.Take(answer, verify)
	if err != nil || *ours != *theirs {
		t.Fatalf("two keys (%v)", err)
	}
	asJSON, err := json.Marshal(ours)
	if s := fmt.Sprintf("%v %x %+v %s %s", *ours, *ours, struct{ K *Key }{ours}, *ours, asJSON); err != nil || strings.Contains(s, fmt.Sprintf("%x", ours[:])) || !strings.Contains(s, "hidden") {
		t.Errorf("a key prints: %s", s)
	}
	data, err := sample().Sign(ours.MAC)
	if err != nil {
		t.Fatal(err)
	}
	h, signed, mac, err := ReadHeartbeat(data)
	if err != nil || len(mac) != MACSize || !theirs.Made(signed, mac) || h.Seq != 7 {
		t.Fatalf("%+v %v", h, err)
	}
	if theirs.Made(append(signed, ' '), mac) {
		t.Error("a MAC of something else")
	}
	// Somebody between them puts a half of theirs in the place of the gateway's: the satellite
	// shares a key with them, and the gateway takes none.
	between := begin("t1aaa")
	moved, _, err := AnswerKey("t1aaa", between.Request().Key, sign)
	if err != nil {
		t.Fatal(err)
	}
	_, stranger, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := AnswerKey("t1aaa", a.Request().Key, func(b []byte) ([]byte, error) { return ed25519.Sign(stranger, b), nil })
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		a    *Agreement
		with KeyAnswer
		code capabilities.Code
	}{
		"a half that was put in between": {a, moved, capabilities.CodeUnauthenticated},
		"another's signature":            {a, other, capabilities.CodeUnauthenticated},
		"an answer from before":          {begin("t1aaa"), answer, capabilities.CodeUnauthenticated},
		"of another satellite":           {&Agreement{"t2aaa", a.own}, answer, capabilities.CodeUnauthenticated},
		"no key":                         {a, KeyAnswer{Key: "AAAA", Sig: answer.Sig}, capabilities.CodeInvalidRequest},
		"a key of one form more":         {a, KeyAnswer{Key: answer.Key + "=", Sig: answer.Sig}, capabilities.CodeInvalidRequest},
	} {
		if k, err := c.a.Take(c.with, verify); capabilities.CodeOf(err) != c.code || k != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A point that leads to one secret with everybody.
	if _, k, err := AnswerKey("t1aaa", strings.Repeat("A", 43), sign); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest || k != nil {
		t.Errorf("the point of order one: %v", err)
	}
}

// Fields that nobody here knows are refused, those about security before all: a reader that passes
// them by would heed less than the sender meant.
func TestUnknownFieldsAreRefused(t *testing.T) {
	data, err := canonical.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []string{`"privileged":true`, `"approved":true`, `"isolation_class":"t3"`, `"seq":9`, `"Seq":9`} {
		bad := append([]byte("{"+more+","), data[1:]...)
		if _, _, _, err := ReadHeartbeat(bad); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%s: %v", more, err)
		}
	}
	for field, other := range map[string]string{
		`"ready":true`: `"ready":"true"`, `"seq":7`: `"seq":7.5`, `"active":1`: `"active":-1`, `"uptime_s":5`: `"uptime_s":1e13`, `"load":0.25`: `"load":null`,
		`"host":"box"`: `"host":["box"]`, `["factory.tool.voice.t7k2m9qxw3dz8tch5"]`: `[1]`, `"contract_version":1`: `"contract_version":2`,
	} {
		bad := bytes.Replace(data, []byte(field), []byte(other), 1)
		if h, _, _, err := ReadHeartbeat(bad); bytes.Equal(bad, data) || capabilities.CodeOf(err) != capabilities.CodeInvalidRequest || h.Seq != 0 {
			t.Errorf("%s: %v", other, err)
		}
	}
	for _, bad := range []string{
		`{"manifest":{"provider":"voice","tools":[{"name":"tts","requires_approval":false}]}}`,
		`{"manifest":{"provider":"voice","tools":[]},"result":{"status":"ok"}}`,
		`{"result":{"status":"pending"}}`, `{"result":{"status":"ok","grant":"g1"}}`, `{"result":{"status":"ok"},"bytes":99999999}`,
		`{"progress":{"done":1},"bytes":5}`, `{"fates":[{"call":"c1","state":"finished"}]}`, `{}`, `[]`, ``,
	} {
		if r, err := ReadReply([]byte(bad)); err == nil {
			t.Errorf("%s is read as %+v", bad, r)
		}
	}
	if _, err := ReadReply(bytes.Repeat([]byte(" "), MaxPayload+1)); err == nil {
		t.Error("a message beyond the bound is read")
	}
}

// A satellite has no say about people and policies: codes of those become a plain failure.
func TestCodesOfOthersAreNotASatellites(t *testing.T) {
	for _, code := range []string{"approval_pending", "unauthenticated", "consent_denied", "no_such_code", ""} {
		r, err := ReadReply([]byte(`{"result":{"status":"error","code":"` + code + `","message":"a\u0007b"}}`))
		if err != nil || r.Result.Code != capabilities.CodeExecutionFailed || strings.ContainsRune(r.Result.Message, 7) {
			t.Errorf("%s: %+v %v", code, r.Result, err)
		}
	}
}

func TestPastesAreReadBack(t *testing.T) {
	p := Paste{Seed: "SU" + strings.Repeat("A", 56), Name: "voice", Addrs: []string{"127.0.0.1:7444", "[::1]:7444"}, Sum: strings.Repeat("ab", 32)}
	got, err := ParsePaste("  " + p.Encode() + "\n")
	if err != nil || got.Seed != p.Seed || got.Name != p.Name || len(got.Addrs) != 2 || got.Sum != p.Sum {
		t.Errorf("%+v %v", got, err)
	}
	for _, bad := range []string{"", "hr1:abc", "satellite://voice", "satellite://SUX@h:1/voice", strings.Replace(p.Encode(), "/voice", "/../x", 1), strings.Repeat("a", 5000)} {
		if _, err := ParsePaste(bad); capabilities.CodeOf(err) != capabilities.CodePasteInvalid || strings.Contains(err.Error(), "SUAAAA") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Subjects are as S3-24, S3-25, S3-26 and S3-29 have them.
func TestSubjects(t *testing.T) {
	if Own("voice", "t1") != "factory.tool.voice.t1" || Own("gh", "t1") != "factory.gh.t1" || Heartbeats("camoufox", "t1") != "factory.tool.camoufox.heartbeat-t1" {
		t.Error(Own("voice", "t1"), Own("gh", "t1"), Heartbeats("camoufox", "t1"))
	}
	for subject, id := range map[string]string{Heartbeats("gh", "t1"): "t1", Heartbeats("voice", "t1"): "t1", Own("voice", "t1"): "", "factory.tool.voice.heartbeat": "", "heartbeat-x": "x", "": ""} {
		if got := HeartbeatOf(subject); got != id {
			t.Errorf("%q is of %q", subject, got)
		}
	}
	all := Discovery()
	if all[0] != tools.AllTools || len(all) != 1+len(tools.PlumbingDomains()) {
		t.Errorf("%q", all)
	}
}

// fuzzed asserts that a reader returns no value on error, and one that it reads again as the same.
func fuzzed[T any](t *testing.T, data []byte, read func([]byte) (T, error)) {
	v, err := read(data)
	if err != nil {
		var zero T
		a, _ := json.Marshal(v)
		b, _ := json.Marshal(zero)
		if !bytes.Equal(a, b) {
			t.Fatalf("a value beside an error: %s", a)
		}
		return
	}
	again, err := Write(v)
	if err != nil {
		return // larger in this form than the bus carries
	}
	v2, err := read(again)
	if err != nil {
		t.Fatalf("%s cannot be read again: %v", again, err)
	}
	third, err := Write(v2)
	if err != nil || !bytes.Equal(again, third) {
		t.Fatalf("%s became %s (%v)", again, third, err)
	}
}

func FuzzHeartbeat(f *testing.F) {
	h := sample()
	h.Sig = "AAAA"
	data, _ := canonical.Marshal(h)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzed(t, data, func(b []byte) (Heartbeat, error) { h, _, _, err := ReadHeartbeat(b); return h, err })
	})
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"op":"call","call":"c1","tool":"tts","hash":"sha256:00","args":{"text":"a"},"deadline_ms":60000}`))
	f.Add([]byte(`{"op":"ask","calls":["c1","c2"]}`))
	f.Add([]byte(`{"op":"key","key":"CQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzed(t, data, ReadRequest) })
}

func FuzzReply(f *testing.F) {
	f.Add([]byte(`{"result":{"status":"ok","text":"a","data":{"b":1},"links":[{"uri":"x:y"}],"mime":"audio/wav"},"bytes":7}`))
	f.Add([]byte(`{"fates":[{"call":"c1","state":"finished","result":{"status":"error","code":"cancelled"}}]}`))
	f.Add([]byte(`{"manifest":{"provider":"voice","tools":[{"name":"tts","input":{"type":"object"}}],"interchangeable":true}}`))
	f.Add([]byte(`{"progress":{"done":1,"total":2,"message":"half"}}`))
	f.Add([]byte(`{"key":{"key":"CQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","sig":"AA"}}`))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzed(t, data, ReadReply) })
}

func FuzzPaste(f *testing.F) {
	f.Add(Paste{Seed: "SU" + strings.Repeat("A", 56), Name: "voice", Addrs: []string{"h:1"}}.Encode())
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePaste(text)
		if err != nil {
			return
		}
		if again, err := ParsePaste(p.Encode()); err != nil || again.Seed != p.Seed || again.Name != p.Name || again.Sum != p.Sum {
			t.Fatalf("%+v became %+v (%v)", p, again, err)
		}
	})
}

func FuzzAsk(f *testing.F) {
	f.Add([]byte(`{"key":"U` + strings.Repeat("A", 55) + `","host":"box","platform":"linux/amd64","sig":"AA"}`))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzed(t, data, ReadAsk) })
}

// The times of a heartbeat are those of the rule: every 5 s, stale at 15 s, gone at 30 s.
func TestTimes(t *testing.T) {
	if Period != 5*time.Second || Stale != 15*time.Second || Gone != 30*time.Second {
		t.Error(Period, Stale, Gone)
	}
}
