package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

func TestSplitArgs(t *testing.T) {
	for _, c := range []struct {
		tool      capabilities.ToolID
		raw, want string
		node      capabilities.NodeID
		timeout   time.Duration
		given     bool
	}{
		{"tool.browser.click", `{"timeout_ms":1500,"ref":"e1","node_id":"n1"}`, `{"ref":"e1"}`, "n1", 1500 * time.Millisecond, true},
		{"tool.browser.click", ` { "selector" : "a" , "count" : 2.0 } `, `{"count":2,"selector":"a"}`, "", 30 * time.Second, false},
		{"tool.browser.close", ``, `{}`, "", 30 * time.Second, false},
		{"tool.browser.type", `{"ref":"e1","text":""}`, `{"ref":"e1","text":""}`, "", 30 * time.Second, false},
		// Actions that own timeout_ms keep it; their dispatch outlasts it.
		{"tool.browser.wait-for", `{"timeout_ms":60000}`, `{"timeout_ms":60000}`, "", 65 * time.Second, false},
		{"tool.browser.wait-for", `{"timeout_ms":0}`, `{"timeout_ms":0}`, "", 35 * time.Second, false},
		{"tool.location.get", `{"timeout_ms":600000,"node_id":"n1"}`, `{"timeout_ms":600000}`, "n1", 605 * time.Second, false},
		{
			"tool.desktop.wait-for", `{"selector":{"kind":"ref","ref":"r"},"timeout_ms":9,"dispatch_timeout_ms":70}`,
			`{"selector":{"kind":"ref","ref":"r"},"timeout_ms":9}`, "", 70 * time.Millisecond, true,
		},
		{"tool.camera.capture-video", `{"duration_ms":300000}`, `{"duration_ms":300000}`, "", 360 * time.Second, false},
		{"tool.desktop.mouse", `{"action":"move","x":1.5,"y":-2,"duration_ms":9007199254740992}`, `{"action":"move","duration_ms":9007199254740992,"x":1.5,"y":-2}`, "", 600 * time.Second, false},
		{"tool.secret.copy-to-node-clipboard", `{"secret_alias":"a","node_id":"n1"}`, `{"secret_alias":"a"}`, "n1", 30 * time.Second, false},
		{"tool.node.list", `{"tool_id":"tool.browser.click"}`, `{"tool_id":"tool.browser.click"}`, "", 10 * time.Second, false},
	} {
		args, bad, err := mustGet(t, c.tool).SplitArgs([]byte(c.raw))
		if err != nil || bad != nil {
			t.Errorf("%s %s: %v %v", c.tool, c.raw, bad, err)
			continue
		}
		if string(args.Canonical) != c.want || args.NodeID != c.node || args.Timeout != c.timeout || args.TimeoutGiven != c.given {
			t.Errorf("%s %s gives %s %+v", c.tool, c.raw, args.Canonical, args)
		}
		// The arguments that a node gets validate there again, and are the same.
		again, bad, err := mustGet(t, c.tool).SplitArgs(args.Canonical)
		if err != nil || bad != nil || string(again.Canonical) != c.want {
			t.Errorf("%s: %s does not pass twice: %v %v", c.tool, args.Canonical, bad, err)
		}
	}
}

func TestEveryViolationIsNamed(t *testing.T) {
	for _, c := range []struct {
		tool capabilities.ToolID
		raw  string
		want []string // "path message", in order
	}{
		{"tool.browser.click", `[]`, []string{" must be an object, not array"}},
		{"tool.browser.click", `{}`, []string{" give at least one of: ref, selector, x with y"}},
		{
			"tool.browser.click", `{"ref":"","op":1,"count":4,"button":"x","modifiers":["Alt","Alt",1],"position":{"x":"1"}}`,
			[]string{
				`/button must be one of "left", "right", "middle"`, `/count must be at most 3`, `/modifiers/1 is given twice`,
				`/modifiers/2 must be one of "Alt", "Control", "Meta", "Shift"`,
				`/op unknown field; known: action, button, count, hold_ms, modifiers, node_id, position, purpose, ref, selector, snapshot, timeout_ms, x, y`,
				`/position/y is required`, `/position/x must be a number, not string`, `/ref must not be empty`,
			},
		},
		{"tool.browser.click", `{"ref":"e1","node_id":"","timeout_ms":0}`, []string{
			"/node_id must not be empty", "/node_id must match the pattern ^[^:]+$", "/timeout_ms must be at least 1",
		}},
		{"tool.browser.click", `{"ref":"e1","node_id":"a:b","timeout_ms":600001}`, []string{
			"/node_id must match the pattern ^[^:]+$", "/timeout_ms must be at most 600000",
		}},
		{"tool.browser.click", `{"ref":"e1","timeout_ms":1.5}`, []string{"/timeout_ms must be an integer, not number"}},
		{"tool.browser.close", `{"x":1}`, []string{"/x unknown field; known: node_id, purpose, save_storage_state, timeout_ms"}},
		{"tool.browser.wait-for", `{"dispatch_timeout_ms":5}`, []string{"/dispatch_timeout_ms unknown field; known: function, load_state, node_id, purpose, selector, state, text, text_gone, timeout_ms, url"}},
		{"tool.secret.copy-to-node-clipboard", `{}`, []string{" give exactly one of: secret_ref_id, secret_alias"}},
		{"tool.secret.copy-to-node-clipboard", `{"secret_ref_id":"a","secret_alias":"b"}`, []string{" give exactly one of: secret_ref_id, secret_alias"}},
		{"tool.node.list", `{"node_id":"n1"}`, []string{"/node_id unknown field; known: dispatchable_only, key, purpose, tool_id"}},
		{"tool.desktop.query", `{"selector":{"kind":"a11y","text":"x"}}`, []string{"/selector/text unknown field; known: kind, name, role, states"}},
		{"tool.desktop.query", `{"selector":{"kind":"xpath"}}`, []string{
			`/selector must be one of the allowed forms: {"kind":"ref", …}, or {"kind":"a11y", …}, or {"kind":"ocr", …}`,
		}},
		{"tool.desktop.screenshot", `{"display":"second"}`, []string{`/display must be one of the allowed forms: one of "primary", "all", or an object with id`}},
		{"tool.desktop.screenshot", `{"display":{"id":""}}`, []string{`/display/id must not be empty`}},
		{"tool.browser.upload-file", `{"selector":"a","paths":[]}`, []string{"/paths must have at least 1 items"}},
		{"tool.browser.type", `{"ref":"e1","text":"` + strings.Repeat("é", 32769) + `"}`, []string{"/text must have at most 32768 characters"}},
		{"tool.browser.navigate", `{"url":"example.com"}`, []string{"/url must begin with a scheme: write http:// or https:// in front"}},
		{"tool.browser.tabs", `{"action":"new","url":"127.0.0.1:8131"}`, []string{"/url must begin with a scheme: write http:// or https:// in front"}},
	} {
		args, bad, err := mustGet(t, c.tool).SplitArgs([]byte(c.raw))
		if err != nil || args.Canonical != nil {
			t.Errorf("%s %.60s: %s %v", c.tool, c.raw, args.Canonical, err)
			continue
		}
		got := make([]string, 0, len(bad))
		for _, b := range bad {
			got = append(got, b.Path+" "+b.Message)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %.60s gives\n %s\nwant\n %s", c.tool, c.raw, strings.Join(got, "\n "), strings.Join(c.want, "\n "))
		}
	}
}

func TestViolationsAreBoundedAndSilentAboutValues(t *testing.T) {
	var fields []string
	for i := range 500 {
		fields = append(fields, fmt.Sprintf(`"f%d":"HUNTER2"`, i))
	}
	_, bad, err := mustGet(t, "tool.browser.type").SplitArgs([]byte(`{"text":["HUNTER2"],` + strings.Join(fields, ",") + `}`))
	if err != nil || len(bad) != maxViolations {
		t.Fatalf("%d violations, %v", len(bad), err)
	}
	if text := fmt.Sprint(bad); strings.Contains(text, "HUNTER2") || len(text) > 16<<10 {
		t.Errorf("%.300s", text)
	}
}

func TestSplitArgsRefusesLooseJSON(t *testing.T) {
	for _, raw := range []string{
		`{"ref":"a","ref":"b"}`, `{"ref":"a","Ref":"b"}`, `{"ref":"a"} x`, `{"ref":"a","count":9007199254740993}`, `{`, "\xff",
		`{"ref":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		args, bad, err := mustGet(t, "tool.browser.click").SplitArgs([]byte(raw))
		if capabilities.CodeOf(err) != capabilities.CodeInvalidRequest || bad != nil || args.Canonical != nil {
			t.Errorf("%.40s: %s %v %v", raw, args.Canonical, bad, err)
		}
	}
}

// S0-04: who has which routing field.
func TestRoutingFields(t *testing.T) {
	own := map[capabilities.ToolID]string{
		"tool.desktop.wait-for": "dispatch_timeout_ms", "tool.location.get": "", "tool.browser.wait-for": "", "tool.fs.bash": "",
		"tool.secret.copy-to-node-clipboard": "", "tool.node.list": "", "tool.catalog.search": "", "tool.skill.load": "",
	}
	for _, d := range embeddedCatalog(t).All() {
		want, special := own[d.Tool]
		if !special {
			want = "timeout_ms"
		}
		if d.Routing.TimeoutArg != want {
			t.Errorf("%s: the routing timeout is %q, want %q", d.Tool, d.Routing.TimeoutArg, want)
		}
		v, err := canonical.Decode(d.FullInput(false), canonical.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		shown, err := canonical.Decode(d.ModelInput(false), canonical.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		properties, _ := v.Get("properties")
		listed, _ := shown.Get("properties")
		for name, in := range map[string]canonical.Value{"enforced": properties, "listed": listed} {
			if _, has := in.Get("node_id"); has != (d.Routing.Target == TargetNode || d.Routing.Via != "") {
				t.Errorf("%s: node_id is %s: %v", d.Tool, name, has)
			}
		}
		if want != "" {
			field, _ := properties.Get(want)
			low, _ := field.Get("minimum")
			high, _ := field.Get("maximum")
			if _, has := listed.Get(want); !has || low.Num != 1 || high.Num != 600000 {
				t.Errorf("%s: %s is %s, listed %v", d.Tool, want, field.Append(nil), has)
			}
		}
	}
}

func TestEvidence(t *testing.T) {
	long := strings.Repeat("ü", 300)
	for _, c := range []struct {
		tool capabilities.ToolID
		args string
		want map[string]any
	}{
		{"tool.browser.type", `{"clear":true,"ref":"e1","text":"HUNTER2"}`, map[string]any{"ref": "e1", "clear": true}},
		{"tool.browser.fill-form", `{"fields":[{"ref":"e1","value":"HUNTER2"}],"snapshot":"delta"}`, map[string]any{"snapshot": "delta"}},
		{"tool.browser.wait-for", `{"function":"HUNTER2","text":"HUNTER2","text_gone":"HUNTER2","url":"HUNTER2","state":"hidden"}`, map[string]any{"state": "hidden"}},
		{"tool.browser.network-requests", `{"filter":"token=HUNTER2","body":true,"id":"r7"}`, map[string]any{"id": "r7", "body": true}},
		{"tool.browser.navigate", `{"url":"https:` + long + `"}`, map[string]any{"url": "https:" + strings.Repeat("ü", 250)}},
		{"tool.browser.navigate", `{"url":"https://example.com:8443/a/b"}`, map[string]any{"url": "https://example.com:8443/a/b"}},
		{"tool.browser.navigate", `{"url":"https://bob:HUNTER2@example.com/a?token=HUNTER2#HUNTER2"}`, map[string]any{"url": "https://…@example.com/a?…"}},
		{"tool.browser.navigate", `{"url":"https:\\bob:HUNTER2@h@example.com\\a#HUNTER2"}`, map[string]any{"url": `https:\…@example.com\a#…`}},
		{"tool.browser.navigate", `{"url":"HTTP:bob:HUNTER2@example.com"}`, map[string]any{"url": "HTTP:…@example.com"}},
		{"tool.browser.navigate", `{"url":"data:text/html,HUNTER2"}`, map[string]any{"url": "data:…"}},
		{"tool.browser.navigate", `{"url":"about:blank#HUNTER2"}`, map[string]any{"url": "about:blank"}},
		{"tool.desktop.mouse", `{"action":"move","x":1.5,"y":2}`, map[string]any{"action": "move", "x": 1.5, "y": int64(2)}},
		{"tool.desktop.screenshot", `{"display":{"id":"d1"}}`, map[string]any{"display_id": "d1"}},
		{"tool.desktop.keyboard", `{"action":"press","key":"7"}`, map[string]any{"action": "press"}},
		{"tool.browser.evaluate", `{"expression":"HUNTER2"}`, nil},
		{"tool.browser.click", `not JSON`, nil},
	} {
		got := mustGet(t, c.tool).EvidenceArgs([]byte(c.args))
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", c.tool, got, c.want)
		}
	}
	// Text that people type is secret in every tool that takes it.
	for id, pointers := range map[capabilities.ToolID]string{
		"tool.browser.type": "/text", "tool.browser.fill-form": "/value /fields/*/value", "tool.browser.press-key": "/key",
		"tool.browser.handle-dialog": "/prompt_text", "tool.browser.evaluate": "/expression", "tool.browser.run-code": "/code",
		"tool.browser.wait-for": "/function", "tool.desktop.keyboard": "/text", "tool.desktop.clipboard-write": "/text",
	} {
		for pointer := range strings.FieldsSeq(pointers) {
			if !slices.Contains(mustGet(t, id).Evidence.Secret, pointer) {
				t.Errorf("%s: %s is not secret", id, pointer)
			}
		}
	}
}

func TestValidateResult(t *testing.T) {
	for _, c := range []struct {
		tool   capabilities.ToolID
		result string
		fits   bool
	}{
		{"tool.browser.close", `{}`, true},
		{"tool.browser.close", `{"x":1}`, false},
		{"tool.browser.close", `[]`, false},
		{"tool.browser.close", `{`, false},
		{"tool.browser.evaluate", `{"result":{"a":1,"A":[1e300,null]}}`, true},
		{"tool.browser.evaluate", `{}`, false},
		{"tool.browser.screenshot", `{"mime":"image/png","width":1,"height":1}`, true},
		{"tool.browser.screenshot", `{"mime":"image/png","width":1,"height":1,"bytesBase64":"AA=="}`, true},
		{"tool.browser.screenshot", `{"mime":"image/png","width":0,"height":1}`, false},
		{"tool.desktop.snapshot", `{"backend":{"mode":"a11y","permissions":{"accessibility":true,"screen_capture":true,"input_control":true}},"windows":[],` +
			`"tree":{"root":` + uiNode(`[`+uiNode(`[]`)+`]`) + `}}`, true},
		{"tool.desktop.snapshot", `{"backend":{"mode":"a11y","permissions":{"accessibility":true,"screen_capture":true,"input_control":true}},"windows":[],` +
			`"tree":{"root":` + uiNode(`[`+uiNode(`[{"op":1}]`)+`]`) + `}}`, false},
		{"tool.location.get", `{"coords":{"latitude":1,"longitude":2,"accuracy_m":3,"altitude_m":null},"timestamp":"t"}`, true},
		{"tool.location.get", `{"coords":{"latitude":91,"longitude":2,"accuracy_m":3},"timestamp":"t"}`, false},
		{"tool.desktop.clipboard-write", `{"status":"ok","text":"HUNTER2"}`, false}, // S0-42
	} {
		bad := mustGet(t, c.tool).ValidateResult([]byte(c.result))
		if (bad == nil) != c.fits {
			t.Errorf("%s %s: %v", c.tool, c.result, bad)
		}
	}
}

func uiNode(children string) string {
	return `{"role":"r","name":"n","states":[],"bounds":{"x":0,"y":0,"width":1,"height":1},"actions":[],"children":` + children + `}`
}

// A descriptor that Load never saw refuses everything rather than panic.
func TestHandMadeDescriptor(t *testing.T) {
	d := &Descriptor{Tool: "tool.x.y"}
	if _, _, err := d.SplitArgs(nil); err == nil {
		t.Error("no error")
	}
	if d.ValidateResult([]byte(`{}`)) == nil || len(d.ModelInput(false)) == 0 || len(d.ModelResult()) == 0 {
		t.Error("it validates")
	}
	if d.Validate() == nil {
		t.Error("it is valid")
	}
}

// The budget is 15 µs for a small call; the figure is compared, not asserted.
func BenchmarkSplitArgs(b *testing.B) {
	for _, c := range []struct {
		tool capabilities.ToolID
		raw  string
	}{
		{"tool.browser.close", `{}`},
		{"tool.browser.click", `{"ref":"e12","node_id":"nabcdefgh","timeout_ms":5000,"button":"left","count":1}`},
		{"tool.desktop.act", `{"target":{"kind":"a11y","role":"button","name":"Save","states":["enabled"]},"action":{"kind":"click"}}`},
		{"tool.browser.type", `{"ref":"e12","text":"` + strings.Repeat("lorem ipsum ", 2730) + `"}`},
	} {
		b.Run(string(c.tool), func(b *testing.B) {
			d := mustGet(b, c.tool)
			raw := []byte(c.raw)
			b.ReportAllocs()
			for b.Loop() {
				if _, bad, err := d.SplitArgs(raw); err != nil || bad != nil {
					b.Fatal(bad, err)
				}
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load(); err != nil {
			b.Fatal(err)
		}
	}
}

// A purpose travels beside the arguments and is no part of them: not of what is digested,
// nor of what policy and ledger read. It stands in a schema only where it is asked for.
func TestPurposeIsNoArgument(t *testing.T) {
	d := mustGet(t, "tool.desktop.keyboard")
	plain, _, err := d.SplitArgs([]byte(`{"action":"type","text":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	said, bad, err := d.SplitArgs([]byte(`{"action":"type","purpose":"to answer Ann","text":"x"}`))
	if err != nil || bad != nil || said.Purpose != "to answer Ann" || !bytes.Equal(said.Canonical, plain.Canonical) {
		t.Errorf("purpose %q, arguments %s instead of %s: %v %v", said.Purpose, said.Canonical, plain.Canonical, bad, err)
	}
	if _, bad, _ := d.SplitArgs([]byte(`{"action":"type","purpose":"` + strings.Repeat("é", 201) + `"}`)); len(bad) == 0 || bad[0].Path != "/purpose" {
		t.Errorf("201 characters: %v", bad)
	}
	for _, asks := range []bool{false, true} {
		for _, schema := range []json.RawMessage{d.FullInput(asks), d.ModelInput(asks)} {
			if strings.Contains(string(schema), `"purpose"`) != asks {
				t.Errorf("asks %v: %s", asks, schema)
			}
		}
	}
}
