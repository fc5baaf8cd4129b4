package media

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("no %s", what)
	}
	return v
}

// A foreign viewer, which wants sound and data, too, gets the video that is sent, asks for a key
// frame, and its end is noticed; ours is told to it. Both ways round of the handshake.
func TestPeer(t *testing.T) {
	for name, role := range map[string]webrtc.DTLSRole{"we begin": webrtc.DTLSRoleServer, "the viewer begins": webrtc.DTLSRoleClient} {
		t.Run(name, func(t *testing.T) {
			d := &door{}
			if err := d.enter(); err != nil {
				t.Fatal(err)
			}
			defer d.leave()
			for _, last := range []string{"viewer", "node"} {
				watchOnce(t, d, role, last)
			}
		})
	}
}

// newViewer makes a viewer that is not ours.
func newViewer(t *testing.T, kinds ...webrtc.NetworkType) *webrtc.PeerConnection {
	t.Helper()
	var set webrtc.SettingEngine
	set.SetIncludeLoopbackCandidate(true)
	if len(kinds) > 0 {
		set.SetNetworkTypes(kinds)
	}
	codecs := &webrtc.MediaEngine{}
	if err := codecs.RegisterDefaultCodecs(); err != nil {
		t.Fatal(err)
	}
	viewer, err := webrtc.NewAPI(webrtc.WithSettingEngine(set), webrtc.WithMediaEngine(codecs)).NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = viewer.GracefulClose() })
	return viewer
}

// offerOf has it make an offer with all its addresses.
func offerOf(t *testing.T, viewer *webrtc.PeerConnection) string {
	t.Helper()
	for _, kind := range []webrtc.RTPCodecType{webrtc.RTPCodecTypeAudio, webrtc.RTPCodecTypeVideo} {
		if _, err := viewer.AddTransceiverFromKind(kind, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionRecvonly}); err != nil {
			t.Fatal(err)
		}
	}
	offer, err := viewer.CreateOffer(nil)
	if err != nil {
		t.Fatal(err)
	}
	gathered := webrtc.GatheringCompletePromise(viewer)
	if err := viewer.SetLocalDescription(offer); err != nil {
		t.Fatal(err)
	}
	await(t, "candidates", gathered)
	return viewer.LocalDescription().SDP
}

func watchOnce(t *testing.T, d *door, role webrtc.DTLSRole, last string) {
	t.Helper()
	viewer := newViewer(t)
	gone := make(chan struct{})
	over := sync.OnceFunc(func() { close(gone) })
	viewer.OnConnectionStateChange(func(s webrtc.PeerConnectionState) {
		if s == webrtc.PeerConnectionStateClosed { // which may be told more than once
			over()
		}
	})
	sizes := make(chan int, 64)
	viewer.OnTrack(func(track *webrtc.TrackRemote, _ *webrtc.RTPReceiver) {
		if track.Codec().MimeType != webrtc.MimeTypeVP8 {
			t.Errorf("a track of %s", track.Codec().MimeType)
		}
		size := 0
		for {
			p, _, err := track.ReadRTP()
			if err != nil {
				return
			}
			if size += len(p.Payload); p.Marker {
				sizes <- size
				size = 0
			}
		}
	})
	data, err := viewer.CreateDataChannel("own", nil)
	if err != nil {
		t.Fatal(err)
	}
	data.OnOpen(func() { t.Error("a data channel was agreed on") })
	text := offerOf(t, viewer)
	if role == webrtc.DTLSRoleClient {
		text = strings.ReplaceAll(text, "a=setup:actpass", "a=setup:active")
	}
	wanted := make(chan struct{}, 64)
	p, answer, err := d.answer(t.Context(), text, nil, func() { wanted <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if err := viewer.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer}); err != nil {
		t.Fatalf("%v\n%s", err, answer)
	}
	await(t, "connection", p.up)

	// VP8 has a byte or more of its own before each packet's part.
	picture := make([]byte, 10_000)
	if sent, err := p.track.send(t.Context(), &frame{data: picture, at: time.Now()}, startRate); sent || err != nil {
		t.Errorf("a frame that nothing came before: %v %v", sent, err)
	}
	if sent, err := p.track.send(t.Context(), &frame{data: picture, at: time.Now(), key: true}, startRate); !sent || err != nil {
		t.Fatal(sent, err)
	}
	if size := await(t, "frame", sizes); size < len(picture) || size > len(picture)+100 {
		t.Errorf("a frame of %d bytes came as %d", len(picture), size)
	}
	if err := viewer.WriteRTCP([]rtcp.Packet{&rtcp.PictureLossIndication{MediaSSRC: p.track.header.SSRC}}); err != nil {
		t.Fatal(err)
	}
	await(t, "wish for a key frame", wanted)
	if p.conn.SCTP().State() != webrtc.SCTPTransportStateConnecting || data.ReadyState() != webrtc.DataChannelStateConnecting {
		t.Error("data goes between the two")
	}
	if last == "viewer" {
		if err := viewer.Close(); err != nil {
			t.Fatal(err)
		}
		await(t, "end at the node", p.down)
		return
	}
	p.close()
	p.close()
	await(t, "end at the viewer", gone)
}

// A viewer with another certificate than that of the offer gets nothing.
func TestStranger(t *testing.T) {
	d := &door{}
	if err := d.enter(); err != nil {
		t.Fatal(err)
	}
	defer d.leave()
	viewer, other := newViewer(t), newViewer(t)
	const prints = "a=fingerprint:sha-256 "
	_, mark, _ := strings.Cut(offerOf(t, other), prints)
	before, after, _ := strings.Cut(offerOf(t, viewer), prints)
	text := before + prints + mark[:95] + after[95:]
	p, answer, err := d.answer(t.Context(), text, nil, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if err := viewer.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.up:
		t.Error("a stranger was let in")
	case <-p.down:
	case <-time.After(patience):
		t.Error("the handshake did not end")
	}
}

// A viewer that sends media of its own, or speaks of some that nobody sends, is not listened to;
// one that does so under many names is let go, before they cost memory.
func TestStrangeSources(t *testing.T) {
	for name, talk := range map[string]func(viewer *webrtc.PeerConnection, own *track, ssrc uint32) error{
		"media": func(_ *webrtc.PeerConnection, own *track, ssrc uint32) error {
			own.header.SSRC = ssrc
			_, err := own.send(t.Context(), &frame{data: make([]byte, 100), at: time.Now(), key: true}, startRate)
			return err
		},
		"reports": func(viewer *webrtc.PeerConnection, _ *track, ssrc uint32) error {
			return viewer.WriteRTCP([]rtcp.Packet{&rtcp.PictureLossIndication{MediaSSRC: ssrc}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			viewer, own := newViewer(t), newTrack(vp8Codec)
			if _, err := viewer.AddTrack(own); err != nil {
				t.Fatal(err)
			}
			p, answer := answered(t, &door{}, offerOf(t, viewer))
			// So that it begins to send, though nobody wants that.
			answer = strings.ReplaceAll(answer, "a=sendonly", "a=sendrecv")
			if err := viewer.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer}); err != nil {
				t.Fatal(err)
			}
			await(t, "connection", p.up)
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			patient := time.After(patience)
			for ssrc := uint32(1); ; ssrc++ {
				select {
				case <-tick.C:
					_ = talk(viewer, own, ssrc) // it may have been let go
					continue
				case <-p.down:
				case <-patient:
					t.Fatalf("it named %d sources, and is still there", ssrc)
				}
				if ssrc < maxStrangers/2 { // media counts twice, with its reports
					t.Errorf("it was let go after %d", ssrc)
				}
				break
			}
			if n := len(p.conn.GetTransceivers()); n != 1 {
				t.Errorf("%d tracks", n)
			}
		})
	}
}

// Lost packets are sent again at once, more of them than the way carries in a while: the picture
// waits for nothing else.
func TestResent(t *testing.T) {
	const lost = 17 * 24 // of mtu, which startRate takes in 1.5 s
	all, err := (&peer{}).parts()
	if err != nil {
		t.Fatal(err)
	}
	chain, err := all.Build("")
	if err != nil {
		t.Fatal(err)
	}
	defer chain.Close()
	sent := make(chan uint16, 2*lost)
	out := chain.BindLocalStream(&interceptor.StreamInfo{
		SSRC: 7, RTCPFeedback: []interceptor.RTCPFeedback{{Type: "nack"}}, RTPHeaderExtensions: []interceptor.RTPHeaderExtension{{URI: transportURI, ID: 3}},
	}, interceptor.RTPWriterFunc(func(h *rtp.Header, payload []byte, _ interceptor.Attributes) (int, error) {
		sent <- h.SequenceNumber
		return len(payload), nil
	}))
	complaint := &rtcp.TransportLayerNack{MediaSSRC: 7}
	for seq := range uint16(lost) {
		if _, err := out.Write(&rtp.Header{Version: 2, SSRC: 7, SequenceNumber: seq}, make([]byte, mtu), nil); err != nil {
			t.Fatal(err)
		}
		<-sent
		if seq%17 == 0 {
			complaint.Nacks = append(complaint.Nacks, rtcp.NackPair{PacketID: seq, LostPackets: 1<<16 - 1})
		}
	}
	raw, err := complaint.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	in := chain.BindRTCPReader(interceptor.RTCPReaderFunc(func(b []byte, a interceptor.Attributes) (int, interceptor.Attributes, error) {
		return copy(b, raw), a, nil
	}))
	if _, _, err := in.Read(make([]byte, len(raw)), nil); err != nil {
		t.Fatal(err)
	}
	for seq := range uint16(lost) {
		if again := await(t, "packet that was lost", sent); again != seq {
			t.Fatalf("%d comes again where %d was due", again, seq)
		}
	}
}
