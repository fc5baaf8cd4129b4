package media

import (
	"context"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/cc"
	"github.com/pion/interceptor/pkg/gcc"
	"github.com/pion/interceptor/pkg/nack"
	"github.com/pion/interceptor/pkg/report"
	"github.com/pion/interceptor/pkg/twcc"
	"github.com/pion/rtcp"
	"github.com/pion/transport/v5/packetio"
	"github.com/pion/webrtc/v4"

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

// Bounds of what comes from a viewer.
const (
	maxPacket    = 8 << 10  // bytes at once: reports and a handshake
	maxReports   = 64 << 10 // bytes of reports that lie unread
	maxStrangers = 32       // sources that it sends or speaks of, though there is one: ours
	maxGarbled   = 64       // reports on end that nobody understands
)

// gatherTime bounds the search for addresses of our own.
const gatherTime = 4 * time.Second

// farewellTime bounds how long a way that takes nothing more holds up the end.
const farewellTime = time.Second

// peer is the connection to one viewer.
type peer struct {
	conn    *webrtc.PeerConnection
	way     *webrtc.ICETransport // of conn
	track   *track
	wantKey func()
	rate    func() int    // what the way to the viewer carries, bits a second
	up      chan struct{} // closed when media can flow
	down    chan struct{} // closed when it cannot any more

	//lint:ignore containedctx the life of the peer
	ctx       context.Context // ends with the peer
	cancel    context.CancelFunc
	came      func() // closes up, once
	ended     func() // closes down, once
	strangers atomic.Int32
	wg        sync.WaitGroup
}

// answer makes the peer for an offer to receive one track. It returns the answer with every
// address in it: the viewer needs no other word.
func (d *door) answer(ctx context.Context, text string, servers []server, wantKey func(), wants ...codec) (*peer, string, error) {
	o, err := parseOffer(text, wants...)
	if err != nil {
		return nil, "", refusedOffer(err)
	}
	p, err := d.peer(o, servers, wantKey)
	if err != nil {
		return nil, "", err
	}
	answer, err := p.negotiate(ctx, o)
	if err != nil {
		p.close()
		return nil, "", err
	}
	return p, answer, nil
}

func refusedOffer(err error) error {
	return capabilities.Wrap(capabilities.CodeInvalidArguments, err,
		"The offer cannot be answered: it has to be SDP that receives one track of what is shown: video as VP8, sound as Opus or PCMU.")
}

// peer makes the connection, which does nothing yet.
func (d *door) peer(o *offer, servers []server, wantKey func()) (*peer, error) {
	p := &peer{
		wantKey: wantKey, up: make(chan struct{}), down: make(chan struct{}), rate: func() int { return startRate }, track: newTrack(o.codec),
	}
	p.came = sync.OnceFunc(func() { close(p.up) })
	p.ended = sync.OnceFunc(func() { close(p.down) })
	p.ctx, p.cancel = context.WithCancel(context.Background())
	media, err := engine(o)
	if err != nil {
		return nil, err
	}
	parts, err := p.parts()
	if err != nil {
		return nil, err
	}
	known := helpers(servers)
	set, err := p.settings(d, o, known)
	if err != nil {
		return nil, err
	}
	api := webrtc.NewAPI(webrtc.WithMediaEngine(media), webrtc.WithInterceptorRegistry(parts), webrtc.WithSettingEngine(set))
	if p.conn, err = api.NewPeerConnection(webrtc.Configuration{ICEServers: known}); err != nil {
		return nil, err
	}
	p.way = p.conn.SCTP().Transport().ICETransport()
	p.conn.OnConnectionStateChange(func(s webrtc.PeerConnectionState) {
		switch s {
		case webrtc.PeerConnectionStateConnected:
			p.came()
		case webrtc.PeerConnectionStateFailed, webrtc.PeerConnectionStateClosed:
			p.ended()
		}
	})
	return p, nil
}

// engine knows the one codec that was chosen, and of it what the viewer knows, too.
func engine(o *offer) (*webrtc.MediaEngine, error) {
	kind := webrtc.NewRTPCodecType(o.codec.kind)
	c := webrtc.RTPCodecCapability{MimeType: o.codec.mime(), ClockRate: o.codec.clock, Channels: o.codec.channels}
	for _, f := range o.feedback {
		what, more, _ := strings.Cut(f, " ")
		c.RTCPFeedback = append(c.RTCPFeedback, webrtc.RTCPFeedback{Type: what, Parameter: more})
	}
	m := &webrtc.MediaEngine{}
	if err := m.RegisterCodec(webrtc.RTPCodecParameters{RTPCodecCapability: c, PayloadType: webrtc.PayloadType(o.payload)}, kind); err != nil {
		return nil, err
	}
	for uri := range o.extensions {
		if err := m.RegisterHeaderExtension(webrtc.RTPHeaderExtensionCapability{URI: uri}, kind,
			webrtc.RTPTransceiverDirectionSendonly); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// parts are what a sender of one track needs, and no more.
func (p *peer) parts() (*interceptor.Registry, error) {
	control, err := cc.NewInterceptor(func() (cc.BandwidthEstimator, error) {
		return gcc.NewSendSideBWE(gcc.SendSideBWEInitialBitrate(startRate), gcc.SendSideBWEMinBitrate(leastRate),
			gcc.SendSideBWEMaxBitrate(mostRate),
			gcc.SendSideBWEPacer(gcc.NewNoOpPacer())) // the track paces
	})
	if err != nil {
		return nil, err
	}
	control.OnNewPeerConnection(func(_ string, e cc.BandwidthEstimator) { p.rate = e.GetTargetBitrate })
	number, err := twcc.NewHeaderExtensionInterceptor()
	if err != nil {
		return nil, err
	}
	resend, err := nack.NewResponderInterceptor()
	if err != nil {
		return nil, err
	}
	reports, err := report.NewSenderInterceptor()
	if err != nil {
		return nil, err
	}
	all := &interceptor.Registry{}
	for _, f := range []interceptor.Factory{control, number, unhindered{}, resend, reports} {
		all.Add(f)
	}
	return all, nil
}

// unhindered keeps what control learned from the resender, which would hold lost packets back to
// the rate. That is at its lowest after a blackout, when the picture waits for nothing else.
type unhindered struct{ interceptor.NoOp }

// NewInterceptor returns itself: it knows nothing.
func (u unhindered) NewInterceptor(string) (interceptor.Interceptor, error) { return &u, nil }

// BindRTCPReader passes packets on, without what was noted on them.
func (*unhindered) BindRTCPReader(from interceptor.RTCPReader) interceptor.RTCPReader {
	return interceptor.RTCPReaderFunc(func(b []byte, a interceptor.Attributes) (int, interceptor.Attributes, error) {
		n, _, err := from.Read(b, a)
		return n, interceptor.Attributes{}, err
	})
}

// settings has the peer come by the door, and by the servers that help it.
func (p *peer) settings(d *door, o *offer, known []webrtc.ICEServer) (webrtc.SettingEngine, error) {
	networks := []webrtc.NetworkType{webrtc.NetworkTypeUDP4, webrtc.NetworkTypeUDP6}
	var s webrtc.SettingEngine
	s.SetICEUDPMux(d.udp)
	if d.tcp != nil {
		s.SetICETCPMux(d.tcp)
		networks = append(networks, webrtc.NetworkTypeTCP4, webrtc.NetworkTypeTCP6)
	}
	s.SetNetworkTypes(networks)
	s.SetIncludeLoopbackCandidate(true) // a gateway and its viewer may be on this machine
	s.DisableActiveTCP(true)            // viewers come; a node calls nobody whom they name
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	s.SetICETimeouts(5*time.Second, 15*time.Second, 2*time.Second)
	if len(known) > 0 {
		s.SetICEProxyDialer(newDialer(known))
	}
	s.SetDTLSConnectContextMaker(func() (context.Context, func()) { return p.ctx, func() {} })
	s.SetSDPMediaLevelFingerprints(true)
	s.SetReceiveMTU(maxPacket)
	s.BufferFactory = p.inbox
	role := webrtc.DTLSRoleServer
	if o.client() {
		role = webrtc.DTLSRoleClient
	}
	return s, s.SetAnsweringDTLSRole(role)
}

// inbox holds what came of one source and was not read yet. The viewer's reports on what we send
// are read, nothing else is: of that the library would keep a megabyte for each source, of which
// a viewer can name four billion.
func (p *peer) inbox(kind packetio.BufferPacketType, ssrc uint32) io.ReadWriteCloser {
	b := packetio.NewBuffer()
	if kind == packetio.RTCPBufferPacket && ssrc == p.track.header.SSRC {
		b.SetLimitSize(maxReports)
		return inbox{b}
	}
	b.SetLimitSize(1) // nothing fits
	if p.strangers.Add(1) > maxStrangers {
		p.ended()
	}
	return inbox{b}
}

// inbox is a buffer as the library asks for it.
type inbox struct{ *packetio.Buffer }

// Read returns the next packet.
func (i inbox) Read(b []byte) (int, error) {
	n, _, err := i.Buffer.Read(b, nil)
	return n, err
}

// Write keeps a packet that fits.
func (i inbox) Write(b []byte) (int, error) { return i.Buffer.Write(b, nil) }

// negotiate has the peer agree on the track with the viewer. From then on it waits for it.
func (p *peer) negotiate(ctx context.Context, o *offer) (string, error) {
	answer, err := p.agree(o)
	if err != nil {
		return "", refusedOffer(err)
	}
	gathered := webrtc.GatheringCompletePromise(p.conn)
	if err := p.conn.SetLocalDescription(answer); err != nil {
		return "", err
	}
	p.wg.Go(func() { p.receive(p.conn.GetSenders()[0]) })
	for _, c := range o.candidates {
		p.candidate(c)
	}
	enough := time.NewTimer(gatherTime)
	defer enough.Stop()
	select {
	case <-gathered:
	case <-enough.C: // a server that does not answer keeps nobody waiting
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	return o.widened(p.conn.LocalDescription().SDP)
}

// agree hands the offer to the library; nothing is sent yet.
func (p *peer) agree(o *offer) (answer webrtc.SessionDescription, err error) {
	if _, err := p.conn.AddTransceiverFromTrack(p.track,
		webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly}); err != nil {
		return answer, err
	}
	text, err := o.narrowed()
	if err != nil {
		return answer, err
	}
	if err := p.conn.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeOffer, SDP: text}); err != nil {
		return answer, err
	}
	return p.conn.CreateAnswer(nil)
}

// candidate takes an address of the viewer. One that is not understood cannot help,
// and others may.
func (p *peer) candidate(text string) bool {
	c, err := ice.UnmarshalCandidate(text)
	if err != nil || c.Component() != ice.ComponentRTP { // RTCP goes the same way
		return false
	}
	return p.conn.AddICECandidate(webrtc.ICECandidateInit{Candidate: text}) == nil
}

// receive takes the viewer's reports until it ends.
func (p *peer) receive(from *webrtc.RTPSender) {
	b, garbled := make([]byte, maxPacket), 0
	for p.ctx.Err() == nil {
		n, _, err := from.Read(b)
		if err == nil {
			var packets []rtcp.Packet
			if packets, err = rtcp.Unmarshal(b[:n]); err == nil {
				p.heed(packets)
				garbled = 0
				continue
			}
		}
		if garbled++; garbled > maxGarbled {
			p.ended()
			return
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

// close ends the connection and returns when it has ended; idempotent. The viewer is told, as far
// as the way takes it.
func (p *peer) close() {
	p.cancel()
	p.ended()
	cut := time.AfterFunc(farewellTime, func() { _ = p.way.Stop() })
	defer cut.Stop()
	_ = p.conn.GracefulClose()
	p.wg.Wait()
}
