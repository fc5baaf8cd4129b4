package gateway

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

// StoreState is what was found in a store that no gateway has open.
type StoreState struct {
	Site   capabilities.SiteID `json:"site_id"`
	Place  string              `json:"place"`
	Ledger ledger.Report       `json:"ledger"`
}

// StoreMoved is what a copy or a move of a store did.
type StoreMoved struct {
	store.Copied
	Site   capabilities.SiteID `json:"site_id"`
	From   string              `json:"from"`
	To     string              `json:"to"`
	Ledger ledger.Report       `json:"ledger"` // of the copy; that of the origin ends alike
}

// closedSite is a gateway that does not run: its keys, and its store, which nobody else has open.
type closedSite struct {
	site  *pairing.Site
	key   ed25519.PrivateKey
	store *store.Store
	place string
	log   *slog.Logger
}

// openClosed opens what lies in dir, or at u where its admin says so.
func openClosed(ctx context.Context, dir string, u store.URL, log *slog.Logger) (*closedSite, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	root, err := pairing.LoadKey(filepath.Join(dir, "site.key"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, capabilities.Wrap(capabilities.CodeNotFound, err, "There is no gateway in this data directory.").
			WithHint("Name the directory of the gateway.")
	}
	if err != nil {
		return nil, err
	}
	c := &closedSite{log: log, place: filepath.Join(dir, store.FileName)}
	if c.site, err = pairing.NewSite(root); err != nil {
		return nil, err
	}
	if c.key, err = pairing.LoadKey(filepath.Join(dir, "gateway.key")); err != nil {
		return nil, err
	}
	o, err := store.In(dir, u, store.Options{Site: string(c.site.ID()), Migrations: Migrations(), ReserveBytes: -1, Log: log})
	if err != nil {
		return nil, err
	}
	if o.URL != "" {
		c.place, o.Existing = o.URL.String(), true
	} else if _, err := os.Stat(o.Path); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeNotFound, err, "There is no store in this data directory.").
			WithHint("Name the directory of the gateway.")
	}
	c.store, err = store.Open(ctx, o)
	return c, err
}

// verify checks the chain of a store against this gateway's key.
func (c *closedSite) verify(ctx context.Context, s *store.Store) (ledger.Report, error) {
	id := pairing.GatewayIDOf(c.key.Public().(ed25519.PublicKey))
	l, err := ledger.Open(ctx, ledger.Options{Store: s, Chain: string(id), Key: c.key, Log: c.log})
	if err != nil {
		return ledger.Report{}, err
	}
	return l.Verify(ctx, ledger.Pins{Keys: []chain.Key{chain.PublicKey(c.key)}})
}

// CheckStore opens the store of a gateway's folder, which no gateway has open, and verifies its
// ledger.
func CheckStore(ctx context.Context, dir string, u store.URL, log *slog.Logger) (StoreState, error) {
	c, err := openClosed(ctx, dir, u, log)
	if err != nil {
		return StoreState{}, err
	}
	report, err := c.verify(ctx, c.store)
	return StoreState{Site: c.site.ID(), Place: c.place, Ledger: report}, errors.Join(err, c.store.Close())
}

// CopyStore writes what the store of a gateway's folder holds to another place: a database, or a
// new file. Both ledgers are verified, and end alike. With move the site lies there from then on,
// and the folder says so; file is then that of the folder.
func CopyStore(ctx context.Context, dir string, to store.URL, file string, move bool, log *slog.Logger) (done StoreMoved, err error) {
	c, err := openClosed(ctx, dir, "", log)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, c.store.Close()) }()
	if to == "" && move && !c.store.OnPostgres() {
		return done, capabilities.Errorf(capabilities.CodeConflict, "The store is the file of this data directory already.")
	}
	before, err := c.verify(ctx, c.store)
	if err != nil {
		return done, err
	}
	done = StoreMoved{Site: c.site.ID(), From: c.place, To: to.String()}
	o := store.Options{URL: to, Vacant: true, Migrations: Migrations(), ReserveBytes: -1, Log: c.log}
	made := ""
	if to == "" {
		if _, err := os.Lstat(file); err == nil {
			return done, capabilities.Errorf(capabilities.CodeConflict, "%s is there already.", file).
				WithHint("Name another file, or remove it first.")
		}
		made, done.To = file+".new", file
		if err := remove(made); err != nil { // of one that was killed
			return done, err
		}
		o.Path = made
	}
	target, err := store.Open(ctx, o)
	if err != nil {
		return done, err
	}
	done.Copied, err = store.Copy(ctx, c.store, target, string(done.Site))
	if err == nil {
		done.Ledger, err = c.verify(ctx, target)
	}
	if err == nil && (done.Ledger.Last != before.Last || done.Ledger.Head.Hash != before.Head.Hash) {
		err = capabilities.Errorf(capabilities.CodeLedgerCorrupt, "The copy's ledger ends elsewhere than the one that it was made of.")
	}
	if err = errors.Join(err, target.Close()); err != nil {
		return done, err
	}
	switch {
	case made != "" && move:
		if err := errors.Join(remove(made+".lock"), store.TakePlace(dir, made)); err != nil {
			return done, err
		}
		return done, c.store.MovedFrom(context.WithoutCancel(ctx), time.Now())
	case made != "":
		return done, errors.Join(remove(made+".lock"), os.Rename(made, file))
	case move:
		if err := c.store.Close(); err != nil {
			return done, err
		}
		return done, store.LeavePlace(dir, to)
	}
	return done, nil
}

func remove(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
