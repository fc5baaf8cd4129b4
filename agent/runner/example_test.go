package runner_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"os"

	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/agent/runner"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// counter is a handler: it says what it implements and whether it is ready, and carries out
// calls. This one counts the characters of an expression.
type counter struct{}

const evaluate = capabilities.CapabilityID("tyrum.browser.evaluate")

func (counter) Capabilities() []capabilities.CapabilityID {
	return []capabilities.CapabilityID{evaluate}
}

func (counter) Readiness(context.Context) []capabilities.Readiness {
	return []capabilities.Readiness{{Capability: evaluate, Isolation: capabilities.ClassT2}}
}

func (counter) Handle(_ context.Context, call capabilities.Invocation) (capabilities.Output, error) {
	return capabilities.Output{
		Result: map[string]any{"result": len(call.Args)},
		Effect: capabilities.EffectConfirmed, Evidence: "counted",
	}, nil
}

func (counter) CloseLane(capabilities.LaneID) {}
func (counter) Close() error                  { return nil }

// open is a guard that lets everything run; a node has agent/guard here.
type open struct{}

func (open) Check(context.Context, *wire.Ticket, capabilities.Readiness) *capabilities.Error {
	return nil
}

func (open) Still(*wire.Ticket, capabilities.Readiness) *capabilities.Error { return nil }

func (open) Reaches(*wire.Ticket, capabilities.Readiness, string) *capabilities.Error { return nil }

// printer is a sink that prints the answer; a node has the call's stream here. The
// embedded Sink stands for what this call does not use.
type printer struct{ runner.Sink }

func (printer) Answer(a wire.Answer, _ [][]byte) {
	fmt.Println(a.Status, string(a.Output), a.Effect, "by what was", a.Evidence)
}

// A handler is registered on a runner, which carries out the gateway's tickets: the journal
// knows of a call before its handler starts, and how it ended before the answer leaves.
func Example() {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	log, err := journal.Open(journal.Options{Dir: dir, Chain: "n1", Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))})
	if err != nil {
		panic(err)
	}
	defer log.Close()
	tools, err := catalog.Embedded()
	if err != nil {
		panic(err)
	}
	r, err := runner.New(runner.Options{Handlers: []capabilities.Handler{counter{}}, Catalog: tools, Guard: open{}, Journal: log})
	if err != nil {
		panic(err)
	}
	defer r.Close()

	args := []byte(`{"expression":"6*7"}`)
	r.Serve(context.Background(), &wire.Ticket{
		Call: "c1", Tool: evaluate.Tool(), Capability: evaluate, Lane: "main", Node: "n1",
		Args: args, ArgsDigest: sha256.Sum256(args), Grants: []string{"network.browser.session"}, LifetimeMS: 60_000, DeadlineMS: 60_000,
	}, printer{})
	fmt.Println(r.States(context.Background(), &wire.JournalAsk{Calls: []capabilities.CallID{"c1"}})[0].State)
	// Output:
	// ok {"result":20} confirmed by what was counted
	// finished
}
