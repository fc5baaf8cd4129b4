package tools

import (
	"regexp"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Flag is something about a provider's tool that a person should look at before approving it.
// The zero value is none.
type Flag string

// The flags.
const (
	FlagHidden       Flag = "hidden_characters" // it had characters that nobody sees
	FlagInstructions Flag = "instructions"      // its words speak to the model about more than the tool
	FlagMarkup       Flag = "markup"            // HTML in its words
	FlagCut          Flag = "cut"               // its description was longer than is shown
	FlagSchema       Flag = "schema_loosened"   // a part of its schema cannot be checked here
	FlagContradicts  Flag = "contradicts"       // it says that it only reads and that it destroys
	FlagLookAlike    Flag = "look_alike"        // its name is nearly that of another tool
)

// instructions are phrases by which a description orders a model about, beyond what the tool
// is for. It is a hint for the eye, not a wall: policy is.
var instructions = capabilities.Pattern(`(?i)\b(ignore|disregard|forget|override)\b.{0,40}\b(previous|prior|above|earlier|other|all|any)\b|` +
	`\b(system prompt|do not (tell|mention|inform|reveal)|don't (tell|mention)|without (telling|asking|informing)|never (tell|mention)|before (using|calling) any other|you must (always|first)|always call|instead of (the )?other tools?|secretly|<important>|<system>)`)

var markup = regexp.MustCompile(`<[a-zA-Z!/][^<>]{0,200}>`)

// clean returns text as one line of plain characters, at most most bytes, and what was
// noticed.
func clean(text string, most int) (string, []Flag) {
	var flags []Flag
	text = capabilities.Clip(text, maxText)
	if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\r' && r != '\t' && capabilities.Hidden(r) }) {
		flags = append(flags, FlagHidden)
	}
	plain := onePlainLine(text)
	if instructions().MatchString(plain) {
		flags = append(flags, FlagInstructions)
	}
	if markup.MatchString(plain) {
		flags = append(flags, FlagMarkup)
	}
	if len(plain) > most {
		flags = append(flags, FlagCut)
	}
	return cut(plain, most), flags
}

// oneLine is clean for text in which nothing is looked for.
func oneLine(text string, most int) string { return cut(onePlainLine(text), most) }

func onePlainLine(text string) string {
	spaced := strings.Join(strings.Fields(text), " ")
	return strings.Join(strings.Fields(capabilities.Printable(spaced)), " ")
}

func cut(plain string, most int) string {
	if len(plain) <= most {
		return plain
	}
	return strings.TrimSpace(capabilities.Clip(plain, most-len("…"))) + "…"
}
