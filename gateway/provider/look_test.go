package provider

import (
	"slices"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// The name of a provider that an eye takes for another's, or for a built-in family's, is found: by
// letters that fonts draw alike, a dash, a letter too much, missing or wrong, or two of them
// swapped. Short names that differ, and those of one family, are not.
func TestNamesThatLookAlike(t *testing.T) {
	for _, c := range []struct {
		name, other string
		alike       bool
	}{
		{"n0tes", "notes", true}, {"rnemory", "memory", true}, {"brovvser", "browser", true}, {"fi1es", "files", true},
		{"word-s", "words", true}, {"gihtub", "github", true}, {"memorry", "memory", true}, {"browsr", "browser", true}, {"gitlab", "github", false},
		{"voica", "voice", true}, {"gh", "gi", false}, {"notes", "notes", false}, {"everything", "memory", false}, {"mail", "main", false},
	} {
		other := capabilities.ToolID("tool." + c.other + ".x")
		got := lookAlike(capabilities.ToolID("tool."+c.name+".x"), []capabilities.ToolID{"tool.desktop.act", other})
		if c.alike && got != other || !c.alike && got != "" {
			t.Errorf("%s beside %s: %q", c.name, c.other, got)
		}
	}
}

// Tools of one provider that look alike are for a person to look at, and are not proposed as
// allowed; the others stay as they are.
func TestToolsThatLookAlikeAreFlagged(t *testing.T) {
	reads := true
	p := Provider{Provider: tools.Provider{Name: "pets", Kind: tools.KindMCP, Command: []string{"pets"}}}
	p.Manifest = tools.ToolManifest{Provider: "pets"}
	for _, name := range []string{"list", "l1st", "show", "li-st"} {
		p.Manifest.Tools = append(p.Manifest.Tools, tools.RemoteTool{
			Name: name, Description: "Says something of pets.", Input: []byte(`{"type":"object"}`), ReadOnly: &reads,
		})
	}
	p.describe(nil)
	if len(p.Tools) != 4 {
		t.Fatalf("%+v", p.Refused)
	}
	for i := range p.Tools {
		one := &p.Tools[i]
		alike := one.Upstream != "show"
		if slices.Contains(one.Flags, tools.FlagLookAlike) != alike || (one.Proposal() == "allow") == alike {
			t.Errorf("%s: %q, %s", one.Upstream, one.Flags, one.Proposal())
		}
	}
}
