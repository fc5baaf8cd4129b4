package page

import (
	"embed"
	"strings"
	"sync"
)

// Function is one of the page script's functions that this side calls. Nothing else of the
// script is reached, and nothing calls one but by these names.
type Function string

const (
	Snapshot      Function = "snapshot"
	Marks         Function = "marks"
	Aim           Function = "aim"
	Fill          Function = "fill"
	Choose        Function = "choose"
	Unfold        Function = "unfold"
	Outcome       Function = "outcome"
	Changes       Function = "changes"
	Hold          Function = "hold"
	Held          Function = "held"
	Swallowed     Function = "swallowed"
	Dragging      Function = "dragging"
	ComeToRest    Function = "comeToRest"
	Unselect      Function = "unselect"
	UploadTo      Function = "uploadTo"
	SetClipboard  Function = "setClipboard"
	SecretsAmong  Function = "secretsAmong"
	Meant         Function = "meant"
	Repeated      Function = "repeated"
	Typed         Function = "typed"
	TypeIn        Function = "typeIn"
	SetField      Function = "setField"
	Paste         Function = "paste"
	TakesDrop     Function = "takesDrop"
	SuspectsIn    Function = "suspectsIn"
	SuspectAt     Function = "suspectAt"
	OpenUp        Function = "openUp"
	ForeignFrames Function = "foreignFrames"
	StrangerAt    Function = "strangerAt"
	Own           Function = "own"
	Join          Function = "join"
	PlaceOfFrames Function = "placeOfFrames"
	FrameAt       Function = "frameAt"
	FrameFocused  Function = "frameFocused"
	Pointed       Function = "pointed"
	Lift          Function = "lift"
	Hear          Function = "hear"
	Drawn         Function = "drawn"
	Streams       Function = "streams"
	Tasks         Function = "tasks"
	Pictures      Function = "pictures"
	Follow        Function = "follow"
	Followed      Function = "followed"
	CustomAt      Function = "customAt"
	TellInternals Function = "tellInternals"
	Readable      Function = "readable"
	Vitals        Function = "vitals"
)

// Functions are all of them.
var Functions = []Function{
	Snapshot, Marks, Aim, Fill, Choose, Unfold, Outcome, Changes, Hold,
	Held, Swallowed, Dragging, ComeToRest, Unselect, UploadTo, SetClipboard, SecretsAmong,
	Meant, Repeated, Typed, TypeIn, SetField, Paste, TakesDrop, SuspectsIn,
	SuspectAt, OpenUp, ForeignFrames, StrangerAt, Own, Join, PlaceOfFrames, FrameAt,
	FrameFocused, Pointed, Lift, Hear, Drawn, Streams, Tasks, Pictures,
	Follow, Followed, CustomAt, TellInternals, Readable, Vitals,
}

// acting are the functions that do what a person does. Chrome lets a page do then what it may
// only do upon that, as asking whether it may be left.
var acting = map[Function]bool{Fill: true, Choose: true, Unfold: true, TypeIn: true, Paste: true, SetField: true}

// Acts reports whether the function does what a person does.
func (f Function) Acts() bool { return acting[f] }

// Call is the expression that calls the function; args are JavaScript.
func (f Function) Call(args ...string) string {
	return global + "." + string(f) + "(" + strings.Join(args, ", ") + ")"
}

// global is the name of the script in its own world.
const global = "__handrail"

// World names our isolated world in every page.
const World = "handrail"

//go:embed *.js
var files embed.FS

// parts are the script's, in their order. They share one scope; each says in its first line
// what it is about.
var parts = strings.Fields("names words secret closed internals frames refs rows outline passing aim field dressed editor outcome " +
	"ready wait readable vitals")

// source is the script as it is written.
func source() string {
	var all strings.Builder
	for _, part := range parts {
		text, _ := files.ReadFile(part + ".js") // embedded: cannot fail
		all.Write(text)
	}
	return all.String()
}

// Script is the page script, which is put into a document once; a second time does nothing.
var Script = sync.OnceValue(func() string {
	var names []string
	for _, f := range Functions {
		names = append(names, string(f))
	}
	return "(() => {\n'use strict';\nif (globalThis." + global + ") return;\n" + renamed(source()) +
		"globalThis." + global + " = {" + strings.Join(names, ", ") + "};\n})();"
})
