package desktop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

type keyboardArgs struct {
	Action string  `json:"action"`
	Text   *string `json:"text"`
	Key    *string `json:"key"`
	Count  int     `json:"count"`
	HoldMS int64   `json:"hold_ms"`
}

// keyboardResult holds nothing of what was typed.
type keyboardResult struct {
	Action string `json:"action"`
	Typed  *int   `json:"typed,omitempty"`  // characters
	Window string `json:"window,omitempty"` // the focused one's ref
}

// keyboard carries out tyrum.desktop.keyboard.
func (h *call) keyboard(ctx context.Context) (capabilities.Output, error) {
	args := keyboardArgs{Count: 1}
	if err := h.decode(&args); err != nil {
		return capabilities.Output{}, err
	}
	keys, err := args.check()
	if err != nil {
		return capabilities.Output{}, err
	}
	if pastes(keys) {
		if err := h.inv.BeforePaste(func() capabilities.Place { return h.focused(ctx) }); err != nil {
			return capabilities.Output{}, err
		}
	}
	result := keyboardResult{Action: args.Action}
	typed := 0
	out := capabilities.Output{}
	err = h.input(ctx, func(ctx context.Context, in platform.Input) error {
		d, err := h.desktop(ctx)
		if err != nil {
			return err
		}
		focused, err := mayType(ctx, d)
		if err != nil {
			return err
		}
		result.Window = capabilities.Clip(focused.Ref, 256)
		seen := watchArea(ctx, d, focused.Bounds)
		defer seen.close()
		done := "the keys were pressed"
		out.Did = &capabilities.Did{App: focused.App}
		if args.Action == "type" {
			count := h.countTyped(ctx, d, focused, *args.Text)
			defer count.close()
			defer func() { out.Did = count.done() }()
			typed, err = in.Type(ctx, *args.Text)
			done = fmt.Sprintf("%d characters were typed", typed)
		} else {
			err = chord(ctx, in, keys, args.Count, time.Duration(args.HoldMS)*time.Millisecond)
		}
		if err != nil {
			return err
		}
		out.Effect, out.Evidence = seen.verdict(ctx, done)
		return nil
	})
	if err != nil {
		return out, args.explain(err, typed)
	}
	if args.Action == "type" {
		result.Typed = &typed
	}
	out.Result = result
	return out, nil
}

// check refuses what the schema cannot, and reads the chord.
func (a *keyboardArgs) check() (keys []string, err error) {
	bad := func(hint, format string, args ...any) error {
		return capabilities.Errorf(capabilities.CodeInvalidArguments, format, args...).WithHint(hint)
	}
	if a.Action == "type" {
		switch {
		case a.Text == nil:
			return nil, bad("Give text, or press a key.", "type needs text.")
		case a.Key != nil:
			return nil, bad("Leave key out, or press it in a call of its own.", "type takes no key.")
		case a.Count != 1 || a.HoldMS != 0:
			return nil, bad("Leave them out.", "count and hold_ms belong to press.")
		}
		return nil, nil
	}
	switch {
	case a.Key == nil || *a.Key == "":
		return nil, bad("Give key, such as Enter, a or Control+Shift+K.", "press needs key.")
	case a.Text != nil:
		return nil, bad("Leave text out, or type it in a call of its own.", "press takes no text.")
	}
	if keys, err = parseChord(*a.Key); err != nil {
		return nil, bad("Keys are one character, or a name such as Enter, Escape, Tab, ArrowDown, PageUp or F5; chords such as Control+Shift+K.",
			"key: %v.", err)
	}
	return keys, nil
}

// explain says how far the text came, and never what it is.
func (a *keyboardArgs) explain(err error, typed int) error {
	if a.Action != "type" {
		return err
	}
	var coded *capabilities.Error
	switch {
	case errors.As(err, &coded) && coded.Code == capabilities.CodeInterruptedByPerson:
		details := capabilities.DetailsOf[interruption](coded)
		details.Typed = &typed
		return coded.WithDetails(details)
	case errors.Is(err, platform.ErrUntypable):
		return capabilities.Wrap(capabilities.CodeTextUntypable, err,
			fmt.Sprintf("The character after the first %d cannot be typed on this system.", typed)).
			WithDetails(untyped{typed})
	}
	return err
}

// chord presses keys in their order and lets them go in the reverse one.
func chord(ctx context.Context, in platform.Input, keys []string, count int, holding time.Duration) error {
	last := len(keys) - 1
	for _, key := range keys[:last] {
		if err := in.Key(ctx, key, true); err != nil {
			return err
		}
	}
	for range count {
		if err := in.Key(ctx, keys[last], true); err != nil {
			return err
		}
		if err := capabilities.Sleep(ctx, holding); err != nil {
			return err
		}
		if err := in.Key(ctx, keys[last], false); err != nil {
			return err
		}
	}
	for i := last - 1; i >= 0; i-- {
		if err := in.Key(ctx, keys[i], false); err != nil {
			return err
		}
	}
	return nil
}
