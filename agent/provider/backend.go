package provider

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// backend is one provider at work. Its methods are safe for concurrent use.
type backend interface {
	// manifest asks the provider what it offers now.
	manifest(ctx context.Context) (*tools.ToolManifest, error)
	// call carries out one call of a tool, by the provider's own name for it.
	call(ctx context.Context, c call) (capabilities.Output, error)
	// refused is where it wanted to connect and was not let, the newest first.
	refused() []egress.Refused
	// moved is how much went to and came from each host, where nobody can tell for which call.
	moved() map[string]uint64
	// changes is how often it changed something in each of its folders, where nobody can tell for
	// which call.
	changes() map[string]int
	// wrote is what it wanted to change outside its folders and was not let, with how often, where
	// nobody can tell for which call.
	wrote() map[string]int
	// tried is what else it was not granted and tried, with how often, where nobody can tell for which
	// call.
	tried() map[attempt]int
	// denied is what was written of that kind, to be told who looks at the provider, with how often.
	denied() map[string]int
	// hold keeps what goes out to the network back, or lets it go on.
	hold(on bool)
	// health says why calls would fail now, without asking the provider; nil: they would not,
	// as far as is known.
	health() *capabilities.Error
	// restart ends what runs with other credentials than those there are now, and its next call
	// starts it anew.
	restart(why change)
	// close ends what the backend started. Idempotent and bounded.
	close()
}

// call is one call as a backend sees it.
type call struct {
	id       capabilities.CallID
	upstream string
	hash     string          // of what a person approved of it
	request  *tools.Request  // of an HTTP API
	args     json.RawMessage // canonical
	class    capabilities.IsolationClass
	progress func(capabilities.Progress)
	reads    bool // it changes nothing, as a person approved
	spawns   bool // it declares that a program of its provider runs
	inv      capabilities.Invocation
}

// reached notes that the call had a connection to "host:port".
func (c *call) reached(target string) { c.inv.Observe(capabilities.KeyEgress, target) }

// ran notes that a program of the provider carries the call out, where its tool says that one may:
// one whose program starts no other declares nothing of it.
func (c *call) ran(p *tools.Provider) {
	if c.spawns {
		c.inv.Observe(capabilities.KeySpawn, p.Name)
	}
}

// unanswered is the error of a call that its provider had and did not answer: it was killed, say,
// or its connection ended. Nobody can tell how much a tool changed until then; one that only reads
// has changed nothing.
func (c *call) unanswered(e *capabilities.Error) *capabilities.Error {
	if c.reads {
		return e
	}
	out := *e
	out.Code, out.Passing = capabilities.CodeUnknownOutcome, false
	out.Message = strings.TrimSuffix(e.PublicMessage(), ".") + ". Whether it did what it was asked to is not known."
	return out.WithHint("Look at what it did before you repeat the call.")
}

// Starter starts programs in runners; cmd wires the platform's. It is safe for concurrent use.
type Starter interface {
	// Start starts a program. The context bounds its life.
	Start(ctx context.Context, p Program) (Process, error)
	// Class returns the isolation class that programs with such a reach get here, and what
	// that lacks; "" for nothing. The error says why none can be started, and the fix.
	Class(p Program) (class capabilities.IsolationClass, degraded string, err error)
	// Runs returns what such a program would run in: the names of the walls beyond its class's, and
	// the hash of its file, "" if it is not known.
	Runs(p Program) (deeper, program string)
}

// Program is what is to be started.
type Program struct {
	Argv  []string // the program, looked up in PATH if it is no path, and its arguments
	Env   []string // beside the few variables that every program gets
	Read  []string // folders that it may read
	Write []string // folders that it may write
	Own   []string // folders that were made for it alone
	// Class is the isolation class that it needs. Default: by its reach.
	Class capabilities.IsolationClass
	// Call says that it is the program of one call, and Keys are that call's effective keys, which
	// decide what it gets. Default: it serves many calls.
	Call bool
	Keys []string
	// Net is its way to the network, which may lead nowhere; nil: it opens no connection.
	Net *egress.Way
	// Refused is told of each socket that it wanted and did not get, in words; nil: Net is.
	Refused func(socket string)
	// Denied is told of what else it was not granted, tried and did not get, as a capability key with
	// a few words.
	Denied func(key, what string)
	// Wrote is told of each path outside its folders that it would have changed and was kept from.
	Wrote func(path string)
	// Changed is told of each folder of Write in which it changes something: once of the program of
	// one call, else with each change.
	Changed func(folder string)
	// Ran is told what it runs in, once its walls stand.
	Ran func(capabilities.Ran)
	// Missed is told of each path outside its folders that is there, and that it wanted to read. It
	// makes looking at files slower. Default: nobody is.
	Missed func(path string)
}

// Process is a running program.
type Process interface {
	Stdin() io.WriteCloser
	Stdout() io.Reader
	// Stderr returns the end of what it wrote there.
	Stderr() string
	// Scratch is a folder of its own that it may write, and that is gone after its end.
	Scratch() string
	// Wait returns its exit code after it and everything that it started has ended; -1 if it
	// was killed. The error says that it never started, since a wall was missing.
	Wait() (int, error)
	// Kill ends it and everything that it started. Idempotent.
	Kill()
}
