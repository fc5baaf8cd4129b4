package owner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// The rules that the file becomes, by ID. Each is a forbid: the file narrows.
const (
	ruleNever        = "owner-never"
	ruleAsk          = "owner-asks"
	ruleDomainOnly   = "owner-domains-only"
	ruleDomainAsk    = "owner-domains-ask"
	ruleDomainNever  = "owner-domains-never"
	ruleWants        = "owner-domains-wanted" // with the name of the list
	ruleApp          = "owner-apps"
	ruleFolder       = "owner-folders"
	ruleQuiet        = "owner-quiet-hours" // with the number of the entry
	generatedComment = "// Made from owner.json, the owner's file. Edit that one.\n"
)

// facts are what Cedar cannot find out about a call: it has no clock of the
// owner's and cannot look into lists of paths.
type facts struct {
	quiet  uint32 // bit i: quiet_hours[i] holds now
	app    Mode   // of the application that the call names
	folder Mode   // of the files that the call names
}

// compile returns the file's rules for a moment and a call with such facts. It is
// text that policy.Load takes.
func (f *File) compile(cat *catalog.Catalog, x facts) []byte {
	var b strings.Builder
	b.WriteString(generatedComment)
	var never, ask, urls []capabilities.ToolID
	for _, d := range cat.All() {
		if d.NodeCapability() == "" {
			continue
		}
		switch f.Mode(cat, d.Tool) {
		case ModeNever:
			never = append(never, d.Tool)
		case ModeAsk:
			ask = append(ask, d.Tool)
		}
		if len(d.Reaching(catalog.ReachAddress)) > 0 {
			urls = append(urls, d.Tool)
		}
	}
	forbid(&b, ruleNever, never, ModeNever, "")
	forbid(&b, ruleAsk, ask, ModeAsk, "")
	if l := f.Domains.Only; len(l) > 0 {
		forbid(&b, ruleDomainOnly, urls, ModeNever, `context.args.address != "none" && !(`+hosts(l)+`)`)
	}
	if l := f.Domains.Ask; len(l) > 0 {
		forbid(&b, ruleDomainAsk, urls, ModeAsk, hosts(l))
	}
	if l := f.Domains.Never; len(l) > 0 {
		forbid(&b, ruleDomainNever, urls, ModeNever, hosts(l))
	}
	f.Domains.wanted(&b)
	all := allTools(cat)
	// These come with the facts of one call, so they need not say which.
	if x.app != "" && x.app != ModeAllow {
		forbid(&b, ruleApp, all, x.app, "")
	}
	if x.folder != "" && x.folder != ModeAllow {
		forbid(&b, ruleFolder, all, x.folder, "")
	}
	for i := range f.QuietHours {
		if x.quiet&(1<<i) == 0 {
			continue
		}
		q := &f.QuietHours[i]
		tools := all
		if len(q.Capabilities) > 0 {
			tools = nil
			for _, t := range all {
				if q.names(cat, t) {
					tools = append(tools, t)
				}
			}
		}
		forbid(&b, fmt.Sprintf("%s-%d", ruleQuiet, i+1), tools, q.Mode, "")
	}
	return []byte(b.String())
}

func allTools(cat *catalog.Catalog) []capabilities.ToolID {
	var all []capabilities.ToolID
	for _, d := range cat.All() {
		if d.NodeCapability() != "" {
			all = append(all, d.Tool)
		}
	}
	return all
}

// forbid writes one rule; none for no tools.
func forbid(b *strings.Builder, id string, tools []capabilities.ToolID, m Mode, when string) {
	if len(tools) == 0 {
		return
	}
	fmt.Fprintf(b, "@id(%q)\nforbid (principal, action in [", id)
	for i, t := range tools {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, "Action::%q", t)
	}
	b.WriteString("], resource)")
	if when != "" {
		fmt.Fprintf(b, "\nwhen { %s }", when)
	}
	if m == ModeAsk {
		b.WriteString("\nunless { context.consent }")
	}
	b.WriteString(";\n")
}

// wanted writes what the lists say of a host that a running call was not granted: nobody is asked
// about one that is not to be opened, or about which the owner wants to be asked.
func (l *Limits) wanted(b *strings.Builder) {
	for _, part := range []struct {
		name, list string
	}{{"only", wants(l.Only)}, {"ask", wants(l.Ask)}, {"never", wants(l.Never)}} {
		switch {
		case part.list == "":
			continue
		case part.name == "only":
			part.list = `context.wants != "" && !(` + part.list + `)`
		}
		fmt.Fprintf(b, "@id(%q)\nforbid (principal, action, resource)\nwhen { %s };\n", ruleWants+"-"+part.name, part.list)
	}
}

// wants is the condition that a running call wants one of the hosts, at any port; "" for none.
func wants(list []string) string {
	parts := make([]string, 0, 2*len(list))
	for _, name := range list {
		if base, below := strings.CutPrefix(name, "*."); below {
			parts = append(parts, fmt.Sprintf(`context.wants like "*.%s:*"`, base))
			name = base
		}
		parts = append(parts, fmt.Sprintf(`context.wants like "%s:*"`, name))
	}
	return strings.Join(parts, " || ")
}

// hosts is the condition that a call opens one of the hosts. The list is clean: see
// cleanDomain.
func hosts(list []string) string {
	parts := make([]string, 0, 2*len(list))
	for _, name := range list {
		if base, below := strings.CutPrefix(name, "*."); below {
			parts = append(parts, fmt.Sprintf(`context.args.host like "*.%s"`, base))
			name = base
		}
		parts = append(parts, fmt.Sprintf(`context.args.host == %q`, name))
	}
	return strings.Join(parts, " || ")
}

// capture is how the keys begin of what is taken by a device, which is a family of its own.
const capture = "data.capture."

// sensed are the tools that a tool would be in the families whose devices it uses, by the keys that
// it cannot work without: what the owner says of a camera holds for the camera live, too.
func sensed(cat *catalog.Catalog, t capabilities.ToolID) (all []capabilities.ToolID) {
	d, ok := cat.Get(t)
	if !ok {
		return nil
	}
	for _, key := range d.Manifest.Keys() {
		device, captures := strings.CutPrefix(key, capture)
		if !captures || device == t.Family() || slices.Contains(d.Optional, key) {
			continue
		}
		if slices.ContainsFunc(cat.All(), func(o *catalog.Descriptor) bool { return o.Tool.Family() == device }) {
			all = append(all, capabilities.ToolID("tool."+device+"."+t.Family()))
		}
	}
	return all
}

// names reports whether quiet hours name a tool, or the device that it uses.
func (q *Quiet) names(cat *catalog.Catalog, t capabilities.ToolID) bool {
	return slices.Contains(q.Capabilities, t.Family()) || slices.Contains(q.Capabilities, capabilityName(t)) ||
		slices.ContainsFunc(sensed(cat, t), func(device capabilities.ToolID) bool { return slices.Contains(q.Capabilities, device.Family()) })
}

// Mode is what the file says about a tool, whatever its arguments and the time.
func (f *File) Mode(cat *catalog.Catalog, t capabilities.ToolID) Mode {
	m := f.mode(t)
	for _, device := range sensed(cat, t) {
		m = stricter(m, f.mode(device))
	}
	return m
}

func (f *File) mode(t capabilities.ToolID) Mode {
	if m, ok := f.Capabilities[capabilityName(t)]; ok {
		return m
	}
	if m, ok := f.Capabilities[t.Family()]; ok {
		return m
	}
	return f.Default
}
