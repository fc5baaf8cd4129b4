package capabilities

import (
	"fmt"
	"log/slog"
)

// MaxSecret bounds a secret's value in bytes; clipboard-write takes no more.
const MaxSecret = 32 << 10

// Secret is a value on its way to a device. No way of printing, logging or
// marshalling shows it (S0-43, S0-46). The zero value is none.
type Secret struct {
	// Behind a function, because fmt prints unexported fields without asking their
	// methods, follows pointers when a verb does not fit, and never calls anything.
	reveal func() []byte
}

const hiddenSecret = "[secret]"

// NewSecret takes value over: the caller does not use it any more.
func NewSecret(value []byte) Secret { return Secret{func() []byte { return value }} }

// Reveal returns the value itself: the one place it leaves by. Do not change it.
func (s Secret) Reveal() []byte {
	if s.reveal == nil {
		return nil
	}
	return s.reveal()
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.reveal == nil }

// Wipe overwrites the value for everybody who holds it.
func (s Secret) Wipe() { clear(s.Reveal()) }

// String hides the value.
func (Secret) String() string { return hiddenSecret }

// GoString hides the value.
func (Secret) GoString() string { return hiddenSecret }

// Format hides the value whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hiddenSecret)) }

// LogValue hides the value.
func (Secret) LogValue() slog.Value { return slog.StringValue(hiddenSecret) }

// MarshalText hides the value, in JSON and CBOR too.
func (Secret) MarshalText() ([]byte, error) { return []byte(hiddenSecret), nil }

// MarshalBinary hides the value, in gob too.
func (Secret) MarshalBinary() ([]byte, error) { return []byte(hiddenSecret), nil }

var (
	_ fmt.Formatter  = Secret{}
	_ slog.LogValuer = Secret{}
)
