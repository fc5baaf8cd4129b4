package satellites

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/provider"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/folder"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/satellite"
)

// options is what the flags of 'satellite run' say.
type options struct {
	manifest, http string
	read, write    []string
	net            []string
	same           bool
	capacity       int
	verbose        bool
}

// NewRunCmd returns the command that runs a satellite in front of what has its tools.
func NewRunCmd(host Host) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Run a satellite in front of a program (-- COMMAND) or an HTTP service (--http URL)",
		Long: "The manifest names the tools, as that of 'handrail provider add command': COMMAND stands before the words of each\n" +
			"tool's argv. With --http each call is a POST of its arguments to URL/TOOL. The heartbeat says whether what stands\n" +
			"behind it answers: the manifest's check is asked again and again.",
		Example: "  handrail satellite run voice --manifest voice.json -- espeak-ng\n" +
			"  handrail satellite run image --manifest image.json --http http://127.0.0.1:8188",
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&o.manifest, "manifest", "", "file with the tools, as JSON (required)")
	f.StringVar(&o.http, "http", "", "address of an HTTP service that takes JSON")
	f.StringSliceVar(&o.read, "read", nil, "folder that the program may read; repeatable")
	f.StringSliceVar(&o.write, "write", nil, "folder that the program may write; repeatable")
	f.StringSliceVar(&o.net, "net", nil, "host that the program may reach; repeatable")
	f.BoolVar(&o.same, "interchangeable", false, "any satellite of this name serves a call as well")
	f.IntVar(&o.capacity, "capacity", 8, "calls at once")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log more to standard error")
	far := host.Bus(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, err := datadir.Of(cmd)
		if err != nil {
			return err
		}
		if o.manifest == "" {
			return terminal.UsageError("--manifest names the file with the tools")
		}
		if !satellite.Joined(folderOf(data), args[0]) {
			return capabilities.Errorf(capabilities.CodeNodeNotPaired, "this machine has not joined as %.32q", args[0]).
				WithAction(capabilities.Action{Key: capabilities.ActionAddSatellite, Name: args[0]}, "Let it in first.")
		}
		s := satellite.Options{
			Name: args[0], Dir: folderOf(data), Interchangeable: o.same, Capacity: o.capacity, Version: host.Version,
			Log: host.Log(cmd, o.verbose),
		}
		if s.Join.TLS, err = far(); err != nil {
			return err
		}
		manifest, err := readBounded(o.manifest, tools.MaxManifest)
		if err != nil {
			return err
		}
		switch {
		case o.http != "" && len(args) > 1:
			return terminal.UsageError("either --http URL or -- COMMAND")
		case o.http != "":
			err = satellite.HTTP(&s, o.http, manifest)
		default:
			err = fronts(&s, data, host.Start(s.Log), &o, manifest, args[1:])
		}
		if err != nil {
			return err
		}
		if terminal.FlagsOf(cmd).JSON {
			err = terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"event": "running", "service": s.Name, "tools": len(s.Tools)})
		} else {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Satellite of %s with %s. Ctrl-C ends it.\n", terminal.Plain(s.Name),
				terminal.Count(len(s.Tools), "tool"))
		}
		if err != nil {
			return err
		}
		if err := satellite.Run(cmd.Context(), s); err != nil && cmd.Context().Err() == nil {
			if errors.Is(err, satellite.ErrNotAdmitted) {
				return capabilities.Wrap(capabilities.CodeNodeRevoked, err,
					"The gateway does not let this satellite in: it was revoked or denied, or is of another site.").
					WithAction(capabilities.Action{Key: capabilities.ActionAddSatellite, Name: args[0]}, "If it is to come in again, it joins anew.")
			}
			return err
		}
		return nil
	}
	return cmd
}

// fronts fills s with the programs of a manifest, whose words command stands before.
func fronts(s *satellite.Options, data datadir.Dir, start provider.Starter, o *options, manifest []byte, command []string) error {
	var doc struct {
		Check           []string                     `json:"check"`
		Interchangeable bool                         `json:"interchangeable"`
		Tools           []map[string]json.RawMessage `json:"tools"`
	}
	if err := json.Unmarshal(manifest, &doc); err != nil {
		return capabilities.Wrap(capabilities.CodeInvalidRequest, err, "The manifest cannot be read: "+err.Error())
	}
	for _, t := range doc.Tools {
		var argv []string
		if err := json.Unmarshal(t["argv"], &argv); err != nil {
			return capabilities.Errorf(capabilities.CodeInvalidRequest, "the manifest: each tool has words in argv")
		}
		words, err := json.Marshal(append(append([]string{}, command...), argv...))
		if err != nil {
			return err
		}
		t["argv"] = words
	}
	whole, err := json.Marshal(map[string]any{"tools": doc.Tools})
	if err != nil {
		return err
	}
	record := tools.Provider{Name: s.Name, Kind: tools.KindCommand, Manifest: whole, Net: o.net}
	for to, list := range map[*[]string][]string{&record.Read: o.read, &record.Write: o.write} {
		for _, dir := range list {
			full, err := filepath.Abs(dir)
			if err != nil {
				return err
			}
			for _, kept := range data.Folders() {
				if folder.Meet(full, kept) {
					return terminal.UsageHint("Name another folder.", "%s holds Handrail's data directory or lies in it", full)
				}
			}
			*to = append(*to, full)
		}
	}
	c, err := provider.OpenCommands(&record, start)
	if err != nil {
		return err
	}
	s.Interchangeable = s.Interchangeable || doc.Interchangeable
	for _, words := range c.Tools() {
		s.Tools = append(s.Tools, satellite.Offer(words, func(ctx context.Context, call satellite.Call) (satellite.Result, error) {
			out, err := c.Call(ctx, capabilities.CallID(call.ID), words.Name, call.Args,
				func(p capabilities.Progress) { call.Progress(p.Done, p.Total, p.Message) }, call.Refused)
			if err != nil {
				return satellite.Result{}, err
			}
			return resultOf(out), nil
		}))
	}
	s.Check = checks(c, append(append([]string{}, command...), doc.Check...), len(doc.Check) > 0)
	return nil
}

// resultOf is what a program made, as a satellite's result.
func resultOf(out capabilities.Output) satellite.Result {
	r := satellite.Result{Confirmed: out.Effect == capabilities.EffectConfirmed}
	if m, ok := out.Result.(map[string]any); ok {
		r.Text, _ = m[tools.FieldText].(string)
		r.Data = m[tools.FieldData]
	}
	for _, b := range out.Blobs {
		r.Bytes, r.MIME = b.Bytes, b.MIME
	}
	return r
}

// checkEvery is how often a program is tried; the heartbeats between say what the last time said.
const checkEvery = 30 * time.Second

// checks says whether a program answers: it can be started here, and its check ends well.
func checks(c *provider.Commands, argv []string, try bool) func(context.Context) error {
	var mu sync.Mutex
	var last time.Time
	var said error
	return func(ctx context.Context) error {
		if err := c.Ready(); err != nil || !try {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) < checkEvery && said == nil {
			return nil
		}
		said, last = c.Try(ctx, argv), time.Now()
		return said
	}
}

// readBounded reads a file of at most most bytes.
func readBounded(name string, most int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > most || !info.Mode().IsRegular() {
		return nil, terminal.UsageError("%s is no file of at most %d bytes", name, most)
	}
	return os.ReadFile(name)
}
