package record

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/tree"
)

func newLedgerCheckpointCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Print the ledger as a signed checkpoint, for others to keep",
		Long: "A checkpoint names all packets by one hash, in the form that witnesses of transparency logs take (C2SP\n" +
			"tlog-checkpoint). Kept elsewhere it tells later whether the ledger still begins with the same packets: --since\n" +
			"takes one and has that proved.",
		Args: cobra.NoArgs,
	}
	since := cmd.Flags().String("since", "", "file with an earlier checkpoint, which this one must continue")
	out := cmd.Flags().String("out", "", "file to write (default: standard output)")
	keys := cmd.Flags().StringArray("key", nil, "public key that must have signed, in hex or as witnesses take it (repeatable)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		pins, err := proofKeys(cmd, *keys)
		if err != nil {
			return err
		}
		var earlier string
		if *since != "" {
			if earlier, err = readShort(*since); err != nil {
				return err
			}
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		made, added, err := checkpoint(cmd, c, pins, earlier)
		if err != nil {
			return err
		}
		if terminal.FlagsOf(cmd).JSON {
			return terminal.PrintJSON(cmd.OutOrStdout(), made)
		}
		if *out == "" {
			fmt.Fprint(cmd.OutOrStdout(), made.Checkpoint)
		} else if err := os.WriteFile(*out, []byte(made.Checkpoint), 0o600); err != nil {
			return err
		}
		if earlier != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "It continues %s, by %s.\n", *since, terminal.Count(added, "packet"))
		}
		return nil
	}
	return cmd
}

// checkpoint asks for one and holds it against an earlier one, if there is one.
func checkpoint(cmd *cobra.Command, c *remote.Gateway, pins []chain.Key, earlier string) (made api.Checkpoint, added uint64, err error) {
	first := tree.Checkpoint{}
	path := remote.Path("ledger", "checkpoint")
	if earlier != "" {
		if len(pins) == 0 {
			return made, 0, terminal.UsageError("name the key that signed the earlier checkpoint with --key")
		}
		if first, err = tree.Open(earlier, pins...); err != nil {
			return made, 0, notProved(err)
		}
		path = remote.Query(path, "since", strconv.FormatUint(first.Size, 10))
	}
	err = c.Get(cmd.Context(), path, &made)
	if earlier != "" && capabilities.CodeOf(err) == capabilities.CodeInvalidRequest {
		return made, 0, notProved(err) // it has fewer packets
	}
	if err != nil || len(pins) == 0 {
		return made, 0, err
	}
	now, err := tree.Open(made.Checkpoint, pins...)
	if err != nil {
		return made, 0, notProved(err)
	}
	if earlier == "" {
		return made, 0, nil
	}
	var hashes []tlog.Hash
	for _, text := range made.Consistency {
		h, err := tlog.ParseHash(text)
		if err != nil {
			return made, 0, notProved(err)
		}
		hashes = append(hashes, h)
	}
	if err := first.Continues(now, hashes); err != nil {
		return made, 0, notProved(err)
	}
	return made, now.Size - first.Size, nil
}

func notProved(err error) error {
	return capabilities.Errorf(capabilities.CodeLedgerCorrupt, "%v", err)
}

func newLedgerProveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prove SEQ",
		Short: "Print a packet with the proof that it is in the ledger",
		Long: "With the gateway's public key anybody checks the proof by 'handrail ledger verify FILE', without the gateway and\n" +
			"without any other packet (C2SP tlog-proof). 'handrail ledger show' has the sequence numbers.",
		Args: cobra.ExactArgs(1),
	}
	out := cmd.Flags().String("out", "", "file to write (default: standard output)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		seq, err := strconv.ParseUint(args[0], 10, 63)
		if err != nil || seq == 0 {
			return terminal.UsageError("%q is no packet's sequence number", args[0])
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		var proof api.Proof
		if err := c.Get(cmd.Context(), remote.Path("ledger", "packets", args[0], "proof"), &proof); err != nil {
			return err
		}
		if *out != "" {
			if err := os.WriteFile(*out, []byte(proof.Proof), 0o600); err != nil {
				return err
			}
			return remote.Confirmed(cmd, nil, "The proof of packet %d is in %s", seq, *out)
		}
		if terminal.FlagsOf(cmd).JSON {
			return terminal.PrintJSON(cmd.OutOrStdout(), proof)
		}
		_, err = io.WriteString(cmd.OutOrStdout(), proof.Proof)
		return err
	}
	return cmd
}

// proofKeys reads --key. Without one it is the key of the data directory's own gateway, if that has
// one.
func proofKeys(cmd *cobra.Command, texts []string) ([]chain.Key, error) {
	var all []chain.Key
	for _, text := range texts {
		k, err := tree.ReadKey(text)
		if !strings.Contains(text, "+") {
			err = k.UnmarshalText([]byte(text))
		}
		if err != nil {
			return nil, terminal.UsageError("--key %s: %v", text, err)
		}
		all = append(all, k)
	}
	if len(all) > 0 {
		return all, nil
	}
	data, err := datadir.Of(cmd)
	if err != nil {
		return nil, err
	}
	if key, err := gatewayKey(data.Gateway()); err == nil {
		all = append(all, chain.PublicKey(key))
	}
	return all, nil
}

// readShort reads a checkpoint or a proof.
func readShort(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", terminal.UsageError("%v", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, tree.MaxText+1))
	return string(text), err
}

// proved is what a proof says, as JSON has it.
type proved struct {
	Packet     *ledger.Packet  `json:"packet"`
	Checkpoint tree.Checkpoint `json:"checkpoint"`
}

// verifyProof judges a file with a proof.
func verifyProof(cmd *cobra.Command, file string, texts []string) error {
	keys, err := proofKeys(cmd, texts)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return terminal.UsageError("name the gateway's key with --key: a proof is worth what its key is")
	}
	text, err := readShort(file)
	if err != nil {
		return err
	}
	packet, in, err := ledger.VerifyProof(text, keys...)
	if err != nil {
		return err
	}
	if terminal.FlagsOf(cmd).JSON {
		return terminal.PrintJSON(cmd.OutOrStdout(), proved{packet, in})
	}
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "The proof verifies: packet %d is in the ledger of %s, which had %s then.\n", packet.Seq, terminal.Plain(in.Chain),
		terminal.Count(in.Size, "packet"))
	fmt.Fprintf(w, "  recorded %s\n  kind     %s\n", packet.Time().Local().Format(terminal.DayClock), terminal.Plain(string(packet.Kind)))
	for _, field := range [][2]string{{"tool", string(packet.Tool)}, {"who", string(packet.Principal)}, {"call", string(packet.Call)}} {
		if field[1] != "" {
			fmt.Fprintf(w, "  %-8s %s\n", field[0], terminal.Plain(field[1]))
		}
	}
	return nil
}
