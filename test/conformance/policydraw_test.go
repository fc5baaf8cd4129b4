package conformance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// drawer makes policies and calls. The same seed makes the same ones.
type drawer struct {
	*rand.Rand
	tools []*catalog.Descriptor
	keys  []string
}

func newDrawer(cat *catalog.Catalog, seed uint64) *drawer {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 1)), tools: slices.DeleteFunc(slices.Clone(cat.All()), func(t *catalog.Descriptor) bool {
		return t.Surface != "" // an admin's own work is nobody's call
	})}
	for _, t := range d.tools {
		for _, k := range t.Manifest.Keys() {
			if !slices.Contains(d.keys, k) {
				d.keys = append(d.keys, k)
			}
		}
	}
	return d
}

func pick[T any](d *drawer, list ...T) T { return list[d.IntN(len(list))] }

// one says yes once in n times.
func (d *drawer) one(n int) bool { return d.IntN(n) == 0 }

// Texts that stand both in policies and in calls, so that they meet.
var (
	drawnURLs = []string{
		"https://a.example/", "https://www.a.example/x?y=1", "http://8.8.8.8/", "about:blank", "data:text/html,x", "http://127.0.0.1:3000/x", "http://localhost/",
		"http://10.1.2.3:8080/", "http://169.254.169.254/latest", "http://2130706433/", "http://[::1]:99/", "https://[2606:4700::1111]/", "http://router/",
		"https://B\u00fccher.example/", "ftp2://x/", "http://db.internal/",
	}
	drawnTexts = []string{"", "e1", "a*b", "main", "snow\u2603", "delta", "png", "click", "primary", "kiosk", "left", "button"}
	drawnPaths = []string{"/srv/out/a.txt", "/srv/out/b/c.txt", "/srv/private/key", "/home/x"}
	drawnApps  = []string{"Mousepad", "keepassxc", " Calculator"}
)

// file draws a policy file. It begins with a permit as often as not, so that what
// follows has something to narrow.
func (d *drawer) file(rules int) string {
	var b strings.Builder
	for i, text := range []string{
		"permit (principal, action, resource)%s;", `permit (principal, action == Action::"isolation.accept-degraded", resource)%s;`,
	} {
		if d.one(2) {
			fmt.Fprintf(&b, "@id(\"f%d\")\n"+text+"\n", i, pick(d, "", " when { context.consent }"))
		}
	}
	// Both are rare by chance alone: a forbid that fails before a person consented and
	// not after, and a key that a tool works without.
	fails := "context.consent || context.time + 9223372036854775807 > 0"
	if d.one(6) {
		fmt.Fprintf(&b, "@id(\"f2\")\nforbid (principal, action, resource is Node) when { resource.trust == \"guest\" } unless { %s };\n", pick(d, fails, "context.consent"))
	}
	if d.one(6) {
		fmt.Fprintf(&b, "@id(\"f4\")\npermit (principal is Agent, action in Action::\"family:browser\", resource);\n")
		fmt.Fprintf(&b, "@id(\"f3\")\nforbid (principal is Agent, action == Action::\"key:ui.session.persist_state\", resource)%s;\n", pick(d, "", " unless { "+fails+" }"))
	}
	for i := range rules {
		b.WriteString(d.rule(i))
	}
	return b.String()
}

// rule draws one rule. Rules about keys are apart: only a forbid may name one, and a
// key's context has no arguments.
func (d *drawer) rule(n int) string {
	var b strings.Builder
	effect, action, keys := "permit", d.action(), false
	if d.IntN(5) < 2 {
		effect = "forbid"
		if keys = d.one(3); keys {
			action = d.keyScope()
		}
	} else if d.one(6) {
		action = `action == Action::"isolation.accept-degraded"`
		keys = true // has no arguments either
	}
	fmt.Fprintf(&b, "@id(\"r%d\")", n)
	if d.one(6) {
		b.WriteString(` @mode("log_only")`)
	}
	if d.one(8) {
		b.WriteString(` @why("what a person reads")`)
	}
	if effect == "permit" && d.one(12) {
		b.WriteString(` @approver("user")`)
	}
	principals := []string{"principal", "principal", `principal == Agent::"alice"`, "principal is User", `principal in Role::"agent"`, `principal is Agent in Lane::"work"`}
	resources := []string{"resource", "resource", "resource", `resource == Node::"n1"`, "resource is Node"}
	if action == "action" {
		resources = append(resources, "resource is Provider") // else it could never apply, and would not load
	}
	fmt.Fprintf(&b, "\n%s (%s, %s, %s)", effect, pick(d, principals...), action, pick(d, resources...))
	conditions := d.IntN(3)
	if keys {
		conditions = d.IntN(2)
	}
	for range conditions {
		fmt.Fprintf(&b, "\n  %s { %s }", pick(d, "when", "when", "unless"), d.boolean(2, !keys))
	}
	if keys && d.one(2) {
		b.WriteString("\n  unless { context.consent }") // an escalation
	}
	return b.String() + ";\n"
}

func (d *drawer) action() string {
	tool := func() string { return fmt.Sprintf("Action::%q", d.tools[d.IntN(len(d.tools))].Tool) }
	switch d.IntN(10) {
	case 0:
		return "action == " + tool()
	case 1:
		return fmt.Sprintf("action in [%s, %s, Action::\"family:%s\"]", tool(), tool(), pick(d, "browser", "desktop", "secret"))
	case 2:
		return `action in Action::"family:` + pick(d, "browser", "desktop", "camera") + `"`
	case 3:
		return `action in Action::"effect:` + pick(d, "none", "local", "external") + `"`
	case 4:
		return `action in Action::"` + pick(d, "read", "effect", "all") + `"`
	}
	return "action"
}

func (d *drawer) keyScope() string {
	key := func() string { return fmt.Sprintf("Action::%q", "key:"+pick(d, d.keys...)) }
	switch d.IntN(5) {
	case 0:
		return `action in Action::"keys"`
	case 1:
		return `action in Action::"keys:` + pick(d, "ui", "network", "data") + `"`
	case 2:
		return fmt.Sprintf("action in [%s, %s]", key(), key())
	}
	return "action == " + pick(d, key(), `Action::"key:ui.session.persist_state"`, `Action::"key:ui.session.persist_state"`)
}

// boolean draws a condition; depth bounds it, args says whether context.args has
// anything.
func (d *drawer) boolean(depth int, args bool) string {
	if depth > 0 && d.one(2) {
		a, b := d.boolean(depth-1, args), d.boolean(depth-1, args)
		switch d.IntN(4) {
		case 0:
			return "(" + a + " && " + b + ")"
		case 1:
			return "(" + a + " || " + b + ")"
		case 2:
			return "!(" + a + ")"
		}
		return "(if " + a + " then " + b + " else " + d.boolean(depth-1, args) + ")"
	}
	if args && d.one(3) {
		return d.ofArgs()
	}
	switch d.IntN(10) {
	case 0, 1:
		return "context.consent"
	case 9: // fails, always or under one value of consent
		fails := "context.time + 9223372036854775807 > 0"
		return pick(d, fails, "(context.consent || "+fails+")", "(!context.consent || "+fails+")")
	case 2:
		return d.text(pick(d, "context.lane", "context.risk", "context.given", "context.degraded", "context.isolation", "context.tool", "principal.role"),
			"work", "high", "t2", "session", "chrome_sandbox", "tool.browser.navigate", "agent")
	case 3:
		return d.set(pick(d, "context.taint", "context.keys"), append([]string{"browser", "desktop"}, d.keys...))
	case 4:
		return d.long("context.time", 1_800_000_000)
	case 5:
		return pick(d, `principal in Role::"admin"`, `principal in Lane::"work"`, `principal == User::"bob"`, `principal in [Role::"agent", Lane::"play"]`,
			"principal is Agent", `principal is User in Role::"admin"`)
	case 6:
		return "(resource is Node && " + pick(d, d.text("resource.trust", "owner", "guest"), d.text("resource.label", "desk", "*k"),
			d.set("resource.labels", []string{"office", "lab"}), `resource.platform == "linux"`, `resource == Node::"n1"`) + ")"
	case 7:
		return d.extension()
	}
	return pick(d, `context has consent`, `{"time": context.time, "lane": "x"} has lane`, `({"lane": context.lane}).lane == "work"`, `[1, context.time].contains(1)`,
		`[[context.lane], ["play"]].contains(["work"])`, `principal has role`)
}

// ofArgs draws a condition about an argument that a call may have or not.
func (d *drawer) ofArgs() string {
	var name, condition string
	switch d.IntN(5) {
	case 0:
		name = pick(d, "host", "origin", "address", "scheme", "url")
		condition = d.text("context.args."+name, "a.example", "*.example", "xn--*", "127.0.0.1", "http*", "public", "none", "loopback", "https://a.example", "::1", "https")
	case 1:
		name = pick(d, "ref", "snapshot", "format", "application", "root", "profile")
		condition = d.text("context.args."+name, "e1", "delta", "png", "mousepad", "keepassxc", "/srv/out/", "/srv/*", "*☃", "", "a\\*b")
	case 2:
		name = pick(d, "port", "width", "limit", "duration_ms", "count")
		condition = d.long("context.args."+name, 443)
	case 3:
		name = pick(d, "clear", "submit", "headless", "full_page")
		condition = "context.args." + name
	default:
		name = pick(d, "paths", "types")
		condition = d.set("context.args."+name, append([]string{"document", "script"}, drawnPaths...))
	}
	has := "context.args has " + name
	if d.one(5) {
		return has
	}
	return "(" + has + " && " + condition + ")"
}

func (d *drawer) text(of string, values ...string) string {
	v := pick(d, values...)
	if strings.Contains(v, "*") || d.one(3) {
		if d.one(2) {
			v = "*" + v
		}
		return fmt.Sprintf("%s like \"%s\"", of, v)
	}
	return fmt.Sprintf("%s %s %q", of, pick(d, "==", "==", "!="), v)
}

func (d *drawer) set(of string, values []string) string {
	v, w := pick(d, values...), pick(d, values...)
	return pick(d, fmt.Sprintf("%s.contains(%q)", of, v), fmt.Sprintf("%s.containsAny([%q, %q])", of, v, w),
		fmt.Sprintf("%s.containsAll([%q, %q])", of, v, w), of+".isEmpty()", fmt.Sprintf("%s == [%q]", of, v))
}

func (d *drawer) long(of string, near int) string {
	value := of + pick(d, "", "", " + 1", " * 2", " - 9223372036854775807 - 2", " * 9223372036854775807")
	return fmt.Sprintf("%s %s %d", value, pick(d, "<", "<=", ">", ">=", "==", "!="), near+d.IntN(3)-1)
}

func (d *drawer) extension() string {
	ip := func() string {
		return fmt.Sprintf("ip(%q)", pick(d, "10.1.2.3", "127.0.0.1", "::1", "10.0.0.0/8", "fe80::/10", "224.0.0.1", "192.168.0.0/16"))
	}
	number := func() string { return fmt.Sprintf("decimal(%q)", pick(d, "0.0", "1.5", "-3.25", "922.0001", "1.50")) }
	return pick(d, ip()+".isInRange("+ip()+")", ip()+"."+pick(d, "isLoopback", "isIpv4", "isIpv6", "isMulticast")+"()", ip()+" == "+ip(),
		number()+"."+pick(d, "lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual")+"("+number()+")", number()+" == "+number(),
		`datetime("2026-11-21T08:00:00Z") < datetime("2026-12-01")`, `duration("1h30m").toMinutes() == 90`)
}

// mistaken draws a rule that must not load: something is missing, misspelled or of
// another type.
func (d *drawer) mistaken(n int) string {
	return fmt.Sprintf("@id(\"m%d\")\npermit (principal, %s, resource) when { %s };\n", n,
		pick(d, "action", `action == Action::"tool.browser.navigate"`, `action in Action::"family:browser"`),
		pick(d, `context.args.url == "x" && context.args.nothing == "x"`, `context.consnet`, `context.time == "x"`, `context.lane > 3`, `principal.rolle == "agent"`,
			`resource.trust.contains("x")`, `context.taint.contains(3)`, `context.args has host && context.args.host > 1`, `Lane::"work" in context`,
			`context.args.snapshot == "full"`, `if context.lane then true else false`, `context.consent + 1 > 0`, `ip(context.lane).isLoopback()`))
}

// call draws a call of any tool of the catalog.
func (d *drawer) call() (policy.Request, map[string]any) {
	t := d.tools[d.IntN(len(d.tools))]
	if d.one(3) {
		// Those that most rules look at: an address, and a key that is optional.
		id := pick[capabilities.ToolID](d, "tool.browser.navigate", "tool.browser.launch")
		t = d.tools[slices.IndexFunc(d.tools, func(t *catalog.Descriptor) bool { return t.Tool == id })]
	}
	var schema drawnSchema
	if err := json.Unmarshal(t.Input, &schema); err != nil {
		panic(err)
	}
	args := d.object(schema)
	data, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	role := pick(d, "agent", "agent", "operator", "admin")
	q := policy.Request{
		Principal: pick[capabilities.PrincipalID](d, "alice", "bob"), User: role != "agent", Role: role, Tool: t.Tool, Lane: pick[capabilities.LaneID](d, "work", "play"),
		Args: data, Time: time.Unix(1_800_000_000+int64(d.IntN(2)), 0), Taint: pick(d, []string{}, []string{"browser"}, []string{"browser", "desktop"}),
		Given: pick(d, capabilities.ClassSession, capabilities.ClassSession, capabilities.ClassSession, capabilities.ClassT2, capabilities.ClassT1), Degraded: pick(d, "", "", "", "", "chrome_sandbox"),
		Node: policy.Node{ID: pick[capabilities.NodeID](d, "n1", "n2"), Label: "desk", Platform: pick(d, "linux", "windows"), Trust: pick(d, "owner", "guest"),
			Labels: pick(d, []string{}, []string{"office"}, []string{"office", "lab"})},
	}
	if t.NodeCapability() == "" {
		q.Node = policy.Node{}
	}
	return q, map[string]any{
		"tool": q.Tool, "principal": q.Principal, "user": q.User, "role": q.Role, "lane": q.Lane, "args": args, "time": q.Time.Unix(), "taint": q.Taint,
		"given": q.Given, "degraded": q.Degraded,
		"node": map[string]any{"id": q.Node.ID, "label": q.Node.Label, "platform": q.Node.Platform, "trust": q.Node.Trust, "labels": append([]string{}, q.Node.Labels...)},
	}
}

// drawnSchema is what the generator of arguments reads of a JSON Schema.
type drawnSchema struct {
	Type       string                 `json:"type"`
	Enum       []string               `json:"enum"`
	Items      *drawnSchema           `json:"items"`
	Properties map[string]drawnSchema `json:"properties"`
}

func (d *drawer) object(s drawnSchema) map[string]any {
	out := map[string]any{}
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if name != "url" && d.one(2) {
			continue
		}
		if v := d.value(name, s.Properties[name]); v != nil {
			out[name] = v
		}
	}
	return out
}

func (d *drawer) value(name string, s drawnSchema) any {
	switch {
	case len(s.Enum) > 0:
		return pick(d, s.Enum...)
	case name == "url":
		return pick(d, drawnURLs...)
	case name == "app":
		return pick(d, drawnApps...)
	}
	switch s.Type {
	case "string":
		return pick(d, drawnTexts...)
	case "boolean":
		return d.one(2)
	case "integer":
		return pick(d, 0, 1, 443, 444, 9007199254740991)
	case "array":
		if s.Items == nil || (s.Items.Type != "string" && len(s.Items.Enum) == 0) {
			return nil
		}
		list := []any{}
		for range 1 + d.IntN(3) {
			if name == "paths" {
				list = append(list, pick(d, drawnPaths...))
			} else {
				list = append(list, d.value("", *s.Items))
			}
		}
		return list
	case "object":
		return d.object(s)
	}
	return nil
}
