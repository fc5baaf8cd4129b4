package drift

import (
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Number is which of the five signals of S1 a difference is. The zero value is a
// difference that none of them names.
type Number int

// The signals.
const (
	Network Number = 1 // a connection without a grant for it (S1-44)
	Write   Number = 2 // a file that was written without a grant for it (S1-45)
	Secret  Number = 3 // a secret that was read without a grant for it (S1-46)
	Shown   Number = 4 // an action that a page offers without a grant (S1-47)
	Worker  Number = 5 // a call that ran below its isolation class (S1-48)
)

// String is a few words for lists.
func (n Number) String() string {
	switch n {
	case Network:
		return "network"
	case Write:
		return "write"
	case Secret:
		return "secret"
	case Shown:
		return "surface"
	case Worker:
		return "isolation"
	}
	return "other"
}

// ParseNumber returns the signal of a word that String returns; CodeInvalidRequest.
func ParseNumber(word string) (Number, error) {
	for n := range Worker + 1 {
		if n.String() == word {
			return n, nil
		}
	}
	return 0, capabilities.Errorf(capabilities.CodeInvalidRequest, "signal %.32q is none of %s", word, strings.Join(SignalWords(), ", "))
}

// SignalWords returns the words of the five signals, and other.
func SignalWords() []string {
	var words []string
	for n := Network; n <= Worker; n++ {
		words = append(words, n.String())
	}
	return append(words, Number(0).String())
}

// Response is what was done about a difference at once.
type Response string

// The responses, from the mildest.
const (
	Recorded    Response = "recorded"    // and nothing else
	Refused     Response = "refused"     // the operation was refused; the call went on
	Killed      Response = "killed"      // the call was ended, and its result is void (S1-51)
	Quarantined Response = "quarantined" // the runner takes no further calls (S1-52)
	Restricted  Response = "restricted"  // the call was ended and its tool waits for a person's review (S1-53, S1-54)
)

// signalOf is the signal that a key belongs to; 0: none of the five.
func signalOf(key string) Number {
	switch {
	case key == "privileged.secret.read":
		return Secret
	case strings.HasPrefix(key, "network."):
		return Network
	case strings.HasPrefix(key, "data.write."):
		return Write
	}
	return 0
}
