package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

func reread(t *testing.T, data []byte) *Descriptor {
	t.Helper()
	d := &Descriptor{}
	if err := json.Unmarshal(data, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// S1-42: whether a result can be used again follows from the keys and the effects, not from
// what a descriptor claims; a claim that they do not bear is refused.
func TestReuseFollowsFromTheKeys(t *testing.T) {
	still := func() *Descriptor {
		schema := json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"text":{"type":"string","maxLength":64}}}`)
		return &Descriptor{
			Tool: "tool.test.still", Title: "Still", Description: "Gives the same again.", Version: "1.0.0", Tags: []string{"test"},
			SideEffects: EffectsNone, ModelFacing: true, Nature: NatureTool, Input: schema, Result: schema,
			Defaults: Defaults{Isolation: capabilities.ClassT0, CacheEligible: true}, Routing: Routing{Target: TargetGateway},
			Idempotency: Idempotency{Mode: IdempotencyCached, WindowMS: 60_000}, Limits: Limits{TimeoutMS: 1000, MaxTimeoutMS: 1000, MaxResultBytes: 4096},
			Annotations: Annotations{ReadOnly: true}, Consent: ConsentNone,
		}
	}
	if d := still(); d.Validate() != nil || !d.Reuses() {
		t.Fatalf("%v", d.Validate())
	}
	for name, change := range map[string]func(*Descriptor){
		"an effect":                  func(d *Descriptor) { d.SideEffects, d.Annotations.ReadOnly = EffectsLocal, false },
		"a screen":                   func(d *Descriptor) { d.Manifest.Data = []string{"read.screen"} },
		"a camera":                   func(d *Descriptor) { d.Manifest.Data = []string{"capture.camera"} },
		"a position":                 func(d *Descriptor) { d.Manifest.Data = []string{"read.location"} },
		"files that others write":    func(d *Descriptor) { d.Manifest.Data = []string{"read.workspace"} },
		"pages":                      func(d *Descriptor) { d.Manifest.Network = []string{"browser.session"} },
		"input":                      func(d *Descriptor) { d.Manifest.Privileged = []string{"input.inject"} },
		"a key that nobody knows":    func(d *Descriptor) { d.Manifest.Data = []string{"read.new_thing"} },
		"secret arguments":           func(d *Descriptor) { d.Evidence.Secret = []string{"/text"} },
		"artifacts":                  func(d *Descriptor) { d.Limits.MaxArtifactBytes = 1 },
		"no window":                  func(d *Descriptor) { d.Idempotency.WindowMS = 0 },
		"a window beyond all memory": func(d *Descriptor) { d.Idempotency.WindowMS = maxWindow + 1 },
		"reuse alone":                func(d *Descriptor) { d.Defaults.CacheEligible = false },
		"cache_eligible alone":       func(d *Descriptor) { d.Idempotency = Idempotency{Mode: IdempotencyNone} },
	} {
		d := still()
		change(d)
		if err := d.Validate(); err == nil || !strings.Contains(err.Error(), "tool.test.still") {
			t.Errorf("%s: %v", name, err)
		}
		if name != "no window" && !strings.Contains(name, "window") && d.Reuses() {
			t.Errorf("%s: its results are used again", name)
		}
	}
	d := still()
	d.Manifest.Data = []string{"read.tool_cache"}
	if err := d.Validate(); err != nil || !d.Reuses() {
		t.Errorf("a cache: %v", err)
	}
}
