package desktop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// The default chords by which the person answers a question at the device. Three modifiers
// with a letter are nothing in usual desktops and terminals, and nobody presses them by
// accident.
const (
	DefaultYes = "Control+Alt+Shift+Y"
	DefaultNo  = "Control+Alt+Shift+N"
)

// hearTime bounds opening the desktop to hear answers.
const hearTime = 20 * time.Second

// lockedTime bounds the look whether the session is locked, when a chord is pressed.
const lockedTime = 2 * time.Second

// checkAnswers says what is wrong with the chords for yes and no. More keys than a chord's
// may be down, so that two chords differ by their last keys alone.
func checkAnswers(o *Options) error {
	last := map[string]string{}
	if keys, err := parseChord(o.HotKey); err == nil {
		last[keys[len(keys)-1]] = "HotKey"
	}
	for _, c := range []struct{ name, chord string }{{"Yes", o.Yes}, {"No", o.No}} {
		keys, err := parseChord(c.chord)
		if err != nil {
			return fmt.Errorf("desktop: %s: %w", c.name, err)
		}
		if len(keys) < 3 {
			return fmt.Errorf("desktop: %s: an answer is a chord with two of Alt, AltGr, Control, Meta and Shift at least, such as %s", c.name,
				DefaultYes)
		}
		end := keys[len(keys)-1]
		if other := last[end]; other != "" {
			return fmt.Errorf("desktop: %s: its last key is that of %s", c.name, other)
		}
		last[end] = c.name
	}
	return nil
}

// HearAnswers calls heard each time that the person presses the chord for yes or the one
// for no on a keyboard of this device, until ctx ends; never for what a program makes, and
// not while the session is locked. It opens the desktop and returns at once. The error says
// why answers cannot be heard here: *platform.MissingError, or CodeNotSupported where the
// owner wants none.
func (h *Handler) HearAnswers(ctx context.Context, heard func(allow bool)) error {
	if h.o.Yes == "" {
		return capabilities.Errorf(capabilities.CodeNotSupported, "The owner of this device answers no questions by keys.")
	}
	opening, cancel := context.WithTimeout(ctx, hearTime)
	defer cancel()
	d, err := h.desktop(opening)
	if err != nil {
		return err
	}
	person, ok := d.Person.(platform.Answerer)
	if !ok {
		if d.Person == nil {
			return missing(d, platform.PartPerson)
		}
		return NoAnswers(d)
	}
	return person.Chords(ctx, []string{h.o.Yes, h.o.No}, func(chord int) {
		allow := chord == 0
		go func() { // the person's events arrive here
			ctx, cancel := context.WithTimeout(ctx, lockedTime)
			defer cancel()
			if h.o.Opener.Locked(ctx) != "" || ctx.Err() != nil {
				h.log.Warn("desktop.answer.locked", "allow", allow)
				return
			}
			heard(allow)
		}()
	})
}

// NoAnswers is why a desktop whose person can be watched cannot tell who presses a key.
func NoAnswers(d *platform.Desktop) error {
	return &platform.MissingError{
		What: d.Name + " does not show Handrail which keys a person presses and which a program.",
		Fix:  "Answer from another device, or with a passkey.",
	}
}

// TellsKeys is nil where a person of d can answer by keys, else it says why not.
func TellsKeys(ctx context.Context, d *platform.Desktop) error {
	person, ok := d.Person.(platform.Answerer)
	switch {
	case ok:
		return person.TellsKeys(ctx)
	case d.Person == nil:
		if m := d.Missing[platform.PartPerson]; m != nil {
			return m
		}
		return errors.New("this desktop does not tell what a person does")
	}
	return NoAnswers(d)
}
