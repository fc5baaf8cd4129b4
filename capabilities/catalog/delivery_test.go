package catalog

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestDeliveryIsData(t *testing.T) {
	all, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	var found *Descriptor
	for _, d := range all.All() {
		if d.Delivery != nil {
			found = d
		}
	}
	if found == nil || found.Tool != "tool.secret.copy-to-node-clipboard" {
		t.Fatalf("%v delivers", found)
	}
	via, ok := all.ByCapability(found.Routing.Via)
	if !ok {
		t.Fatalf("there is no %s", found.Routing.Via)
	}
	// The secret is what is missing from the arguments of the capability.
	if _, bad, err := via.SplitArgs([]byte(strings.TrimSuffix(string(found.Delivery.Args), "}") + `,"text":"x"}`)); err != nil || bad != nil {
		t.Errorf("%v %v", bad, err)
	}
	named := found.Delivery.Named(nil, `sec "1"`)
	if _, bad, err := found.SplitArgs(named); err != nil || bad != nil {
		t.Errorf("%s: %v %v", named, bad, err)
	}
	if ref, alias := found.Delivery.Selector(named); ref != `sec "1"` || alias != "" {
		t.Errorf("%q %q", ref, alias)
	}
	noted := found.WithNote("Yours: mail.")
	if noted.Hash() == found.Hash() || !strings.HasSuffix(noted.Description, "Yours: mail.") || noted.Validate() != nil {
		t.Errorf("%q", noted.Description)
	}
	for name, change := range map[string]func(*Descriptor){
		"attached":  func(d *Descriptor) { d.Routing.Implicit = []capabilities.SelectionMode{capabilities.SelectAttached} },
		"no ack":    func(d *Descriptor) { d.Ack = false },
		"lease":     func(d *Descriptor) { d.Consent = ConsentLease },
		"nowhere":   func(d *Descriptor) { d.Routing.Via = "" },
		"no field":  func(d *Descriptor) { v := *d.Delivery; v.Alias = "other"; d.Delivery = &v },
		"no object": func(d *Descriptor) { v := *d.Delivery; v.Args = []byte("{"); d.Delivery = &v },
	} {
		d := found.WithNote("")
		change(d)
		if d.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
