package atspi

import (
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// roleWords translates AtspiRole into the words of platform.Roles; what is not in
// it is "generic".
var roleWords = map[uint32]string{
	0: "unknown", 1: "label", 2: "alert", 3: "image", 4: "image", 5: "grid", 6: "canvas", 7: "checkbox", 8: "menuitemcheckbox",
	9: "dialog", 10: "columnheader", 11: "combobox", 12: "textbox", 13: "image", 14: "window", 15: "slider", 16: "dialog",
	17: "group", 18: "canvas", 19: "dialog", 20: "generic", 21: "generic", 22: "dialog", 23: "window", 24: "generic", 25: "document",
	26: "image", 27: "image", 28: "window", 29: "label", 30: "group", 31: "list", 32: "listitem", 33: "menu", 34: "menubar",
	35: "menuitem", 36: "group", 37: "tab", 38: "tablist", 39: "group", 40: "textbox", 41: "menu", 42: "progressbar", 43: "button",
	44: "radio", 45: "menuitemradio", 46: "generic", 47: "rowheader", 48: "scrollbar", 49: "scrollarea", 50: "separator",
	51: "slider", 52: "spinbutton", 53: "splitter", 54: "status", 55: "table", 56: "cell", 57: "columnheader", 58: "rowheader",
	59: "menuitem", 60: "terminal", 61: "textbox", 62: "togglebutton", 63: "toolbar", 64: "tooltip", 65: "tree", 66: "tree",
	67: "unknown", 68: "scrollarea", 69: "window", 70: "generic", 71: "section", 72: "section", 73: "paragraph", 74: "generic",
	75: "application", 76: "textbox", 77: "textbox", 78: "group", 79: "textbox", 80: "image", 81: "label", 82: "document",
	83: "heading", 84: "page", 85: "section", 86: "generic", 87: "group", 88: "link", 89: "window", 90: "row", 91: "treeitem",
	92: "document", 93: "document", 94: "document", 95: "document", 96: "document", 97: "section", 98: "listbox", 99: "group",
	100: "image", 101: "alert", 102: "status", 103: "progressbar", 104: "titlebar", 105: "section", 106: "group", 107: "group",
	108: "paragraph", 109: "section", 110: "section", 111: "section", 112: "section", 113: "generic", 114: "slider", 115: "timer",
	116: "label", 117: "generic", 118: "generic", 119: "generic", 120: "generic", 121: "list", 122: "listitem", 123: "listitem",
	124: "section", 125: "generic", 126: "generic", 127: "generic", 128: "generic", 129: "button", 130: "switch",
}

// Roles that the rest of the package asks for.
const (
	roleComboBox     = 11
	roleFrame        = 23
	roleMenu         = 33
	roleMenuItem     = 35
	rolePageTabList  = 38
	rolePassword     = 40
	rolePopupMenu    = 41
	roleProgressBar  = 42
	roleScrollBar    = 48
	roleTerminal     = 60
	roleText         = 61
	roleEntry        = 79
	roleOption       = 32
	roleDocumentText = 94
)

// isDocument reports the roles of documents.
func isDocument(role uint32) bool { return role == 82 || role >= 92 && role <= 96 }

// isField reports the roles of fields that Chromium has for a text and for a password.
func isField(role uint32) bool { return role == roleEntry || role == rolePassword }

func roleWord(role uint32) string {
	if w, ok := roleWords[role]; ok {
		return w
	}
	return "generic"
}

// state bits, AtspiStateType.
const (
	stActive = 1 << iota << 1
	stArmed
	stBusy
	stChecked
	stCollapsed
	stDefunct
	stEditable
	stEnabled
	stExpandable
	stExpanded
	stFocusable
	stFocused
	stHasTooltip
	stHorizontal
	stIconified
	stModal
	stMultiLine
	stMultiselectable
	stOpaque
	stPressed
	stResizable
	stSelectable
	stSelected
	stSensitive
	stShowing
	stSingleLine
	stStale
	stTransient
	stVertical
	stVisible
	stManagesDescendants
	stIndeterminate
	stRequired
	stTruncated
	stAnimated
	stInvalidEntry
	stSupportsAutocompletion
	stSelectableText
	stIsDefault
	stVisited
	stCheckable
	stHasPopup
	stReadOnly
)

// stateNames are the names events use for the bits.
var stateNames = map[string]uint64{
	"active": stActive, "armed": stArmed, "busy": stBusy, "checked": stChecked, "collapsed": stCollapsed, "defunct": stDefunct,
	"editable": stEditable, "enabled": stEnabled, "expandable": stExpandable, "expanded": stExpanded, "focusable": stFocusable,
	"focused": stFocused, "has-tooltip": stHasTooltip, "horizontal": stHorizontal, "iconified": stIconified, "modal": stModal,
	"multi-line": stMultiLine, "multiselectable": stMultiselectable, "opaque": stOpaque, "pressed": stPressed, "resizable": stResizable,
	"selectable": stSelectable, "selected": stSelected, "sensitive": stSensitive, "showing": stShowing, "single-line": stSingleLine,
	"stale": stStale, "transient": stTransient, "vertical": stVertical, "visible": stVisible, "manages-descendants": stManagesDescendants,
	"indeterminate": stIndeterminate, "required": stRequired, "truncated": stTruncated, "animated": stAnimated,
	"invalid-entry": stInvalidEntry, "supports-autocompletion": stSupportsAutocompletion, "selectable-text": stSelectableText,
	"is-default": stIsDefault, "visited": stVisited, "checkable": stCheckable, "has-popup": stHasPopup, "read-only": stReadOnly,
}

// stateWords translates into the words of platform.States, sorted.
func stateWords(states uint64, protected bool) []string {
	words := make([]string, 0, 6)
	for _, s := range [...]struct {
		bit  uint64
		word string
	}{
		{stActive, "active"}, {stBusy, "busy"}, {stChecked, "checked"}, {stCollapsed, "collapsed"}, {stEditable, "editable"},
		{stExpanded, "expanded"}, {stFocusable, "focusable"}, {stFocused, "focused"}, {stInvalidEntry, "invalid"},
		{stIndeterminate, "mixed"}, {stModal, "modal"}, {stMultiLine, "multiline"}, {stMultiselectable, "multiselectable"},
		{stPressed, "pressed"}, {stReadOnly, "readonly"}, {stRequired, "required"}, {stSelectable, "selectable"}, {stSelected, "selected"},
	} {
		if states&s.bit != 0 {
			words = append(words, s.word)
		}
	}
	// Toolkits differ in which of the two they clear for what cannot be used.
	if states&stEnabled != 0 && states&stSensitive != 0 {
		words = append(words, "enabled")
	}
	if states&stExpandable != 0 && states&(stExpanded|stCollapsed) == 0 {
		words = append(words, "collapsed")
	}
	switch {
	case states&stShowing != 0:
		words = append(words, "visible")
	case states&stVisible != 0:
		words = append(words, "offscreen")
	default:
		words = append(words, "hidden")
	}
	if protected {
		words = append(words, "protected")
	}
	slices.Sort(words)
	return words
}

// actionWord returns the word for an action's name as its toolkit publishes it.
func actionWord(name string) string {
	w := strings.ToLower(strings.TrimSpace(name))
	switch w {
	case "showmenu", "show menu", "showcontextmenu", "popup menu", "context menu", "menu.popup":
		return "show_menu"
	case "increase":
		return "increment"
	case "decrease":
		return "decrement"
	case "expand or contract":
		return "toggle_expand"
	case "setfocus":
		return "focus"
	}
	return strings.NewReplacer(" ", "_", "-", "_").Replace(w)
}

// mainActions are the names of main actions, the surest first.
var mainActions = []string{
	"press", "click", "activate", "jump", "dodefault", "toggle", "check", "uncheck", "click_ancestor", "clickancestor", "open", "select",
}

// offered are the actions that are worth telling of: GTK 4 publishes those of
// every text's context menu, too.
func offered(names []string) []string {
	var worth []string
	for _, name := range names {
		group, _, dotted := strings.Cut(name, ".")
		if name == "" ||
			dotted && slices.Contains([]string{"clipboard", "selection", "link", "misc", "text", "list", "default", "window"}, group) ||
			slices.Contains(worth, name) {
			continue
		}
		worth = append(worth, name)
	}
	return worth
}

// mainAction returns the index of the main one of the actions, -1 if there is none.
func mainAction(names []string) int {
	for _, main := range mainActions {
		if i := slices.Index(names, main); i >= 0 {
			return i
		}
	}
	if len(names) == 1 && names[0] == "show_menu" {
		return 0 // a menu of Qt's
	}
	return -1
}

// label returns an element's name as it is shown: GTK 3 pads some, and GTK 4 calls
// what has no name after its class.
func label(name string, kind toolkit) string {
	name = strings.TrimSpace(name)
	if kind == gtk4 {
		for _, library := range []string{"Gtk", "Adw"} {
			if rest, ok := strings.CutPrefix(name, library); ok && rest != "" && rest[0] >= 'A' && rest[0] <= 'Z' && !strings.Contains(rest, " ") {
				return ""
			}
		}
	}
	return name
}

// once is a name without its repetition: GTK 4 names a button with a label within
// its label by both, "7 7".
func once(name string) string {
	if half := len(name) / 2; len(name)%2 == 1 && name[half] == ' ' && name[:half] == name[half+1:] {
		return name[:half]
	}
	return name
}

// keep is clip for what outlives the message it came in: a copy, so that a short
// name does not hold a large buffer.
func keep(s string, most int) string { return strings.Clone(capabilities.Clip(s, most)) }
