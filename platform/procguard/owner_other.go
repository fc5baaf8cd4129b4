//go:build !linux

package procguard

import (
	"errors"
	"net/netip"
)

func (p *process) owns(netip.AddrPort, netip.AddrPort) (bool, error) {
	return false, errors.ErrUnsupported
}
