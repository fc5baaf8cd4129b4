package health

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// Finding is one line of the doctor's report.
type Finding struct {
	Part string `json:"part"` // host, gateway or node
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Code is the reason in one word, as the list of nodes has it; "" if all is well.
	Code string `json:"code,omitempty"`
	// Missing says that it is not here, and that nothing rests on it.
	Missing bool   `json:"missing,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Fix     string `json:"fix,omitempty"`
}

// NewDoctorCmd returns the command that looks at a host, its gateway and its nodes.
func NewDoctorCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what works here, what does not, and how to mend it",
		Long: "Checks this host, the gateway of the data directory if one runs, and what each node reports of itself.\n" +
			"Ends with 1 if something has problems.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, err := datadir.Of(cmd)
			if err != nil {
				return err
			}
			stop := terminal.ShowWaiting(cmd, "looking")
			findings := append(h.findings(cmd.Context(), data), gatewayFindings(cmd, h.Version)...)
			stop()
			if terminal.FlagsOf(cmd).JSON {
				if err := terminal.PrintItems(cmd.OutOrStdout(), findings); err != nil {
					return err
				}
			} else {
				printFindings(cmd, findings)
			}
			for _, f := range findings {
				if !f.OK {
					return &terminal.ExitError{
						Code: terminal.ExitFailed, Silent: true, Err: capabilities.Errorf(capabilities.CodeExecutionFailed, "something has problems"),
					}
				}
			}
			return nil
		},
	}
}

func printFindings(cmd *cobra.Command, findings []Finding) {
	out := cmd.OutOrStdout()
	t := terminal.NewTable(out, "PART", "WHAT", "STATE", "DETAIL")
	for _, f := range findings {
		state := "ok"
		switch {
		case !f.OK:
			state = "not ok"
		case f.Code != "": // what this device need not have
			state = "unavailable"
		case f.Missing:
			state = "not here"
		}
		t.Row(f.Part, f.Name, state, f.Detail)
	}
	t.Flush()
	// A remedy that mends several of them is told once. A node's words for it may begin with what
	// the host's finding said already.
	type mend struct{ names, code, fix string }
	var mends []*mend
	for _, f := range findings {
		if f.Fix == "" {
			continue
		}
		at := slices.IndexFunc(mends, func(m *mend) bool {
			return m.code == f.Code && (strings.HasSuffix(m.fix, f.Fix) || strings.HasSuffix(f.Fix, m.fix))
		})
		if at < 0 {
			at, mends = len(mends), append(mends, &mend{code: f.Code})
		}
		m := mends[at]
		if len(f.Fix) > len(m.fix) {
			m.fix = f.Fix
		}
		name := f.Name
		if f.Code != "" {
			name += " (" + f.Code + ")"
		}
		m.names += terminal.Plain(name) + "\n"
	}
	for _, m := range mends {
		fmt.Fprintf(out, "\n%s  -> %s\n", m.names, terminal.Plain(m.fix))
	}
}

// gatewayFindings asks the gateway of the data directory. None running is not a
// fault: a node's device has none.
func gatewayFindings(cmd *cobra.Command, version string) []Finding {
	c, err := remote.Find(cmd)
	if err != nil {
		return []Finding{problem("gateway", "gateway", err, terminal.ExitCode(err) == terminal.ExitUnreachable)}
	}
	var status api.Status
	if err := c.Get(cmd.Context(), remote.Path("status"), &status); err != nil {
		return []Finding{problem("gateway", "gateway", err, false)}
	}
	findings := []Finding{{Part: "gateway", Name: "gateway", OK: true,
		Detail: fmt.Sprintf("site %s, version %s, HTTP %s, QUIC %s", status.SiteID, status.Version, status.HTTPAddr, status.QUICAddr)}}
	if status.Version != "" && status.Version != version {
		findings = append(findings, Finding{Part: "gateway", Name: "version", OK: true,
			Detail: fmt.Sprintf("the gateway is %s, this program %s", status.Version, version)})
	}
	if text := remote.StoppedNow(cmd, c); text != "" {
		findings = append(findings,
			Finding{Part: "gateway", Name: "stop switch", Code: string(capabilities.CodeStopped), Detail: text, Fix: remote.ResumeFix})
	}
	var answer struct {
		Nodes []remote.Node `json:"nodes"`
	}
	if err := c.Get(cmd.Context(), remote.Path("nodes"), &answer); err != nil {
		return append(findings, problem("node", "nodes", err, false))
	}
	if len(answer.Nodes) == 0 {
		findings = append(findings, Finding{Part: "node", Name: "nodes", OK: false, Detail: "none is paired",
			Fix: "Run 'handrail pair' here and 'handrail node join' on the device."})
	}
	for _, n := range answer.Nodes {
		findings = append(findings, nodeFindings(n)...)
	}
	return findings
}

func problem(part, name string, err error, fine bool) Finding {
	coded := capabilities.AsError(err)
	return Finding{Part: part, Name: name, OK: fine, Code: string(coded.Code), Detail: coded.PublicMessage(), Fix: command.OfError(err)}
}

func nodeFindings(n remote.Node) []Finding {
	name := string(n.ID)
	if n.Label != "" {
		name += " (" + n.Label + ")"
	}
	switch {
	case n.State == "revoked" || n.State == "denied":
		return nil // a person decided that; nothing to mend
	case n.State == "pending":
		return []Finding{{Part: "node", Name: name, OK: false, Detail: "waits for a decision",
			Fix: "Run 'handrail node approve " + string(n.ID) + "' or 'handrail node deny " + string(n.ID) + "'."}}
	case !n.Connected:
		return []Finding{{Part: "node", Name: name, OK: false, Detail: "not connected",
			Fix: "Start 'handrail node' on the device and see that it reaches the gateway's QUIC address, by UDP or TCP."}}
	}
	ready := Finding{Part: "node", Name: name, OK: true, Detail: n.Ready() + " capabilities ready, connected by " + n.Transport}
	if n.Around() {
		ready.Detail += ": the gateway's UDP port does not answer it"
	}
	findings := []Finding{ready}
	for _, p := range n.Pools {
		findings = append(findings, Finding{Part: "node", Name: name + " calls of class " + string(p.Class), OK: true,
			Detail: fmt.Sprintf("%d of %d run, %d of %d wait, %d were refused; %d runners stand ready, which %d programs found and %d did not",
				p.Running, p.Most, p.Waiting, p.Queue, p.Refused, p.Ready, p.Warm, p.Cold)})
	}
	for _, group := range alike(n.Capabilities) {
		c, what := group[0], name+" "+toolsOf(group)
		switch {
		case !c.Available:
			// A device without a session to work in, or without a camera, is in order: it
			// offers the rest. A browser is what every device is expected to have.
			fine := c.Reason == capabilities.ReasonBackendMissing && c.Capability.Tool().
				Family() != "browser" || c.Reason == capabilities.ReasonDeviceMissing
			findings = append(findings, Finding{Part: "node", Name: what, OK: fine, Code: string(c.Reason), Detail: string(c.Reason), Fix: c.Fix})
		case c.Degraded != "":
			findings = append(findings, Finding{Part: "node", Name: what, OK: true, Detail: "works without " + c.Degraded, Fix: c.Fix})
		}
	}
	return findings
}

// alike groups capabilities of one family of which the same is to be said.
func alike(all []api.Capability) [][]api.Capability {
	type same struct {
		family, fix, degraded string
		available             bool
		reason                capabilities.Reason
	}
	place := map[same]int{}
	var groups [][]api.Capability
	for _, c := range all {
		key := same{c.Capability.Tool().Family(), c.Fix, c.Degraded, c.Available, c.Reason}
		i, ok := place[key]
		if !ok {
			i = len(groups)
			place[key], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}

// toolsOf names one tool, or the family and how many of its tools.
func toolsOf(group []api.Capability) string {
	if len(group) == 1 {
		return remote.CapabilityRow(group[0])[0]
	}
	return fmt.Sprintf("%s (%d tools)", group[0].Capability.Tool().Family(), len(group))
}
