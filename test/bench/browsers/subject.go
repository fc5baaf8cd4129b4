package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	_ "image/jpeg" // what a screenshot may be
	_ "image/png"
	"os"
	"regexp"
	"strings"
)

// subject drives a browser in its own way. Calls come one at a time.
type subject interface {
	name() string
	// do carries out op in iteration i.
	do(op operation, p place, i int) (answer, error)
	// aim learns, untimed, what do needs to know of the page just opened.
	aim() error
	// evaluate returns, untimed, the text of an expression's value.
	evaluate(expression string) (string, error)
	end() error
}

// place is the page that is worked on.
type place struct {
	site *pages
	page string // small or large
}

// caller carries tool calls out.
type caller interface {
	call(tool string, args any) (answer, error)
}

// step is one tool call.
type step struct {
	tool string
	args any
}

// dialect is how a tool server words the operations.
type dialect struct {
	navigate func(url string) step
	evaluate func(expression string) step
	snapshot step
	full     *step // nil: the default is everything
	tabs     step
	shot     step
	// act returns the calls for an action; none if there is no tool for it. ref returns the
	// reference of a control by its name.
	act func(op operation, ref func(name string) string, i int) []step
}

// toolUser is a subject that works through tools.
type toolUser struct {
	called string
	by     caller
	words  dialect
	refs   map[string]string
	close  func() error
}

func (u *toolUser) name() string { return u.called }
func (u *toolUser) end() error   { return u.close() }

func (u *toolUser) evaluate(expression string) (string, error) {
	s := u.words.evaluate(expression)
	a, err := u.by.call(s.tool, s.args)
	return a.text, err
}

// Snapshots look like this: `button "Save" [ref=e5]` or `uid=1_5 button "Save"`.
var refPattern = `(?m)(?:uid=(\S+) \S+ "%[1]s")|(?:"%[1]s"[^\n]*?\[?ref=([^\],\s]+))`

// plain undoes the escapes of text inside JSON.
var plain = strings.NewReplacer(`\"`, `"`, `\n`, "\n")

func (u *toolUser) aim() error {
	a, err := u.by.call(u.words.snapshot.tool, u.words.snapshot.args)
	if err != nil {
		return err
	}
	text := plain.Replace(a.text)
	u.refs = map[string]string{}
	for _, name := range named {
		m := regexp.MustCompile(fmt.Sprintf(refPattern, name)).FindStringSubmatch(text)
		if m == nil {
			return fmt.Errorf("the snapshot has no reference of %q: %.600s", name, text)
		}
		u.refs[name] = m[1] + m[2]
	}
	return nil
}

// errNoTool: the subject offers nothing for an operation.
var errNoTool = fmt.Errorf("no tool")

func (u *toolUser) steps(op operation, p place, i int) []step {
	switch op {
	case opNavigate:
		return []step{u.words.navigate(p.site.url(p.page, i))}
	case opEvaluate:
		return []step{u.words.evaluate(sum)}
	case opTabs:
		return []step{u.words.tabs}
	case opSnapshot:
		return []step{u.words.snapshot}
	case opFull:
		if u.words.full == nil {
			return []step{u.words.snapshot}
		}
		return []step{*u.words.full}
	case opShot, opAgain:
		return []step{u.words.shot}
	}
	return u.words.act(op, func(name string) string { return u.refs[name] }, i)
}

func (u *toolUser) do(op operation, p place, i int) (a answer, err error) {
	steps := u.steps(op, p, i)
	if len(steps) == 0 {
		return a, errNoTool
	}
	for _, s := range steps {
		if a, err = u.by.call(s.tool, s.args); err != nil {
			return a, err
		}
	}
	return a, nil
}

// sum is what evaluate is measured with.
const (
	sum    = "1234*3"
	sumIs  = "3702"
	inSave = `"Save"`
)

var imagePath = regexp.MustCompile(`(/[^\s"'()]+\.(?:png|jpe?g))`)

// answered tells whether an answer holds what the operation is for.
func answered(op operation, p place, a answer) error {
	text := plain.Replace(a.text)
	holds := func(what string) error {
		if !strings.Contains(text, what) {
			return fmt.Errorf("the answer has no %s: %.200s", what, text)
		}
		return nil
	}
	switch op {
	case opEvaluate:
		return holds(sumIs)
	case opTabs:
		return holds("/" + p.page + "?v=")
	case opSnapshot:
		return holds(inSave)
	case opFull:
		if p.page == "large" {
			if err := holds(fmt.Sprintf("Edit %d", tableRows)); err != nil {
				return err
			}
			for _, far := range []string{fmt.Sprintf("Framed %d", depth), fmt.Sprintf("Shadow %d", shadowRoots), "Foreign"} {
				if holds(far) != nil {
					return partlyError{far}
				}
			}
		}
		return holds(inSave)
	case opShot, opAgain:
		data := make([]byte, base64.StdEncoding.DecodedLen(len(a.image)))
		if len(a.image) > 0 {
			n, err := base64.StdEncoding.Decode(data, a.image)
			if err != nil {
				return err
			}
			data = data[:n]
		} else if path := imagePath.FindString(a.text); path != "" {
			var err error
			if data, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		size, _, err := image.DecodeConfig(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("no image came: %w", err)
		}
		if size.Width < 600 || size.Height < 400 {
			return fmt.Errorf("the image has %d × %d pixels", size.Width, size.Height)
		}
	}
	return nil
}

// partlyError: the answer lacks a part of the page, which is said, but the time
// counts.
type partlyError struct{ lacks string }

func (e partlyError) Error() string { return "without " + e.lacks }
