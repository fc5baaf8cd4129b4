package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Mutation is a fault that is planted in the program, to see that a run finds it.
type Mutation struct {
	Name    string
	Changes []Change
	Kinds   []Kind // of faults, which a run has more of: those that show it
	Long    bool   // faults that may outlast the leases of gateways do
	Clerks  int    // who do admin work all the time, besides that of each run
	Finds   []Rule // one of them at least has to be broken
}

// Change replaces a text of a source file that stands there once.
type Change struct{ File, Old, New string }

// Mutations are the planted faults.
var Mutations = []Mutation{
	{
		Name: "acknowledge before the commit",
		Changes: []Change{
			{"gateway/dispatch/internal/durable/durable.go", "\terr := s.Write(ctx, func(tx *store.Tx) error {\n", "\twrite := func(tx *store.Tx) error {\n"},
			{
				"gateway/dispatch/internal/durable/durable.go", "\t\treturn err\n\t})\n\tif err != nil {\n\t\treturn nil, err\n\t}\n\treturn &Committed[T]",
				"\t\treturn err\n\t}\n\tgo func() {\n\t\ttime.Sleep(50 * time.Millisecond)\n\t\t_ = s.Write(context.WithoutCancel(ctx), write)\n\t}()\n\treturn &Committed[T]",
			},
			{"gateway/dispatch/internal/durable/durable.go", "\t\"errors\"\n", "\t\"errors\"\n\t\"time\"\n"},
		},
		Kinds: []Kind{KillGateway, KillDatabase},
		Finds: []Rule{Unrecorded},
	},
	{
		Name: "a database that does not keep what it acknowledged",
		Changes: []Change{{
			"gateway/store/postgres.go", "\tif commits == \"off\" || commits == \"local\" {\n\t\t_, err := s.own.Exec(ctx, \"SET synchronous_commit = on\")",
			"\tif commits != \"\" {\n\t\t_, err := s.own.Exec(ctx, \"SET synchronous_commit = off\")",
		}},
		Kinds: []Kind{KillDatabase},
		Finds: []Rule{Unrecorded, Untold, Chain, Lost, Ordered},
	},
	{
		Name: "a node that forgets what it started",
		Changes: []Change{{
			"agent/journal/journal.go", "\terr := j.appendLocked(spare, KindStarted, func(b []byte) []byte {\n\t\tb = chain.AppendField(b, t.Call)\n",
			"\terr := error(nil)\n\t_ = func() error { return j.appendLocked(spare, KindStarted, func(b []byte) []byte {\n\t\tb = chain.AppendField(b, t.Call)\n",
		}, {
			"agent/journal/journal.go",
			"\t\t\tb = chain.AppendField(b, t.Parent)\n\t\t}\n\t\treturn b\n\t})\n\tif err != nil {\n\t\tj.mu.Unlock()\n\t\treturn err\n\t}\n\tj.index.set(t.Call, known{state: wire.StateRunning",
			"\t\t\tb = chain.AppendField(b, t.Parent)\n\t\t}\n\t\treturn b\n\t}) }\n\tif err != nil {\n\t\tj.mu.Unlock()\n\t\treturn err\n\t}\n\tj.index.set(t.Call, known{state: wire.StateRunning",
		}, {
			"agent/journal/journal.go", "\terr := j.usableLocked()\n\tif err == nil {\n\t\terr = j.appendLocked(0, KindFinished,",
			"\terr := j.usableLocked()\n\tif false {\n\t\terr = j.appendLocked(0, KindFinished,",
		}},
		Kinds: []Kind{KillNode},
		Finds: []Rule{Twice, Denied, Ordered},
	},
	{
		// No comma: its folder has the name, and is in the address of a database.
		Name: "no look at the epoch of a place nor whether who asks is still in",
		Changes: []Change{
			{"gateway/nodes/far.go", "(s == nil || s.place.Load() != ask.Epoch)", "s == nil"},
			{"gateway/nodes/far.go", "\tif ask.Word == \"\" || !p.n.word(ask.Word).always {\n", "\tif ask.Word != \"\" && !p.n.word(ask.Word).always {\n"},
			{"gateway/nodes/far.go", "\tif first { // whoever", "\tif first && false { // whoever"},
			{"gateway/nodes/far.go", "\tif r.cut {\n\t\treturn false, nil\n\t}\n", ""},
			// A gateway that stands still does so most often here then.
			{"gateway/dispatch/send.go", "\to.passed(capabilities.HopSend)\n", "\ttime.Sleep(time.Second)\n\to.passed(capabilities.HopSend)\n"},
		},
		// Only a gateway that stands still for longer than its lease is put out and says something yet.
		Kinds: []Kind{FreezeGateway},
		Long:  true,
		Finds: []Rule{Twice, Denied, Ordered, Ends},
	},
	{
		Name: "a grant that is never used up",
		Changes: []Change{
			{"gateway/consent/consent.go", " AND (max_uses = 0 OR used < max_uses) AND expires_ms > $2`", " AND expires_ms > $2`"},
		},
		Kinds: []Kind{EndGateway},
		Finds: []Rule{Overspent},
	},
	{
		Name: "a request that other gateways do not hear of",
		Changes: []Change{
			{"gateway/opencalls/member.go", "\tc.Member = b.opts.Store.Member()\n", "\tc.Member, c.Request = b.opts.Store.Member(), \"\"\n"},
		},
		Kinds: []Kind{KillGateway, FreezeNode},
		Finds: []Rule{Twice, Ordered},
	},
	{
		Name: "what is lost is said not to have started",
		Changes: []Change{{
			"gateway/dispatch/send.go", "\te := capabilities.AsError(err)\n\t// A node",
			"\te := capabilities.AsError(err)\n\tif e.Code == capabilities.CodeUnknownOutcome {\n\t\te = &capabilities.Error{Code: capabilities.CodeNodeDisconnected}\n\t}\n\t// A node",
		}},
		Kinds: []Kind{KillNode, KillGateway, CutNodes},
		Finds: []Rule{Twice, Denied, Ordered},
	},
	{
		Name: "a stop that calls do not look at",
		Changes: []Change{
			{"gateway/dispatch/stop.go", "\tif _, on := d.opts.Stop(); on {\n", "\tif _, on := d.opts.Stop(); on && false {\n"},
		},
		Kinds: []Kind{StopAll},
		Finds: []Rule{Stopped},
	},
	{
		Name: "the calls of a gateway that is gone stay open",
		Changes: []Change{
			{"gateway/dispatch/recover.go", "\trows, err := d.open.TakeIn(tx, member)\n", "\trows, err := d.open.TakeIn(tx, member+\"-\")\n"},
		},
		Kinds: []Kind{KillGateway},
		Finds: []Rule{Endless},
	},
	{
		Name: "admin work is ended by whoever starts",
		Changes: []Change{
			{"gateway/opencalls/mark.go", "\t\tcase p.Tool.Family() == adminFamily:\n", ""},
			// A gateway starts while admin work of another is between its two commits most often then.
			{"gateway/admin/admin.go", "\terr = work(ctx)\n\tended = true\n", "\ttime.Sleep(2 * time.Second)\n\terr = work(ctx)\n\tended = true\n"},
		},
		Kinds:  []Kind{KillGateway, EndGateway},
		Clerks: 12,
		Finds:  []Rule{Ends, Endless},
	},
}

// Overlay writes the changed sources to a folder, and a file for the go command's -overlay beside
// them, which it returns. root is the folder of the module.
func (m *Mutation) Overlay(root, dir string) (string, error) {
	texts := map[string]string{}
	for _, c := range m.Changes {
		at := filepath.Join(root, filepath.FromSlash(c.File))
		if _, ok := texts[at]; !ok {
			text, err := os.ReadFile(at)
			if err != nil {
				return "", err
			}
			texts[at] = string(text)
		}
		if n := strings.Count(texts[at], c.Old); n != 1 {
			return "", fmt.Errorf("%s: %s has its text %d times", m.Name, c.File, n)
		}
		texts[at] = strings.Replace(texts[at], c.Old, c.New, 1)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for at, text := range texts {
		changed := filepath.Join(dir, fmt.Sprintf("%d.go", len(overlay.Replace)))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[at] = changed
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}
