package fs

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// hostFlag is how a device's owner names one more host.
const hostFlag = "--workspace-net"

// maxRefused bounds the refused targets of a result.
const maxRefused = 16

// checkHosts refuses what is no host, or does not fit the keys of an envelope.
func checkHosts(hosts []string) error {
	if len(hosts) > capabilities.MaxHosts {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "%s names at most %d hosts", hostFlag, capabilities.MaxHosts)
	}
	if i := slices.IndexFunc(hosts, func(h string) bool { return !capabilities.FitsHost(h) }); i >= 0 {
		return capabilities.Errorf(capabilities.CodeInvalidRequest,
			"%s: %.200q is no host: want example.com, *.example.com, example.com:8443 or 127.0.0.1:8080, in lower case", hostFlag, hosts[i])
	}
	_, err := egress.NewWay(hosts, hostFlag)
	return err
}

// way is the way to the network of one call: to those of the workspace's hosts that its envelope
// names, and to others that a person permits it, each connection told as what the call did. nil: to
// none.
func (h *Handler) way(inv *capabilities.Invocation) (*egress.Way, error) {
	if !slices.Contains(inv.Grants, capabilities.KeyEgress) {
		return nil, nil
	}
	granted := slices.DeleteFunc(slices.Clone(h.opts.Hosts), func(host string) bool {
		return !slices.Contains(inv.Grants, capabilities.NarrowDomains+host)
	})
	if len(granted) == 0 {
		return nil, nil
	}
	way, err := egress.NewWay(granted, hostFlag)
	if err != nil {
		return nil, err
	}
	return way.Told(func(target string) { inv.Observe(capabilities.KeyEgress, target) }).For(inv.Reach), nil
}

// sockets are those that a command without a way to the network wanted and did not get, each kind
// once. Each attempt is drift of the call (S1-44).
type sockets struct {
	mu   sync.Mutex
	list []string
}

// told has each attempt reported, and kept for the command's result.
func (s *sockets) told(inv *capabilities.Invocation, socket string) {
	inv.ReportRefused(capabilities.KeyEgress, socket)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) < maxRefused && !slices.Contains(s.list, socket) {
		s.list = append(s.list, socket)
	}
}

// noWay is the hint of a command that wanted a network and has none. Its caller would try again.
const noWay = "This command may reach no host: none was named, or the call was not granted it. Do not try again: each attempt is drift, " +
	"and the third within an hour puts the runner into quarantine. The device's owner names hosts with " + hostFlag + "."

// finished is a call's output, with what its command tried to reach and was not let, which is drift
// of the call, too (S1-44).
func (h *Handler) finished(inv *capabilities.Invocation, out capabilities.Output, net *egress.Way, s *sockets,
	result map[string]any) capabilities.Output {
	out.Result = result
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) > 0 {
		var all []string
		for _, socket := range s.list {
			all = append(all, socket+": no network was granted")
		}
		result["refused"], out.Hint = all, noWay
		return out
	}
	list := net.Refused()
	if len(list) == 0 {
		return out
	}
	for _, r := range list {
		inv.ReportRefused(capabilities.KeyEgress, r.Target)
	}
	refused := make([]string, 0, min(len(list), maxRefused))
	for _, r := range list[:cap(refused)] {
		refused = append(refused, capabilities.Clip(capabilities.Printable(r.Target+": "+r.Why), 600))
		host, ok := strings.CutPrefix(r.Flag, hostFlag+" ")
		if ok && out.Hint == "" && capabilities.FitsHost(host) && !slices.Contains(h.opts.Hosts, host) {
			out.Hint = fmt.Sprintf("The command tried %s; allow it with %s.", capabilities.Printable(r.Target), r.Flag)
			out.Action = capabilities.Action{Key: capabilities.ActionNameHost, Name: host}
		}
	}
	result["refused"] = refused
	return out
}
