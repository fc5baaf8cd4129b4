package backup

import (
	"bufio"
	"errors"
	"strings"

	"filippo.io/age"

	"github.com/handrail-dev/handrail/capabilities"
)

// Lock is what a backup is sealed to: one passphrase, or any number of keys.
type Lock struct{ recipients []age.Recipient }

// Key is what opens a backup.
type Key struct{ identities []age.Identity }

// MinPassphrase is how many characters a passphrase has at least: whoever has the file can try.
const MinPassphrase = 12

// workFactor is scrypt's, about a second and 256 MiB; maxWorkFactor bounds what a hostile file
// may ask of the machine that opens it.
const (
	workFactor    = 18
	maxWorkFactor = 20
)

// ByPassphrase seals by a passphrase.
func ByPassphrase(text string) (Lock, error) {
	text = strings.TrimRight(text, "\r\n")
	if len([]rune(text)) < MinPassphrase {
		return Lock{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "The passphrase has fewer than %d characters.", MinPassphrase).
			WithHint("Everything that the site keeps stands behind it: take a longer one, or a key.")
	}
	r, err := age.NewScryptRecipient(text)
	if err != nil {
		return Lock{}, err
	}
	r.SetWorkFactor(workFactor)
	return Lock{[]age.Recipient{r}}, nil
}

// OfPassphrase opens by a passphrase.
func OfPassphrase(text string) (Key, error) {
	id, err := age.NewScryptIdentity(strings.TrimRight(text, "\r\n"))
	if err != nil {
		return Key{}, capabilities.Wrap(capabilities.CodeInvalidRequest, err, "The passphrase is empty.").
			WithHint("Give the one that it was sealed with.")
	}
	id.SetMaxWorkFactor(maxWorkFactor)
	return Key{[]age.Identity{id}}, nil
}

// ByKeys seals to public keys, each as age writes them: age1….
func ByKeys(public ...string) (Lock, error) {
	var l Lock
	for _, text := range public {
		r, err := age.ParseX25519Recipient(strings.TrimSpace(text))
		if err != nil {
			return Lock{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "%.100q is not a public key for backups.", text).
				WithHint("It begins with age1 and stands in the file that was made with its secret half.")
		}
		l.recipients = append(l.recipients, r)
	}
	return l, nil
}

// OfKeyFile opens by the secret keys of a file, as age's own programs write it.
func OfKeyFile(text string) (Key, error) {
	var k Key
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, err := age.ParseX25519Identity(line)
		if err != nil {
			return Key{}, notAKey(errors.New("a line is no key")) // never err: it may quote the line
		}
		k.identities = append(k.identities, id)
	}
	if len(k.identities) == 0 {
		return Key{}, notAKey(errors.New("no key in it"))
	}
	return k, nil
}

func notAKey(cause error) error {
	return capabilities.Wrap(capabilities.CodeInvalidRequest, cause, "That file holds no secret key for backups.").
		WithHint("A line of it begins with AGE-SECRET-KEY-1.")
}

// NewKey makes a key: the text of its file, and the public half to seal to.
func NewKey() (file, public string, err error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return "", "", err
	}
	public = id.Recipient().String()
	return "# opens backups of Handrail; keep it apart from them\n# public key: " + public + "\n" + id.String() + "\n", public, nil
}
