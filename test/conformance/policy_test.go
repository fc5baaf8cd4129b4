package conformance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// The pools that generated policies are drawn from. Scopes of tools and of keys are
// apart: only a forbid may name a key.
var (
	policyPrincipals = []string{
		"principal", "principal", `principal == Agent::"alice"`, `principal is User`, `principal in Role::"agent"`, `principal in Role::"admin"`, `principal in Lane::"work"`,
	}
	policyResources = []string{"resource", "resource", `resource == Node::"n1"`, `resource is Node`, `resource is Provider`}
	policyActions   = []string{
		"action", "action", `action == Action::"tool.browser.navigate"`, `action in Action::"family:browser"`, `action in Action::"read"`, `action in Action::"effect"`,
		`action in Action::"effect:external"`, `action in [Action::"tool.browser.click", Action::"tool.browser.launch", Action::"tool.desktop.screenshot"]`, `action in Action::"all"`,
	}
	policyKeys = []string{
		`action in Action::"keys"`, `action in Action::"keys:ui"`, `action == Action::"key:ui.session.persist_state"`, `action == Action::"key:network.browser.session"`,
		`action in Action::"keys:data"`,
	}
	policyConditions = []string{
		`context.consent`, `!context.consent`, `context.given == "t2"`, `context.lane like "w*"`, `context.taint.contains("browser")`, `context.taint.isEmpty()`,
		`context.keys.containsAny(["network.browser.session", "privileged.input.inject"])`, `context.risk == "high" || context.risk == "critical"`,
		`principal.role == "agent"`, `resource is Node && resource.labels.contains("office")`, `resource is Node && resource.trust == "owner"`,
		`context.args has host && context.args.host like "*.example"`, `context.args has address && context.args.address == "public"`,
		`if context.args has host then context.consent else context.tool like "tool.browser.*"`, `context.time > 1700000000`,
		`context.time + 9223372036854775807 > 0`,                               // always fails
		`context.args has port && context.args.port + 9223372036854775807 > 0`, // fails for what has a port
	}
	policyArgs = map[capabilities.ToolID][]string{
		"tool.browser.navigate":   {`{"url":"https://a.example/"}`, `{"url":"http://8.8.8.8/"}`, `{"url":"about:blank"}`, `{"url":"http://127.0.0.1:3000/x"}`},
		"tool.browser.click":      {`{"ref":"e1"}`},
		"tool.browser.launch":     {`{}`, `{"headless":true}`},
		"tool.desktop.screenshot": {`{}`},
		"tool.desktop.mouse":      {`{"action":"move","x":1,"y":2}`},
		"tool.node.list":          {`{}`},
	}
)

type wasmPolicy struct {
	ID    string `json:"id"`
	Text  string `json:"text"`
	Names bool   `json:"names_keys"`
}

type wasmSet struct {
	Policies []wasmPolicy `json:"policies"`
	Cases    []any        `json:"cases"`
}

func drawPolicy(r *rand.Rand, n int) wasmPolicy {
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	effect, action, names := "permit", pick(policyActions), false
	if r.IntN(5) < 2 {
		effect = "forbid"
		if r.IntN(2) == 0 {
			action, names = pick(policyKeys), true
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s, %s, %s)", effect, pick(policyPrincipals), action, pick(policyResources))
	for range r.IntN(3) {
		condition := pick(policyConditions)
		if names && strings.Contains(condition, "context.args") {
			continue // keys have no arguments
		}
		fmt.Fprintf(&b, " %s { %s }", pick([]string{"when", "unless"}), condition)
	}
	return wasmPolicy{fmt.Sprintf("p%d", n), b.String() + ";", names}
}

func uid(kind, id string) map[string]any { return map[string]any{"type": kind, "id": id} }

// wasmCase writes a request down as Cedar takes it, from the rules of docs/policy.md
// and without our translation.
func wasmCase(cat *catalog.Catalog, q policy.Request) any {
	d, _ := cat.Get(q.Tool)
	keys := d.Manifest.Keys()
	kind, resource := "Agent", uid("Provider", "gateway")
	if q.User {
		kind = "User"
	}
	family := strings.Split(string(q.Tool), ".")[1]
	reach := "effect"
	if d.SideEffects == catalog.EffectsNone {
		reach = "read"
	}
	groups := []any{uid("Action", "all"), uid("Action", "family:"+family), uid("Action", "effect:"+string(d.SideEffects)), uid("Action", reach)}
	none := []any{}
	entities := []any{
		map[string]any{"uid": uid(kind, string(q.Principal)), "attrs": map[string]any{"role": q.Role}, "parents": []any{uid("Role", q.Role), uid("Lane", string(q.Lane))}},
		map[string]any{"uid": uid("Action", string(q.Tool)), "attrs": map[string]any{}, "parents": groups},
	}
	given := ""
	if d.NodeCapability() != "" {
		resource, given = uid("Node", string(q.Node.ID)), string(q.Given)
		entities = append(entities, map[string]any{"uid": resource, "parents": none, "attrs": map[string]any{
			"label": q.Node.Label, "platform": q.Node.Platform, "trust": q.Node.Trust, "labels": q.Node.Labels,
		}})
	} else {
		entities = append(entities, map[string]any{"uid": resource, "parents": none, "attrs": map[string]any{}})
	}
	privileged := false
	for _, k := range keys {
		category := strings.Split(k, ".")[0]
		privileged = privileged || category == "privileged"
		entities = append(entities, map[string]any{"uid": uid("Action", "key:"+k), "attrs": map[string]any{}, "parents": []any{uid("Action", "keys"), uid("Action", "keys:"+category)}})
	}
	args := map[string]any{}
	_ = json.Unmarshal(q.Args, &args)
	if q.Tool == "tool.browser.navigate" {
		for name, v := range map[string][5]any{
			"https://a.example/":      {"name", "a.example", "https://a.example", 443, "https"},
			"http://8.8.8.8/":         {"public", "8.8.8.8", "http://8.8.8.8", 80, "http"},
			"about:blank":             {"none", "", "", 0, "about"},
			"http://127.0.0.1:3000/x": {"loopback", "127.0.0.1", "http://127.0.0.1:3000", 3000, "http"},
		} {
			if args["url"] == name {
				args["address"], args["host"], args["origin"], args["port"], args["scheme"] = v[0], v[1], v[2], v[3], v[4]
			}
		}
	}
	profile := policy.NewProfile(d)
	return map[string]any{
		"principal": uid(kind, string(q.Principal)), "action": string(q.Tool), "resource": resource, "entities": entities,
		"keys": keys, "optional": append([]string{}, d.Optional...), "privileged": privileged,
		"context": map[string]any{
			"tool": q.Tool, "lane": q.Lane, "keys": keys, "risk": profile.Risk, "isolation": profile.Isolation, "given": given, "degraded": "",
			"taint": append([]string{}, q.Taint...), "time": q.Time.Unix(), "args": args,
		},
	}
}

// Our decisions are those of Cedar's own implementation, over generated policies and
// requests; the steps around it are written a second time in cedar.mjs.
func TestDecisionsOfAnotherImplementation(t *testing.T) {
	dir := packages(t)
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	tools := []capabilities.ToolID{}
	for id := range policyArgs {
		tools = append(tools, id)
	}
	slices.Sort(tools)
	const sets, each = 200, 8
	var all []wasmSet
	var want [][]string
	counts := map[string]int{}
	for tries := 0; len(all) < sets; tries++ {
		if tries > 10*sets {
			t.Fatal("the generator finds no policies that load")
		}
		var set wasmSet
		var text strings.Builder
		for n := range 1 + r.IntN(6) {
			p := drawPolicy(r, n)
			set.Policies = append(set.Policies, p)
			fmt.Fprintf(&text, "@id(%q)\n%s\n", p.ID, p.Text)
		}
		engine, err := policy.Load([]policy.Source{{Name: "a.cedar", Data: []byte(text.String())}}, cat)
		if err != nil {
			if !strings.Contains(err.Error(), "unable to find an applicable action") {
				t.Fatalf("%v\n%s", err, text.String())
			}
			continue // a rule that can never apply does not load
		}
		var effects []string
		for range each {
			tool := tools[r.IntN(len(tools))]
			role := []string{"agent", "admin"}[r.IntN(2)]
			q := policy.Request{
				Principal: []capabilities.PrincipalID{"alice", "bob"}[r.IntN(2)], User: role != "agent", Role: role, Tool: tool,
				Lane: []capabilities.LaneID{"work", "play"}[r.IntN(2)], Args: []byte(policyArgs[tool][r.IntN(len(policyArgs[tool]))]),
				Given: capabilities.ClassSession, Time: time.Unix(1_800_000_000, 0), Taint: [][]string{nil, {"browser"}, {"browser", "desktop"}}[r.IntN(3)],
				Node: policy.Node{ID: []capabilities.NodeID{"n1", "n2"}[r.IntN(2)], Label: "desk", Platform: "linux", Trust: []string{"owner", "guest"}[r.IntN(2)], Labels: [][]string{{}, {"office"}}[r.IntN(2)]},
			}
			if d, _ := cat.Get(tool); d.NodeCapability() == "" {
				q.Node = policy.Node{}
			}
			if strings.HasPrefix(string(tool), "tool.browser.") && r.IntN(2) == 0 {
				q.Given = capabilities.ClassT2
			}
			effect := engine.Decide(q).Effect.String()
			counts[effect]++
			effects = append(effects, effect)
			set.Cases = append(set.Cases, wasmCase(cat, q))
		}
		all, want = append(all, set), append(want, effects)
	}
	for _, effect := range []string{"allow", "ask", "deny"} {
		if counts[effect] < sets*each/50 {
			t.Errorf("only %d of %d calls were decided %s: the generator says little", counts[effect], sets*each, effect)
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sets.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("testdata/cedar.mjs")
	if err != nil {
		t.Fatal(err)
	}
	modules := filepath.Join(dir, "node_modules")
	cmd := exec.CommandContext(t.Context(), filepath.Join(modules, ".bin", "node"), script, modules, file)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, out)
	}
	var got [][]string
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	wrong := 0
	for i := range want {
		for j := range want[i] {
			if got[i][j] != want[i][j] && wrong < 3 {
				wrong++
				c, _ := json.Marshal(all[i].Cases[j])
				p, _ := json.MarshalIndent(all[i].Policies, "", " ")
				t.Errorf("ours %s, Cedar's %s\n%s\n%s", want[i][j], got[i][j], p, c)
			}
		}
	}
	t.Logf("%d decisions compared: %v", sets*each, counts)
}
