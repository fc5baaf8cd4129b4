package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/fxamacker/cbor/v2"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/artifact"
)

// samples holds one full message of every CBOR kind.
func samples() []Message {
	head := &Head{Seq: 9, Hash: sha256.Sum256([]byte("h")), Time: 1_700_000_000_000, Sig: bytes.Repeat([]byte{7}, 64)}
	answer := Answer{
		Status: capabilities.StatusOK, Output: []byte(`{"url":"about:blank"}`), Effect: capabilities.EffectConfirmed,
		Evidence: "url changed", Untrusted: true, Isolation: capabilities.ClassT2, DurationUS: 1234,
		Blobs:     []BlobHead{{Field: "bytesBase64", MIME: "image/png", Size: 3, SHA256: sha256.Sum256([]byte("abc"))}},
		Observed:  []Observation{{Key: "network.browser.session", Detail: "example.org", Count: 2}},
		Artifacts: []ArtifactHead{{ID: sha256.Sum256([]byte("a")), Name: "photo.jpg", MIME: "image/jpeg", Size: 1, Field: "bytesBase64"}},
	}
	failed := Answer{Status: capabilities.StatusError, Code: capabilities.CodeElementNotFound, Message: "no", Hint: "snap", Details: []byte(`{}`)}
	args := []byte(`{"url":"about:blank"}`)
	return []Message{
		&Hello{Version: 1, MinVersion: 1, Node: "n1", CatalogHash: [32]byte{1}, Agent: "0.1", StopEpoch: 3, Stopped: true, Platform: "linux", Arch: "amd64", Host: "desk", LogKey: bytes.Repeat([]byte{1}, 32), LogHead: head, Steps: true, Addrs: [][]byte{{10, 9, 0, 2}, bytes.Repeat([]byte{9}, 16)}, Recall: "r1"},
		&HelloAck{Version: 1, Gateway: "g1", Epoch: 4, HeartbeatMS: 10000, SequenceFloor: 77, GatewayHead: head, Allow: []string{"tyrum.browser.click"}, CatalogSkew: true, Program: "1.2.0"},
		&Heartbeat{Seq: 1, Active: 2, UptimeS: 3, Head: head, Addrs: [][]byte{{10, 9, 0, 3}}, Pools: []Pool{{Class: capabilities.ClassT3, Running: 1, Most: 1, Waiting: 2, Queue: 64, Refused: 3}}},
		&HeartbeatAck{Seq: 1, Head: head},
		&Readiness{Capabilities: []capabilities.Readiness{{Capability: "tyrum.browser.click", Reason: capabilities.ReasonBackendMissing, Fix: "install chromium", Action: capabilities.Action{Key: capabilities.ActionExamineNode, Node: "n1"}, Isolation: capabilities.ClassT2, Degraded: "chrome_sandbox", Backend: "chromium 1"}}},
		&Allowlist{Capabilities: []string{"tyrum.browser.click"}},
		&Approved{Node: "n1", Cert: []byte{1, 2}, Trust: "owned", Label: "desk", Allow: []string{"tyrum.browser.click"}},
		&Stop{Epoch: 2, On: true, SiteEpoch: maxEpoch, SiteOn: true},
		&Rotate{PublicKey: bytes.Repeat([]byte{1}, 32), Proof: bytes.Repeat([]byte{2}, 64)},
		&RotateAnswer{Cert: []byte{1}},
		&LaneClosed{Lane: "main"}, &SecretsDone{Lane: "main"},
		&Questions{}, &Questions{List: []Question{{ID: "a-1", Who: "claude", What: "Type", Lines: []string{"it types 3 characters", "text: abc"}, NoOnly: true, Expires: 1}}},
		&Answer{Status: capabilities.StatusDenied, Code: capabilities.CodeSecretHeld, Hint: "A person can say so.", Action: capabilities.Action{Key: capabilities.ActionReleaseSecret, Lane: "main"}},
		&Answer{Status: capabilities.StatusOK, Output: []byte("{}"), Did: &Did{Typed: 24, App: "Mousepad", Fields: 3}},
		&Verdict{ID: "a-1", Digest: [32]byte{1, 2}, Allow: true}, &VerdictTaken{ID: "a-1", Allow: true, Code: capabilities.CodeConflict, Message: "answered"},
		&Ticket{Call: "c1", Tool: "tool.browser.navigate", Capability: "tyrum.browser.navigate", Lane: "main", Node: "n1", Args: args, ArgsDigest: sha256.Sum256(args), Envelope: []byte(`{"v":1}`), Grants: []string{"network.browser.session"}, Sequence: 5, LifetimeMS: 5000, DeadlineMS: 30000, StopEpoch: 2},
		&Ticket{Call: "c2", Tool: "tool.browser.click", Capability: "tyrum.browser.click", Node: "n1", Args: args, ArgsDigest: sha256.Sum256(args), Sequence: 6, LifetimeMS: 5000, DeadlineMS: 30000, Steps: true},
		&Step{Number: 1, Tool: "tool.browser.click", Args: args},
		&StepOrder{Number: 2, Code: capabilities.CodeDeniedByPolicy, Message: "no", Hint: "ask", Details: []byte(`{}`)},
		&StepOrder{Number: 3, Ticket: &Ticket{Call: "c3", Tool: "tool.browser.click", Capability: "tyrum.browser.click", Node: "n1", Args: args, ArgsDigest: sha256.Sum256(args), Sequence: 7, Parent: "c1", Step: 3}},
		&StepEnd{Number: 3, Answer: Answer{Status: capabilities.StatusOK, OutputSum: bytes.Repeat([]byte{6}, 32), Blobs: answer.Blobs}},
		&Ticket{Call: "c4", Tool: "tool.x.y", Capability: "tyrum.x.y", Node: "n1", Args: args, ArgsDigest: sha256.Sum256(args), Sequence: 8, Elicits: true},
		&Elicit{Number: 1, Form: []byte(`{"message":"Who?","fields":[]}`), Key: bytes.Repeat([]byte{5}, 32)},
		&Elicited{Number: 1, Action: capabilities.ElicitAccept, Sealed: []byte{1, 2, 3}}, &Elicited{Number: 2, Action: capabilities.ElicitCancel},
		&Ticket{Call: "c5", Tool: "tool.x.y", Capability: "tyrum.x.y", Node: "n1", Args: args, ArgsDigest: sha256.Sum256(args), Sequence: 9, Elicits: true, AsksHosts: true},
		&Ticket{Call: "c6", Tool: "tool.x.y", Capability: "tyrum.x.y", Node: "n1", Args: args, ArgsDigest: sha256.Sum256(args), Sequence: 10, Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		&HostAsk{Number: 13, Target: "asked.example:443"}, &HostAnswer{Number: 13, Envelope: []byte(`{"v":1}`)}, &HostAnswer{Number: 1, Code: capabilities.CodeConsentDenied},
		&Progress{Done: 0.5, Total: 1, Message: "half"},
		&answer,
		&failed,
		&JournalAsk{Calls: []capabilities.CallID{"c1", "c2"}}, &JournalAsk{Calls: []capabilities.CallID{"c1", "c2"}, Recalls: []string{"r1", ""}},
		&SceneAsk{Tool: "tool.desktop.keyboard", Capability: "tyrum.desktop.keyboard", Lane: "main", Args: args},
		&Scene{App: "Mousepad", Window: "Untitled 1", Field: "Password", Password: true},
		&JournalState{Call: "c1", State: StateFinished, Answer: &answer},
		&JournalState{Call: "c2", State: StateNeverStarted},
		&Accept{Key: bytes.Repeat([]byte{3}, 32)},
		&Sealed{Bytes: bytes.Repeat([]byte{4}, 304)},
		&ArtifactAsk{Call: "c1", ID: sha256.Sum256([]byte("a")), Drop: true},
		&Artifact{Size: artifact.ChunkSize + 1, Hashes: bytes.Repeat([]byte{5}, 64)},
		&Artifact{Code: capabilities.CodeArtifactUnavailable},
		&ArtifactFrom{Chunk: 1},
		&ArtifactDone{},
	}
}

func TestRoundTrip(t *testing.T) {
	seen := map[Kind]bool{}
	for _, m := range samples() {
		seen[m.Kind()] = true
		frame, err := Encode(m)
		if err != nil {
			t.Fatalf("%s: %v", m.Kind(), err)
		}
		// One byte at a time: framing must not depend on how reads fall.
		got, err := NewReader(iotest.OneByteReader(bytes.NewReader(frame)), m.Kind()).Next()
		if err != nil {
			t.Fatalf("%s: %v", m.Kind(), err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Errorf("%s: got %+v, want %+v", m.Kind(), got, m)
		}
	}
	for kind, info := range kinds {
		if info.make == nil {
			continue
		}
		if !seen[kind] {
			t.Errorf("kind %s has no sample", kind)
		}
		if got := info.make().Kind(); got != kind {
			t.Errorf("kind %s makes %s", kind, got)
		}
	}
}

// A decoded message must not share memory with the pooled buffer it came from.
func TestDecodedBytesAreOwn(t *testing.T) {
	for _, m := range samples() {
		frame, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		body := frame[headerLen:]
		got, err := Decode(m.Kind(), body)
		if err != nil {
			t.Fatal(err)
		}
		clear(body)
		if !reflect.DeepEqual(got, m) {
			t.Errorf("%s shares its bytes with the frame", m.Kind())
		}
	}
}

type countingWriter struct{ writes int }

func (c *countingWriter) Write(p []byte) (int, error) { c.writes++; return len(p), nil }

func TestOneWritePerFrame(t *testing.T) {
	for _, m := range samples() {
		var w countingWriter
		if err := Write(&w, m); err != nil || w.writes != 1 {
			t.Errorf("%s: %d writes, %v", m.Kind(), w.writes, err)
		}
	}
}

// zeros is an endless stream that counts what is taken from it.
type zeros struct{ taken int }

func (z *zeros) Read(p []byte) (int, error) { clear(p); z.taken += len(p); return len(p), nil }

func TestOversizedRefusedBeforeAllocation(t *testing.T) {
	for kind, info := range kinds {
		for _, n := range []uint32{uint32(info.max) + 1, 1<<32 - 1} {
			header := binary.BigEndian.AppendUint32(nil, n)
			header = append(header, byte(kind))
			rest := &zeros{}
			r := NewReader(io.MultiReader(bytes.NewReader(header), rest), kind)
			m, err := r.Next()
			if m != nil || capabilities.CodeOf(err) != capabilities.CodeBodyTooLarge {
				t.Errorf("%s of %d bytes: %v, %v", kind, n, m, err)
			}
			if rest.taken != 0 {
				t.Errorf("%s: read %d bytes of a refused body", kind, rest.taken)
			}
			allocated := testing.AllocsPerRun(1, func() {
				_, _ = NewReader(bytes.NewReader(header), kind).Next()
			})
			if allocated > 20 {
				t.Errorf("%s: %v allocations for a refused header", kind, allocated)
			}
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	stop, _ := Encode(&Stop{Epoch: 1})
	cases := []struct {
		name string
		data []byte
		want any
	}{
		{"nothing", nil, io.EOF},
		{"cut header", stop[:3], io.ErrUnexpectedEOF},
		{"cut body", stop[:len(stop)-1], io.ErrUnexpectedEOF},
		{"other kind", append([]byte{0, 0, 0, 1, byte(KindLaneClosed)}, 0xa0), capabilities.CodeInvalidRequest},
		{"no such kind", []byte{0, 0, 0, 0, 255}, capabilities.CodeInvalidRequest},
		{"empty body", []byte{0, 0, 0, 0, byte(KindStop)}, capabilities.CodeInvalidRequest},
		{"not cbor", []byte{0, 0, 0, 2, byte(KindStop), 0xff, 0xff}, capabilities.CodeInvalidRequest},
		{"bytes after", []byte{0, 0, 0, 2, byte(KindStop), 0xa0, 0xa0}, capabilities.CodeInvalidRequest},
		{"indefinite map", []byte{0, 0, 0, 2, byte(KindStop), 0xbf, 0xff}, capabilities.CodeInvalidRequest},
		{"duplicate key", []byte{0, 0, 0, 5, byte(KindStop), 0xa2, 1, 1, 1, 2}, capabilities.CodeInvalidRequest},
		{"tag", []byte{0, 0, 0, 2, byte(KindStop), 0xc0, 0xa0}, capabilities.CodeInvalidRequest},
	}
	for _, c := range cases {
		m, err := NewReader(bytes.NewReader(c.data), KindStop).Next()
		if m != nil {
			t.Errorf("%s: a value came with the error", c.name)
		}
		switch want := c.want.(type) {
		case error:
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", c.name, err, want)
			}
		case capabilities.Code:
			if capabilities.CodeOf(err) != want {
				t.Errorf("%s: %v, want %v", c.name, err, want)
			}
		}
	}
}

// A ticket, a step's too, with a field this side does not know is refused, because the field
// may be a limit; other frames ignore it.
func TestUnknownFields(t *testing.T) {
	extra := func(m Message, key int) []byte {
		body, err := cbor.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[int]any
		if err := cbor.Unmarshal(body, &fields); err != nil {
			t.Fatal(err)
		}
		fields[key] = true
		body, err = cbor.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	for _, m := range samples() {
		for _, key := range []int{21, 60} { // 21: not to run yet, by the word of earlier versions
			_, err := Decode(m.Kind(), extra(m, key))
			if wantErr := m.Kind() == KindTicket || m.Kind() == KindStepOrder; (err != nil) != wantErr {
				t.Errorf("%s with an unknown field: %v", m.Kind(), err)
			}
		}
	}
}

func TestBoundsHoldBothWays(t *testing.T) {
	long := strings.Repeat("x", 5000)
	ok := func() *Ticket {
		return &Ticket{Call: "c", Tool: "tool.a.b", Capability: "tyrum.a.b", Node: "n", Args: []byte("{}")}
	}
	with := func(change func(*Ticket)) *Ticket { t := ok(); change(t); return t }
	bad := []Message{
		with(func(t *Ticket) { t.Call = "" }),
		with(func(t *Ticket) { t.Node = "" }),
		with(func(t *Ticket) { t.Lane = capabilities.LaneID(long) }),
		with(func(t *Ticket) { t.Args = nil }),
		with(func(t *Ticket) { t.Args = make([]byte, MaxArgs+1) }),
		with(func(t *Ticket) { t.Envelope = make([]byte, MaxEnvelope+1) }),
		with(func(t *Ticket) { t.Grants = make([]string, maxGrants+1) }),
		with(func(t *Ticket) { t.Grants = []string{""} }),
		&Answer{},
		&Answer{Status: "fine"},
		&Answer{Status: "ok", Message: long},
		&Answer{Status: "ok", Action: capabilities.Action{Key: capabilities.ActionExamineNode, Name: long}},
		&Readiness{Capabilities: []capabilities.Readiness{{Capability: "c", Action: capabilities.Action{Key: capabilities.ActionExamineNode, Name: long}}}},
		&Answer{Status: "ok", Output: make([]byte, MaxOutput+1)},
		&Answer{Status: "ok", Details: make([]byte, MaxDetails+1)},
		&Answer{Status: "ok", Blobs: make([]BlobHead, MaxBlobs+1)},
		&Answer{Status: "ok", Blobs: []BlobHead{{Size: MaxBlobBytes}, {Size: 1}}},
		&Answer{Status: "ok", Observed: []Observation{{}}},
		&Progress{Message: long},
		&Hello{Version: 1, MinVersion: 1},
		&Hello{Version: 1, MinVersion: 2, Node: "n"},
		&Hello{Version: 1, MinVersion: 1, Node: "n", LogHead: &Head{Sig: []byte{1}}},
		&HelloAck{Version: 1, Gateway: "g"},
		&Readiness{Capabilities: []capabilities.Readiness{{}}},
		&Readiness{Capabilities: make([]capabilities.Readiness, MaxCapabilities+1)},
		&Allowlist{Capabilities: []string{long}},
		&Approved{Node: "n"},
		&Rotate{PublicKey: []byte{1}},
		&RotateAnswer{},
		&RotateAnswer{Cert: []byte{1}, Code: capabilities.CodeInternal},
		&LaneClosed{}, &SecretsDone{},
		&Questions{List: []Question{{ID: "a-1"}}}, &Questions{List: make([]Question, MaxQuestions+1)}, &Verdict{}, &VerdictTaken{},
		&Questions{List: []Question{{ID: "a-1", Who: "claude", What: "Type", Lines: make([]string, MaxQuestionLines+1)}}},
		&Questions{List: []Question{{ID: "a-1", Who: "claude", What: strings.Repeat("x", MaxQuestionText+1)}}},
		&JournalAsk{},
		&SceneAsk{Tool: "tool.desktop.keyboard", Capability: "tyrum.desktop.keyboard"},
		&Scene{App: strings.Repeat("a", 257)},
		&JournalAsk{Calls: make([]capabilities.CallID, MaxJournal+1)},
		&JournalAsk{Calls: []capabilities.CallID{"c1", "c2"}, Recalls: []string{"r1"}},
		&JournalAsk{Calls: []capabilities.CallID{"c1"}, Recalls: []string{strings.Repeat("r", maxRecall+1)}},
		&JournalState{Call: "c", State: "gone"},
		&JournalState{Call: "c", State: StateRunning, Answer: &Answer{Status: "ok"}},
		&JournalState{Call: "c", State: StateFinished, Answer: &Answer{}},
		&Answer{Status: "ok", Artifacts: []ArtifactHead{{MIME: "a/b"}}},
		&Answer{Status: "ok", Artifacts: []ArtifactHead{{Name: "../a", MIME: "a/b"}}},
		&Answer{Status: "ok", Artifacts: []ArtifactHead{{Name: "a", MIME: "a/b", Size: capabilities.MaxArtifact + 1}}},
		&Answer{Status: "ok", Artifacts: []ArtifactHead{{Name: "a", MIME: "a/b"}, {Name: "b", MIME: "a/b"}}},
		&ArtifactAsk{},
		&Artifact{Size: 1},
		&Artifact{Hashes: make([]byte, 32)},
		&Artifact{Size: artifact.ChunkSize + 1, Hashes: make([]byte, 32)},
		&Artifact{Size: 1, Hashes: make([]byte, 32), Code: capabilities.CodeInternal},
		&ArtifactFrom{Chunk: artifact.MaxChunks + 1},
	}
	for _, m := range bad {
		if frame, err := Encode(m); err == nil || frame != nil {
			t.Errorf("%s: encoded %+v", m.Kind(), m)
		}
		body, err := cbor.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(m.Kind(), body); err == nil || got != nil {
			t.Errorf("%s: decoded %+v", m.Kind(), got)
		}
	}
	if _, err := Encode(ok()); err != nil {
		t.Errorf("the good ticket: %v", err)
	}
}

// A device that hosts as many tools as it may says so in one frame, and its gateway reads it.
func TestAsManyCapabilitiesAsThereMayBe(t *testing.T) {
	m := &Readiness{}
	for i := range MaxCapabilities {
		m.Capabilities = append(m.Capabilities, capabilities.Readiness{
			Capability: capabilities.CapabilityID(fmt.Sprintf("tyrum.provider-with-the-longest-name-x.a-%d", i)), Reason: capabilities.ReasonManifestChanged,
			Isolation: "t2", Fix: strings.Repeat("x", 200), Action: capabilities.Action{Key: capabilities.ActionExamineNode},
		})
	}
	frame, err := Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	reader := NewReader(bytes.NewReader(frame))
	reader.Accept(KindReadiness)
	got, err := reader.Next()
	if r, ok := got.(*Readiness); err != nil || !ok || len(r.Capabilities) != MaxCapabilities {
		t.Fatal(err)
	}
}

// Calls of one start share its walls; what is sent of one call writes into nothing of another's.
func TestCheckingWritesNothing(t *testing.T) {
	walls := append(make([]string, 0, 8), "landlock")
	a := Answer{Status: capabilities.StatusOK, Output: []byte(`{}`), Ran: []capabilities.Ran{
		{Program: "sha256:00", Class: capabilities.ClassT2, Walls: walls, Deeper: "seccomp"},
	}}
	if _, err := Encode(&a); err != nil {
		t.Fatal(err)
	}
	if behind := walls[1:8]; !slices.Equal(behind, make([]string, 7)) {
		t.Errorf("behind the walls stands %q", behind)
	}
}

func TestUnknownCodeBecomesInternal(t *testing.T) {
	body, _ := cbor.Marshal(&Answer{Status: "error", Code: "from_the_future"})
	m, err := Decode(KindAnswer, body)
	if err != nil || m.(*Answer).Code != capabilities.CodeInternal {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestClip(t *testing.T) {
	a := &Answer{Status: "ok", Message: strings.Repeat("é", maxText), Details: make([]byte, MaxDetails+1)}
	a.Clip()
	if len(a.Message) != maxText || !strings.HasSuffix(a.Message, "é") || a.Details != nil {
		t.Errorf("clipped to %d bytes", len(a.Message))
	}
	big := &Answer{Status: "ok", Effect: capabilities.EffectConfirmed, Output: make([]byte, MaxOutput+1)}
	big.Clip()
	if big.Code != capabilities.CodeResultTooLarge || big.Output != nil || big.Effect != capabilities.EffectConfirmed {
		t.Errorf("%+v", big)
	}
	for _, m := range []Message{a, big} {
		if _, err := Encode(m); err != nil {
			t.Error(err)
		}
	}
}

func TestBlobs(t *testing.T) {
	blobs := [][]byte{bytes.Repeat([]byte{1}, MaxChunk*3+17), {}, []byte("abc")}
	var stream bytes.Buffer
	if err := WriteBlobs(&stream, blobs); err != nil {
		t.Fatal(err)
	}
	whole := stream.Bytes()
	r := NewReader(bytes.NewReader(whole))
	for i, want := range blobs {
		got, err := r.Blob(len(want))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("blob %d: %d bytes, %v", i, len(got), err)
		}
	}
	if _, err := NewReader(bytes.NewReader(whole)).Blob(10); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
		t.Errorf("a chunk larger than what is missing: %v", err)
	}
	if _, err := NewReader(bytes.NewReader(whole[:100])).Blob(len(blobs[0])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut: %v", err)
	}
	if _, err := NewReader(bytes.NewReader(whole)).Blob(MaxBlobBytes + 1); capabilities.CodeOf(err) != capabilities.CodeBodyTooLarge {
		t.Errorf("too large: %v", err)
	}
	if _, err := NewReader(bytes.NewReader([]byte{0, 0, 0, 0, byte(KindChunk)})).Blob(1); err == nil {
		t.Error("an empty chunk would let a peer stall us for free")
	}
}

// FuzzDecode: what decodes encodes again to the same value; what does not has no value.
func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		frame, err := Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(m.Kind()), frame[headerLen:])
	}
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		m, err := Decode(Kind(kind), body)
		if err != nil {
			if m != nil {
				t.Fatalf("a value came with %v", err)
			}
			return
		}
		frame, err := Encode(m)
		if err != nil {
			t.Fatalf("%+v does not encode: %v", m, err)
		}
		again, err := Decode(m.Kind(), frame[headerLen:])
		if err != nil || !equal(m, again) {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}

// FuzzReader feeds a whole stream: no panic, no value with an error, an end.
func FuzzReader(f *testing.F) {
	for _, m := range samples() {
		frame, _ := Encode(m)
		f.Add(append(frame, frame...))
	}
	f.Add([]byte{0, 0, 0, 1, byte(KindChunk), 1})
	all := make([]Kind, 0, len(kinds))
	for k := range kinds {
		all = append(all, k)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := NewReader(bytes.NewReader(stream), all...)
		for {
			m, err := r.Next()
			if err != nil {
				if m != nil {
					t.Fatalf("a value came with %v", err)
				}
				break
			}
		}
		if b, err := NewReader(bytes.NewReader(stream)).Blob(64); err != nil && b != nil {
			t.Fatalf("bytes came with %v", err)
		}
	})
}

// equal compares after one more encoding, because an empty list and none are the
// same on the wire.
func equal(a, b Message) bool {
	x, errX := Encode(a)
	y, errY := Encode(b)
	return errX == nil && errY == nil && bytes.Equal(x, y) && reflect.TypeOf(a) == reflect.TypeOf(b)
}

func BenchmarkTicket(b *testing.B) {
	var ticket Message
	for _, m := range samples() {
		if m.Kind() == KindTicket {
			ticket = m
		}
	}
	frame, _ := Encode(ticket)
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := Write(io.Discard, ticket); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		var src bytes.Reader
		r := NewReader(&src, KindTicket)
		for b.Loop() {
			src.Reset(frame)
			if _, err := r.Next(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// An action that this side has no words for is dropped, and so is one that is too long to send.
func TestUnknownActions(t *testing.T) {
	a := &Answer{Status: capabilities.StatusError, Hint: "Do it.", Action: capabilities.Action{Key: "from_the_future", Node: "n1"}}
	if err := a.check(); err != nil || !a.Action.IsZero() || a.Hint != "Do it." {
		t.Errorf("%+v: %v", a.Action, err)
	}
	a.Action = capabilities.Action{Key: capabilities.ActionExamineNode, Name: strings.Repeat("x", maxName+1)}
	if a.Clip(); !a.Action.IsZero() {
		t.Errorf("%+v", a.Action)
	}
}
