package link

import (
	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/pairing"
)

// heedMark refuses a gateway of a lower generation of the site than this node knows, and keeps a
// higher one, before anything else that the gateway says counts.
func (l *Link) heedMark(conn *quic.Conn, m pairing.Mark) error {
	known := l.id.Mark.Generation
	if m.Generation == known {
		return nil
	}
	if m.Generation < known {
		closeWith(conn, wire.CloseSuperseded)
		return capabilities.Errorf(capabilities.CodeSiteSuperseded,
			"The gateway there is of generation %d of its site, and this device knows generation %d.", m.Generation, known)
	}
	if err := pairing.VerifyMark(conn.ConnectionState().TLS.PeerCertificates, l.id.Site, m); err != nil {
		closeWith(conn, wire.CloseProtocol)
		return capabilities.Wrap(capabilities.CodeInvalidRequest, err, "The gateway there does not prove its site's generation.")
	}
	l.log.Warn("node.site_restored", "node", l.id.Node, "generation", m.Generation, "known", known)
	l.opts.OnRestored(m.Generation)
	// The identity on the disk, and not l.id: its addresses may be those of this run alone.
	kept, err := LoadIdentity(l.opts.Dir)
	if err == nil {
		kept.Mark = m
		err = kept.save(l.opts.Dir)
	}
	if err != nil {
		l.log.Error("node.generation_not_kept", "node", l.id.Node, "generation", m.Generation, "err", err)
	}
	l.id.Mark = m
	return nil
}
