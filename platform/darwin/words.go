package darwin

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// roleWords translates AXRole into the words of platform.Roles; what is not in it
// is "generic".
var roleWords = map[string]string{
	"AXApplication": "application", "AXSystemWide": "generic", "AXWindow": "window", "AXSheet": "dialog", "AXDrawer": "group",
	"AXGrowArea": "generic", "AXImage": "image", "AXUnknown": "unknown", "AXButton": "button", "AXRadioButton": "radio",
	"AXCheckBox": "checkbox", "AXPopUpButton": "combobox", "AXMenuButton": "button", "AXTabGroup": "tablist", "AXTable": "table",
	"AXColumn": "generic", "AXRow": "row", "AXOutline": "tree", "AXBrowser": "tree", "AXScrollArea": "scrollarea", "AXScrollBar": "scrollbar",
	"AXRadioGroup": "group", "AXList": "list", "AXGroup": "group", "AXValueIndicator": "generic", "AXComboBox": "combobox",
	"AXSlider": "slider", "AXIncrementor": "spinbutton", "AXBusyIndicator": "progressbar", "AXProgressIndicator": "progressbar",
	"AXRelevanceIndicator": "progressbar", "AXLevelIndicator": "progressbar", "AXToolbar": "toolbar", "AXDisclosureTriangle": "togglebutton",
	"AXTextField": "textbox", "AXTextArea": "textbox", "AXStaticText": "label", "AXHeading": "heading", "AXLink": "link",
	"AXMenuBar": "menubar", "AXMenuBarItem": "menuitem", "AXMenu": "menu", "AXMenuItem": "menuitem", "AXSplitGroup": "group",
	"AXSplitter": "splitter", "AXColorWell": "button", "AXTimeField": "textbox", "AXDateField": "textbox", "AXHelpTag": "tooltip",
	"AXMatte": "generic", "AXDockItem": "button", "AXRuler": "generic", "AXRulerMarker": "generic", "AXGrid": "grid",
	"AXLevelIndicatorCell": "progressbar", "AXCell": "cell", "AXLayoutArea": "group", "AXLayoutItem": "group", "AXHandle": "generic",
	"AXPopover": "dialog", "AXWebArea": "document", "AXPage": "page", "AXOption": "option", "AXListMarker": "label",
}

// subroleWords are subroles that say more than the role.
var subroleWords = map[string]string{
	"AXDialog": "dialog", "AXSystemDialog": "dialog", "AXFloatingWindow": "window", "AXTabButton": "tab", "AXToggle": "togglebutton",
	"AXSwitch": "switch", "AXOutlineRow": "treeitem", "AXSortButton": "columnheader", "AXTextLink": "link", "AXContentList": "list",
	"AXDefinitionList": "list", "AXSeparatorMenuItem": "separator", "AXTimeline": "slider", "AXSearchField": "textbox",
	"AXSecureTextField": "textbox",
}

// facts are what one element's attributes say.
type facts struct {
	role, subrole               string
	title, description, help    string
	text                        string  // a value that is text
	number                      float64 // a value that is a number or a truth
	numbered                    bool
	bounds                      platform.Rect
	enabled, knowsEnabled       bool
	focused, selected, expanded bool
	knowsSelected, knowsExpands bool
	modal, main, minimized      bool
	settable                    bool // its value can be set
	actions                     []string
	pid                         int
}

func (f *facts) word() string {
	if w, ok := subroleWords[f.subrole]; ok {
		return w
	}
	if w, ok := roleWords[f.role]; ok {
		return w
	}
	return "generic"
}

func (f *facts) protected() bool { return f.subrole == "AXSecureTextField" }

func (f *facts) name() string {
	for _, s := range []string{f.title, f.description} {
		if s = strings.TrimSpace(s); s != "" {
			return capabilities.Clip(s, maxText)
		}
	}
	if w := f.word(); w == "label" || w == "heading" {
		return capabilities.Clip(strings.TrimSpace(f.text), maxText)
	}
	return ""
}

// states returns the words for how it is, sorted.
func (f *facts) states() []string {
	word := f.word()
	written := word == "textbox" || f.role == "AXComboBox"
	flips := word == "checkbox" || word == "switch" || word == "radio"
	words := make([]string, 0, 6)
	for _, s := range [...]struct {
		is   bool
		word string
	}{
		{f.main, "active"},
		{flips && f.number == 1, "checked"},
		{f.knowsExpands && !f.expanded, "collapsed"},
		{written && f.settable, "editable"},
		{f.enabled || !f.knowsEnabled, "enabled"},
		{f.knowsExpands && f.expanded, "expanded"},
		{written || f.focused || word == "button" || flips, "focusable"},
		{f.focused, "focused"},
		{flips && f.number == 2, "mixed"},
		{f.modal || f.role == "AXSheet", "modal"},
		{f.role == "AXTextArea", "multiline"},
		{f.bounds.Empty() || f.minimized, "offscreen"},
		{word == "togglebutton" && f.number == 1, "pressed"},
		{f.protected(), "protected"},
		{written && !f.settable, "readonly"},
		{f.knowsSelected, "selectable"},
		{f.selected, "selected"},
		{!f.bounds.Empty() && !f.minimized, "visible"},
	} {
		if s.is {
			words = append(words, s.word)
		}
	}
	return words
}

// actionWords are the names of AX's actions that have another word here.
var actionWords = map[string]string{
	"AXPress": platform.Press, "AXShowMenu": "show_menu", "AXIncrement": "increment", "AXDecrement": "decrement", "AXConfirm": "confirm",
	"AXCancel": "cancel", "AXRaise": "raise", "AXPick": "pick", "AXOpen": "open", "AXScrollToVisible": "scroll_to_visible",
	"AXDelete": "delete", "AXShowAlternateUI": "show_alternate", "AXShowDefaultUI": "show_default",
}

// nativeAction returns AX's name for an action's word; "" if there is none.
func nativeAction(word string) string {
	for native, w := range actionWords {
		if w == word {
			return native
		}
	}
	if word == "click" {
		return "AXPress"
	}
	return ""
}

// offered returns the words of the actions that are worth telling of.
func (f *facts) offered() []string {
	var words []string
	for _, a := range f.actions {
		// An application may name actions of its own with sentences.
		if w := actionWords[a]; w != "" && !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	if f.knowsExpands {
		words = append(words, "expand", "collapse")
	}
	return words
}

// shown returns what a field shows; nothing of a protected one.
func (f *facts) shown() string {
	switch {
	case f.protected():
		return ""
	case f.text != "":
		return capabilities.Clip(f.text, maxText)
	case f.numbered && slices.Contains([]string{"slider", "spinbutton", "progressbar", "scrollbar"}, f.word()):
		return strconv.FormatFloat(f.number, 'g', -1, 64)
	}
	return ""
}

// maxText bounds what one element may bring, in bytes.
const maxText = 4096

// element returns it in the words of the seam.
func (f *facts) element(ref string, parent int, app, window string, full bool) platform.Element {
	e := platform.Element{
		Ref: ref, Parent: parent, Role: f.word(), Name: f.name(), Description: capabilities.Clip(f.help, maxText), States: f.states(), App: app,
		PID: f.pid, Window: window,
	}
	if full {
		e.Value, e.Actions, e.Bounds = f.shown(), f.offered(), f.bounds
	}
	return e
}

// The answers of AX (kAXError…) that conditions are made of.
const (
	axSuccess        = 0
	axFailure        = -25200
	axBadArgument    = -25201
	axInvalid        = -25202
	axCannotComplete = -25204
	axNoAttribute    = -25205
	axNoAction       = -25206
	axNotDone        = -25208
	axDisabled       = -25211
	axNoValue        = -25212
	axNoParameter    = -25213
	axTimeout        = -25216 // in no header; newer systems say it for a question without an answer
)

// axError returns the condition for an answer; nil for a good one.
func axError(what string, code int32) error {
	switch code {
	case axSuccess:
		return nil
	case axInvalid:
		return platform.ErrGone
	case axCannotComplete, axTimeout: // it did not answer in its time
		return platform.ErrHung
	case axNoAttribute, axNoAction, axNotDone, axNoValue, axNoParameter, axBadArgument, axFailure:
		return platform.ErrCannot
	case axDisabled:
		return lacks(accessibility)
	}
	return &AnswerError{What: what, Code: code}
}

// AnswerError is an answer of macOS' that has no condition of its own.
type AnswerError struct {
	What string // the function that was called
	Code int32  // its AXError or CGError
}

// Error returns the text.
func (e *AnswerError) Error() string {
	return "darwin: " + e.What + " answered " + strconv.Itoa(int(e.Code))
}

// notifications are what is listened for in each application, with the kind of
// platform.ElementEvent that each is.
var notifications = map[string]string{
	"AXFocusedUIElementChanged": "focused", "AXFocusedWindowChanged": "window", "AXMainWindowChanged": "window", "AXWindowCreated": "window",
	"AXApplicationActivated": "window", "AXSheetCreated": "added", "AXMenuOpened": "added", "AXMenuClosed": "removed", "AXCreated": "added",
	"AXUIElementDestroyed": "removed", "AXValueChanged": "text", "AXTitleChanged": "changed", "AXSelectedTextChanged": "text",
	"AXSelectedChildrenChanged": "changed", "AXSelectedRowsChanged": "changed", "AXRowCountChanged": "changed", "AXRowExpanded": "changed",
	"AXRowCollapsed": "changed", "AXLayoutChanged": "changed", "AXWindowMiniaturized": "window", "AXWindowDeminiaturized": "window",
}

const (
	windowPrefix  = "cg:"
	elementPrefix = "ax:"
)

func windowRef(number int) string { return windowPrefix + strconv.Itoa(number) }

// windowNumber reads a windowRef.
func windowNumber(ref string) (int, bool) {
	digits, ok := strings.CutPrefix(ref, windowPrefix)
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n > 0 && n <= math.MaxUint32
}

func elementRef(pid int, serial uint64) string {
	return elementPrefix + strconv.Itoa(pid) + ":" + strconv.FormatUint(serial, 10)
}
