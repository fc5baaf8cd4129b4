package selector

import (
	"slices"
	"strings"
	"unicode"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// otherRoles are words of toolkits and of other tools for platform's roles.
var otherRoles = map[string]string{
	"pushbutton": "button", "entry": "textbox", "edit": "textbox", "textfield": "textbox", "textarea": "textbox", "input": "textbox",
	"text": "textbox", "passwordtext": "textbox", "searchbox": "textbox", "frame": "window", "radiobutton": "radio", "tablecell": "cell",
	"pagetab": "tab", "pagetablist": "tablist", "static": "label", "statictext": "label", "dropdown": "combobox", "img": "image",
	"picture": "image", "icon": "image", "checkmenuitem": "menuitemcheckbox", "radiomenuitem": "menuitemradio", "spinner": "spinbutton",
	"scrollpane": "scrollarea", "toggle": "togglebutton", "progress": "progressbar", "app": "application", "hyperlink": "link",
	"tablerow": "row", "treetable": "tree", "treeview": "tree", "dialogue": "dialog", "panel": "group",
}

// otherStates are further words for states. A leading "!" is their absence.
var otherStates = map[string]string{
	"disabled": "!enabled", "unchecked": "!checked", "unselected": "!selected", "unfocused": "!focused", "invisible": "!visible",
	"showing": "visible", "sensitive": "enabled", "on": "checked", "off": "!checked", "open": "expanded", "closed": "collapsed",
}

// plainWord is a word without case, spaces and hyphens.
func plainWord(s string) string {
	return strings.NewReplacer(" ", "", "-", "", "_", "").Replace(strings.ToLower(strings.TrimSpace(s)))
}

// roleWord returns platform's word for a role.
func roleWord(s string) (string, bool) {
	w := plainWord(s)
	if slices.Contains(platform.Roles, w) {
		return w, true
	}
	r, ok := otherRoles[w]
	return r, ok
}

// stateWord returns platform's word for a state, with "!" before it where the word
// means its absence.
func stateWord(s string) (string, bool) {
	not := ""
	if rest, negative := strings.CutPrefix(s, "!"); negative {
		s, not = rest, "!"
	}
	w := plainWord(s)
	if !slices.Contains(platform.States, w) {
		var ok bool
		if w, ok = otherStates[w]; !ok {
			return "", false
		}
	}
	return strings.TrimPrefix(not+w, "!!"), true
}

// unknownWord refuses a word and names those that come nearest.
func unknownWord(at int, what, word string, known []string) error {
	list := slices.Clone(known)
	slices.SortStableFunc(list, func(a, b string) int { return edits(a, plainWord(word)) - edits(b, plainWord(word)) })
	return Errorf(at, "there is no %s %q; the nearest are %s", what, capabilities.Clip(word, 40),
		strings.Join(list[:min(4, len(list))], ", "))
}

// edits is the number of characters to change, add or drop between two texts,
// of which the first 64 count.
func edits(a, b string) int {
	x, y := []rune(a), []rune(b)
	x, y = x[:min(len(x), 64)], y[:min(len(y), 64)]
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		left := row[0]
		row[0] = i + 1
		for j := range y {
			change := left
			if x[i] != y[j] {
				change++
			}
			left = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(y)]
}

// Simple is a text as people compare it: without needless space, and without what is
// dangerous to show (capabilities.Hidden), such as the direction marks that programs put into
// their own labels (GTK 3 writes a time as "23\u200e∶06") and the overrides by which a file's
// name reads as another. Two kinds are part of a name and stay: joiners, with which words of
// Persian and Hindi are spelled, and private characters, by which icon fonts label a button.
func Simple(s string) string {
	if strings.ContainsFunc(s, capabilities.Hidden) {
		s = strings.Map(unhidden, s)
	}
	return strings.Join(strings.Fields(s), " ") // also at no-break spaces
}

func unhidden(r rune) rune {
	if capabilities.Hidden(r) && !unicode.IsSpace(r) && !unicode.In(r, unicode.Join_Control, unicode.Co) {
		return -1
	}
	return r
}

// Folded is simple without case.
func Folded(s string) string { return strings.ToLower(Simple(s)) }
