package satellite

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
)

// JoinOptions of Join; each has a default.
type JoinOptions struct {
	// TLS is for a server elsewhere (gateway --nats): its authority, a client's certificate.
	// Default: the system's authorities; the gateway's own server is known by the paste.
	TLS *tls.Config
	// Progress is told who the satellite is and how its joining stands: pending, then approved.
	Progress func(id, key, state string)
	Agent    string // this program, for the admin
	// Away is told once why the bus cannot be reached, which Join tries again for Patience.
	Away     func(error)
	Patience time.Duration // default 2 min
}

// Identity is who a satellite is at its site. It is a file that only its owner reads.
type Identity struct {
	Satellite string              `json:"satellite_id"`
	Service   string              `json:"service"`
	Site      capabilities.SiteID `json:"site_id"`
	Addrs     []string            `json:"addrs"`
	Sum       string              `json:"sum,omitempty"` // of the bus's certificate
	Seed      secretText          `json:"seed"`
}

// secretText is a seed that no log and no format prints.
type secretText string

func (secretText) String() string   { return "(hidden)" }
func (secretText) GoString() string { return "(hidden)" }

func (i *Identity) pair() (nkeys.KeyPair, error) { return nkeys.FromSeed([]byte(i.Seed)) }

const maxIdentity = 16 << 10

// load reads the identity of a service; fs.ErrNotExist if it has not joined.
func load(dir, name string) (id Identity, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return id, err
	}
	defer root.Close()
	data, err := readBounded(root, name+".json", maxIdentity)
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(data, &id); err != nil {
		return id, fmt.Errorf("satellite: the identity in %s cannot be read: %w", name+".json", err)
	}
	if id.Service != name {
		return id, fmt.Errorf("satellite: the identity is of %s, not of %s", id.Service, name)
	}
	return id, nil
}

// Joined reports whether a service has an identity in dir.
func Joined(dir, name string) bool {
	_, err := load(dir, name)
	return err == nil
}

func readBounded(root *os.Root, name string, most int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("satellite: %s has more than %d bytes", name, most)
	}
	return data, err
}

// Join makes a key of its own, proves the paste and waits until a person approved the satellite.
// The identity is in dir then. A bus that is away, or too busy to let anybody in, is tried again,
// for JoinOptions.Patience or until ctx ends. Errors have codes: paste_invalid, paste_used,
// paste_expired, pairing_denied, node_disconnected.
func Join(ctx context.Context, paste, dir, name string, o JoinOptions) (Identity, error) {
	p, err := remote.ParsePaste(paste)
	if err != nil {
		return Identity{}, err
	}
	if p.Name != name {
		return Identity{}, capabilities.Errorf(capabilities.CodePasteInvalid, "The code is for %s, not for %s.", p.Name, name)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Identity{}, err
	}
	own, err := nkeys.CreateUser()
	if err != nil {
		return Identity{}, err
	}
	seed, err := own.Seed()
	if err != nil {
		return Identity{}, err
	}
	door := Identity{Addrs: p.Addrs, Sum: p.Sum, Seed: secretText(p.Seed)}
	holder, err := door.pair()
	if err != nil {
		return Identity{}, capabilities.Errorf(capabilities.CodePasteInvalid, "The code's key cannot be read.")
	}
	holds, err := holder.PublicKey()
	if err != nil {
		return Identity{}, err
	}
	ask := remote.Ask{Platform: runtime.GOOS + "/" + runtime.GOARCH, Agent: o.Agent}
	ask.Host, _ = os.Hostname()
	if ask.Key, err = own.PublicKey(); err != nil {
		return Identity{}, err
	}
	sig, err := own.Sign([]byte(holds))
	if err != nil {
		return Identity{}, err
	}
	ask.Sig = base64.RawURLEncoding.EncodeToString(sig)
	data, err := remote.Write(ask)
	if err != nil {
		return Identity{}, err
	}
	if o.Away == nil {
		o.Away = func(error) {}
	}
	if o.Patience <= 0 {
		o.Patience = 2 * time.Minute
	}
	conn, err := door.dial(ctx, o.Patience, o.Away, o.TLS, nats.CustomInboxPrefix(remote.Inbox(holds)), nats.Name("joining "+name))
	if err != nil {
		if errors.Is(err, ErrNotAdmitted) {
			return Identity{}, capabilities.Errorf(capabilities.CodePasteExpired, "The gateway does not take this code: it expired, or was used "+
				"and decided about.").WithAction(capabilities.Action{Key: capabilities.ActionAddSatellite, Name: name}, "Get a new one.")
		}
		return Identity{}, err
	}
	defer conn.Close()
	said := ""
	for {
		one, cancel := context.WithTimeout(ctx, 5*time.Second)
		m, err := conn.RequestWithContext(one, remote.Join(holds), data)
		cancel()
		if ctx.Err() != nil {
			return Identity{}, ctx.Err()
		}
		if err != nil {
			if conn.IsClosed() {
				return Identity{}, capabilities.Errorf(capabilities.CodePairingDenied, "The gateway ended the joining.")
			}
			if !wait(ctx, time.Second) {
				return Identity{}, ctx.Err()
			}
			continue
		}
		var v remote.Verdict
		if err := json.Unmarshal(m.Data, &v); err != nil {
			return Identity{}, err
		}
		if v.Code != "" {
			return Identity{}, &capabilities.Error{Code: v.Code, Message: v.Message}
		}
		if o.Progress != nil && v.State != said {
			o.Progress(v.Satellite, ask.Key, v.State)
		}
		said = v.State
		switch v.State {
		case "approved":
			id := Identity{Satellite: v.Satellite, Service: v.Service, Site: v.Site, Addrs: p.Addrs, Sum: p.Sum, Seed: secretText(seed)}
			return id, id.save(dir)
		case "pending":
			if !wait(ctx, 500*time.Millisecond) {
				return Identity{}, ctx.Err()
			}
		default:
			return Identity{}, capabilities.Errorf(capabilities.CodePairingDenied, "The satellite was %s.", v.State)
		}
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (i *Identity) save(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	data, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	if err := root.WriteFile(i.Service+".json.new", append(data, '\n'), 0o600); err != nil {
		return err
	}
	return root.Rename(i.Service+".json.new", i.Service+".json")
}

// errOtherBus is why a connection is refused whose certificate is not the one of the paste.
var errOtherBus = errors.New("the bus has another certificate than the gateway named")

// Pauses between attempts to reach the bus: from the first, each twice as long, to the last. Each
// is off by up to a half, so that those who were cut off together do not come back together.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 8 * time.Second
)

// dial connects, and tries again while the bus is away, full or too slow to hear the proof, for
// patience (0: for good) or until ctx ends. away is told why, once. ErrNotAdmitted ends it,
// and where patience ends so does another certificate.
func (i *Identity) dial(ctx context.Context, patience time.Duration, away func(error), other *tls.Config,
	options ...nats.Option) (*nats.Conn, error) {
	told := false
	return backoff.Retry(ctx, func() (*nats.Conn, error) {
		conn, err := i.connect(other, options...)
		switch {
		case err == nil:
			return conn, nil
		case capabilities.CodeOf(err) != capabilities.CodeNodeDisconnected, patience > 0 && errors.Is(err, errOtherBus):
			return nil, backoff.Permanent(err)
		case !told:
			told = true
			away(err)
		}
		return nil, err
	}, backoff.WithBackOff(&backoff.ExponentialBackOff{
		InitialInterval: firstPause, Multiplier: 2, RandomizationFactor: 0.5, MaxInterval: lastPause,
	}), backoff.WithMaxElapsedTime(patience))
}

// connect dials the bus and proves the identity's key.
func (i *Identity) connect(other *tls.Config, options ...nats.Option) (*nats.Conn, error) {
	pair, err := i.pair()
	if err != nil {
		return nil, err
	}
	key, err := pair.PublicKey()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if other != nil {
		config = other.Clone()
	}
	if i.Sum != "" {
		want, err := hex.DecodeString(i.Sum)
		if err != nil {
			return nil, err
		}
		// It is known by its sum alone: no name, no authority.
		config.InsecureSkipVerify = true
		config.VerifyConnection = func(cs tls.ConnectionState) error {
			if len(cs.PeerCertificates) == 0 || string(sum(cs.PeerCertificates[0].Raw)) != string(want) {
				return errOtherBus
			}
			return nil
		}
	}
	// The library's own handler writes to standard error, which is the program's.
	options = append([]nats.Option{nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}, options...)
	options = append(options, nats.Nkey(key, pair.Sign), nats.Secure(config), nats.MaxReconnects(-1), nats.Timeout(5*time.Second),
		nats.ReconnectWait(500*time.Millisecond), nats.ReconnectJitter(200*time.Millisecond, 500*time.Millisecond), nats.ReconnectBufSize(-1),
		nats.PingInterval(25*time.Second), nats.MaxPingsOutstanding(1))
	if i.Sum == "" { // a server elsewhere refuses while the gateway is away
		options = append(options, nats.IgnoreAuthErrorAbort())
	}
	servers := make([]string, len(i.Addrs))
	for n, a := range i.Addrs {
		servers[n] = "tls://" + a
	}
	conn, err := nats.Connect(strings.Join(servers, ","), options...)
	if errors.Is(err, nats.ErrAuthorization) {
		return nil, ErrNotAdmitted
	}
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeNodeDisconnected, err,
			"The gateway's bus cannot be reached at "+strings.Join(i.Addrs, ", ")+": "+err.Error())
	}
	return conn, nil
}

func sum(raw []byte) []byte {
	s := sha256.Sum256(raw)
	return s[:]
}
