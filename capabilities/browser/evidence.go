package browser

import (
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
)

// cause is one thing that an action was seen to do, or that kept it from doing more. Code
// compares causes, never sentences; phrase.go words each, and says which effect it is.
type cause int

const (
	// Only Chrome can tell these.
	newDocument cause = iota + 1
	newFrameDocument
	newAddress
	newFrameAddress
	openedTab // with tabs: those that are there
	openedDialog
	openedChooser
	barredChooser // the page asked for files in a way that nothing can answer
	startedDownload
	sentRequest
	closedTab
	replacedItself

	// These say what became of it.
	notArrived
	noDocument
	errorPage // with why
	errorStatus
	changedThen    // after its request
	shownBefore    // a download leaves the page as it was
	tabOverLimit   // with why
	tabBlocked     // with why
	frameBlocked   // with why
	triedProgram   // the page asked for another program
	programAsked   // and Chrome may ask the person about one
	threwException // a script of the page did
	tabOfBefore    // a page opened one since the last call

	// The page shows these; see pageCauses.
	changed
	valueChanged
	selectionChanged
	pasted
	copied
	submitted
	refusedValue
	scrolled
	mediaStarted
	mediaPaused
	toggled
	fieldFocused
	focusMoved
	pointerOver
	tookDrop

	// Nothing, or nothing that can be told.
	notReported
	frameHangs
	canvasGotIt
	changesAgain
	onlyTicks
	takenUnseen
	nothingChanged
	changedAsRead // nothing changed, and then something did before the snapshot of the answer
	browserKey    // with name: what to use instead

	// Drags.
	heldStill
	draggedStayed

	// These say what fields hold.
	holdsValue
	holdsText
	optionsSelected
	selectedAlready
	listFollowed // a hidden native list was set, and the page's own list shows it
	chosenShown  // in the page's own list, by clicks
	chosenHeld   // which does not show it, and holds it
	chosenAmongOthers
	chosenUnshown
	listStaysOpen
	allHold
	noneChanged
	othersHold
	editorShows
	editorShowsMore
	editorLacks
	fieldUnchanged
	fieldReplaced
	fieldDiffers
	wasReplaced   // with name: which of several fields
	isEditor      // with name
	changedByPage // with name: which fields
	takenBack     // with name
	listOpen      // with name
	noFieldFocus
	pressedEnter // what comes after it is of the key

	// Answers to dialogs; with name.
	dialogAnswered
	dialogWhileLoading
	asksToStay
	dialogOfBefore
	dialogArmed

	// Documents that were opened, and in how far.
	documentOpened
	addressChanged // within it
	loadedAnew
	historyShown // with name: earlier or later
	stillLoading
	showedNothing
	notReady
	replacesItself
	notQuiet
	refusedByServer

	// Tabs and files, as they were asked for.
	tabOpen
	tabActive
	tabClosed
	filesTaken
	filesHeld // with their number

	// stated is a sentence of its caller's, which nothing asks for: name is the whole of it.
	stated

	causeEnd
)

// evidence is a cause with what is said of it.
type evidence struct {
	cause   cause
	name    string
	number  int // an HTTP status, or a tab's index
	why     *capabilities.Error
	tabs    []tabEntry
	unshown bool // the snapshot does not show those tabs
}

// verdict is what an action was seen to do: its effect, and the evidence in the order in
// which it is told.
type verdict struct {
	effect capabilities.Effect
	seen   []evidence
}

// of is the verdict of that cause alone.
func of(c cause) verdict { return evidence{cause: c}.alone() }

// alone is the verdict of that evidence alone.
func (e evidence) alone() verdict { return verdict{phrases[e.cause].effect, []evidence{e}} }

// of returns the cause with that name.
func (c cause) of(name string) evidence { return evidence{cause: c, name: name} }

// because returns the cause with its reason.
func (c cause) because(why *capabilities.Error) evidence { return evidence{cause: c, why: why} }

// with returns the verdict with more evidence behind, and the same effect.
func (v verdict) with(more ...evidence) verdict {
	v.seen = slices.Concat(v.seen, more)
	return v
}

// after returns the verdict with a cause in front, and the same effect.
func (v verdict) after(c cause) verdict {
	v.seen = slices.Concat([]evidence{{cause: c}}, v.seen)
	return v
}

// as returns the verdict with another effect.
func (v verdict) as(effect capabilities.Effect) verdict {
	v.effect = effect
	return v
}

// only reports whether that is all that was seen.
func (v verdict) only(c cause) bool { return len(v.seen) == 1 && v.seen[0].cause == c }

// has reports whether that was seen.
func (v verdict) has(c cause) bool {
	return slices.ContainsFunc(v.seen, func(e evidence) bool { return e.cause == c })
}

// says reports whether the verdict tells all of another already.
func (v verdict) says(other verdict) bool {
	for _, o := range other.seen {
		if !slices.ContainsFunc(v.seen, func(e evidence) bool { return e.cause == o.cause && e.name == o.name }) {
			return false
		}
	}
	return true
}

// instead returns the verdict with another evidence in the place of a cause.
func (v verdict) instead(c cause, by evidence) verdict {
	v.seen = slices.Clone(v.seen)
	for i := range v.seen {
		if v.seen[i].cause == c {
			v.seen[i] = by
		}
	}
	return v
}

// pageCauses are the words of page/outcome.js for what it saw first.
var pageCauses = map[string]cause{
	"address": newAddress, "change": changed, "value": valueChanged, "selection": selectionChanged, "paste": pasted, "copy": copied,
	"submit": submitted, "invalid": refusedValue, "scroll": scrolled, "play": mediaStarted, "pause": mediaPaused, "toggle": toggled,
	"field": fieldFocused, "focus": focusMoved, "over": pointerOver, "drop": tookDrop, "program": triedProgram,
}

// judge is the verdict of what the page script found in a field; match is what it is to
// hold.
func judge(found string, match cause) verdict {
	if found == "match" {
		return of(match)
	}
	c, ok := map[string]cause{
		"drawn": editorShows, "more": editorShowsMore, "elsewhere": editorLacks, "unchanged": fieldUnchanged, "gone": fieldReplaced,
	}[found]
	if !ok {
		c = fieldDiffers
	}
	return of(c)
}
