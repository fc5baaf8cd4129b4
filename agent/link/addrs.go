package link

import (
	"bytes"
	"net"
	"net/netip"
	"slices"

	"github.com/handrail-dev/handrail/capabilities/wire"
)

// deviceAddrs returns the addresses of the device's interfaces as the gateway is told them,
// sorted: the gateway takes nothing that widens what agents may do from a device in an
// agent's hands, by whichever of its addresses it comes. Loopback and link-local ones say
// nothing of a device; of IPv6 one for each /64 is enough. None where there are more than
// can be told: half of them would say that the rest is somebody else's.
func deviceAddrs() [][]byte {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var all [][]byte
	seen := map[netip.Prefix]bool{}
	for _, a := range list {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		addr := p.Addr().Unmap().WithZone("")
		of := netip.PrefixFrom(addr, min(addr.BitLen(), 64)).Masked()
		if addr.IsLoopback() || addr.IsLinkLocalUnicast() || seen[of] {
			continue
		}
		seen[of] = true
		all = append(all, addr.AsSlice())
	}
	if len(all) > wire.MaxAddrs {
		return nil
	}
	slices.SortFunc(all, bytes.Compare)
	return all
}
