package rest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/drift/events"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/pairing"
)

// drifts keeps what was recorded.
type drifts struct {
	mu   sync.Mutex
	all  []drift.Signal
	more []packet.DriftUncounted
}

// Uncounted implements rest.Drift.
func (d *drifts) Uncounted(_ context.Context, _ principal.Identity, more packet.DriftUncounted) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.more = append(d.more, more)
	return nil
}

// Surfaced implements rest.Drift.
func (d *drifts) Surfaced(_ context.Context, _ principal.Identity, _ drift.Surfaced, signals []drift.Signal) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, signals...)
	return nil
}

// Restricted implements rest.Drift.
func (d *drifts) Restricted(capabilities.ToolID) (events.Restriction, bool) {
	return events.Restriction{}, false
}

// The others implement rest.Drift where nothing drifted.
func (d *drifts) List(context.Context, events.Filter) ([]events.Event, uint64, error) {
	return nil, 0, nil
}

func (d *drifts) Holding(context.Context) ([]events.Quarantine, []events.Restriction, []events.Raise, error) {
	return nil, nil, nil, nil
}

func (d *drifts) Raised(capabilities.ToolID, capabilities.NodeID) int { return 0 }

func (d *drifts) Manifest(capabilities.ToolID) string { return "" }

func (d *drifts) Resolve(_ context.Context, _ capabilities.PrincipalID, _ string, ids ...string) ([]events.Event, error) {
	return make([]events.Event, len(ids)), nil
}

func (d *drifts) Lift(context.Context, capabilities.PrincipalID, string, string) error {
	return nil
}

func (d *drifts) Review(context.Context, capabilities.PrincipalID, capabilities.ToolID, string, string) error {
	return nil
}

func (d *drifts) take() []drift.Signal {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.all
	d.all = nil
	return all
}

// logKey signs the log of node n2.
var logKey = chain.Key{1, 2, 3}

// nodeLogs reads an empty log of n2; the format is the edge's.
func nodeLogs(r io.Reader) (ledger.NodeLog, chain.Key, error) {
	text, err := io.ReadAll(r)
	if err == nil && !strings.Contains(string(text), "log of n2") {
		err = capabilities.Errorf(capabilities.CodeInvalidRequest, "this is no exported log of a node")
	}
	key := logKey
	if strings.Contains(string(text), "forged") {
		key[0]++
	}
	return ledger.NodeLog{Node: "n2", Taken: time.Now()}, key, err
}

func fingerprint() string { return pairing.Fingerprint(logKey[:]) }

// A control that a page may offer is no signal; one that it may not is recorded, once.
func TestSurfacedIsHeldAgainstTheTable(t *testing.T) {
	a := start(t)
	viewer := a.Token("vic", principal.RoleViewer)
	say := func(token, body string) (out struct{ Signals []api.Signal }) {
		t.Helper()
		a.ok(token, "POST", "/v1/surfaced", body, &out)
		return out
	}
	if got := say(a.operator, `{"surface":"console","page":"/console/stop","controls":["POST /v1/stop","GET /v1/stop"]}`); len(got.Signals) != 0 {
		t.Errorf("%+v", got)
	}
	got := say(viewer, `{"surface":"console","page":"/console/stop","controls":["POST /v1/stop","GET /v1/stop","POST /v1/nothing"]}`)
	if len(got.Signals) != 2 || got.Signals[0].Severity != string(drift.Violation) || got.Signals[0].Control != "POST /v1/stop" || got.Signals[1].Severity != string(drift.Warning) {
		t.Errorf("%+v", got)
	}
	if all := a.drift.take(); len(all) != 2 {
		t.Errorf("recorded: %+v", all)
	}
	if got := say(viewer, `{"surface":"console","controls":["POST /v1/stop"]}`); len(got.Signals) != 1 || len(a.drift.take()) != 0 {
		t.Error("the same again is recorded again")
	}
	a.Clock.Advance(11 * time.Minute)
	if say(viewer, `{"surface":"console","controls":["POST /v1/stop"]}`); len(a.drift.take()) != 1 {
		t.Error("what goes on is forgotten")
	}
	recordCall(t, a, "alice", "c1")
	if got := say(viewer, `{"keys":[{"call_id":"c1","key":"privileged.secret.read"}]}`); len(got.Signals) != 1 || got.Signals[0].Severity != string(drift.Critical) {
		t.Errorf("%+v", got)
	}
	a.drift.take()
	for i := range 100 { // somebody who makes them up does not fill the ledger
		say(viewer, `{"controls":["POST /v1/no`+strings.Repeat("x", i)+`"]}`)
	}
	if n := len(a.drift.take()); n > 60 {
		t.Errorf("%d made-up signals were recorded", n)
	}
	a.fails(a.agent, "POST", "/v1/surfaced", `{}`, capabilities.CodeForbidden)
}

// A client that opens streams without end is told where it ends, alone or with others of
// its name.
func TestStreamsAreCapped(t *testing.T) {
	a := start(t)
	held := 0
	stream := func(token string) bool {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, a.URL+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := a.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		if resp.StatusCode == http.StatusOK {
			held++
			return true
		}
		answer, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != capabilities.CodeOverloaded.Info().HTTP || !strings.Contains(string(answer), "event streams open") || resp.Header.Get("Retry-After") == "" {
			t.Fatalf("refused with %d %s", resp.StatusCode, answer)
		}
		return false
	}
	tokens := []string{a.operator}
	for range 5 {
		tokens = append(tokens, a.Token("op", principal.RoleOperator))
	}
	for i, token := range tokens {
		for stream(token) {
		}
		if i == 0 && held != 32 {
			t.Errorf("one token opened %d", held)
		}
	}
	if held != 128 {
		t.Errorf("one principal opened %d", held)
	}
	if !stream(a.admin) {
		t.Error("somebody else is kept out")
	}
}

// The ledger is verified and compared by whoever may, one at a time, and a log counts
// only with the device's own key.
func TestLedgerIsVerifiedHere(t *testing.T) {
	a := start(t)
	recordCall(t, a, "alice", "c1")
	var report ledger.Report
	a.ok(a.operator, "GET", "/v1/ledger/verify", "", &report)
	if report.Packets == 0 || !report.Pinned {
		t.Errorf("%+v", report)
	}
	a.fails(a.agent, "GET", "/v1/ledger/verify", "", capabilities.CodeForbidden)
	var c ledger.Comparison
	a.ok(a.admin, "POST", "/v1/ledger/compare", `{"log":"log of n2"}`, &c)
	if c.Node != "n2" || len(c.Differences) != 0 {
		t.Errorf("%+v", c)
	}
	a.fails(a.admin, "POST", "/v1/ledger/compare", `{"log":"forged log of n2"}`, capabilities.CodeLedgerCorrupt)
	a.fails(a.admin, "POST", "/v1/ledger/compare", `{"log":"x"}`, capabilities.CodeInvalidRequest)
	a.fails(a.operator, "POST", "/v1/ledger/compare", `{"log":"log of n2"}`, capabilities.CodeForbidden)
	a.fails(a.admin, "POST", "/v1/ledger/compare", `{"log":"`+strings.Repeat("x", 1<<20)+`"}`, capabilities.CodeBodyTooLarge)
}

// Signals beyond those that are recorded of one visitor are counted: a packet a minute says how
// many, with the worst of them (S1-65).
func TestNothingSurfacedIsDropped(t *testing.T) {
	a := start(t)
	viewer := a.Token("vic", principal.RoleViewer)
	say := func(from, to int, more string) {
		t.Helper()
		var controls []string
		for i := from; i < to; i++ {
			controls = append(controls, fmt.Sprintf(`"POST /v1/none-%d"`, i))
		}
		a.ok(viewer, "POST", "/v1/surfaced", `{"surface":"console","controls":[`+strings.Join(controls, ",")+more+`]}`, nil)
	}
	say(0, 60, "") // ten of them are too many, and told of at once
	say(0, 70, "") // of them fifty are recorded already
	say(70, 75, `,"POST /v1/stop"`)
	if all := a.drift.take(); len(all) != 50 || len(a.drift.more) != 1 || a.drift.more[0].Events != 10 || a.drift.more[0].Severity != drift.Warning {
		t.Fatalf("%d recorded, %+v", len(all), a.drift.more)
	}
	a.Clock.Advance(time.Minute)
	say(75, 76, "")
	if more := a.drift.more; len(more) != 2 || more[1].Events != 27 || more[1].Severity != drift.Violation {
		t.Errorf("%+v", more)
	}
	a.Clock.Advance(10 * time.Minute)
	if say(0, 3, ""); len(a.drift.take()) != 3 || len(a.drift.more) != 2 {
		t.Errorf("%+v", a.drift.more)
	}
}
