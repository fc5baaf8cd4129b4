package workers

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/pairing"
	"github.com/handrail-dev/handrail/satellite"
)

const (
	identityFile = "worker.json" // in the data directory
	maxIdentity  = 16 << 10
	patience     = 2 * time.Minute // with a gateway that is away
	// joined stands for the address that a worker came with.
	joined = "joined"
)

// identity is who a worker is at a gateway elsewhere. It is a file that only its owner reads.
type identity struct {
	Worker    string                   `json:"worker_id"`
	Name      string                   `json:"name"`
	Principal capabilities.PrincipalID `json:"principal"`
	Site      capabilities.SiteID      `json:"site_id"`
	Addrs     []string                 `json:"addrs"`
	Sum       string                   `json:"sum,omitempty"` // of the certificate, hex
	Plain     bool                     `json:"plain,omitempty"`
	Invite    string                   `json:"invite"` // public key of the code that it came with
	Seed      hidden                   `json:"seed"`
	Token     hidden                   `json:"token"`
}

// hidden is text that no log and no format prints.
type hidden string

// Format hides the text whatever the verb.
func (hidden) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(hidden)") }

func identityPath(d datadir.Dir) string { return filepath.Join(string(d), identityFile) }

// loadIdentity reads it; fs.ErrNotExist if this data directory's worker joined no gateway.
func loadIdentity(d datadir.Dir) (*identity, error) {
	f, err := os.Open(identityPath(d))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxIdentity))
	if err != nil {
		return nil, err
	}
	var id identity
	if err := json.Unmarshal(data, &id); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", identityPath(d), err)
	}
	return &id, nil
}

func (i *identity) save(d datadir.Dir) error {
	data, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	next := identityPath(d) + ".new"
	if err := os.WriteFile(next, append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(next, identityPath(d))
}

func (i *identity) key() (ed25519.PrivateKey, error) {
	seed, err := base64.RawURLEncoding.DecodeString(string(i.Seed))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, errors.New("the worker's key is damaged")
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// place is where a gateway is, and by which certificate it is known.
func (i *identity) place(addr string) (*url.URL, client.Pin, error) {
	scheme, pin := "https", client.Pin{}
	if i.Plain {
		scheme = "http"
	}
	if sum, err := hex.DecodeString(i.Sum); err == nil && len(sum) == sha256.Size {
		pin = client.PinOf([sha256.Size]byte(sum))
	}
	base, err := client.ParseAddress(scheme + "://" + addr)
	return base, pin, err
}

// ask says who this is, at the first address that answers, and hears how it stands; holds is the
// code's key, nil for one that is on the roster already.
func (i *identity) ask(ctx context.Context, agent string, holds ed25519.PrivateKey) (v api.WorkerVerdict, err error) {
	key, err := i.key()
	if err != nil {
		return v, err
	}
	ask := pairing.WorkerAsk{
		Invite: i.Invite, Key: pairing.KeyText(key.Public().(ed25519.PublicKey)), Platform: runtime.GOOS + "/" + runtime.GOARCH, Agent: agent,
		Seq: time.Now().UnixMilli(),
	}
	ask.Host, _ = os.Hostname()
	in := api.JoinWorker{Invite: ask.Invite, Key: ask.Key, Host: ask.Host, Platform: ask.Platform, Agent: ask.Agent, Seq: ask.Seq}
	if in.Sig, err = ask.Sign(key); err != nil {
		return v, err
	}
	if holds != nil {
		if in.Proof, err = ask.Sign(holds); err != nil {
			return v, err
		}
	}
	for n, addr := range i.Addrs {
		base, pin, bad := i.place(addr)
		if bad != nil {
			return v, bad
		}
		err = client.At(base, client.Token{}, pin).Do(ctx, http.MethodPost, client.Path("workers", "join"), in, &v)
		if !errors.Is(err, client.ErrUnreachable) {
			i.Addrs[0], i.Addrs[n] = i.Addrs[n], i.Addrs[0] // the one that answers is tried first
			break
		}
	}
	return v, err
}

// NewJoinCmd returns the command that joins a gateway elsewhere as a worker.
func NewJoinCmd(version string) *cobra.Command {
	return &cobra.Command{
		Use:   "join",
		Short: "Join a gateway elsewhere as its worker, with the code from 'handrail worker add'",
		Long: "Asks for the code, or reads it from standard input, proves it to the gateway and waits until the admin confirms.\n" +
			"Compare the key it shows with what the admin sees. Then 'handrail worker --gateway joined' takes jobs there.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return join(cmd, "handrail "+version) },
	}
}

func join(cmd *cobra.Command, agent string) error {
	data, err := datadir.Of(cmd)
	if err != nil {
		return err
	}
	text, err := terminal.ReadHidden(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), "Code from 'handrail worker add': ", 4096)
	if err != nil {
		return err
	}
	p, err := pairing.ParseWorkerPaste(text)
	if err != nil {
		return err
	}
	if err := data.Make(string(data)); err != nil {
		return err
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	id := &identity{
		Name: p.Name, Addrs: p.Addrs, Sum: p.Sum, Plain: p.Plain, Invite: pairing.KeyText(p.Key.Public().(ed25519.PublicKey)),
		Seed: hidden(base64.RawURLEncoding.EncodeToString(key.Seed())),
	}
	v, err := id.admitted(cmd, agent, p.Key)
	if err != nil {
		return err
	}
	id.Worker, id.Principal, id.Site, id.Token = v.Worker, v.Principal, v.Site, hidden(v.Token)
	if err := id.save(data); err != nil {
		return err
	}
	if terminal.FlagsOf(cmd).JSON {
		return nil
	}
	fmt.Fprintf(cmd.OutOrStdout(), "This is worker %s of site %s, as %s. Run 'handrail worker --gateway joined' to have it take jobs.\n",
		terminal.Plain(id.Worker), terminal.Plain(string(id.Site)), terminal.Plain(string(id.Principal)))
	return nil
}

// admitted asks until somebody decided; the verdict has the token.
func (i *identity) admitted(cmd *cobra.Command, agent string, holds ed25519.PrivateKey) (api.WorkerVerdict, error) {
	key, err := i.key()
	if err != nil {
		return api.WorkerVerdict{}, err
	}
	shown := pairing.KeyText(key.Public().(ed25519.PublicKey))
	said, away := "", time.Time{}
	for {
		v, err := i.ask(cmd.Context(), agent, holds)
		switch {
		case cmd.Context().Err() != nil:
			return v, cmd.Context().Err()
		case errors.Is(err, client.ErrUnreachable) && away.IsZero():
			away = time.Now()
			fmt.Fprintln(cmd.ErrOrStderr(), "No gateway answers at the code's address. Trying again for two minutes.")
		case errors.Is(err, client.ErrUnreachable) && time.Since(away) < patience:
		case err != nil:
			return v, remote.Told(err)
		case v.State != said:
			said, away = v.State, time.Time{}
			if terminal.FlagsOf(cmd).JSON {
				if err := terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"event": v.State, "worker_id": v.Worker, "key": shown}); err != nil {
					return v, err
				}
			} else if v.State == "pending" {
				fmt.Fprintf(cmd.OutOrStdout(), "Code accepted. Waiting for the admin to let this worker in.\n  worker    %s\n  key       %s\n",
					terminal.Plain(v.Worker), terminal.Plain(shown))
			}
		}
		switch {
		case v.Token != "":
			return v, nil
		case err == nil && v.State != "pending":
			return v, capabilities.Errorf(capabilities.CodePairingDenied, "The worker was %s.", v.State)
		}
		if err := pause(cmd.Context()); err != nil {
			return v, err
		}
	}
}

// elsewhere is the gateway that this data directory's worker joined; nil: none is meant. at is an
// address in place of those it came with, or joined.
func elsewhere(cmd *cobra.Command, at, agent string, busTLS func() (*tls.Config, error)) (*remote.Gateway, error) {
	named := os.Getenv("HANDRAIL_URL") != "" || os.Getenv("HANDRAIL_TOKEN") != ""
	if at != "" && named {
		return nil, terminal.UsageError("--gateway is one that this machine joined; HANDRAIL_TOKEN and HANDRAIL_URL already say who calls where")
	}
	data, err := datadir.Of(cmd)
	if err != nil || named {
		return nil, err
	}
	id, err := loadIdentity(data)
	if errors.Is(err, fs.ErrNotExist) && at == "" {
		return nil, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, capabilities.Errorf(capabilities.CodeNodeNotPaired, "this machine's worker has joined no gateway").
			WithAction(capabilities.Action{Key: capabilities.ActionAddWorker}, "Let it in first.")
	}
	if err != nil {
		return nil, err
	}
	if _, err := data.ReadRunning(); err == nil && at == "" {
		return nil, nil // the gateway of this data directory
	}
	if at != "" && at != joined {
		base, err := client.ParseAddress(at)
		if err != nil {
			return nil, terminal.UsageError("--gateway: %v", err)
		}
		if id.Plain != (base.Scheme == "http") {
			return nil, terminal.UsageError("--gateway: the code said that this gateway is met by the other of http and https")
		}
		id.Addrs = []string{base.Host}
	}
	c, err := id.enter(cmd.Context(), data, agent)
	if err != nil {
		return nil, err
	}
	config, err := busTLS()
	if err != nil {
		return nil, err
	}
	return c, id.overBus(cmd, c, config)
}

// enter returns the gateway that answers, with this worker's token. One whose token is not good any
// more asks anew: CodeNodeRevoked where the gateway does not let it in.
func (i *identity) enter(ctx context.Context, data datadir.Dir, agent string) (*remote.Gateway, error) {
	var err error
	for _, addr := range i.Addrs {
		base, pin, bad := i.place(addr)
		if bad != nil {
			return nil, bad
		}
		c := remote.At(base, string(i.Token), pin)
		c.Away = true
		if err = c.Do(ctx, http.MethodGet, client.Path("whoami"), nil, nil); err == nil {
			return c, nil
		}
		if !errors.Is(err, client.ErrUnreachable) {
			break
		}
	}
	if capabilities.CodeOf(err) != capabilities.CodeUnauthenticated || errors.Is(err, client.ErrUnreachable) {
		return nil, remote.Told(err)
	}
	v, err := i.ask(ctx, agent, nil)
	if err != nil {
		return nil, remote.Told(err)
	}
	if v.Token == "" {
		return nil, putOut(capabilities.Errorf(capabilities.CodeUnauthenticated, "the worker is %s", v.State))
	}
	i.Token = hidden(v.Token)
	if err := i.save(data); err != nil {
		return nil, err
	}
	base, pin, err := i.place(i.Addrs[0])
	if err != nil {
		return nil, err
	}
	c := remote.At(base, string(i.Token), pin)
	c.Away = true
	return c, nil
}

// overBus has jobs, turns and calls asked over the gateway's bus, where it has one (S3-23). A bus
// that cannot be reached is said, and HTTPS carries all.
func (i *identity) overBus(cmd *cobra.Command, c *remote.Gateway, config *tls.Config) error {
	var who api.Caller
	if err := c.Do(cmd.Context(), http.MethodGet, client.Path("whoami"), nil, &who); err != nil {
		return remote.Told(err)
	}
	at := who.Bus
	if at == nil || len(at.Addrs) == 0 {
		return nil
	}
	key, err := i.key()
	if err != nil {
		return err
	}
	var asker *satellite.Asker
	c.Through(func(before http.RoundTripper) http.RoundTripper {
		asker, err = satellite.NewAsker(satellite.AskerOptions{
			Worker: at.Worker, Key: key, Addrs: at.Addrs, Sum: at.Sum, TLS: config, Rest: before,
		})
		if err != nil {
			return before
		}
		return asker
	})
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "This worker asks over HTTPS alone: %s\n", capabilities.Printable(err.Error()))
		return nil
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "This worker asks over the bus at %s.\n", terminal.Plain(strings.Join(at.Addrs, ", ")))
	context.AfterFunc(cmd.Context(), asker.Close)
	return nil
}

// putOut is what a worker that joined is told when its token is not good any more.
func putOut(err error) error {
	if capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
		return err
	}
	return capabilities.Wrap(capabilities.CodeNodeRevoked, err,
		"The gateway does not let this worker in: it was revoked, or its token is another process's now.").
		WithAction(capabilities.Action{Key: capabilities.ActionAddWorker}, "If it is to come in again, it joins anew.")
}
