package console

import (
	"reflect"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// A device's card says of each family what policy says of its tools that are ready.
func TestWhatADeviceMayDo(t *testing.T) {
	d := device{api.Node{Capabilities: []api.Capability{
		{Tool: "tool.desktop.act", Available: true},
		{Tool: "tool.fs.read", Available: true}, {Tool: "tool.fs.write", Available: true}, {Tool: "tool.fs.bash", Available: true},
		{Tool: "tool.camera.photo", Reason: capabilities.ReasonBackendMissing},
		{Tool: "tool.browser.navigate", Available: true}, {Tool: "tool.browser.evaluate"},
	}}}
	got := d.offered(map[capabilities.ToolID]string{
		"tool.desktop.act": "ask", "tool.fs.read": "allow", "tool.fs.write": "ask", "tool.fs.bash": "ask", "tool.browser.navigate": "deny",
		"tool.browser.evaluate": "allow", "tool.camera.photo": "allow",
	})
	want := []canDo{
		{familyWords["desktop"], true, "", []ruled{{"with a person's yes", "busy"}}},
		{familyWords["fs"], true, "", []ruled{{"1 tool without asking", "good"}, {"2 tools with a person's yes", "busy"}}},
		{familyWords["browser"], true, "", []ruled{{"refused by policy", "no"}}},
		{familyWords["camera"], false, "backend missing", nil},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	for _, one := range d.offered(nil) {
		if one.Rules != nil {
			t.Errorf("it says what policy says to those who may not ask: %+v", one)
		}
	}
}
