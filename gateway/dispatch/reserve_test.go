package dispatch

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
	"github.com/handrail-dev/handrail/gateway/store"
)

const (
	toolControl = capabilities.ToolID("tool.live.control")
	toolMouse   = capabilities.ToolID("tool.desktop.mouse")
)

// taking is a house whose node can be taken over, and whose calls run until they are
// let go or ended.
type taking struct {
	*house
	began chan capabilities.CallID
	goOn  chan struct{} // closed: calls of tools end by themselves
}

func newTaking(t *testing.T, tune func(*Options)) *taking {
	t.Helper()
	nodes := nodestest.New("n1", "n2")
	for i := range nodes.Roster {
		for _, c := range []capabilities.CapabilityID{"tyrum.live.control", "tyrum.desktop.mouse", "tyrum.desktop.query"} {
			nodes.Roster[i].Readiness[c] = capabilities.Readiness{Capability: c, Isolation: capabilities.ClassSession}
		}
	}
	k := &taking{began: make(chan capabilities.CallID, 64), goOn: make(chan struct{})}
	nodes.Carry = func(ctx context.Context, ticket *wire.Ticket, progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		if ticket.Tool == toolControl {
			progress(capabilities.Progress{Message: "taken over"})
			<-ctx.Done()
			return wire.Answer{}, nil, context.Cause(ctx)
		}
		k.began <- ticket.Call
		select {
		case <-k.goOn:
			output := map[capabilities.ToolID]string{toolMouse: `{}`, toolEvaluate: `{"result":1}`, "tool.desktop.query": `{"matches":[]}`}[ticket.Tool]
			return wire.Answer{Status: capabilities.StatusOK, Output: []byte(output), Effect: capabilities.EffectConfirmed}, nil, nil
		case <-ctx.Done():
			return wire.Answer{}, nil, context.Cause(ctx)
		}
	}
	k.house = newHouse(t, nodes, func(o *Options) {
		o.Consent = yes{}
		if tune != nil {
			tune(o)
		}
	})
	return k
}

var person = Caller{Principal: "ann", Role: "operator", Lane: "live-ann"}

// takeOver has a person keep a node, and returns what hands it back.
func (k *taking) takeOver(who Caller, node string) (back func() capabilities.Result) {
	k.t.Helper()
	ctx, cancel := context.WithCancelCause(k.t.Context())
	taken, end := make(chan struct{}, 1), make(chan capabilities.Result, 1)
	go func() {
		end <- k.Call(ctx, Request{Caller: who, Tool: toolControl, Args: []byte(`{"node_id":"` + node + `"}`), Surface: "live", Inside: true, Progress: func(capabilities.Progress) { taken <- struct{}{} }})
	}()
	select {
	case <-taken:
	case r := <-end:
		k.t.Fatalf("not taken over: %+v", r)
	}
	return func() capabilities.Result {
		cancel(capabilities.Errorf(capabilities.CodeCancelled, "Handed back."))
		return <-end
	}
}

// start makes a call beside the test. told returns what it is told while it runs.
func (k *taking) start(r Request) (end chan capabilities.Result, told chan string) {
	end, told = make(chan capabilities.Result, 1), make(chan string, 8)
	r.Progress = func(p capabilities.Progress) { told <- p.Message }
	go func() { end <- k.Call(k.t.Context(), r) }()
	return end, told
}

func onNode(node, more string) []byte {
	return []byte(`{"node_id":"` + node + `"` + more + `}`)
}

const click = `,"action":"click","x":1,"y":1`

// While a person keeps a node, what an agent does on its desk ends, what it calls there
// waits, and other nodes are as ever; what the person does passes. The ledger has nothing
// of the agent's between the two packets.
func TestAgentsWaitForWhoHasTakenOver(t *testing.T) {
	k := newTaking(t, nil)
	agents := func(node, more string, tool capabilities.ToolID) Request {
		return Request{Caller: agentCaller, Tool: tool, Args: onNode(node, more), Surface: "test"}
	}
	running, _ := k.start(agents("n1", click, toolMouse))
	<-k.began
	browsing, _ := k.start(agents("n1", `,"expression":"1"`, toolEvaluate))
	<-k.began
	back := k.takeOver(person, "n1")
	want(t, <-running, capabilities.StatusError, capabilities.CodeTakenOver)

	waiting, told := k.start(agents("n1", click, toolMouse))
	if word := <-told; !strings.Contains(word, "taken over") {
		t.Errorf("the agent is told %q", word)
	}
	reading, told := k.start(agents("n1", `,"selector":"role:button"`, "tool.desktop.query"))
	<-told
	// The person's name is not the person's hand.
	namesake, told := k.start(Request{Caller: Caller{Principal: "ann", Role: policy.RoleAgent, Lane: "live-ann"}, Tool: toolMouse, Args: onNode("n1", click), Surface: "test"})
	<-told
	elsewhere, _ := k.start(agents("n2", click, toolMouse))
	<-k.began
	mine, _ := k.start(Request{Caller: person, Tool: toolMouse, Args: onNode("n1", click), Surface: "live", Inside: true})
	<-k.began
	for name, end := range map[string]chan capabilities.Result{"waiting": waiting, "reading": reading, "namesake": namesake, "browsing": browsing} {
		select {
		case r := <-end:
			t.Errorf("%s ended: %+v", name, r)
		default:
		}
	}
	other := k.Call(t.Context(), Request{Caller: Caller{Principal: "ben", Role: "operator", Lane: "live-ben"}, Tool: toolControl, Args: onNode("n1", ""), Surface: "live", Inside: true})
	want(t, other, capabilities.StatusError, capabilities.CodeTakenOver)
	if !strings.Contains(other.Message, "ann") {
		t.Errorf("ben is told %q", other.Message)
	}
	close(k.goOn)
	want(t, <-mine, capabilities.StatusOK, "")
	want(t, <-elsewhere, capabilities.StatusOK, "")
	want(t, <-browsing, capabilities.StatusOK, "")
	want(t, back(), capabilities.StatusError, capabilities.CodeCancelled)
	for _, end := range []chan capabilities.Result{waiting, reading, namesake} {
		want(t, <-end, capabilities.StatusOK, "")
	}

	all, err := k.ledger.Packets(t.Context(), ledger.Query{Limit: 1000})
	must(t, err)
	at := func(kind ledger.Kind) int {
		return slices.IndexFunc(all, func(p ledger.Packet) bool { return p.Kind == kind && p.Node == "n1" && p.Principal == "ann" })
	}
	from, to := at("gateway.node.taken"), at("gateway.node.returned")
	if from < 0 || to < from {
		t.Fatalf("taken at %d, returned at %d", from, to)
	}
	if body := string(all[from].Body); !strings.Contains(body, `"ended_calls":1`) {
		t.Errorf("taken: %s", body)
	}
	if body := string(all[to].Body); !strings.Contains(body, `"waiting_calls":3`) || !strings.Contains(body, "Handed back.") {
		t.Errorf("returned: %s", body)
	}
	for _, p := range all[from:to] {
		if p.Kind == ledger.KindCallDispatch && p.Node == "n1" && (p.Principal != "ann" || p.Lane != "live-ann") {
			t.Errorf("dispatched meanwhile: %+v", p)
		}
	}
}

// A call does not wait for ever, and its answer says what is the matter.
func TestWaitingForAPersonIsBounded(t *testing.T) {
	k := newTaking(t, func(o *Options) { o.ReserveWait = 20 * time.Millisecond })
	back := k.takeOver(person, "n1")
	r := k.Call(t.Context(), Request{Caller: agentCaller, Tool: toolMouse, Args: onNode("n1", click), Surface: "test"})
	want(t, r, capabilities.StatusError, capabilities.CodeTakenOver)
	if !r.Retryable || !strings.Contains(r.Hint, "Call again") {
		t.Errorf("%+v", r)
	}
	k.wantKinds(r.Call, "request", "decision", "failed")
	over := k.reserved.Kept("n1").Over()
	back()
	<-over // who gives a call up does not wait for its end
	close(k.goOn)
	want(t, k.Call(t.Context(), Request{Caller: agentCaller, Tool: toolMouse, Args: onNode("n1", click), Surface: "test"}), capabilities.StatusOK, "")
}

// Policy that changed while a call waited is what counts.
func TestPolicyIsAskedAnewAfterWaiting(t *testing.T) {
	k := newTaking(t, nil)
	back := k.takeOver(person, "n1")
	waiting, told := k.start(Request{Caller: agentCaller, Tool: toolMouse, Args: onNode("n1", click), Surface: "test"})
	<-told
	k.rules(`permit(principal, action, resource); forbid(principal, action == Action::"tool.desktop.mouse", resource);`)
	back()
	want(t, <-waiting, capabilities.StatusDenied, capabilities.CodeDeniedByPolicy)
}

// asking is people who take their time over the mouse.
type asking struct {
	yes
	asked, answer chan struct{}
}

func (a asking) Await(ctx context.Context, ask consent.Ask) (consent.Permit, error) {
	if ask.Tool == toolMouse {
		close(a.asked)
		<-a.answer
	}
	return a.yes.Await(ctx, ask)
}

// So it is for who had a person's word already when the node was taken.
func TestPolicyCountsAfterTheWordOfAPerson(t *testing.T) {
	for name, change := range map[string]bool{"other rules": true, "the same rules": false} {
		t.Run(name, func(t *testing.T) {
			people := asking{asked: make(chan struct{}), answer: make(chan struct{})}
			k := newTaking(t, func(o *Options) { o.Consent = people })
			k.rules(`permit(principal, action, resource) when { context.consent }; permit(principal == User::"ann", action, resource);`)
			close(k.goOn)
			waiting, told := k.start(Request{Caller: agentCaller, Tool: toolMouse, Args: onNode("n1", click), Surface: "test"})
			<-people.asked
			back := k.takeOver(person, "n1")
			close(people.answer)
			<-told
			if change {
				k.rules(`forbid(principal, action, resource);`)
			}
			back()
			if !change {
				want(t, <-waiting, capabilities.StatusOK, "")
				return
			}
			want(t, <-waiting, capabilities.StatusError, capabilities.CodeTakenOver)
			select {
			case <-k.began:
				t.Error("what policy denies was dispatched")
			default:
			}
		})
	}
}

// A node that is kept twice by one person is given back with the last.
func TestKeptTwiceIsGivenBackOnce(t *testing.T) {
	k := newTaking(t, nil)
	close(k.goOn)
	first, second := k.takeOver(person, "n1"), k.takeOver(person, "n1")
	first()
	waiting, told := k.start(Request{Caller: agentCaller, Tool: toolMouse, Args: onNode("n1", click), Surface: "test"})
	<-told
	second()
	want(t, <-waiting, capabilities.StatusOK, "")
}

// yes is people who allow everything.
type yes struct{}

func (yes) Await(context.Context, consent.Ask) (consent.Permit, error) {
	return consent.Permit{Grant: "g-1", Kind: consent.KindLease}, nil
}
func (yes) Covering(*consent.Ask) (consent.Grant, bool) { return consent.Grant{ID: "g-1"}, true }

func (yes) Ended(consent.Permit)       {}
func (yes) Stands(consent.Permit) bool { return true }
func (yes) Uses(capabilities.ToolID, capabilities.NodeID, capabilities.PrincipalID) func() {
	return func() {}
}
func (yes) SpendIn(*store.Tx, consent.Permit) error { return nil }

func (yes) AskHost(context.Context, consent.HostAsk) (consent.HostSaid, error) {
	return consent.HostSaid{}, &capabilities.Error{Code: capabilities.CodeConsentUnavailable}
}

func (yes) Elicit(context.Context, consent.Elicitation) (consent.Reply, error) {
	return consent.Reply{}, &capabilities.Error{Code: capabilities.CodeConsentUnavailable}
}
