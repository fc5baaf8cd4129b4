package principal

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"github.com/handrail-dev/handrail/capabilities"
)

// The cost of a password: argon2id as RFC 9106 section 4 recommends it where memory is
// bounded (64 MiB, three passes, four lanes), which is above what OWASP asks for.
const (
	argonTime    = 3
	argonMemory  = 64 << 10 // KiB
	argonThreads = 4
	argonSalt    = 16
	argonSum     = 32

	minPassword = 12  // characters (NIST SP 800-63B asks for 8 beside another factor)
	maxPassword = 256 // bytes
	// maxHashing is how many passwords wait for their turn. One is worked on at a time,
	// so that no number of logins takes more than 64 MiB.
	maxHashing = 16
)

// Password is one as its owner typed it. No way of printing it shows it.
type Password struct{ text string }

// NewPassword takes a new password; CodeInvalidRequest if it is too short or too long.
func NewPassword(text string) (Password, error) {
	switch {
	case !utf8.ValidString(text) || len(text) > maxPassword:
		return Password{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "a password is text of at most %d bytes", maxPassword)
	case utf8.RuneCountInString(text) < minPassword:
		return Password{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "a password has at least %d characters", minPassword).
			WithHint("Four or five words that have nothing to do with each other are good.")
	}
	return Password{text}, nil
}

// TypedPassword takes what somebody typed to sign in, whatever it is.
func TypedPassword(text string) Password { return Password{text} }

// Format hides the password whatever the verb.
func (Password) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(password)") }

// LogValue hides the password.
func (Password) LogValue() slog.Value { return slog.StringValue("(password)") }

// MarshalText hides the password.
func (Password) MarshalText() ([]byte, error) { return []byte("(password)"), nil }

// hasher works on one password at a time.
type hasher struct {
	cost    kept          // salt and sum are not used
	turn    chan struct{} // holds one
	waiting atomic.Int32
	done    atomic.Int64 // how many were worked on
}

func newHasher() *hasher {
	return &hasher{turn: make(chan struct{}, 1), cost: kept{time: argonTime, memory: argonMemory, threads: argonThreads}}
}

// fresh is a record with nothing in it yet.
func (h *hasher) fresh() kept {
	k := h.cost
	k.salt, k.sum = make([]byte, argonSalt), make([]byte, argonSum)
	return k
}

// awaitTurn waits for a turn. CodeOverloaded if too many wait already.
func (h *hasher) awaitTurn(ctx context.Context) (release func(), err error) {
	if h.waiting.Add(1) > maxHashing {
		h.waiting.Add(-1)
		return nil, capabilities.Errorf(capabilities.CodeOverloaded, "too many people sign in at once").WithHint("Try again in a few seconds.")
	}
	defer h.waiting.Add(-1)
	select {
	case h.turn <- struct{}{}:
		h.done.Add(1)
		return func() { <-h.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// hash returns what is kept of a password, in the PHC string format.
func (h *hasher) hash(ctx context.Context, p Password) (string, error) {
	release, err := h.awaitTurn(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	k := h.fresh()
	rand.Read(k.salt) // never fails (crypto/rand)
	k.sum = argon2.IDKey([]byte(p.text), k.salt, k.time, k.memory, k.threads, argonSum)
	return k.String(), nil
}

// verify reports whether a password is the one that is kept. A password record that cannot be read
// is like a wrong one, and takes as long.
func (h *hasher) verify(ctx context.Context, text string, p Password) (bool, error) {
	k, err := parseKept(text)
	known := err == nil
	if !known { // nobody's: the same work
		k = h.fresh()
	}
	if len(p.text) > maxPassword {
		p.text, known = p.text[:maxPassword], false
	}
	release, err := h.awaitTurn(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	got := argon2.IDKey([]byte(p.text), k.salt, k.time, k.memory, k.threads, uint32(len(k.sum)))
	return subtle.ConstantTimeCompare(got, k.sum) == 1 && known, nil
}

// kept is what a password became:
//
//	$argon2id$v=19$m=65536,t=3,p=4$SALT$SUM     (base64 without padding)
type kept struct {
	time, memory uint32
	threads      uint8
	salt, sum    []byte
}

func (k kept) String() string {
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, k.memory, k.time, k.threads, b64(k.salt), b64(k.sum))
}

// parseKept reads what String wrote, within bounds that no start of ours exceeds.
func parseKept(text string) (kept, error) {
	bad := capabilities.Errorf(capabilities.CodeInternal, "a password's record is damaged")
	parts := strings.Split(text, "$")
	if len(text) > 512 || len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != "v="+strconv.Itoa(argon2.Version) {
		return kept{}, bad
	}
	var k kept
	var numbers [3]uint64
	costs := strings.Split(parts[3], ",")
	if len(costs) != 3 {
		return kept{}, bad
	}
	for i, c := range []struct {
		name string
		most uint64
	}{{"m=", 256 << 10}, {"t=", 16}, {"p=", 16}} {
		digits, ok := strings.CutPrefix(costs[i], c.name)
		n, err := strconv.ParseUint(digits, 10, 32)
		if !ok || err != nil || n == 0 || n > c.most {
			return kept{}, bad
		}
		numbers[i] = n
	}
	k.memory, k.time, k.threads = uint32(numbers[0]), uint32(numbers[1]), uint8(numbers[2])
	var errSalt, errSum error
	k.salt, errSalt = base64.RawStdEncoding.Strict().DecodeString(parts[4])
	k.sum, errSum = base64.RawStdEncoding.Strict().DecodeString(parts[5])
	if errSalt != nil || errSum != nil || len(k.salt) < 8 || len(k.salt) > 64 || len(k.sum) < 16 || len(k.sum) > 64 || k.String() != text {
		return kept{}, bad
	}
	return k, nil
}
