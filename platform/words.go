package platform

// The words of accessible trees, the same on every system: implementations
// translate into them, callers may ask for any of them. Roles follow WAI-ARIA
// where it has a word.

// Roles lists the roles.
var Roles = []string{
	"alert", "application", "button", "canvas", "cell", "checkbox", "columnheader", "combobox", "dialog", "document", "generic",
	"grid", "group", "heading", "image", "label", "link", "list", "listbox", "listitem", "menu", "menubar", "menuitem",
	"menuitemcheckbox", "menuitemradio", "option", "page", "paragraph", "progressbar", "radio", "row", "rowheader", "scrollarea", "scrollbar",
	"section", "separator", "slider", "spinbutton", "splitter", "status", "switch", "tab", "table", "tablist", "tabpanel",
	"terminal", "textbox", "timer", "titlebar", "togglebutton", "toolbar", "tooltip", "tree", "treeitem", "unknown", "window",
}

// States lists the states. An element without "enabled" is disabled.
var States = []string{
	"active", "busy", "checked", "collapsed", "editable", "enabled", "expanded", "focusable", "focused", "hidden", "invalid",
	"mixed", "modal", "multiline", "multiselectable", "offscreen", "pressed", "protected", "readonly", "required", "selectable",
	"selected", "visible",
}

// KeyNames says how keys are named in Input.Key: one character stands for the key
// that makes it ("a", "/", "é"), longer names are these, in any case.
var KeyNames = []string{
	"Alt", "AltGr", "ArrowDown", "ArrowLeft", "ArrowRight", "ArrowUp", "Backspace", "CapsLock", "ContextMenu", "Control",
	"Delete", "End", "Enter", "Escape", "F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9", "F10", "F11", "F12", "Home", "Insert",
	"Meta", "NumLock", "PageDown", "PageUp", "Pause", "PrintScreen", "ScrollLock", "Shift", "Space", "Tab",
}
