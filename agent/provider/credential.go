package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/handrail-dev/handrail/agent/withhold"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// credentials are the values of one provider, in memory only: they come sealed to this node, after
// a person approved the provider with them, and go when it ends. Safe for concurrent use.
type credentials struct {
	want []tools.Credential

	mu     sync.Mutex
	values map[string]capabilities.Secret // by name
	known  []capabilities.Secret          // those and earlier ones, which a program may still tell; the newest last
	filter *withhold.Filter               // of known
	taken  chan struct{}                  // closed when the values are taken back
	back   bool                           // they were, and have not come again
}

// maxEarlier bounds the values that are kept back beside those that a program has now.
const maxEarlier = 8

func newCredentials(p *tools.Provider) *credentials {
	return &credentials{want: p.Credentials(), values: map[string]capabilities.Secret{}, taken: make(chan struct{})}
}

// change is what has become of a provider's credentials.
type change int

const (
	unchanged change = iota
	given            // there was none of the name
	renewed          // another value takes the place of one
	withdrawn        // all are gone
)

// notYet stands for a value that nobody has approved yet: many servers do not start without one,
// and none could be asked what it offers.
const notYet = "not-approved-yet"

// env is what a program gets.
func (c *credentials) env() []string {
	list, _ := c.lend()
	return list
}

// lend returns what a program gets; taken is closed when that is taken back.
func (c *credentials) lend() (list []string, taken <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list = make([]string, 0, len(c.want))
	for _, w := range c.want {
		value := notYet
		if s, ok := c.values[w.Name]; ok {
			value = string(s.Reveal())
		}
		list = append(list, w.Name+"="+value)
	}
	return list, c.taken
}

// header puts the values on a request, each as the header of its name. A lone value for
// Authorization is a bearer token.
func (c *credentials) header(r *http.Request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.want {
		s, ok := c.values[w.Name]
		if !ok {
			continue
		}
		value := string(s.Reveal())
		if strings.EqualFold(w.Name, "Authorization") && !strings.Contains(value, " ") {
			value = "Bearer " + value
		}
		r.Header.Set(w.Name, value)
	}
	return nil
}

// secret returns one for a request of an HTTP API.
func (c *credentials) secret(a tools.Auth) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.values[a.Name]
	if !ok {
		return "", capabilities.Errorf(capabilities.CodeSecretUnavailable, "the credential %.64s has not been delivered to this node", a.Name)
	}
	return string(s.Reveal()), nil
}

// missing says which value has not come; nil: none.
func (c *credentials) missing() *capabilities.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.want {
		if _, ok := c.values[w.Name]; !ok {
			if name, ok := strings.CutPrefix(w.Secret, "sign-in/"); ok && c.back {
				return capabilities.Errorf(capabilities.CodeSecretUnavailable, "the provider's sign-in %s has ended", name).WithHint(signAgain)
			}
			return capabilities.Errorf(capabilities.CodeSecretUnavailable, "the credential %s has not been delivered to this node", w.Name).
				WithHint("The gateway delivers it when the node connects, if the secret is there.")
		}
	}
	return nil
}

// signAgain is what to do about a sign-in that ended. Where a person ended it the gateway says what
// else is to be done.
const signAgain = "Sign in again."

// signedOut reports whether what is missing is a sign-in that ended.
func (c *credentials) signedOut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.back && slices.ContainsFunc(c.want, func(w tools.Credential) bool {
		_, ok := c.values[w.Name]
		return !ok && strings.HasPrefix(w.Secret, "sign-in/")
	})
}

// put takes a value over, and says whether it is another one than before.
func (c *credentials) put(name string, s capabilities.Secret) (change, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.ContainsFunc(c.want, func(w tools.Credential) bool { return w.Name == name }) {
		return unchanged, capabilities.Errorf(capabilities.CodeInvalidArguments, "the provider has no credential %.64q", name)
	}
	c.back = false
	before, had := c.values[name]
	if had && same(before, s) {
		return unchanged, nil
	}
	c.values[name] = capabilities.NewSecret(bytes.Clone(s.Reveal()))
	c.keepBackLocked(s)
	if had {
		return renewed, nil
	}
	return given, nil
}

func same(a, b capabilities.Secret) bool { return bytes.Equal(a.Reveal(), b.Reveal()) }

// keepBackLocked keeps a value out of the provider's words from now on, with the last ones.
func (c *credentials) keepBackLocked(s capabilities.Secret) {
	c.known = slices.DeleteFunc(c.known, func(o capabilities.Secret) bool { return same(o, s) })
	c.known = append(c.known, capabilities.NewSecret(bytes.Clone(s.Reveal())))
	for earlier, i := len(c.known)-len(c.values)-maxEarlier, 0; earlier > 0 && i < len(c.known); {
		if slices.ContainsFunc(slices.Collect(maps.Values(c.values)), func(o capabilities.Secret) bool { return same(o, c.known[i]) }) {
			i++
			continue
		}
		c.known[i].Wipe()
		c.known = slices.Delete(c.known, i, i+1)
		earlier--
	}
	c.filter = withhold.NewFilter(c.known...)
}

// clear forgets the values, and has what runs with them for one call end.
func (c *credentials) clear() (had bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	had, c.back = len(c.values) > 0, true
	for _, s := range c.values {
		s.Wipe()
	}
	clear(c.values)
	close(c.taken)
	c.taken = make(chan struct{})
	return had
}

// withheld returns the filter for the provider's words, which outlives clear. It is asked for
// after a call: another value may have come while it ran.
func (c *credentials) withheld() *withhold.Filter {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.filter
}

// said is a provider's own words in a message of ours, at most that many bytes. The filter comes
// before the cut, so that the cut leaves no part of a value.
func (c *credentials) said(s string, most int) string {
	return capabilities.Clip(capabilities.Printable(c.withheld().Text(s)), most)
}

// free returns a tool whose words do not hold the values: they go where everybody can read them.
func (c *credentials) free(one tools.RemoteTool) (tools.RemoteTool, error) {
	f := c.withheld()
	if f == nil {
		return one, nil
	}
	data, err := json.Marshal(one)
	if err != nil {
		return one, capabilities.AsError(err)
	}
	var clean tools.RemoteTool
	if err := json.Unmarshal(f.JSON(data), &clean); err != nil {
		return one, capabilities.AsError(err)
	}
	return clean, nil
}

// credential takes one value over. A program that runs without it, or with another, ends.
func (h *Host) credential(_ context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	var args struct {
		Provider string `json:"provider"`
		Name     string `json:"name"`
	}
	if err := json.Unmarshal(inv.Args, &args); err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "")
	}
	defer inv.Secret.Wipe()
	if !h.opts.Allowed {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNodeNotReady, "the device's owner lets nobody have providers run here")
	}
	h.mu.Lock()
	p := h.providers[args.Provider]
	h.mu.Unlock()
	if p == nil {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNotFound, "this node does not host the provider %q", args.Provider)
	}
	if inv.Secret.IsZero() {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "no credential came")
	}
	now, err := p.credentials.put(args.Name, inv.Secret)
	if err != nil {
		return capabilities.Output{}, err
	}
	if now != unchanged {
		p.backend.restart(now)
		h.opts.Changed()
	}
	return capabilities.Output{Effect: capabilities.EffectConfirmed, Result: map[string]any{}}, nil
}

// withdraw forgets the values of a provider, and ends what runs with them.
func (h *Host) withdraw(_ context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	var args struct {
		Provider string `json:"provider"`
	}
	if err := json.Unmarshal(inv.Args, &args); err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "")
	}
	h.mu.Lock()
	p := h.providers[args.Provider]
	h.mu.Unlock()
	had := p != nil && p.credentials.clear()
	if had {
		p.backend.restart(withdrawn)
		h.opts.Changed()
	}
	return capabilities.Output{Effect: capabilities.EffectConfirmed, Result: map[string]any{"withdrawn": had}}, nil
}
