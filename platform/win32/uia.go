package win32

import (
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// method is one entry of an interface's table of functions.
type method struct {
	of, name string
	slot     uintptr // from 0, the three of IUnknown counted
}

// The methods that this package calls, in the order of methods.
const (
	unknownQuery = iota
	unknownAddRef
	unknownRelease
	automationFromHandleCached
	automationControlWalker
	automationCacheRequest
	automationAutoFocus
	automationConnectionTimeout
	automationTransactionTimeout
	requestAddProperty
	requestScope
	walkerFirstCached
	walkerNextCached
	arrayLength
	arrayElement
	elementSetFocus
	elementUpdatedCache
	elementCached
	elementPattern
	elementCachedChildren
	elementCachedRect
	invokeInvoke
	expandExpand
	expandCollapse
	expandState
	rangeSet
	rangeValue
	rangeReadOnly
	rangeMost
	rangeLeast
	rangeStep
	revealReveal
	selectSelect
	selectAdd
	toggleToggle
	valueSet
	valueValue
	legacyDefault
	legacySet
	legacyDefaultName
	textDocument
	textRangeText
)

// methods returns their places, which a test holds against the documented order.
var methods = [...]method{
	unknownQuery:                 {"IUIAutomationElement", "QueryInterface", 0},
	unknownAddRef:                {"IUIAutomationElement", "AddRef", 1},
	unknownRelease:               {"IUIAutomationElement", "Release", 2},
	automationFromHandleCached:   {"IUIAutomation2", "ElementFromHandleBuildCache", 10},
	automationControlWalker:      {"IUIAutomation2", "get_ControlViewWalker", 14},
	automationCacheRequest:       {"IUIAutomation2", "CreateCacheRequest", 20},
	automationAutoFocus:          {"IUIAutomation2", "put_AutoSetFocus", 59},
	automationConnectionTimeout:  {"IUIAutomation2", "put_ConnectionTimeout", 61},
	automationTransactionTimeout: {"IUIAutomation2", "put_TransactionTimeout", 63},
	requestAddProperty:           {"IUIAutomationCacheRequest", "AddProperty", 3},
	requestScope:                 {"IUIAutomationCacheRequest", "put_TreeScope", 7},
	walkerFirstCached:            {"IUIAutomationTreeWalker", "GetFirstChildElementBuildCache", 10},
	walkerNextCached:             {"IUIAutomationTreeWalker", "GetNextSiblingElementBuildCache", 12},
	arrayLength:                  {"IUIAutomationElementArray", "get_Length", 3},
	arrayElement:                 {"IUIAutomationElementArray", "GetElement", 4},
	elementSetFocus:              {"IUIAutomationElement", "SetFocus", 3},
	elementUpdatedCache:          {"IUIAutomationElement", "BuildUpdatedCache", 9},
	elementCached:                {"IUIAutomationElement", "GetCachedPropertyValue", 12},
	elementPattern:               {"IUIAutomationElement", "GetCurrentPatternAs", 14},
	elementCachedChildren:        {"IUIAutomationElement", "GetCachedChildren", 19},
	elementCachedRect:            {"IUIAutomationElement", "get_CachedBoundingRectangle", 75},
	invokeInvoke:                 {"IUIAutomationInvokePattern", "Invoke", 3},
	expandExpand:                 {"IUIAutomationExpandCollapsePattern", "Expand", 3},
	expandCollapse:               {"IUIAutomationExpandCollapsePattern", "Collapse", 4},
	expandState:                  {"IUIAutomationExpandCollapsePattern", "get_CurrentExpandCollapseState", 5},
	rangeSet:                     {"IUIAutomationRangeValuePattern", "SetValue", 3},
	rangeValue:                   {"IUIAutomationRangeValuePattern", "get_CurrentValue", 4},
	rangeReadOnly:                {"IUIAutomationRangeValuePattern", "get_CurrentIsReadOnly", 5},
	rangeMost:                    {"IUIAutomationRangeValuePattern", "get_CurrentMaximum", 6},
	rangeLeast:                   {"IUIAutomationRangeValuePattern", "get_CurrentMinimum", 7},
	rangeStep:                    {"IUIAutomationRangeValuePattern", "get_CurrentSmallChange", 9},
	revealReveal:                 {"IUIAutomationScrollItemPattern", "ScrollIntoView", 3},
	selectSelect:                 {"IUIAutomationSelectionItemPattern", "Select", 3},
	selectAdd:                    {"IUIAutomationSelectionItemPattern", "AddToSelection", 4},
	toggleToggle:                 {"IUIAutomationTogglePattern", "Toggle", 3},
	valueSet:                     {"IUIAutomationValuePattern", "SetValue", 3},
	valueValue:                   {"IUIAutomationValuePattern", "get_CurrentValue", 4},
	legacyDefault:                {"IUIAutomationLegacyIAccessiblePattern", "DoDefaultAction", 4},
	legacySet:                    {"IUIAutomationLegacyIAccessiblePattern", "SetValue", 5},
	legacyDefaultName:            {"IUIAutomationLegacyIAccessiblePattern", "get_CurrentDefaultAction", 15},
	textDocument:                 {"IUIAutomationTextPattern", "get_DocumentRange", 7},
	textRangeText:                {"IUIAutomationTextRange", "GetText", 12},
}

// Patterns (UIA_…PatternId) with the interfaces that they are asked for by.
const (
	patternInvoke        = 10000
	patternValue         = 10002
	patternRange         = 10003
	patternExpand        = 10005
	patternSelectionItem = 10010
	patternText          = 10014
	patternToggle        = 10015
	patternScrollItem    = 10017
	patternLegacy        = 10018
)

// patternIDs are the interfaces of the patterns, as they are written.
var patternIDs = map[uintptr]string{
	patternInvoke:        "fb377fbe-8ea6-46d5-9c73-6499642d3059",
	patternValue:         "a94cd8b1-0844-4cd6-9d2d-640537ab39e9",
	patternRange:         "59213f4f-7346-49e5-b120-80555987a148",
	patternExpand:        "619be086-1f4e-4ee4-bafa-210128738730",
	patternSelectionItem: "a8efa66a-0fda-421a-9194-38021f3578ea",
	patternText:          "32eba289-3583-42c9-9c59-3b6d9a1e9b6a",
	patternToggle:        "94cf8058-9b8d-4ab9-8bfd-4cd0a33c8c70",
	patternScrollItem:    "b488300f-d015-4f19-9c29-bb595e3645ef",
	patternLegacy:        "828055ad-355b-4435-86d5-3b51c14a9b1b",
}

// Properties (UIA_…PropertyId) that are fetched with each element.
const (
	propRuntimeID     = 30000
	propBounds        = 30001
	propProcess       = 30002
	propControl       = 30003
	propName          = 30005
	propFocused       = 30008
	propFocusable     = 30009
	propEnabled       = 30010
	propHelp          = 30013
	propPassword      = 30019
	propOffscreen     = 30022
	propRequired      = 30025
	propHasExpand     = 30028
	propHasInvoke     = 30031
	propHasRange      = 30033
	propHasSelect     = 30036
	propHasToggle     = 30041
	propHasValue      = 30043
	propValue         = 30045
	propReadOnly      = 30046
	propNumber        = 30047
	propMultiselect   = 30060
	propExpandState   = 30070
	propModal         = 30077
	propSelected      = 30079
	propToggleState   = 30086
	propRangeReadOnly = 30048
)

// fetched are the properties of a reading: all of them in one call for a window.
var fetched = [...]uintptr{
	propRuntimeID, propBounds, propProcess, propControl, propName, propFocused, propFocusable, propEnabled, propHelp, propPassword,
	propOffscreen, propRequired, propHasExpand, propHasInvoke, propHasRange, propHasSelect, propHasToggle, propHasValue, propValue,
	propReadOnly, propNumber, propMultiselect, propExpandState, propModal, propSelected, propToggleState, propRangeReadOnly,
}

// facts are what one element's properties say.
type facts struct {
	control                                  int32
	name, help, value                        string
	number                                   float64
	bounds                                   platform.Rect
	pid                                      int
	focused, focusable, enabled              bool
	password, offscreen, required            bool
	expands, invokes, ranges, selects, flips bool // has that pattern
	valued, readonly                         bool
	//lint:ignore U1000 used in files for Windows only
	rangeReadonly                        bool
	multiselect, modal, selected, active bool
	expand, toggle                       int32
}

// The states of ExpandCollapse and Toggle.
const (
	stateCollapsed, stateExpanded, statePartly, stateLeaf = 0, 1, 2, 3
	toggleOn, toggleMixed                                 = 1, 2
)

// controlWords translates UIA_…ControlTypeId, from 50000, into the words of
// platform.Roles.
var controlWords = [...]string{
	"button", "group", "checkbox", "combobox", "textbox", "link", "image", "listitem", "list", "menu", "menubar", "menuitem",
	"progressbar", "radio", "scrollbar", "slider", "spinbutton", "status", "tablist", "tab", "label", "toolbar", "tooltip", "tree",
	"treeitem", "generic", "group", "button", "grid", "row", "document", "button", "window", "group", "group", "columnheader",
	"table", "titlebar", "separator", "group", "toolbar",
}

const (
	firstControl    = 50000
	controlButton   = 50000
	controlMenuItem = 50011
	controlDocument = 50030
	controlWindow   = 50032
)

// role returns the word for what the element is.
func (f *facts) role() string {
	i := int(f.control) - firstControl
	if i < 0 || i >= len(controlWords) {
		return "generic"
	}
	switch {
	case f.control == controlButton && f.flips:
		return "togglebutton"
	case f.control == controlMenuItem && f.flips:
		return "menuitemcheckbox"
	case f.control == controlMenuItem && f.selects:
		return "menuitemradio"
	case f.control == controlWindow && f.modal:
		return "dialog"
	case f.control == controlDocument && f.valued && !f.readonly && f.focusable:
		return "textbox" // an editor's page
	}
	return controlWords[i]
}

// states returns the words for how it is, sorted.
func (f *facts) states() []string {
	role := f.role()
	written := role == "textbox" || role == "combobox" || role == "spinbutton"
	chosen := role == "radio" || role == "menuitemradio"
	words := make([]string, 0, 6)
	for _, s := range [...]struct {
		is   bool
		word string
	}{
		{f.active, "active"},
		{f.flips && role != "togglebutton" && f.toggle == toggleOn || chosen && f.selected, "checked"},
		{f.expands && f.expand == stateCollapsed, "collapsed"},
		{written && f.valued && !f.readonly, "editable"},
		{f.enabled, "enabled"},
		{f.expands && (f.expand == stateExpanded || f.expand == statePartly), "expanded"},
		{f.focusable, "focusable"},
		{f.focused, "focused"},
		{f.flips && f.toggle == toggleMixed, "mixed"},
		{f.modal, "modal"},
		{f.control == controlDocument && role == "textbox", "multiline"},
		{f.multiselect, "multiselectable"},
		{f.offscreen, "offscreen"},
		{role == "togglebutton" && f.toggle == toggleOn, "pressed"},
		{f.password, "protected"},
		{written && f.valued && f.readonly, "readonly"},
		{f.required, "required"},
		{f.selects && !chosen, "selectable"},
		{f.selects && !chosen && f.selected, "selected"},
		{!f.offscreen, "visible"},
	} {
		if s.is {
			words = append(words, s.word)
		}
	}
	return words
}

// actions returns the names of what it can do itself.
func (f *facts) actions() []string {
	var names []string
	opens := f.expands && f.expand != stateLeaf
	role := f.role()
	if f.invokes || f.flips || f.selects && (role == "radio" || role == "tab") ||
		opens && (role == "menuitem" || role == "combobox" || role == "button") {
		names = append(names, platform.Press)
	}
	if f.flips {
		names = append(names, "toggle")
	}
	if opens {
		names = append(names, "expand", "collapse")
	}
	if f.selects {
		names = append(names, "select")
	}
	return names
}

// shown returns what a field shows; nothing of a protected one.
func (f *facts) shown() string {
	switch {
	case f.password:
		return ""
	case f.valued && f.value != "":
		return capabilities.Clip(f.value, maxText)
	case f.ranges:
		return strconv.FormatFloat(f.number, 'g', -1, 64)
	}
	return ""
}

// Bounds of what one element may bring, in bytes.
const (
	maxText = 4096
	maxRef  = 512
)

// element returns it in the words of the seam.
func (f *facts) element(ref string, parent int, app, window string, full bool) platform.Element {
	e := platform.Element{
		Ref: ref, Parent: parent, Role: f.role(), Name: capabilities.Clip(strings.TrimSpace(f.name), maxText),
		Description: capabilities.Clip(f.help, maxText), States: f.states(), App: app, PID: f.pid, Window: window,
	}
	if full {
		e.Value, e.Actions = f.shown(), f.actions()
		if !f.offscreen {
			e.Bounds = f.bounds
		}
	}
	return e
}

const elementPrefix = "uia:"

// elementRef names an element by its process and its runtime id, which Windows
// gives to nothing else while it lives. "" if there is none or it is too long.
func elementRef(pid int, runtime []int32) string {
	if len(runtime) == 0 {
		return ""
	}
	b := append([]byte(elementPrefix), strconv.Itoa(pid)...)
	for i, n := range runtime {
		b = append(b, ":."[min(i, 1)])
		b = strconv.AppendInt(b, int64(n), 16)
	}
	if len(b) > maxRef {
		return ""
	}
	return string(b)
}

// appRef names an application; there is nothing in UI Automation for it.
func appRef(pid int) string { return elementPrefix + "app:" + strconv.Itoa(pid) }

// appOf reads an appRef.
func appOf(ref string) (pid int, ok bool) {
	digits, found := strings.CutPrefix(ref, elementPrefix+"app:")
	pid, err := strconv.Atoi(digits)
	return pid, found && err == nil && pid > 0
}

// The results (HRESULT) that conditions are made of.
const (
	resultNotEnabled   = 0x80040200 // UIA_E_ELEMENTNOTENABLED
	resultNotAvailable = 0x80040201 // UIA_E_ELEMENTNOTAVAILABLE
	resultNotSupported = 0x80040204 // UIA_E_NOTSUPPORTED
	resultInvalid      = 0x80131509 // UIA_E_INVALIDOPERATION
	resultTimeout      = 0x80131505 // UIA_E_TIMEOUT
	resultNoInterface  = 0x80004002 // E_NOINTERFACE
	resultNotDone      = 0x80004001 // E_NOTIMPL
	resultDenied       = 0x80070005 // E_ACCESSDENIED
	resultBadArgument  = 0x80070057 // E_INVALIDARG
	resultNoWindow     = 0x80070578 // ERROR_INVALID_WINDOW_HANDLE
	resultNoServer     = 0x800706BA // RPC_S_SERVER_UNAVAILABLE
	resultCallFailed   = 0x800706BE // RPC_S_CALL_FAILED
	resultNotCalled    = 0x800706BF // RPC_S_CALL_FAILED_DNE
	resultDisconnected = 0x80010108 // RPC_E_DISCONNECTED
	resultRejected     = 0x80010001 // RPC_E_CALL_REJECTED
	resultLater        = 0x8001010A // RPC_E_SERVERCALL_RETRYLATER
)

// resultError returns the condition for a result; nil for a good one.
func resultError(what string, hr uint32) error {
	switch {
	case hr < 0x80000000:
		return nil
	case slices.Contains([]uint32{resultNotAvailable, resultNoServer, resultCallFailed, resultNotCalled, resultDisconnected, resultNoWindow},
		hr):
		return platform.ErrGone
	case slices.Contains([]uint32{
		resultNotEnabled, resultNotSupported, resultInvalid, resultNoInterface, resultNotDone, resultDenied, resultBadArgument,
	}, hr):
		return platform.ErrCannot
	case hr == resultTimeout, hr == resultRejected, hr == resultLater: // it is busy with itself
		return platform.ErrHung
	}
	return &ResultError{What: what, Result: hr}
}

// ResultError is an answer of Windows' that has no condition of its own.
type ResultError struct {
	What   string // the function that was called
	Result uint32 // its HRESULT
}

// Error returns the text.
func (e *ResultError) Error() string {
	return "win32: " + e.What + " answered 0x" + strings.ToUpper(strconv.FormatUint(uint64(e.Result), 16))
}
