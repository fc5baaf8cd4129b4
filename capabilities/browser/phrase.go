package browser

import (
	"fmt"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// This file is the only one that words evidence. No sentence holds a word of the page's or
// the caller's, but for the host of an address that did not open.

// phrase is how a cause is told, and which effect an action has of which it is all that was
// seen.
type phrase struct {
	effect capabilities.Effect
	words  string
	// more, unless nil, says what the evidence itself adds.
	more func(e evidence) string
}

const (
	confirmed    = capabilities.EffectConfirmed
	partial      = capabilities.EffectPartial
	unverifiable = capabilities.EffectUnverifiable
	suspected    = capabilities.EffectSuspectNoop
)

// phrases has each cause. Words that begin with a comma go on with the sentence before them;
// words that end with a colon lead the next one in.
var phrases = map[cause]phrase{
	newDocument:      {confirmed, "a new document was opened", nil},
	newFrameDocument: {confirmed, "a frame shows a new document", nil},
	newAddress:       {confirmed, "the address changed", nil},
	newFrameAddress:  {confirmed, "the address in a frame changed", nil},
	openedTab:        {confirmed, "a new tab was opened", ofTabs},
	openedDialog:     {confirmed, "the page opened ", func(e evidence) string { return article(e.name) }},
	openedChooser:    {confirmed, "a file chooser was opened, which upload-file can answer", nil},
	barredChooser: {partial, "the page asked for files in a way that nothing can answer: upload-file can give them to a " +
		"file input, or drop them on what is marked [dropzone]", nil},
	startedDownload: {confirmed, "a download started", nil},
	sentRequest:     {confirmed, "the page sent a request", nil},
	closedTab:       {confirmed, "the tab closed itself", nil},
	replacedItself:  {confirmed, "the page replaced its own content", nil},

	notArrived:   {partial, "a navigation started; its document has not arrived yet", nil},
	noDocument:   {partial, "a navigation started, but brought no document", nil},
	errorPage:    {partial, "a navigation started, but ended in an error page. ", byReason},
	errorStatus:  {confirmed, "the server answered with status ", byNumber},
	changedThen:  {confirmed, ", and then changed", nil},
	shownBefore:  {confirmed, "the tab shows what it showed before", nil},
	tabOverLimit: {partial, "a new tab was closed at once. ", byReason},
	tabBlocked:   {partial, "the page of a new tab did not open. ", byReason},
	frameBlocked: {partial, "a frame's page did not open. ", byReason},
	triedProgram: {partial, "the page asked for another program, which is not opened from here", nil},
	programAsked: {unverifiable, "the page had asked for another program, and Chrome asks whether to open it and may take no input " +
		"meanwhile: navigate ends that", nil},
	threwException: {unverifiable, "a script of the page threw an exception", nil},
	tabOfBefore: {confirmed, "tab ", func(e evidence) string {
		return byNumber(e) + " was opened by a page since the last call told of its tabs"
	}},

	changed:          {confirmed, "the page changed", nil},
	valueChanged:     {confirmed, "a value changed", nil},
	selectionChanged: {confirmed, "the selection changed", nil},
	pasted:           {confirmed, "something was pasted", nil},
	copied:           {confirmed, "something was copied", nil},
	submitted:        {confirmed, "a form was submitted", nil},
	refusedValue:     {confirmed, "the form refused a value", nil},
	scrolled:         {confirmed, "the page scrolled", nil},
	mediaStarted:     {confirmed, "media started", nil},
	mediaPaused:      {confirmed, "media paused", nil},
	toggled:          {confirmed, "something was opened or closed", nil},
	fieldFocused:     {confirmed, "the field has the focus", nil},
	focusMoved:       {confirmed, "the focus moved", nil},
	pointerOver:      {confirmed, "the pointer is over it", nil},
	tookDrop:         {confirmed, "something took the drop", nil},

	notReported:    {unverifiable, "the page did not report the event in time", nil},
	frameHangs:     {unverifiable, "the frame took the input and has not answered since: a script of it may run without end", nil},
	canvasGotIt:    {unverifiable, "a canvas got the event; what is drawn on it, it keeps to itself: a screenshot tells", nil},
	changesAgain:   {unverifiable, "the page changes again and again, whether by the action or by itself, and nothing else changed", nil},
	onlyTicks:      {suspected, "the element got the event, and nothing changed but what changes all the time", nil},
	takenUnseen:    {unverifiable, "the page took the event, and nothing visible changed", nil},
	nothingChanged: {suspected, "the element got the event, and nothing changed", nil},
	changedAsRead: {unverifiable, "nothing changed at first, and the page changed before its snapshot was taken, " +
		"whether by the action or by itself", nil},
	browserKey: {unverifiable, "keys reach the page, not the browser around it: ", byName},

	heldStill: {confirmed, ", after the pointer was held still before the drag", nil},
	draggedStayed: {unverifiable, "what is dragged changed in itself and stayed where it is, also after the pointer was held still " +
		"before the drag", nil},

	holdsValue:      {confirmed, "the field holds the value", nil},
	holdsText:       {confirmed, "the field holds the text", nil},
	optionsSelected: {confirmed, "the options are selected", nil},
	selectedAlready: {confirmed, "it was selected already", nil},
	listFollowed:    {confirmed, "the native list behind was set, and the page's own list shows it", nil},
	chosenShown:     {confirmed, "the page's own list was opened and clicked in, and shows what was chosen", nil},
	chosenHeld:      {confirmed, "the page's own list was opened and clicked in, and holds what was chosen without showing it", nil},
	chosenAmongOthers: {partial, "the page's own list was opened and clicked in, and holds what was chosen, and others besides: " +
		"click what removes those", nil},
	chosenUnshown:   {unverifiable, "the page's own list was opened and clicked in, and shows nothing of what was chosen", nil},
	listStaysOpen:   {partial, "the list stays open, and may cover the page", nil},
	allHold:         {confirmed, "each field holds its value", nil},
	noneChanged:     {suspected, "no field changed", nil},
	othersHold:      {partial, "the others hold their values", nil},
	editorShows:     {confirmed, "the editor shows the text", nil},
	editorShowsMore: {partial, "the editor shows the text, and something else: it may have added to it", nil},
	editorLacks:     {unverifiable, "the editor got the text, and what it shows does not hold all of it", nil},
	fieldUnchanged:  {suspected, "the field did not change", nil},
	fieldReplaced:   {unverifiable, "the page replaced the field while it was typed into", nil},
	fieldDiffers:    {partial, "the field changed, but holds something else: its page formats or limits it", nil},
	wasReplaced:     {unverifiable, "", func(e evidence) string { return e.name + " was replaced by the page while it was filled" }},
	isEditor: {unverifiable, "", func(e evidence) string {
		return e.name + " is an editor, and what it shows does not hold all of the text"
	}},
	changedByPage: {partial, "", func(e evidence) string { return e.name + ": changed or limited by the page" }},
	takenBack: {partial, "", func(e evidence) string {
		return e.name + ": the page took the value back; a picker or a list is clicked, and what it shows then"
	}},
	listOpen: {confirmed, "", func(e evidence) string {
		return e.name + ": its list is open, and what is meant is chosen there: click it"
	}},
	noFieldFocus: {confirmed, "no field has the focus, and the text went in as keys", nil},
	pressedEnter: {confirmed, "Enter:", nil},

	dialogAnswered: {confirmed, "the ", byName},
	dialogWhileLoading: {partial, "the new page opened ", func(e evidence) string {
		return article(e.name) + " dialog while it loaded, which waits for an answer"
	}},
	dialogOfBefore: {confirmed, "the ", func(e evidence) string { return e.name + " dialog of the page before was declined" }},
	asksToStay:     {partial, "the page shown asks whether it may be left; the navigation waits for the answer", nil},
	dialogArmed: {unverifiable, "no dialog is open; the next one of this tab will be ", func(e evidence) string {
		return e.name + ", unless another address is opened first"
	}},

	stillLoading:    {partial, ", but had not finished loading when time ran out", nil},
	showedNothing:   {partial, ", but showed nothing for 5 s", nil},
	notReady:        {partial, ", but was still not ready 5 s after it could be read", nil},
	replacesItself:  {partial, ", but replaces itself again and again", nil},
	notQuiet:        {partial, ", but its network was not quiet when time ran out", nil},
	refusedByServer: {partial, "the server answered with an error status", nil},

	stated:     {confirmed, "", byName},
	filesTaken: {unverifiable, "the files were handed to the page, which emptied its input", nil},
	filesHeld:  {confirmed, "the input holds the ", func(e evidence) string { return byNumber(e) + " file(s)" }},

	documentOpened: {confirmed, "the document was opened", nil},
	addressChanged: {confirmed, "the address changed within the document", nil},
	loadedAnew:     {confirmed, "the page was loaded anew", nil},
	historyShown:   {confirmed, "the ", func(e evidence) string { return e.name + " page of the history is shown" }},
	tabOpen:        {confirmed, "a new tab is open", nil},
	tabActive:      {confirmed, "the tab is active", nil},
	tabClosed:      {confirmed, "the tab is closed", nil},
}

func byName(e evidence) string   { return e.name }
func byNumber(e evidence) string { return fmt.Sprint(e.number) }

// byReason is what refused it, with what to do then.
func byReason(e evidence) string { return e.why.PublicMessage() + " " + e.why.PublicHint() }

// ofTabs names the tabs that were opened. Their addresses are the page's words.
func ofTabs(e evidence) (said string) {
	for _, t := range e.tabs {
		said += fmt.Sprintf(", tab %d", t.Index)
		if t.URL == "" {
			said += ", which shows nothing yet"
		}
	}
	if e.unshown {
		said += ", which the snapshot does not show"
	}
	return said
}

// words is the evidence as a part of a sentence.
func (e evidence) words() string {
	p := phrases[e.cause]
	if p.more == nil {
		return p.words
	}
	return p.words + p.more(e)
}

// words is the sentence of all that was seen.
func (v verdict) words() (said string) {
	for _, e := range v.seen {
		next := e.words()
		switch {
		case strings.HasPrefix(next, ","):
			said += next
		case strings.HasSuffix(said, ":"):
			said += " " + next
		default:
			said = joined(said, next)
		}
	}
	return said
}

// joined puts two sayings into one line.
func joined(said, more string) string {
	if said == "" || more == "" {
		return said + more
	}
	return said + "; " + more
}

// article is a word with its article.
func article(kind string) string {
	if strings.HasPrefix(kind, "a") {
		return "an " + kind
	}
	return "a " + kind
}
