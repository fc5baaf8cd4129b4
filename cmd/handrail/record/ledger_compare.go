package record

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/ledger"
)

func newLedgerCompareCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compare [FILE]",
		Short: "Hold the gateway's ledger against a node's own log, and name every difference",
		Long: "Compares what the gateway recorded of a node's calls with what the node recorded: calls that one side lacks, other\n" +
			"facts, other ends, and ends that were cut off, which the signed heads show that each side keeps of the other.\n" +
			"FILE is an export of the ledger, as for 'handrail ledger verify'; without it, it is the ledger of the data directory.\n" +
			"--node-log is what 'handrail node log' wrote with its --out on the device; without it, it is the log of the data\n" +
			"directory. Both inputs are verified first. Exit code 7: there are differences.",
		Args: cobra.MaximumNArgs(1),
	}
	keys := cmd.Flags().StringArray("key", nil, "public key that must have signed the ledger's end, in hex (repeatable)")
	nodeLog := cmd.Flags().String("node-log", "", "exported log of the node (default: the log of this data directory)")
	nodeKey := cmd.Flags().String("node-key", "", "public key that must have signed the exported log, in hex")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, err := datadir.Of(cmd)
		if err != nil {
			return err
		}
		read := func() (ledger.NodeLog, error) { return localNodeLog(data) }
		if *nodeLog != "" {
			read = func() (ledger.NodeLog, error) { return exportedNodeLog(*nodeLog, *nodeKey) }
		}
		log, err := read()
		if err != nil {
			return err
		}
		// Only a log that is read here can have grown.
		if log.Live = len(args) == 0 && *nodeLog == ""; log.Live {
			log.Refresh = func() (ledger.NodeLog, error) {
				again, err := read()
				again.Live = true
				return again, err
			}
		}
		var c ledger.Comparison
		v := verification{judge: func(r io.Reader, pins ledger.Pins) (ledger.Report, error) {
			c, err = ledger.Compare(r, pins, log)
			return ledger.Report{}, err
		}}
		for _, text := range *keys {
			var k chain.Key
			if err := k.UnmarshalText([]byte(text)); err != nil {
				return terminal.UsageError("--key %s: %v", text, err)
			}
			v.pins.Keys = append(v.pins.Keys, k)
		}
		stop := terminal.ShowWaiting(cmd, "comparing")
		_, err = v.run(cmd, data, args)
		stop()
		if err != nil && len(c.Differences) == 0 {
			return err
		}
		if terminal.FlagsOf(cmd).JSON {
			err = terminal.PrintJSON(cmd.OutOrStdout(), c)
		} else {
			printComparison(cmd.OutOrStdout(), c)
		}
		if err == nil && len(c.Differences) > 0 {
			err = &terminal.ExitError{Code: terminal.ExitIntegrity, Err: errors.New("the two ledgers differ"), Silent: true}
		}
		return err
	}
	return cmd
}

// localNodeLog reads the log of the node in the data directory.
func localNodeLog(data datadir.Dir) (ledger.NodeLog, error) {
	name, dir, err := NodeChain(data)
	if err != nil {
		return ledger.NodeLog{}, err
	}
	taken := time.Now()
	l, err := journal.Read(dir, name)
	if err != nil {
		return ledger.NodeLog{}, err
	}
	return nodeLogOf(l, taken), nil
}

func exportedNodeLog(file, key string) (ledger.NodeLog, error) {
	f, err := os.Open(file)
	if err != nil {
		return ledger.NodeLog{}, terminal.UsageError("--node-log: %v", err)
	}
	defer f.Close()
	x, err := journal.ReadExport(f)
	if err != nil {
		return ledger.NodeLog{}, err
	}
	if key != "" {
		var k chain.Key
		if err := k.UnmarshalText([]byte(key)); err != nil {
			return ledger.NodeLog{}, terminal.UsageError("--node-key %s: %v", key, err)
		}
		if k != x.Key {
			return ledger.NodeLog{}, capabilities.Errorf(capabilities.CodeLedgerCorrupt, "the node's log is signed by key %s, not by %s", x.Key, k)
		}
	}
	return nodeLogOf(&x.Log, x.Taken), nil
}

// ReadNodeLog reads an exported log for the gateway, which does not know its format.
func ReadNodeLog(r io.Reader) (ledger.NodeLog, chain.Key, error) {
	x, err := journal.ReadExport(r)
	if err != nil {
		return ledger.NodeLog{}, chain.Key{}, err
	}
	return nodeLogOf(&x.Log, x.Taken), x.Key, nil
}

// nodeLogOf returns the gateway's side of the house what it compares.
func nodeLogOf(l *journal.Log, taken time.Time) ledger.NodeLog {
	kinds := map[string]ledger.NodeKind{
		journal.KindStarted: ledger.NodeStarted, journal.KindFinished: ledger.NodeFinished, journal.KindRefused: ledger.NodeRefused,
		journal.KindGap: ledger.NodeGap,
	}
	out := ledger.NodeLog{Node: capabilities.NodeID(l.Chain), First: l.First, Seen: l.Peers, Taken: taken}
	for i := range l.Records {
		r := &l.Records[i]
		if i == 0 {
			out.Before = r.Prev
		}
		out.Entries = append(out.Entries, ledger.NodeEntry{
			Seq: r.Seq, TimeUS: r.TimeUS, Hash: r.Hash, Kind: kinds[r.Kind], Call: r.Call, Tool: r.Tool, Lane: r.Lane, Principal: r.Principal,
			Envelope: r.Envelope, Status: r.Status, Code: r.Code, Effect: r.Effect,
		})
	}
	return out
}

func printComparison(w io.Writer, c ledger.Comparison) {
	for _, d := range c.Differences {
		call := ""
		if d.Call != "" {
			call = "call " + string(d.Call) + ": "
		}
		fmt.Fprintf(w, "DIFFERENT  %s%s\n", terminal.Plain(call), terminal.Plain(d.Text))
	}
	for _, n := range c.Notes {
		fmt.Fprintf(w, "note       %s\n", terminal.Plain(n))
	}
	verdict := "The two ledgers agree."
	if n := len(c.Differences); n > 0 {
		verdict = fmt.Sprintf("The two ledgers differ: %s.", terminal.Count(n, "difference"))
	}
	fmt.Fprintf(w, "%s\n  gateway  %s, seen by the node up to entry %d\n  node     %s, %d entries, seen by the gateway up to entry %d\n  "+
		"calls    %d in both",
		verdict, terminal.Plain(c.Chain), c.SeenByNode, terminal.Plain(string(c.Node)), c.NodeEntries, c.Witnessed, c.Calls)
	for _, part := range []struct {
		n    int
		text string
	}{{
		c.Refused, "refused by the node",
	}, {c.GatewayOnly, "never begun there"}, {c.Unsettled, "too new for one of the two"}, {c.Pruned, "kept no longer by one of the two"}} {
		if part.n > 0 {
			fmt.Fprintf(w, ", %d %s", part.n, part.text)
		}
	}
	fmt.Fprintln(w)
	if !c.Pinned {
		fmt.Fprintln(w, "  Whose ledger it is, only --key can tell.")
	}
}
