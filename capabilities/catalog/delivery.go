package catalog

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// Delivery says that a tool hands the node of its call a secret that the caller
// only names (S0-38 … S0-42). The value never is an argument: it comes sealed, after
// the node has accepted the call.
type Delivery struct {
	// Reference and Alias are the arguments that name the secret, of which exactly
	// one is given.
	Reference string `json:"reference"`
	Alias     string `json:"alias"`
	// Args is what the node carries out, beside the secret.
	Args json.RawMessage `json:"args"`
	// Pass are arguments that the node gets, too: what the secret is for.
	Pass []string `json:"pass,omitempty"`
	// Clipboard says that the secret lies where the device's applications can read it, until
	// the handler says otherwise.
	Clipboard bool `json:"clipboard,omitempty"`
}

// Selector returns the reference ID or the alias that canonical arguments name; the
// other is "".
func (d *Delivery) Selector(args []byte) (reference, alias string) {
	v, err := canonical.Decode(args, canonical.Limits{})
	if err != nil {
		return "", ""
	}
	r, _ := v.Get(d.Reference)
	a, _ := v.Get(d.Alias)
	return r.Str, a.Str
}

// Named returns the canonical arguments that name the secret by its reference, and what it is
// for: what is digested, consented to, recorded and sent, so that an alias that later means
// another secret changes nothing that was said about this one.
func (d *Delivery) Named(args []byte, reference string) []byte {
	named := d.passed(args)
	named[d.Reference] = reference
	out, _ := canonical.Marshal(named) // strings always have a form
	return out
}

// Carried returns what the node carries out: Args, and what of a call's arguments Pass names.
func (d *Delivery) Carried(args []byte) json.RawMessage {
	if len(d.Pass) == 0 {
		return d.Args
	}
	all := map[string]any{}
	_ = json.Unmarshal(d.Args, &all) // checked when the catalog was loaded
	for name, text := range d.passed(args) {
		all[name] = text
	}
	out, _ := canonical.Marshal(all)
	return out
}

// passed are the arguments that Pass names, which are texts.
func (d *Delivery) passed(args []byte) map[string]any {
	out := map[string]any{}
	v, err := canonical.Decode(args, canonical.Limits{})
	if err != nil {
		return out
	}
	for _, name := range d.Pass {
		if text, ok := v.Get(name); ok {
			out[name] = text.Str
		}
	}
	return out
}

// WithNote returns a copy of d for one caller, whose description ends with note.
func (d *Descriptor) WithNote(note string) *Descriptor {
	out := &Descriptor{
		Capability: d.Capability, Tool: d.Tool, Title: d.Title, Description: strings.TrimSpace(d.Description + " " + note), Version: d.Version,
		Tags: d.Tags, SideEffects: d.SideEffects, ModelFacing: d.ModelFacing, Nature: d.Nature, Input: d.Input, Result: d.Result,
		Manifest: d.Manifest, Defaults: d.Defaults, Evidence: d.Evidence, Routing: d.Routing, Idempotency: d.Idempotency,
		Limits: d.Limits, Annotations: d.Annotations, Consent: d.Consent, Ack: d.Ack, Examples: d.Examples, Delivery: d.Delivery,
		Layer: d.Layer, Provider: d.Provider,
	}
	out.routeOnce.Do(func() { out.routed, out.routeErr = d.schemas() })
	return out
}

// validateUpload holds S1-26: a tool that takes a chosen file says so by its keys.
func (d *Descriptor) validateUpload() error {
	u := d.Upload
	if u == nil {
		return nil
	}
	input, _, err := d.validators()
	if err != nil {
		return err
	}
	switch {
	case !d.Manifest.Has("ui.input.file_upload") || !d.Manifest.Has("data.write.workspace"):
		return refuse(d, "upload needs ui.input.file_upload and data.write.workspace")
	case !input.has([]string{u.Name}) || !input.has([]string{u.Text}):
		return refuse(d, "upload names an argument that the input does not have")
	}
	return nil
}

func (d *Descriptor) validateDelivery() error {
	v := d.Delivery
	if v == nil {
		return nil
	}
	input, result, err := d.validators()
	if err != nil {
		return err
	}
	switch {
	case d.ModelFacing && (d.Routing.Target != TargetGateway || d.Routing.Via == ""):
		return refuse(d, "delivery is composed of another capability, which routing.via names")
	case slices.ContainsFunc(v.Pass, func(name string) bool { return !input.has([]string{name}) }):
		return refuse(d, "delivery passes an argument that the input does not have")
	case !input.has([]string{v.Reference}) || !input.has([]string{v.Alias}):
		return refuse(d, "delivery names an argument that the input does not have")
	case !result.has([]string{v.Reference}):
		return refuse(d, "the result does not say which reference was delivered")
	case !d.Ack:
		return refuse(d, "what delivers a secret answers with an acknowledgement only (S0-42)")
	case d.Consent != ConsentCall || len(d.Manifest.Privileged) == 0:
		return refuse(d, "what delivers a secret is privileged and consented to call by call")
	}
	for _, mode := range d.Routing.Implicit {
		if mode != capabilities.SelectSole { // S0-23
			return refuse(d, "a secret goes to the node that is named, or to the only one")
		}
	}
	if _, err := canonical.Decode(v.Args, canonical.Limits{}); err != nil {
		return refuse(d, "delivery.args: %v", err)
	}
	return nil
}
