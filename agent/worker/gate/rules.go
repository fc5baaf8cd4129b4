package gate

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/handrail-dev/handrail/agent/worker/intent"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// kind is all that the table asks of an imported tool. Tools of one kind have one verdict, so that
// rules are compiled for a few kinds and not for thousands of tools.
type kind struct {
	keys  string // sorted, one a word
	reads bool
}

func kindOf(t *Tool) kind {
	keys := slices.Clone(t.Keys)
	slices.Sort(keys)
	return kind{strings.Join(slices.Compact(keys), " "), t.Reads}
}

// id is the name by which Cedar knows a kind.
func (k kind) id() capabilities.ToolID {
	return capabilities.ToolID(fmt.Sprintf("tool.imported.%t %s", k.reads, k.keys))
}

// kindsOf returns the kinds of the imported tools among some, sorted.
func kindsOf(offered []Tool) (all []kind) {
	for i := range offered {
		if offered[i].imported() {
			if k := kindOf(&offered[i]); !slices.Contains(all, k) {
				all = append(all, k)
			}
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].id() < all[j].id() })
	return all
}

// descriptor is an imported tool of a kind, as far as rules can look at it.
func (k kind) descriptor() *catalog.Descriptor {
	d := known(k.id())
	d.Provider, d.SideEffects = "imported", catalog.EffectsExternal
	if k.reads {
		d.SideEffects = catalog.EffectsNone
	}
	for _, key := range strings.Fields(k.keys) {
		category, rest, _ := strings.Cut(key, ".")
		switch category {
		case "execution":
			d.Manifest.Execution = append(d.Manifest.Execution, rest)
		case "ui":
			d.Manifest.UI = append(d.Manifest.UI, rest)
		case "data":
			d.Manifest.Data = append(d.Manifest.Data, rest)
		case "network":
			d.Manifest.Network = append(d.Manifest.Network, rest)
		default: // one of no known category is more than any intent opens
			d.Manifest.Privileged = append(d.Manifest.Privileged, rest)
		}
	}
	return d
}

// known is a tool by its name alone.
func known(id capabilities.ToolID) *catalog.Descriptor {
	return &catalog.Descriptor{
		Tool: id, Provider: id.Family(), SideEffects: catalog.EffectsExternal, Routing: catalog.Routing{Target: catalog.TargetGateway},
	}
}

// vocabulary is the tools that the rules of the table can speak about.
type vocabulary []*catalog.Descriptor

func (v vocabulary) All() []*catalog.Descriptor { return v }

// rules writes the rows of an intent as Cedar. A tool that no row permits is forbidden.
func rules(n intent.Name) []byte {
	var b strings.Builder
	quoted := func(words []string, form string) string {
		var list []string
		for _, w := range words {
			list = append(list, fmt.Sprintf(form, w))
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	var named, families []string
	for _, id := range table[n] {
		named = append(named, string(id))
	}
	if len(named) > 0 {
		fmt.Fprintf(&b, "@id(\"%s\")\npermit (principal, action in %s, resource);\n", n, quoted(named, "Action::%q"))
	}
	row, ok := imports[n]
	if !ok {
		return []byte(b.String())
	}
	for _, row := range byCapability {
		for _, id := range row.tools {
			if !slices.Contains(families, id.Family()) {
				families = append(families, id.Family())
			}
		}
	}
	reads := ""
	if row.reads {
		reads = `action in Action::"read" && `
	}
	fmt.Fprintf(&b, "@id(\"%s.imported\")\npermit (principal, action, resource)\nwhen { %s%s.containsAll(context.keys) }\n",
		n, reads, quoted(row.keys, "%q"))
	fmt.Fprintf(&b, "unless { action in %s };\n", quoted(families, `Action::"family:%s"`))
	return []byte(b.String())
}

// judges are the verdicts of each intent's rules, by intent: an intent's rules are compiled and
// judged anew when tools of other kinds are imported, for nothing else changes a verdict.
var judges struct {
	mu  sync.Mutex
	all map[intent.Name]judge
}

// judge is the verdicts of an intent's rules. It never changes.
type judge struct {
	kinds   []kind
	permits map[capabilities.ToolID]bool // tools of the table, and kinds by their IDs
}

// judgeOf returns the verdicts of an intent's rules; false: it opens no tool.
func judgeOf(n intent.Name, offered []Tool) (judge, bool) {
	if len(table[n]) == 0 {
		return judge{}, false
	}
	kinds := kindsOf(offered)
	judges.mu.Lock()
	defer judges.mu.Unlock()
	if j, ok := judges.all[n]; ok && slices.Equal(j.kinds, kinds) {
		return j, true
	}
	j, err := compile(n, kinds)
	if err != nil {
		return judge{}, false // tests compile each row
	}
	if judges.all == nil {
		judges.all = map[intent.Name]judge{}
	}
	judges.all[n] = j
	return j, true
}

// compile has Cedar judge each tool of the table, and each kind, by the rules of an intent. A tool
// that declares privileged keys is at most asked about, and that is no yes.
func compile(n intent.Name, kinds []kind) (judge, error) {
	var v vocabulary
	for _, row := range byCapability {
		for _, id := range row.tools {
			v = append(v, known(id))
		}
	}
	for _, k := range kinds {
		v = append(v, k.descriptor())
	}
	engine, err := policy.Load([]policy.Source{{Name: string(n) + ".cedar", Data: rules(n)}}, v)
	if err != nil {
		return judge{}, err
	}
	j := judge{kinds, make(map[capabilities.ToolID]bool, len(v))}
	for _, d := range v {
		j.permits[d.Tool] = engine.Decide(policy.Request{Principal: "worker", Tool: d.Tool}).Effect == policy.Allow
	}
	return j, nil
}
