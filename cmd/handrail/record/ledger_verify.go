package record

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/tree"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

func newLedgerVerifyCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Check that no packet was changed, dropped, moved or cut off",
		Long: "Checks an export (- is standard input) without the gateway: hashes, order, signatures, and the end. A file named\n" +
			"store.db is the ledger of a stopped gateway. Without FILE it checks the ledger of the data directory.\n" +
			"An export proves by itself only that it is whole; --key says whose it must be, and --heads, a node's\n" +
			"journal/NODE/heads.json, that nothing that node has seen is missing. A file that 'handrail ledger prove' wrote\n" +
			"is checked as the proof of one packet.",
		Args: cobra.MaximumNArgs(1),
	}
	keys := cmd.Flags().StringArray("key", nil, "public key that must have signed, in hex (repeatable)")
	heads := cmd.Flags().StringArray("heads", nil, "file of signed heads that the ledger must contain (repeatable)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && isProof(args[0]) {
			if len(*heads) > 0 {
				return terminal.UsageError("--heads are for an export; %s is the proof of one packet", args[0])
			}
			return verifyProof(cmd, args[0], *keys)
		}
		data, err := datadir.Of(cmd)
		if err != nil {
			return err
		}
		v := verification{heads: *heads}
		for _, text := range *keys {
			var k chain.Key
			if err := k.UnmarshalText([]byte(text)); err != nil {
				return terminal.UsageError("--key %s: %v", text, err)
			}
			v.pins.Keys = append(v.pins.Keys, k)
		}
		stop := terminal.ShowWaiting(cmd, "verifying")
		report, err := v.run(cmd, data, args)
		stop()
		if err != nil {
			return err
		}
		if terminal.FlagsOf(cmd).JSON {
			return terminal.PrintJSON(cmd.OutOrStdout(), report)
		}
		printReport(cmd.OutOrStdout(), report)
		return nil
	}
	return cmd
}

func printReport(w io.Writer, r ledger.Report) {
	fmt.Fprintf(w, "The ledger verifies.\n  chain    %s\n  entries  %d to %d, %s\n", terminal.Plain(r.Chain), r.First, r.Last,
		terminal.Count(r.Packets, "packet"))
	if r.Pruned > 0 {
		fmt.Fprintf(w, "  pruned   %d, with proof\n", r.Pruned)
	}
	fmt.Fprintf(w, "  end      signed %s by %s\n", time.UnixMilli(r.Head.Time).Local().Format(terminal.DayClock), r.Head.Key)
	if len(r.Nodes) > 0 {
		fmt.Fprintf(w, "  nodes    %s countersigned\n", terminal.Count(len(r.Nodes), "head"))
	}
	if r.Heads > 0 {
		fmt.Fprintf(w, "  heads    %d seen elsewhere, and found in it\n", r.Heads)
	}
	if r.HeadsPruned > 0 {
		fmt.Fprintf(w, "  heads    %d among pruned packets, where nobody can tell\n", r.HeadsPruned)
	}
	if !r.Pinned {
		fmt.Fprintln(w, "  It is whole and agrees with itself. Whose it is, only --key can tell.")
	}
}

// isProof reports whether a file begins as a proof does.
func isProof(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	beginning := make([]byte, 64)
	n, _ := io.ReadFull(f, beginning)
	return tree.IsProof(beginning[:n])
}

// verification is one run of ledger verify.
type verification struct {
	pins  ledger.Pins
	heads []string
	judge func(io.Reader, ledger.Pins) (ledger.Report, error) // default: ledger.Verify
}

func (v *verification) run(cmd *cobra.Command, data datadir.Dir, args []string) (ledger.Report, error) {
	if len(args) == 0 {
		if os.Getenv("HANDRAIL_URL") != "" || data.Up(cmd.Context()) {
			return v.running(cmd, data)
		}
		return v.stopped(cmd.Context(), data.Gateway())
	}
	if args[0] == "-" {
		return v.check(cmd.Context(), cmd.InOrStdin())
	}
	f, err := os.Open(args[0])
	if err != nil {
		return ledger.Report{}, terminal.UsageError("%v", err)
	}
	defer f.Close()
	magic := make([]byte, 15)
	if _, err := io.ReadFull(f, magic); err == nil && string(magic) == "SQLite format 3" {
		return v.stopped(cmd.Context(), filepath.Dir(args[0]))
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return ledger.Report{}, err
	}
	return v.check(cmd.Context(), f)
}

// check verifies an export. The heads that are about other chains are left out:
// a node's file has its own head too.
func (v *verification) check(ctx context.Context, r io.Reader) (ledger.Report, error) {
	in := bufio.NewReaderSize(stoppable{ctx, r}, 64<<10)
	if len(v.heads) > 0 {
		first, _ := in.Peek(64 << 10)
		line, _, _ := bytes.Cut(first, []byte("\n"))
		var header struct {
			Chain string `json:"chain"`
		}
		_ = json.Unmarshal(line, &header) // Verify says what is wrong with it
		for _, file := range v.heads {
			seen, err := readHeads(file, header.Chain)
			if err != nil {
				return ledger.Report{}, err
			}
			v.pins.Heads = append(v.pins.Heads, seen...)
		}
	}
	judge := v.judge
	if judge == nil {
		judge = ledger.Verify
	}
	report, err := judge(in, v.pins)
	if ctx.Err() != nil {
		return report, ctx.Err()
	}
	return report, err
}

// stoppable makes a long read obey ctrl-C.
type stoppable struct {
	//lint:ignore containedctx a reader has no other way to be cut short
	ctx context.Context
	r   io.Reader
}

func (s stoppable) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}

// readHeads reads signed heads, as a JSON list or one a line, and keeps those of
// the chain.
func readHeads(file, name string) ([]chain.Head, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, terminal.UsageError("--heads: %v", err)
	}
	var all []chain.Head
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		err = json.Unmarshal(data, &all)
	} else {
		for d := json.NewDecoder(bytes.NewReader(data)); err == nil; {
			var h chain.Head
			if err = d.Decode(&h); err == nil {
				all = append(all, h)
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		return nil, terminal.UsageError("--heads %s holds no signed heads: %v", file, err)
	}
	var ours []chain.Head
	for _, h := range all {
		if h.Chain == name {
			ours = append(ours, h)
		}
	}
	if len(ours) == 0 {
		return nil, terminal.UsageError("--heads %s has no head of this ledger (%s)", file, name)
	}
	return ours, nil
}

// running verifies what the gateway of the data directory exports now. Its own
// key is at hand, so the export must be signed with it.
func (v *verification) running(cmd *cobra.Command, data datadir.Dir) (ledger.Report, error) {
	c, err := remote.Find(cmd)
	if err != nil {
		return ledger.Report{}, err
	}
	if key, err := gatewayKey(data.Gateway()); err == nil {
		v.pins.Keys = append(v.pins.Keys, chain.PublicKey(key))
	}
	body, err := c.Fetch(cmd.Context(), http.MethodGet, remote.Path("ledger", "export"), nil)
	if err != nil {
		return ledger.Report{}, err
	}
	defer body.Close()
	return v.check(cmd.Context(), body)
}

func gatewayKey(dir string) (ed25519.PrivateKey, error) {
	return pairing.LoadKey(filepath.Join(dir, "gateway.key"))
}

// stopped verifies the store of a gateway that does not run, by exporting it to
// the verifier and nowhere else.
func (v *verification) stopped(ctx context.Context, dir string) (ledger.Report, error) {
	place, err := store.In(dir, "", store.Options{Migrations: ledger.Migrations, ReserveBytes: -1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return ledger.Report{}, err
	}
	if _, err := os.Stat(place.Path); place.URL == "" && errors.Is(err, fs.ErrNotExist) {
		return ledger.Report{}, capabilities.Errorf(capabilities.CodeNotFound, "there is no ledger at %s", place.Path).
			WithHint("Give an export, or the gateway's data directory with --data.")
	}
	key, err := gatewayKey(dir)
	if err != nil {
		return ledger.Report{}, fmt.Errorf("the gateway's key is needed to read its store: %w", err)
	}
	db, err := store.Open(ctx, place)
	if err != nil {
		return ledger.Report{}, err
	}
	defer db.Close()
	id := pairing.GatewayIDOf(key.Public().(ed25519.PublicKey))
	l, err := ledger.Open(ctx, ledger.Options{Store: db, Chain: string(id), Key: key, Log: place.Log})
	if err != nil {
		return ledger.Report{}, err
	}
	v.pins.Keys = append(v.pins.Keys, chain.PublicKey(key))
	return l.Judged(ctx, func(r io.Reader) (ledger.Report, error) { return v.check(ctx, r) })
}
