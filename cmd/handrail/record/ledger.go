package record

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// NewLedgerCmd makes 'handrail ledger'.
func NewLedgerCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Read, export and verify the record of every call",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLedgerShowCmd(), newLedgerVerifyCmd(), newLedgerExportCmd(), newLedgerCompareCmd(),
		newLedgerCheckpointCmd(), newLedgerProveCmd())
	return cmd
}

func newLedgerShowCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show packets of the ledger",
		Args:  cobra.NoArgs,
	}
	f := cmd.Flags()
	call := f.String("call", "", "only packets of this call, in full")
	kind := f.String("kind", "", "only packets of this kind, such as tool.call.decision")
	after := f.Uint64("after", 0, "only packets after this sequence number")
	limit := f.Int("limit", 50, "how many at most")
	full := f.Bool("full", false, "print each packet's body")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *limit < 1 {
			return terminal.UsageError("--limit must be at least 1")
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		from := ""
		if cmd.Flags().Changed("after") {
			from = strconv.FormatUint(*after, 10)
		}
		raw, err := c.List(cmd,
			remote.Query(remote.Path("ledger", "packets"), "call", *call, "kind", *kind, "after", from, "limit", strconv.Itoa(*limit)), "packets")
		if err != nil {
			return err
		}
		if len(raw) == 0 && *call != "" {
			return command.Advise(capabilities.Errorf(capabilities.CodeNotFound, "the ledger shows nothing of call %q", *call),
				command.Here("ledger", "show"), " shows the latest calls. Calls past the ledger's retention are pruned.")
		}
		if terminal.FlagsOf(cmd).JSON {
			return terminal.PrintItems(cmd.OutOrStdout(), raw)
		}
		return printPackets(cmd.OutOrStdout(), raw, *full || *call != "")
	}
	return cmd
}

// packetView is a packet with its body read.
type packetView struct {
	api.Packet
	Body map[string]any `json:"body"`
}

// outcome is the one word of a packet's body that says how it went.
func (p packetView) outcome() string {
	for _, field := range []string{"effect", "code", "status", "state"} {
		if word, ok := p.Body[field].(string); ok && word != "" {
			return word
		}
	}
	return ""
}

// named is a text of the body by its name: what a question or a grant is about stands
// there.
func (p packetView) named(field string) string {
	word, _ := p.Body[field].(string)
	return word
}

func printPackets(w io.Writer, raw []json.RawMessage, full bool) error {
	packets, err := remote.DecodeAll[packetView](raw)
	if err != nil {
		return err
	}
	if len(packets) == 0 {
		fmt.Fprintln(w, "No packets.")
		return nil
	}
	if !full {
		t := terminal.NewTable(w, "SEQ", "TIME", "KIND", "TOOL", "WHO", "NODE", "OUTCOME", "CALL")
		for _, p := range packets {
			t.Row(strconv.FormatUint(p.Seq, 10), p.Time().Local().
				Format(terminal.DayClock), p.Kind, cmp.Or(string(p.Tool), p.named("tool")), string(p.Principal),
				cmp.Or(string(p.Node), p.named("node")), p.outcome(), cmp.Or(string(p.Call), p.named("call")))
		}
		t.Flush()
		return nil
	}
	for _, p := range packets {
		fmt.Fprintf(w, "%d  %s  %s\n", p.Seq, p.Time().Local().Format("2006-01-02 15:04:05.000000"), terminal.Plain(p.Kind))
		for _, field := range [][2]string{
			{"tool", string(p.Tool)}, {"who", string(p.Principal)}, {"lane", string(p.Lane)}, {"node", string(p.Node)}, {"call", string(p.Call)},
		} {
			if field[1] != "" {
				fmt.Fprintf(w, "    %s: %s\n", field[0], terminal.Plain(field[1]))
			}
		}
		terminal.PrintValue(w, "    ", p.Body)
	}
	return nil
}

func newLedgerExportCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Export the whole ledger, one JSON object a line, for 'handrail ledger verify'",
		Args:  cobra.NoArgs,
	}
	file := cmd.Flags().String("out", "", "file to write (default: standard output)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		stop := terminal.ShowWaiting(cmd, "exporting")
		defer func() { stop() }()
		body, err := c.Fetch(cmd.Context(), http.MethodGet, remote.Path("ledger", "export"), nil)
		if err != nil {
			return err
		}
		defer body.Close()
		if *file == "" {
			_, err := io.Copy(cmd.OutOrStdout(), body)
			return err
		}
		lines, err := exportTo(*file, body)
		stop()
		stop = func() {}
		if err != nil {
			return err
		}
		return remote.Confirmed(cmd, nil, "%s written to %s", terminal.Count(lines, "line"), *file)
	}
	return cmd
}

// exportTo writes body to a file that appears under its name only when whole.
func exportTo(file string, body io.Reader) (lines int, err error) {
	temp := file + ".part"
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(temp)
		}
	}()
	counter := &lineCounter{w: bufio.NewWriter(f)}
	if _, err = io.Copy(counter, body); err != nil {
		return 0, capabilities.Errorf(capabilities.CodeExecutionFailed, "the export broke off: %v", err)
	}
	if err = counter.w.Flush(); err != nil {
		return 0, err
	}
	if err = f.Sync(); err != nil {
		return 0, err
	}
	if err = f.Close(); err != nil {
		return 0, err
	}
	return counter.lines, os.Rename(temp, file)
}

type lineCounter struct {
	w     *bufio.Writer
	lines int
}

func (c *lineCounter) Write(p []byte) (int, error) {
	for _, b := range p {
		if b == '\n' {
			c.lines++
		}
	}
	return c.w.Write(p)
}
