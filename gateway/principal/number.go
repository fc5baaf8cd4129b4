package principal

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"math/big"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

const (
	// numberDigits is how long a number is that a person copies from a terminal into a page.
	numberDigits = 8
	// maxNumberTries is how many wrong ones end it: whoever guesses has maxNumberTries chances in a
	// hundred million.
	maxNumberTries = 5
)

// number is the one that is waited for; at most one is.
type number struct {
	digits  Secret
	code    Secret // a one-time code, which carries all else
	expires time.Time
	tries   int
	over    chan bool
}

// Number is a short number by which a person opens a session, and how it goes on.
type Number struct {
	Digits  Secret
	Expires time.Time
	// Over tells once that it opens nothing any more: true, it was used; false, too many others were
	// tried, or a later number replaced it. That it expired is not told.
	Over <-chan bool
}

// Show is the number as people read it: "1234 5678".
func (n Number) Show() string {
	digits := n.Digits.Reveal()
	return digits[:numberDigits/2] + " " + digits[numberDigits/2:]
}

// Number makes a short number with which whoever reads it at a terminal opens a session as by, who
// it is shown to. It is good once, for LoginLife and for a few tries, and replaces an earlier one.
func (t *Tokens) Number(by Identity) (Number, error) {
	code, expires, err := t.Login(by, "")
	if err != nil {
		return Number{}, err
	}
	n, err := rand.Int(rand.Reader, new(big.Int).Exp(big.NewInt(10), big.NewInt(numberDigits), nil))
	if err != nil {
		return Number{}, err
	}
	text := n.String()
	digits := Secret{strings.Repeat("0", numberDigits-len(text)) + text}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropNumberLocked(false)
	t.number = &number{digits: digits, code: code, expires: expires, tries: maxNumberTries, over: make(chan bool, 1)}
	return Number{Digits: digits, Expires: expires, Over: t.number.over}, nil
}

// NumberWaits reports whether there is a number to be typed.
func (t *Tokens) NumberWaits() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.number != nil && t.opts.Now().Before(t.number.expires)
}

// RedeemNumber opens the session of a number that was typed. Every failure is the same
// CodeUnauthenticated; too many of them end the number.
func (t *Tokens) RedeemNumber(ctx context.Context, typed string) (Token, Secret, error) {
	typed = strings.Join(strings.Fields(typed), "")
	t.mu.Lock()
	n := t.number
	good := n != nil && subtle.ConstantTimeCompare([]byte(typed), []byte(n.digits.text)) == 1
	left := 0
	if n != nil {
		n.tries--
		if left = n.tries; good || left == 0 {
			t.dropNumberLocked(good)
		}
	}
	t.mu.Unlock()
	if !good {
		if n != nil {
			t.opts.Log.Warn("session.number_refused", "tries_left", left)
		}
		return Token{}, Secret{}, capabilities.Errorf(capabilities.CodeUnauthenticated, "that is not the number, or it is over").
			WithAction(capabilities.Action{Key: capabilities.ActionSignIn}, "Look at the terminal again, or sign in by a link.")
	}
	return t.Redeem(ctx, n.code.text)
}

// dropNumberLocked ends the number that waits.
func (t *Tokens) dropNumberLocked(used bool) {
	if t.number != nil {
		t.number.over <- used
		t.number = nil
	}
}
