package consent

import (
	"cmp"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// ViaDevice is the person at the device that the call is for, by a chord on its own
// keyboard: the word of the device's owner.
const ViaDevice Via = "device"

// DeviceOwner is who an answer with ViaDevice is recorded of.
func DeviceOwner(node capabilities.NodeID) capabilities.PrincipalID {
	return capabilities.PrincipalID("device:" + string(node))
}

// secretKey is the key of tools that a secret of the site's is handed out by.
const secretKey = "privileged.secret.read"

// AtDevice says why the person at a device cannot allow this; nil: they can. It has to be
// asked for that device, by an agent, and about what is the device's: nobody knows who sits
// there, so what a person asks for and needs another for, and secrets, which are the
// site's, need somebody who is known.
func (a *Approval) AtDevice(node capabilities.NodeID) error {
	switch {
	case a.Form != nil:
		return capabilities.Errorf(capabilities.CodeForbidden, "what a provider asks has fields to fill in, so it is answered in the console")
	case a.Wants != "":
		return capabilities.Errorf(capabilities.CodeForbidden,
			"a host that a running call wants is answered in the console, or with 'approve' on the command line")
	case node == "" || a.Node != node:
		return capabilities.Errorf(capabilities.CodeForbidden, "this is not asked for that device")
	case a.Role != policy.RoleAgent:
		return capabilities.Errorf(capabilities.CodeForbidden, "what a person asks for is allowed by another who is known, not at the device")
	case slices.Contains(a.Keys, secretKey):
		return capabilities.Errorf(capabilities.CodeForbidden, "a secret is the site's, so it is not allowed at the device")
	}
	return nil
}

// textRoles are the roles of elements that take text, in the words of pages and desktops.
var textRoles = []string{"textbox", "searchbox", "combobox", "spinbutton", "entry", "text", "password", "document"}

// words says where a call goes on its device, as the device says; empty if it does not.
func (w *Where) words() string {
	if w == nil {
		return ""
	}
	text := ""
	named := w.Field
	if named != "" {
		named = "“" + named + "”"
	}
	if w.Role != "" {
		named = strings.TrimSuffix("the "+w.Role+" "+named, " ")
	}
	switch {
	case named == "":
	case w.Role == "" || slices.Contains(textRoles, w.Role):
		text += " into " + named
	default:
		text += " on " + named
	}
	of := cmp.Or(w.App, w.Address)
	switch {
	case w.Window != "" && of != "":
		text += " in “" + w.Window + "” (" + of + ")"
	case w.Window != "" || of != "":
		text += " in “" + w.Window + of + "”"
	}
	return text
}

// Bounds of what a notice can say.
const (
	maxNoticeLines = 12
	maxNoticeLine  = 240 // bytes
)

// Notice is a question in the few words that a notice of the device can show.
type Notice struct {
	Who, What string
	Lines     []string
	// Whole is false where something was left out that whoever allows it should have seen.
	Whole bool
}

// Notice says a question in few words: what would happen first.
func (t *Told) Notice(a *Approval) Notice {
	n := Notice{Whole: !t.TooLong && (t.Frame == nil || t.Where != nil)}
	n.Who, n.What = n.fit(Plain(string(a.Principal))), n.fit(Plain(a.Title)+" ("+string(a.Tool)+")")
	for i, line := range a.Through {
		if i == 0 {
			line = "Through " + line
		}
		n.add(line)
	}
	if t.Does != "" {
		n.add("It " + t.Does + t.Into + ".")
	} else if t.Into != "" {
		n.add("It works" + t.Into + ".")
	}
	if t.Where != nil && t.Where.Terminal {
		n.add("Text that is typed there runs as commands.")
	}
	for _, f := range t.Fields {
		if f.Hidden {
			n.add(f.Name + ": (a password; nobody is shown it)")
			continue
		}
		if f.More > 0 || strings.Contains(f.Text, "\n") { // a program of several lines
			n.Whole = false
		}
		line := f.Name + ": " + strings.ReplaceAll(f.Text, "\n", "⏎")
		if f.Is != "" {
			line += " (" + f.Is + ")"
		}
		n.add(line)
	}
	if t.TooLong {
		n.add("Its arguments are too long to be shown.")
	}
	if len(a.Escalated) > 0 {
		n.add("Only a yes adds: " + strings.Join(a.Escalated, ", "))
	}
	if t.Purpose != "" {
		n.add("It says why: “" + t.Purpose + "”")
	}
	n.add("Risk: " + orUnknown(a.Risk) + ". Lane: " + Plain(string(a.Lane)))
	return n
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func (n *Notice) fit(line string) string {
	if len(line) > maxNoticeLine {
		n.Whole = false
		return capabilities.Clip(line, maxNoticeLine) + "…"
	}
	return line
}

func (n *Notice) add(line string) {
	if len(n.Lines) == maxNoticeLines {
		n.Whole = false
		return
	}
	n.Lines = append(n.Lines, n.fit(line))
}
