package catalog

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

func embeddedCatalog(t testing.TB) *Catalog {
	t.Helper()
	c, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustGet(t testing.TB, id capabilities.ToolID) *Descriptor {
	t.Helper()
	d, ok := embeddedCatalog(t).Get(id)
	if !ok {
		t.Fatalf("no %s", id)
	}
	return d
}

// Load leaves this to us.
func TestEmbeddedIsValid(t *testing.T) {
	for _, d := range embeddedCatalog(t).All() {
		if err := d.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// S0-09 … S0-12, the discovery helper (S0-06) and the one capability that is
// not model-facing.
var contract = map[string]string{
	"desktop": "screenshot snapshot query act mouse keyboard wait-for",
	"browser": "launch navigate navigate-back snapshot click type fill-form select-option hover drag press-key screenshot " +
		"evaluate wait-for tabs upload-file console-messages network-requests resize close handle-dialog run-code",
	"location": "get", "camera": "capture-photo capture-video", "audio": "record",
	"secret": "copy-to-node-clipboard", "node": "list",
	// The one helper beside node.list: it finds tools, never nodes.
	"catalog": "search",
	// S3-15: the one way to a skill's text.
	"skill": "load",
	// S3-12: the built-in tools for files.
	"fs": "read list glob grep write edit apply-patch bash",
	// S3-12: the built-in tools for pages.
	"web": "fetch search",
}

// onRequest are the tools of the browser beyond the 22, which a list has only where it is asked
// for them.
const onRequest = "read network-rules cookies storage pdf performance audit"

// S0-10, S0-13: the usual list has the contract's tools; further ones are capabilities, too, and
// listed on request.
func TestFurtherToolsAreListedOnRequest(t *testing.T) {
	for _, d := range embeddedCatalog(t).All() {
		further := d.Tool.Family() == "browser" && slices.Contains(strings.Fields(onRequest), d.Tool.Action())
		if d.OnRequest != further || further && d.Capability == "" {
			t.Errorf("%s: listed on request %v, want %v", d.Tool, d.OnRequest, further)
		}
	}
}

func TestExactlyTheContractIsModelFacing(t *testing.T) {
	want := map[capabilities.ToolID]bool{}
	for _, action := range strings.Fields(onRequest) {
		want[capabilities.ToolID("tool.browser."+action)] = true
	}
	for family, actions := range contract {
		for _, action := range strings.Fields(actions) {
			want[capabilities.ToolID("tool."+family+"."+action)] = true
		}
	}
	for _, d := range embeddedCatalog(t).All() {
		if d.Tool == "tool.desktop.clipboard-write" {
			if d.ModelFacing || !d.Ack {
				t.Error("clipboard-write must be neither model-facing nor more than an acknowledgement")
			}
			continue
		}
		// For people who watch, by the console and WHEP, for admins who manage providers, and the
		// work of admins.
		if d.Tool.Family() == "live" || d.Tool.Family() == "provider" || d.Surface != "" {
			if d.ModelFacing || d.Nature != NaturePlumbing {
				t.Errorf("%s must be plumbing that no model is shown", d.Tool)
			}
			continue
		}
		if !d.ModelFacing || !want[d.Tool] {
			t.Errorf("%s is not of the contract, or not model-facing", d.Tool)
		}
		delete(want, d.Tool)
	}
	for id := range want {
		t.Errorf("%s is missing", id)
	}
}

// S0-01, S0-02, S0-03, S0-13.
func TestToolIDsMirrorCapabilityIDs(t *testing.T) {
	gateway := 0
	for _, d := range embeddedCatalog(t).All() {
		if d.Surface != "" { // an admin's own work, which no node has a part in
			if d.Capability != "" {
				t.Errorf("%s is a capability", d.Tool)
			}
			continue
		}
		if d.Capability == "" {
			gateway++
			continue
		}
		rest, ok := strings.CutPrefix(string(d.Capability), "tyrum.")
		if !ok || string(d.Tool) != "tool."+rest {
			t.Errorf("%s does not mirror %s", d.Tool, d.Capability)
		}
		if got, ok := embeddedCatalog(t).ByCapability(d.Capability); !ok || got != d {
			t.Errorf("%s is not found by its capability", d.Tool)
		}
	}
	if gateway != 4 {
		t.Errorf("%d tools have no capability, want node.list, catalog.search, skill.load and the secret copy", gateway)
	}
}

// S0-05, S0-08: over what a model reads, at any depth.
func TestNoTransportFields(t *testing.T) {
	for _, d := range embeddedCatalog(t).All() {
		if strings.HasSuffix(string(d.Tool), ".inspect") || strings.HasSuffix(string(d.Tool), ".dispatch") {
			t.Errorf("%s exists", d.Tool)
		}
		text := string(d.ModelInput(false)) + string(d.Input)
		for _, field := range []string{"capability", "action_name", "op"} {
			if strings.Contains(text, `"`+field+`":`) {
				t.Errorf("%s takes %s", d.Tool, field)
			}
		}
		for _, word := range []string{"node.dispatch", "node.inspect"} { // S0-45
			if strings.Contains(d.Description+text+string(d.Result), word) {
				t.Errorf("%s names %s", d.Tool, word)
			}
		}
	}
}

// An independent walk over the raw documents: not the compiler's own word.
func TestSchemasAreClosedAndBounded(t *testing.T) {
	for _, d := range embeddedCatalog(t).All() {
		for name, schema := range map[string]json.RawMessage{"input": d.Input, "result": d.Result} {
			var doc any
			if err := json.Unmarshal(schema, &doc); err != nil {
				t.Fatal(err)
			}
			walkSchema(t, string(d.Tool)+" "+name, doc)
		}
		var model struct {
			Type                 string
			AdditionalProperties *bool
			Properties           map[string]any
		}
		if err := json.Unmarshal(d.ModelInput(false), &model); err != nil || model.Type != "object" ||
			model.AdditionalProperties == nil || *model.AdditionalProperties {
			t.Errorf("%s: the model's input is not a closed object: %v", d.Tool, err)
		}
		for _, text := range []string{string(d.ModelInput(false)), string(d.ModelResult())} {
			if strings.Contains(text, "$ref") || strings.Contains(text, "bytesBase64") {
				t.Errorf("%s: a listed schema holds a reference or bytes", d.Tool)
			}
		}
	}
}

func walkSchema(t *testing.T, at string, node any) {
	schema, ok := node.(map[string]any)
	if !ok {
		if _, isBool := node.(bool); !isBool {
			t.Errorf("%s is no schema", at)
		}
		return
	}
	types, _ := schema["type"].(string)
	_, hasEnum := schema["enum"]
	extra, isMap := schema["additionalProperties"].(map[string]any) // names that are data, such as those of headers
	if isMap {
		walkSchema(t, at+"/*", extra)
	}
	switch {
	case types == "object" && schema["additionalProperties"] != false && (!isMap || schema["maxProperties"] == nil):
		t.Errorf("%s is open", at)
	case types == "string" && schema["maxLength"] == nil && !hasEnum:
		t.Errorf("%s is a string without end", at)
	case types == "array" && (schema["maxItems"] == nil || schema["items"] == nil):
		t.Errorf("%s is a list without end", at)
	case types == "" && schema["properties"] != nil:
		t.Errorf("%s has properties and no type", at)
	}
	for _, key := range []string{"properties", "$defs"} {
		children, _ := schema[key].(map[string]any)
		for name, child := range children {
			walkSchema(t, at+"/"+name, child)
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		children, _ := schema[key].([]any)
		for i, child := range children {
			walkSchema(t, fmt.Sprintf("%s/%s/%d", at, key, i), child)
		}
	}
	if items := schema["items"]; items != nil {
		walkSchema(t, at+"/items", items)
	}
}

func TestWireNames(t *testing.T) {
	form := regexp.MustCompile(`^[a-zA-Z0-9_]{1,64}$`)
	seen := map[string]capabilities.ToolID{}
	for _, d := range embeddedCatalog(t).All() {
		name := d.Tool.WireName()
		if !form.MatchString(name) {
			t.Errorf("%s is no name every client takes", name)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%s and %s share %s", d.Tool, other, name)
		}
		seen[name] = d.Tool
		if got, ok := embeddedCatalog(t).ByWireName(name); !ok || got != d {
			t.Errorf("%s is not found by its wire name", d.Tool)
		}
	}
}

// The text that a model reads is plain ASCII: nothing can hide in it.
func TestTextIsPlain(t *testing.T) {
	ascii := regexp.MustCompile(`^[ -~]+$`)
	for _, d := range embeddedCatalog(t).All() {
		for _, text := range []string{d.Title, d.Description, string(d.ModelInput(false)), string(d.ModelResult())} {
			if !ascii.MatchString(text) {
				t.Errorf("%s: %q", d.Tool, text)
			}
		}
		if len(d.Description) > 200 || !strings.HasSuffix(d.Description, ".") {
			t.Errorf("%s: the description is %d long, or no sentence", d.Tool, len(d.Description))
		}
	}
	for _, bad := range []string{"a\nb", "a\u202eb", "a\u200bb", "a\u2066b", "\U000e0041", "\ufeff", "a\x00"} {
		if plain(bad) {
			t.Errorf("%q passes for plain", bad)
		}
	}
}

// Each tool declares what it needs (S2-25), in one manifest for its action (S1-01); policy and the
// node's owner rely on these.
func TestManifests(t *testing.T) {
	keys := func(id capabilities.ToolID) []string { return mustGet(t, id).Manifest.Keys() }
	for id, want := range map[capabilities.ToolID]string{
		"tool.browser.launch":                "network.browser.session ui.session.persist_state",
		"tool.browser.snapshot":              "network.browser.session",
		"tool.browser.wait-for":              "network.browser.session",
		"tool.browser.click":                 "data.write.temp network.browser.session", // what it starts may be a download
		"tool.browser.evaluate":              "data.write.temp execution.browser.script network.browser.session",
		"tool.browser.run-code":              "data.write.temp execution.browser.script network.browser.session",
		"tool.browser.upload-file":           "data.read.workspace network.browser.session ui.input.file_upload",
		"tool.desktop.screenshot":            "data.read.screen",
		"tool.desktop.mouse":                 "privileged.input.inject",
		"tool.desktop.act":                   "data.read.screen privileged.input.inject",
		"tool.desktop.clipboard-write":       "data.write.clipboard",
		"tool.secret.copy-to-node-clipboard": "data.write.clipboard privileged.secret.read",
		"tool.location.get":                  "data.read.location",
		"tool.camera.capture-photo":          "data.capture.camera",
		"tool.camera.capture-video":          "data.capture.audio data.capture.camera",
		"tool.audio.record":                  "data.capture.audio",
		"tool.node.list":                     "",
	} {
		if got := strings.Join(keys(id), " "); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	manifests := map[string]bool{}
	for _, d := range embeddedCatalog(t).All() {
		family := d.Tool.Family()
		if manifests[string(d.Tool)] || manifests[d.Tool.WireName()] {
			t.Errorf("%s has two manifests", d.Tool)
		}
		manifests[string(d.Tool)], manifests[d.Tool.WireName()] = true, true
		if by, ok := embeddedCatalog(t).Get(d.Tool); !ok || by != d {
			t.Errorf("%s is described elsewhere, too", d.Tool)
		}
		switch family {
		case "desktop", "location", "camera", "audio":
			if d.Defaults.Isolation != capabilities.ClassSession || !d.Defaults.RequiresApproval {
				t.Errorf("%s works in the person's session and has to be asked for", d.Tool)
			}
		case "browser":
			if d.Defaults.Isolation != capabilities.ClassT2 {
				t.Errorf("%s: %s", d.Tool, d.Defaults.Isolation)
			}
		}
		if d.Defaults.CacheEligible || d.Idempotency.Mode == IdempotencyCached {
			t.Errorf("%s: what a live device gives is never reused", d.Tool)
		}
		if !slices.Contains(d.Tags, family) {
			t.Errorf("%s does not carry its family as a tag", d.Tool)
		}
		if len(d.Examples) == 0 {
			t.Errorf("%s has no example", d.Tool)
		}
	}
	var without []string // they answer of the gateway itself, or end what declared it
	for _, d := range embeddedCatalog(t).All() {
		if len(d.Manifest.Keys()) == 0 {
			without = append(without, string(d.Tool))
		}
	}
	if got := strings.Join(without, " "); got != "tool.catalog.search tool.live.record-stop tool.live.trickle tool.node.list tool.skill.load" {
		t.Errorf("nothing is declared by %s", got)
	}
}

// S0-17, S0-21, S0-23: a secret goes to the only node or to a named one.
func TestRoutingModes(t *testing.T) {
	both := []capabilities.SelectionMode{capabilities.SelectAttached, capabilities.SelectSole}
	for _, d := range embeddedCatalog(t).All() {
		switch {
		case d.Tool == "tool.secret.copy-to-node-clipboard":
			if d.NodeCapability() != "tyrum.desktop.clipboard-write" ||
				!slices.Equal(d.Routing.Implicit, []capabilities.SelectionMode{capabilities.SelectSole}) {
				t.Errorf("%s: %+v", d.Tool, d.Routing)
			}
		case d.Delivery != nil:
			if d.NodeCapability() != d.Capability || !slices.Equal(d.Routing.Implicit, []capabilities.SelectionMode{capabilities.SelectSole}) {
				t.Errorf("%s: %+v", d.Tool, d.Routing)
			}
		case d.Routing.Target == TargetNode:
			if d.NodeCapability() != d.Capability || !slices.Equal(d.Routing.Implicit, both) {
				t.Errorf("%s: %+v", d.Tool, d.Routing)
			}
		case d.NodeCapability() != "" || len(d.Routing.Implicit) > 0:
			t.Errorf("%s: %+v", d.Tool, d.Routing)
		}
	}
}

func TestHashFollowsMeaning(t *testing.T) {
	a := embeddedCatalog(t)
	b, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	if a.Hash() != b.Hash() || a.Hash() == [32]byte{} {
		t.Error("the same data has another hash")
	}
	d := mustGet(t, "tool.browser.click")
	copied := Descriptor{}
	text, _ := json.Marshal(d)
	if err := json.Unmarshal(text, &copied); err != nil {
		t.Fatal(err)
	}
	if copied.Hash() != d.Hash() {
		t.Error("a copy has another hash")
	}
	copied.Description += " "
	if copied.Hash() == d.Hash() {
		t.Error("a changed descriptor has the same hash")
	}
}
