package media

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/pion/ice/v4"
	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/cc"
	"github.com/pion/interceptor/pkg/gcc"
	"github.com/pion/interceptor/pkg/nack"
	"github.com/pion/interceptor/pkg/report"
	"github.com/pion/interceptor/pkg/twcc"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/transport/v4/packetio"

	"github.com/handrail-dev/handrail/capabilities"
)

// The extensions of RTP headers that the receivers' delay and clock hang on.
const (
	transportURI    = "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01"
	playoutDelayURI = "http://www.webrtc.org/experiments/rtp-hdrext/playout-delay"
	captureTimeURI  = "http://www.webrtc.org/experiments/rtp-hdrext/abs-capture-time"
)

// Bit rates, in bits a second. Pion's own start of 10 kb/s would show nothing for
// seconds.
const (
	startRate = 2_500_000
	leastRate = 150_000
	mostRate  = 30_000_000
)

// maxPacket bounds what comes from a viewer at once, in bytes: RTCP and a handshake.
const maxPacket = 8 << 10

// maxHandshake bounds what of a handshake lies unread, in bytes.
const maxHandshake = 64 << 10

// gatherTime bounds the search for addresses of our own.
const gatherTime = 4 * time.Second

// farewellTime bounds how long a way that takes nothing more holds up the end.
const farewellTime = time.Second

// peer is the connection to one viewer: ICE finds the way, DTLS agrees on keys there,
// SRTP carries video with them, and reports come back.
type peer struct {
	offer   *offer
	own     tls.Certificate
	agent   *ice.Agent
	track   *track
	wantKey func()
	rate    func() int    // what the way to the viewer carries, bits a second
	up      chan struct{} // closed when media can flow
	down    chan struct{} // closed when it cannot any more

	//lint:ignore containedctx the life of the peer
	ctx    context.Context // ends with the peer
	cancel context.CancelFunc
	ended  func() // closes down, once
	seal   atomic.Pointer[seal]
	chain  *interceptor.Chain
	wg     sync.WaitGroup
}

// answer makes the peer for an offer to receive one video track. It returns the answer, with every
// address in it: the viewer needs no other word.
func (d *door) answer(ctx context.Context, text string, servers []server, wantKey func(), wants ...codec) (*peer, string, error) {
	o, err := parseOffer(text, wants...)
	if err != nil {
		return nil, "", refusedOffer(err)
	}
	p := &peer{offer: o, wantKey: wantKey, up: make(chan struct{}), down: make(chan struct{}), rate: func() int { return startRate }}
	p.ended = sync.OnceFunc(func() { close(p.down) })
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if p.own, err = newCertificate(); err != nil {
		return nil, "", err
	}
	if p.agent, err = d.agent(servers); err != nil {
		return nil, "", err
	}
	ok := false
	defer func() {
		if !ok {
			p.release()
		}
	}()
	if err := p.sender(); err != nil {
		return nil, "", err
	}
	if err := p.agent.OnConnectionStateChange(func(s ice.ConnectionState) {
		if s == ice.ConnectionStateFailed || s == ice.ConnectionStateClosed {
			p.ended()
		}
	}); err != nil {
		return nil, "", err
	}
	own, err := p.gather(ctx)
	if err != nil {
		return nil, "", err
	}
	if err := p.agent.SetRemoteICELite(o.lite); err != nil {
		return nil, "", err
	}
	for _, c := range o.candidates {
		p.candidate(c)
	}
	p.wg.Go(p.run)
	ok = true
	return p, o.answer(own), nil
}

func refusedOffer(err error) error {
	return capabilities.Wrap(capabilities.CodeInvalidArguments, err, "The offer cannot be answered: it has to be SDP that receives one track of what is shown: video as VP8, sound as Opus or PCMU.")
}

// agent is ICE through the door, and by the servers that help it.
func (d *door) agent(servers []server) (*ice.Agent, error) {
	networks := []ice.NetworkType{ice.NetworkTypeUDP4, ice.NetworkTypeUDP6}
	options := []ice.AgentOption{
		ice.WithUDPMux(d.udp),
		ice.WithIncludeLoopback(),  // a gateway and its viewer may be on this machine
		ice.WithDisableActiveTCP(), // viewers come; a node calls nobody whom they name
		ice.WithMulticastDNSMode(ice.MulticastDNSModeDisabled),
		ice.WithDisconnectedTimeout(5 * time.Second), ice.WithFailedTimeout(15 * time.Second), ice.WithKeepaliveInterval(2 * time.Second),
	}
	if d.tcp != nil {
		options = append(options, ice.WithTCPMux(d.tcp))
		networks = append(networks, ice.NetworkTypeTCP4, ice.NetworkTypeTCP6)
	}
	if urls := helpers(servers); len(urls) > 0 {
		options = append(options, ice.WithUrls(urls), ice.WithProxyDialer(newDialer(urls)))
	}
	return ice.NewAgentWithOptions(append(options, ice.WithNetworkTypes(networks))...)
}

// gather finds our own addresses, and says what the answer tells of us.
func (p *peer) gather(ctx context.Context) (said, error) {
	w := said{session: rand.Uint64(), digest: digestOf(p.own.Certificate[0]), ssrc: p.track.header.SSRC}
	gathered := make(chan struct{})
	if err := p.agent.OnCandidate(func(c ice.Candidate) {
		if c == nil {
			close(gathered)
		}
	}); err != nil {
		return w, err
	}
	if err := p.agent.GatherCandidates(); err != nil {
		return w, err
	}
	enough := time.NewTimer(gatherTime)
	defer enough.Stop()
	select {
	case <-gathered:
	case <-enough.C: // a server that does not answer keeps nobody waiting
	case <-ctx.Done():
		return w, context.Cause(ctx)
	}
	all, err := p.agent.GetLocalCandidates()
	if err != nil {
		return w, err
	}
	for _, c := range all {
		w.candidates = append(w.candidates, c.Marshal())
	}
	w.ufrag, w.password, err = p.agent.GetLocalUserCredentials()
	return w, err
}

// candidate takes an address of the viewer. One that is not understood cannot help,
// and others may.
func (p *peer) candidate(text string) bool {
	c, err := ice.UnmarshalCandidate(text)
	if err != nil || c.Component() != ice.ComponentRTP { // RTCP goes the same way
		return false
	}
	return p.agent.AddRemoteCandidate(c) == nil
}

// sender puts together what a sender of one track needs, and no more.
func (p *peer) sender() error {
	control, err := cc.NewInterceptor(func() (cc.BandwidthEstimator, error) {
		return gcc.NewSendSideBWE(gcc.SendSideBWEInitialBitrate(startRate), gcc.SendSideBWEMinBitrate(leastRate), gcc.SendSideBWEMaxBitrate(mostRate),
			gcc.SendSideBWEPacer(gcc.NewNoOpPacer())) // the track paces
	})
	if err != nil {
		return err
	}
	control.OnNewPeerConnection(func(_ string, e cc.BandwidthEstimator) { p.rate = e.GetTargetBitrate })
	number, err := twcc.NewHeaderExtensionInterceptor()
	if err != nil {
		return err
	}
	resend, err := nack.NewResponderInterceptor()
	if err != nil {
		return err
	}
	reports, err := report.NewSenderInterceptor()
	if err != nil {
		return err
	}
	var parts []interceptor.Interceptor
	for _, f := range []interceptor.Factory{control, number, resend, reports} {
		part, err := f.NewInterceptor("")
		if err != nil {
			return errors.Join(err, interceptor.NewChain(parts).Close())
		}
		parts = append(parts, part)
	}
	p.chain = interceptor.NewChain(parts)
	ssrc := rand.Uint32()
	info := &interceptor.StreamInfo{ID: trackID, SSRC: ssrc, PayloadType: p.offer.payload, MimeType: p.offer.codec.kind + "/" + strings.Split(p.offer.codec.name, "/")[0], ClockRate: uint32(p.offer.codec.clock)}
	for _, f := range p.offer.feedback {
		kind, what, _ := strings.Cut(f, " ")
		info.RTCPFeedback = append(info.RTCPFeedback, interceptor.RTCPFeedback{Type: kind, Parameter: what})
	}
	for uri, id := range p.offer.extensions {
		info.RTPHeaderExtensions = append(info.RTPHeaderExtensions, interceptor.RTPHeaderExtension{URI: uri, ID: int(id)})
	}
	out := p.chain.BindLocalStream(info, interceptor.RTPWriterFunc(func(h *rtp.Header, payload []byte, _ interceptor.Attributes) (int, error) {
		s := p.seal.Load()
		if s == nil {
			return 0, errNoMore
		}
		return s.packet(h, payload)
	}))
	p.chain.BindRTCPWriter(interceptor.RTCPWriterFunc(func(packets []rtcp.Packet, _ interceptor.Attributes) (int, error) {
		s := p.seal.Load()
		if s == nil {
			return 0, nil // there is nobody yet to report to
		}
		raw, err := rtcp.Marshal(packets)
		if err != nil {
			return 0, err
		}
		return s.report(raw)
	}))
	p.track = newTrack(out, ssrc, p.offer)
	return nil
}

// run brings the connection up and holds it until it ends.
func (p *peer) run() {
	defer p.release()
	accept := p.agent.Accept
	if p.offer.lite { // who only answers has to be asked
		accept = p.agent.Dial
	}
	conn, err := accept(p.ctx, p.offer.ufrag, p.offer.password)
	if err != nil {
		return
	}
	in := packetio.NewBuffer()
	in.SetLimitSize(maxHandshake)
	p.wg.Go(func() {
		defer in.Close()
		p.receive(conn, in)
	})
	secure, err := handshake(parcels{Conn: conn, in: in}, p.offer, p.own)
	if err != nil {
		return
	}
	end := sync.OnceFunc(func() { farewell(secure) }) // who comes second waits
	defer end()
	if err := secure.HandshakeContext(p.ctx); err != nil {
		return
	}
	s, err := newSeal(conn, secure, p.offer.client())
	if err != nil {
		return
	}
	p.seal.Store(s)
	close(p.up)
	defer context.AfterFunc(p.ctx, end)()
	// Nothing is said there any more but that the viewer goes.
	b := make([]byte, maxPacket)
	for {
		if _, err := secure.Read(b); err != nil {
			return
		}
	}
}

// farewell tells the viewer that this was all, as far as the way takes it.
func farewell(secure *dtls.Conn) {
	told := make(chan struct{})
	go func() { _ = secure.Close(); close(told) }()
	select {
	case <-told:
	case <-time.After(farewellTime):
	}
}

// release frees what the peer holds.
func (p *peer) release() {
	p.ended()
	_ = p.agent.Close()
	if p.chain != nil {
		_ = p.chain.Close()
	}
	p.cancel()
}

// receive takes what comes until the way ends, each to whom it is for (RFC 7983).
func (p *peer) receive(conn net.Conn, in *packetio.Buffer) {
	var report []byte
	reader := p.chain.BindRTCPReader(interceptor.RTCPReaderFunc(func(b []byte, a interceptor.Attributes) (int, interceptor.Attributes, error) {
		return copy(b, report), a, nil
	}))
	b, opened := make([]byte, maxPacket), make([]byte, maxPacket)
	for {
		n, err := conn.Read(b)
		if err != nil {
			return
		}
		switch {
		case n > 0 && b[0] >= 20 && b[0] <= 63:
			_, _ = in.Write(b[:n]) // what does not fit is sent again
		case n > 4 && b[0] >= 128 && b[0] <= 191 && b[1] >= 192 && b[1] <= 223:
			s := p.seal.Load()
			if s == nil {
				continue
			}
			if report, err = s.unseal(b[:n]); err != nil {
				continue
			}
			n, attributes, err := reader.Read(opened, make(interceptor.Attributes))
			if err != nil {
				continue
			}
			packets, err := attributes.GetRTCPPackets(opened[:n])
			if err != nil {
				continue
			}
			p.heed(packets)
		}
	}
}

// heed takes the viewer's reports; one that lost its picture asks for a key frame.
func (p *peer) heed(packets []rtcp.Packet) {
	for _, packet := range packets {
		switch packet.(type) {
		case *rtcp.PictureLossIndication, *rtcp.FullIntraRequest:
			p.wantKey()
		}
	}
}

// close ends the connection and returns when it has ended; idempotent.
func (p *peer) close() {
	p.cancel()
	p.wg.Wait()
}
