package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// made is a made-up run: each packet is a second after the one before.
type made struct{ Evidence }

func (m *made) packet(kind ledger.Kind, call capabilities.CallID, tool capabilities.ToolID, body any) *made {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	seq := len(m.Packets) + 1
	m.Packets = append(m.Packets, ledger.Packet{
		Seq: uint64(seq), TimeUS: noon.Add(time.Duration(seq) * time.Second).UnixMicro(), Kind: kind, Call: call, Tool: tool, Body: text,
	})
	return m
}

func (m *made) asks(call capabilities.CallID, request capabilities.RequestID, grant string) *made {
	m.packet(ledger.KindCallRequest, call, bash, &packet.Request{RequestID: request})
	return m.packet(ledger.KindCallDecision, call, bash, &packet.Decision{Grant: grant})
}

func (m *made) orders(call capabilities.CallID) *made {
	return m.packet(ledger.KindCallDispatch, call, bash, &packet.Dispatch{Target: "node"})
}

func (m *made) ends(call capabilities.CallID, code capabilities.Code) *made {
	if code == "" {
		return m.packet(ledger.KindCallResult, call, bash, &packet.End{Status: capabilities.StatusOK})
	}
	return m.packet(ledger.KindCallFailed, call, bash, &packet.End{Status: capabilities.StatusError, Code: code})
}

// acts has an effect happen now.
func (m *made) acts(request capabilities.RequestID) *made {
	if m.Effects == nil {
		m.Effects = map[capabilities.RequestID][]Effect{}
	}
	m.Effects[request] = append(m.Effects[request], Effect{At: m.now()})
	return m
}

// now is half a second after the last packet.
func (m *made) now() time.Time {
	return noon.Add(time.Duration(len(m.Packets))*time.Second + 500*time.Millisecond)
}

func (m *made) tells(request capabilities.RequestID, call capabilities.CallID, code capabilities.Code) *made {
	status := capabilities.StatusOK
	if code != "" {
		status = capabilities.StatusError
	}
	m.Told = append(m.Told, Told{Request: request, Call: call, Status: status, Code: code})
	return m
}

func (m *made) grants(id string, uses int) *made {
	return m.packet("gateway.grant.made", "", "", map[string]any{"grant": id, "kind": "lease", "max_uses": uses})
}

func run() *made { return &made{} }

// good is one call as it should be.
func good() *made {
	return run().asks("c1", "r1", "").orders("c1").acts("r1").ends("c1", "").tells("r1", "c1", "")
}

// TestJudge: each breach is found in a made-up ledger, by its own rule and no other, and none is
// found where there is none.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name string
		m    *made
		want string // rules, in order
	}{
		{"a call", good(), ""},
		{"a call that never started, made again", run().asks("c1", "r1", "").orders("c1").ends("c1", capabilities.CodeNodeDisconnected).
			asks("c2", "r1", "").orders("c2").acts("r1").ends("c2", ""), ""},
		{"a call that nobody knows the end of, and did something", run().asks("c1", "r1", "").orders("c1").acts("r1").
			ends("c1", capabilities.CodeUnknownOutcome).tells("r1", "c1", capabilities.CodeUnknownOutcome), ""},
		{"a call that was put right", run().asks("c1", "r1", "").orders("c1").acts("r1").ends("c1", capabilities.CodeUnknownOutcome).
			packet(ledger.KindCallReconciled, "c1", bash, &packet.End{Status: capabilities.StatusOK}).tells("r1", "c1", ""), ""},
		{"a repetition", good().packet(ledger.KindCallRepeated, "c2", bash, &packet.Repeated{Of: "c1", RequestID: "r1"}).tells("r1", "c2", ""), ""},
		{"a refusal", run().asks("c1", "r1", "").ends("c1", capabilities.CodeStopped).tells("r1", "c1", capabilities.CodeStopped), ""},
		{"a call that waits for a person", run().asks("c1", "r1", "").packet(ledger.KindCallPending, "c1", bash, &packet.End{}), ""},
		{"a grant used up", run().grants("g", 1).asks("c1", "r1", "g").orders("c1").acts("r1").ends("c1", ""), ""},
		{"calls before a stop and after", good().packet("gateway.stopped", "", "", struct{}{}).packet("gateway.resumed", "", "", struct{}{}).
			asks("c2", "r2", "").orders("c2").acts("r2").ends("c2", ""), ""},
		{"admin work in a stop", run().packet("gateway.stopped", "", "", struct{}{}).
			packet(ledger.KindCallDispatch, "a1", "tool.admin.token-create", struct{}{}).
			packet(ledger.KindCallResult, "a1", "tool.admin.token-create", &packet.End{Status: capabilities.StatusOK}), ""},

		{"twice", good().acts("r1"), string(Twice)},
		{"two gateways", good().asks("c2", "r1", "").orders("c2").acts("r1").ends("c2", ""), string(Twice) + ", " + string(Ordered)},
		{"two gateways and one effect", good().asks("c2", "r1", "").orders("c2").ends("c2", capabilities.CodeUnknownOutcome), string(Ordered)},
		{"no record", run().acts("r1"), string(Unrecorded)},
		{"a refusal that was carried out", run().asks("c1", "r1", "").ends("c1", capabilities.CodeConsentDenied).acts("r1"), string(Unrecorded)},
		{"a record that came later", run().asks("c1", "r1", "").acts("r1").orders("c1").ends("c1", ""), string(Unrecorded)},
		{"a lie that nothing happened", run().asks("c1", "r1", "").orders("c1").acts("r1").ends("c1", capabilities.CodeNodeDisconnected), string(Denied)},
		{"a lie that it was denied", run().asks("c1", "r1", "").orders("c1").acts("r1").ends("c1", capabilities.CodeTicketInvalid), string(Denied)},
		{"nothing happened", run().asks("c1", "r1", "").orders("c1").ends("c1", ""), string(Lost)},
		{"no end", run().asks("c1", "r1", "").orders("c1").acts("r1"), string(Endless)},
		{"two ends", run().asks("c1", "r1", "").orders("c1").acts("r1").ends("c1", "").ends("c1", capabilities.CodeUnknownOutcome), string(Ends)},
		{"two ends of admin work", run().packet(ledger.KindCallRequest, "a1", "tool.admin.token-create", &packet.Request{}).
			ends("a1", capabilities.CodeUnknownOutcome).ends("a1", capabilities.CodeUnknownOutcome), string(Ends)},
		{"an answer that is not true", run().asks("c1", "r1", "").orders("c1").acts("r1").ends("c1", capabilities.CodeUnknownOutcome).tells("r1", "c1", ""), string(Untold)},
		{"an answer of no call", good().tells("r1", "c9", ""), string(Untold)},
		{"an outcome of no call", good().tells("r1", "c9", capabilities.CodeUnknownOutcome), string(Untold)},
		{"a grant used twice", run().grants("g", 1).asks("c1", "r1", "g").orders("c1").acts("r1").ends("c1", "").
			asks("c2", "r2", "g").orders("c2").acts("r2").ends("c2", ""), string(Overspent)},
		{"a yes for one call used twice", run().packet("gateway.grant.made", "", "", map[string]any{"grant": "g", "kind": "call"}).
			asks("c1", "r1", "g").orders("c1").acts("r1").ends("c1", "").asks("c2", "r2", "g").orders("c2").acts("r2").ends("c2", ""), string(Overspent)},
		{"ordered in a stop", run().asks("c1", "r1", "").packet("gateway.stopped", "", "", struct{}{}).orders("c1").acts("r1").ends("c1", ""), string(Stopped)},
		{"a grant of before a stop", run().grants("g", 2).packet("gateway.stopped", "", "", struct{}{}).packet("gateway.resumed", "", "", struct{}{}).
			asks("c1", "r1", "g").orders("c1").acts("r1").ends("c1", ""), string(Stopped)},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, err := Judge(&c.m.Evidence)
			if err != nil {
				t.Fatal(err)
			}
			if got := rules(found); got != c.want {
				t.Errorf("found %q, want %q\n%v", got, c.want, found)
			}
			for _, b := range found {
				if b.Rule != Untold && len(b.Packets) == 0 && len(c.m.Packets) > 0 {
					t.Errorf("no packets: %s", b)
				}
			}
		})
	}
}

func rules(found []Breach) string {
	var all []string
	for _, b := range found {
		all = append(all, string(b.Rule))
	}
	return strings.Join(all, ", ")
}

// An effect while everything is stopped is a breach where the stop was in calm times, once the
// devices had time to hear of it.
func TestJudgeOfStops(t *testing.T) {
	for late, want := range map[time.Duration]string{grace / 2: "", 2 * grace: string(Stopped), 10 * grace: ""} {
		for _, calm := range []bool{true, false} {
			m := good()
			said := m.Effects["r1"][0].At.Add(-late)
			m.Halts = []Halt{{Said: said, Resumed: said.Add(5 * grace), Calm: calm}}
			if !calm {
				want = ""
			}
			if found, err := Judge(&m.Evidence); err != nil || rules(found) != want {
				t.Errorf("%s after it, calm %v: %v %v", late, calm, found, err)
			}
		}
	}
}

// The judge reads what the gateway exports.
func TestReadExport(t *testing.T) {
	var lines strings.Builder
	for _, p := range good().Packets {
		line, err := json.Marshal(struct {
			Type string `json:"type"`
			ledger.Packet
		}{"packet", p})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&lines, "%s\n", line)
	}
	text := `{"type":"header","format":"handrail-ledger/1"}` + "\n" + lines.String() + `{"type":"end"}` + "\n"
	got, err := ReadExport(strings.NewReader(text))
	if err != nil || !slices.EqualFunc(got, good().Packets, func(a, b ledger.Packet) bool { return a.Seq == b.Seq && string(a.Body) == string(b.Body) }) {
		t.Errorf("%v %v", got, err)
	}
	if _, err := ReadExport(strings.NewReader(text + `{"type":`)); err == nil {
		t.Error("an export that is cut off is read")
	}
}

// The same seed makes the same schedule, another one another; each kind comes, none that is not to
// be had, and nothing that is not there is broken.
func TestPlan(t *testing.T) {
	all := func(Kind) bool { return true }
	a, b, c := Plan(1, 3*time.Minute, 3, 6, all, false), Plan(1, 3*time.Minute, 3, 6, all, false), Plan(2, 3*time.Minute, 3, 6, all, false)
	if !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Error("a schedule is not its seed's")
	}
	for _, w := range weights {
		of := func(f Fault) bool { return f.Kind == w.kind }
		if !slices.ContainsFunc(a, of) {
			t.Errorf("it does not %s", w.kind)
		}
		if slices.ContainsFunc(Plan(1, 3*time.Minute, 3, 6, func(k Kind) bool { return k != w.kind }, false), of) {
			t.Errorf("it is to %s, which is not to be had", w.kind)
		}
	}
	for _, f := range a {
		most := 3
		if f.Kind == KillNode || f.Kind == FreezeNode || f.Kind == FillNode {
			most = 6
		}
		if f.First >= most || f.Second >= 3 || f.Kind == SplitGateways && f.First == f.Second || f.Lasts <= 0 || f.At >= 3*time.Minute {
			t.Errorf("%s", f)
		}
	}
	for _, f := range Plan(1, time.Minute, 3, 6, func(k Kind) bool { return k == FreezeGateway }, true) {
		if f.Lasts < 6*time.Second {
			t.Errorf("%s outlasts no lease", f)
		}
	}
}

// Each fault can be planted, and changes what it names.
func TestMutations(t *testing.T) {
	for _, m := range Mutations {
		file, err := m.Overlay("../..", t.TempDir())
		if err != nil {
			t.Error(err)
			continue
		}
		if len(m.Finds) == 0 || len(m.Kinds) == 0 {
			t.Errorf("%s: nothing shows it", m.Name)
		}
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), ".go") {
			t.Errorf("%s: %s %v", m.Name, text, err)
		}
	}
	if _, err := (&Mutation{Changes: []Change{{"go.mod", "no such line", ""}}}).Overlay("../..", t.TempDir()); err == nil {
		t.Error("a fault is planted where its line is not")
	}
}
