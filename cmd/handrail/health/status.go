package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// statusView is what 'handrail status --json' prints. A field is there only if the token
// may know it.
type statusView struct {
	Up       bool         `json:"up"`
	Why      string       `json:"why,omitempty"` // it is not
	Address  string       `json:"address,omitempty"`
	Site     string       `json:"site_id,omitempty"`
	Version  string       `json:"version"`                   // of this program
	Gateway  string       `json:"gateway_version,omitempty"` // of the one that answers
	Since    time.Time    `json:"started_at,omitzero"`
	Stopped  string       `json:"stopped,omitempty"`   // by whom and since when; "" if nothing is
	ReadOnly bool         `json:"read_only,omitempty"` // the gateway's disk is full
	Waiting  int          `json:"waiting"`             // questions
	Running  int          `json:"running"`             // calls
	Devices  []deviceView `json:"devices"`
	Clients  []peer       `json:"clients"`
	QUIC     string       `json:"quic_address,omitempty"`
	Problems []string     `json:"problems,omitempty"` // what could not be asked
}

type deviceView struct {
	Node    string `json:"node_id"`
	Label   string `json:"label,omitempty"`
	State   string `json:"state"` // connected, stopped, away, pending
	Ready   int    `json:"ready"`
	Tools   int    `json:"tools"`
	Version string `json:"version,omitempty"`
	// Without are the parts of its confinement that are missing, such as "chrome_sandbox".
	Without []string `json:"without,omitempty"`
}

// peer is a principal with a token that works.
type peer struct {
	Principal string    `json:"principal"`
	Role      string    `json:"role"`
	LastUsed  time.Time `json:"last_used,omitzero"`
}

// NewStatusCmd returns the command that says how things stand; version is the one of this program.
func NewStatusCmd(version string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say on one screen how things stand",
		Long: "Says whether a gateway runs, which devices and clients it has, what waits for a person, whether something is stopped,\n" +
			"and the versions. Ends with 4 if no gateway runs. 'handrail doctor' says how to mend what does not work.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := readStatus(cmd, version)
			if terminal.FlagsOf(cmd).JSON {
				if printed := terminal.PrintJSON(cmd.OutOrStdout(), s); printed != nil {
					return printed
				}
				if err != nil {
					return &terminal.ExitError{Code: terminal.ExitCode(err), Err: err, Silent: true}
				}
				return nil
			}
			if err != nil {
				return err
			}
			s.print(cmd)
			return nil
		},
	}
}

// readStatus asks the gateway. The error says that none answers.
func readStatus(cmd *cobra.Command, version string) (statusView, error) {
	s := statusView{Version: version, Devices: []deviceView{}, Clients: []peer{}}
	c, err := remote.Find(cmd)
	var status api.Status
	if err == nil {
		err = c.Get(cmd.Context(), remote.Path("status"), &status)
	}
	if err != nil {
		s.Why = capabilities.AsError(err).PublicMessage()
		return s, err
	}
	s.Up, s.Address, s.Site, s.Gateway = true, c.Base.String(), string(status.SiteID), status.Version
	s.Since, s.QUIC = status.StartedAt, status.QUICAddr
	s.ReadOnly, s.Stopped = status.ReadOnly, remote.StoppedNow(cmd, c)
	note := func(what string, err error) bool {
		if err != nil {
			s.Problems = append(s.Problems, what+": "+capabilities.AsError(err).PublicMessage())
		}
		return err == nil
	}
	var nodes struct {
		Nodes []remote.Node `json:"nodes"`
	}
	if note("devices", c.Get(cmd.Context(), remote.Path("nodes"), &nodes)) {
		for _, n := range nodes.Nodes {
			if d, in := deviceOf(n); in {
				s.Devices = append(s.Devices, d)
			}
		}
	}
	var waiting struct {
		Approvals []struct{} `json:"approvals"`
	}
	if note("approvals", c.Get(cmd.Context(), remote.Path("approvals"), &waiting)) {
		s.Waiting = len(waiting.Approvals)
	}
	var running struct {
		Calls []struct{} `json:"calls"`
	}
	if note("calls", c.Get(cmd.Context(), remote.Query(remote.Path("calls"), "state", "running", "limit", "200"), &running)) {
		s.Running = len(running.Calls)
	}
	var tokens api.TokenList
	if note("clients", c.Get(cmd.Context(), remote.Path("tokens"), &tokens)) {
		at := map[string]bool{}
		for _, t := range tokens.Tokens {
			if t.Parent != "" || !t.RevokedAt.IsZero() || !t.ExpiresAt.IsZero() && t.ExpiresAt.Before(time.Now()) {
				continue
			}
			if key := string(t.Principal) + " " + t.Role; !at[key] {
				at[key] = true
				s.Clients = append(s.Clients, peer{Principal: string(t.Principal), Role: t.Role})
			}
		}
	}
	var lanes api.LaneList
	if note("lanes", c.Get(cmd.Context(), remote.Path("lanes"), &lanes)) {
		for _, l := range lanes.Lanes {
			for i := range s.Clients {
				if p := &s.Clients[i]; p.Principal == string(l.Principal) && l.LastUsed.After(p.LastUsed) {
					p.LastUsed = l.LastUsed
				}
			}
		}
	}
	return s, nil
}

// deviceOf returns a node as the status shows it; false if it is none of this site any more.
func deviceOf(n remote.Node) (deviceView, bool) {
	d := deviceView{Node: string(n.ID), Label: n.Label, State: "away", Tools: len(n.Capabilities), Version: n.Agent}
	switch {
	case n.State == "pending":
		d.State = "pending"
	case n.State != "approved":
		return d, false
	case n.Connected && n.Stopped:
		d.State = "stopped"
	case n.Connected:
		d.State = "connected"
	}
	for _, c := range n.Capabilities {
		if c.Available {
			d.Ready++
		}
		if c.Degraded != "" && !slices.Contains(d.Without, c.Degraded) {
			d.Without = append(d.Without, c.Degraded)
		}
	}
	return d, true
}

func (s *statusView) print(cmd *cobra.Command) {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "Up at %s since %s, version %s", terminal.Plain(s.Address), s.Since.Local().
		Format(terminal.DayClock), terminal.Plain(s.Gateway))
	if s.Gateway != s.Version {
		fmt.Fprintf(out, " (this program: %s)", terminal.Plain(s.Version))
	}
	fmt.Fprintln(out, ".")
	if s.Stopped != "" {
		fmt.Fprintf(out, "%s %s\n", terminal.Plain(s.Stopped), remote.ResumeFix)
	}
	if s.ReadOnly {
		fmt.Fprintln(out, "The gateway's disk is full: nothing is carried out until there is room. 'handrail stop' and approvals work.")
	}
	waiting := "No approvals pending"
	if s.Waiting > 0 {
		waiting = terminal.Count(s.Waiting, "question") + " for you ('handrail approvals')"
	}
	fmt.Fprintf(out, "%s; %s running.\n\n", waiting, terminal.Count(s.Running, "call"))
	if len(s.Devices) == 0 {
		fmt.Fprintln(out, "No devices yet. 'handrail pair' lets one in.")
	} else {
		t := terminal.NewTable(out, "DEVICE", "NODE", "STATE", "TOOLS READY", "VERSION")
		for _, d := range s.Devices {
			t.Row(d.Label, d.Node, d.State, fmt.Sprintf("%d of %d", d.Ready, d.Tools), d.Version)
		}
		t.Flush()
		for _, d := range s.Devices {
			if len(d.Without) > 0 {
				fmt.Fprintf(out, "%s works without %s; 'handrail doctor' says why.\n", terminal.Plain(d.Node),
					terminal.Plain(strings.Join(d.Without, ", ")))
			}
		}
	}
	if len(s.Clients) > 0 {
		fmt.Fprintln(out)
		t := terminal.NewTable(out, "CLIENT", "ROLE", "LAST USED")
		for _, p := range s.Clients {
			t.Row(p.Principal, p.Role, terminal.Ago(time.Now(), p.LastUsed))
		}
		t.Flush()
	}
	for _, p := range s.Problems {
		fmt.Fprintf(out, "\nNot known: %s\n", terminal.Plain(p))
	}
}
