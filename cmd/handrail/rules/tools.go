package rules

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/provider"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/store"
)

// vocabulary is the tools that rules can name, as the gateway of the data directory has them.
type vocabulary struct {
	tools []*catalog.Descriptor
	// missing says why they are those of this program alone; nil: they are the gateway's.
	missing error
}

// All implements policy.Tools.
func (v vocabulary) All() []*catalog.Descriptor { return v.tools }

func (v vocabulary) get(id capabilities.ToolID) (*catalog.Descriptor, bool) {
	i := slices.IndexFunc(v.tools, func(d *catalog.Descriptor) bool { return d.Tool == id })
	if i < 0 {
		return nil, false
	}
	return v.tools[i], true
}

// vocabularyOf returns the tools that an activation would know: those of the gateway that runs,
// else those that its store has, else this program's own.
func vocabularyOf(cmd *cobra.Command) (v vocabulary, err error) {
	cat, err := catalog.Embedded()
	if err != nil {
		return v, err
	}
	v.tools = cat.All()
	data, err := datadir.Of(cmd)
	if err != nil {
		return v, err
	}
	var more []*catalog.Descriptor
	if os.Getenv("HANDRAIL_URL") != "" || data.Up(cmd.Context()) {
		more, v.missing = toolsAsked(cmd)
	} else {
		more, v.missing = toolsKept(cmd.Context(), data, cat)
	}
	if v.missing == nil && more != nil {
		v.tools = more
	}
	return v, nil
}

// toolsAsked returns those of a gateway that runs.
func toolsAsked(cmd *cobra.Command) ([]*catalog.Descriptor, error) {
	c, err := remote.Find(cmd)
	if err != nil {
		return nil, err
	}
	var list api.PolicyTools
	if err := c.Get(cmd.Context(), remote.Path("policy", "tools"), &list); err != nil {
		return nil, err
	}
	all, err := remote.DecodeAll[*catalog.Descriptor](list.Tools)
	if err != nil {
		return nil, err
	}
	for i, d := range all {
		if all[i], err = catalog.Settle(d); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// patience bounds how long a database is waited for that another gateway may hold.
const patience = 10 * time.Second

// toolsKept returns those of a gateway that does not run, which its providers are a part of; nil:
// there is no store.
func toolsKept(ctx context.Context, data datadir.Dir, cat *catalog.Catalog) ([]*catalog.Descriptor, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)
	place, err := store.In(data.Gateway(), "", store.Options{Migrations: provider.Migrations(), ReserveBytes: -1, Log: quiet})
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(place.Path); place.URL == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	db, err := store.Open(ctx, place)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	reg := registry.New(cat, quiet)
	if _, err := provider.Open(ctx, provider.Options{Store: db, Registry: reg}); err != nil {
		return nil, err
	}
	return reg.Now().Known().All(), nil
}
