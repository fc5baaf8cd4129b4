package media

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

const (
	cameraBits = 1_500_000 // a second, to begin with
	mostCamera = 3_000_000
	soundBits  = 48_000
	// heardFor is how many packets of sound may wait: 160 ms.
	heardFor = 8
	opusTick = 960 // samples of a packet
	pcmuTick = 160
	// endless is longer than any session.
	endless = 24 * time.Hour
)

// outlet is a way to get a sensor live: a backend, and the codec it comes in.
type outlet struct {
	kind    platform.SensorKind
	device  string
	codec   codec
	backend platform.Sensors
}

// outlets returns the ways to a kind of sensor that are ready, best first: a browser has
// encoders for everything, and of a sound server's samples PCMU can be made here.
func (h *Handler) outlets(ctx context.Context, kind platform.SensorKind) (all []outlet, r capabilities.Readiness) {
	r = capabilities.Readiness{Reason: capabilities.ReasonBackendMissing}
	var plain []outlet
	none := false
	for _, b := range h.o.Sensors {
		_, encodes := b.(platform.LiveSensors)
		if !encodes && !(kind == platform.SensorMicrophone && b.Gives(kind, platform.FormatPCM)) {
			continue
		}
		l := b.Look(ctx, kind)
		switch {
		case l.Missing != nil:
			if r.Fix == "" {
				r.Fix, r.Action = fixOf(l.Missing)
				switch {
				case l.Confined:
					r.Reason, r.Action = capabilities.ReasonIsolationMissing, capabilities.Action{Key: capabilities.ActionAcceptBare}
				case l.Missing.Permission:
					r.Reason = capabilities.ReasonPermission
				}
			}
			continue
		case l.Listed && len(l.Devices) == 0:
			none = true
			continue
		}
		o := outlet{kind: kind, codec: pcmuCodec, backend: b}
		switch {
		case encodes && kind == platform.SensorCamera:
			o.codec = vp8Codec
		case encodes:
			o.codec = opusCodec
		}
		if len(all)+len(plain) == 0 || encodes && len(all) == 0 {
			r = capabilities.Readiness{
				Isolation: capabilities.ClassSession, Degraded: l.Degraded, Fake: l.Fake,
				Backend: strings.Split(o.codec.name, "/")[0] + " over WebRTC, " + l.Backend,
			}
			for _, d := range l.Devices[:min(len(l.Devices), capabilities.MaxDevices)] {
				if len(d.ID) <= capabilities.MaxDeviceText && len(d.Label) <= capabilities.MaxDeviceText {
					r.Devices = append(r.Devices, capabilities.Device{ID: d.ID, Label: d.Label, Facing: string(d.Facing), Default: d.Default})
				}
			}
		}
		if encodes {
			all = append(all, o)
		} else {
			plain = append(plain, o)
		}
	}
	if all = append(all, plain...); len(all) == 0 && none {
		r.Reason, r.Fix = capabilities.ReasonDeviceMissing,
			"No "+string(kind)+" is connected to this device. Connect one; it is found within seconds."
	}
	return all, r
}

// outlet chooses the way that an offer can take.
func (h *Handler) outlet(ctx context.Context, kind platform.SensorKind, args arguments) (outlet, error) {
	all, r := h.outlets(ctx, kind)
	if len(all) == 0 {
		code := capabilities.CodeNotSupported
		switch r.Reason {
		case capabilities.ReasonDeviceMissing:
			code = capabilities.CodeSensorMissing
		case capabilities.ReasonPermission:
			code = capabilities.CodeSensorRefused
		}
		return outlet{}, capabilities.Errorf(code, "The %s of this device cannot be shown live.", kind).WithHint(r.Fix)
	}
	var wants []codec
	for _, o := range all {
		wants = append(wants, o.codec)
	}
	offer, err := parseOffer(args.Offer, wants...)
	if err != nil {
		return outlet{}, refusedOffer(err)
	}
	for _, o := range all {
		if o.codec == offer.codec {
			o.device = args.Device
			return o, nil
		}
	}
	return outlet{}, refusedOffer(errors.New("no codec"))
}

// key names what is shared by its viewers.
func (o outlet) key() string { return string(o.kind) + "\x00" + o.device + "\x00" + o.codec.name }

// sense sends the frames of a sensor until ctx ends or the sensor does.
func (s *source) sense(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sound := s.outlet.codec.kind == "audio"
	made := make(chan *frame, 1)
	if sound {
		made = make(chan *frame, heardFor)
	}
	var tick uint32
	skips := false
	put := func(data []byte, key bool, ticks uint32) {
		f := &frame{data: data, at: time.Now(), key: key || sound, tick: tick}
		tick += ticks
		if skips && !f.key {
			return
		}
		select {
		case made <- f:
			skips = false
		default: // the newest that can be used wins
			if skips = !sound; skips {
				s.wantKey()
			}
		}
	}
	tune := make(chan platform.LiveTune, 1)
	ended := make(chan error, 1)
	go func() { ended <- s.listen(ctx, put, tune) }()
	beat := time.NewTicker(look)
	defer beat.Stop()
	bits, lastKey, tuned := cameraBits, time.Time{}, time.Now()
	for {
		select {
		case err := <-ended:
			if err == nil {
				err = platform.ErrSensorLost
			}
			return err
		case <-ctx.Done():
			cancel()
			<-ended
			return context.Cause(ctx)
		case f := <-made:
			if all, _, rate := s.watching(); len(all) > 0 {
				s.send(ctx, all, f, rate)
			}
		case <-s.wake:
		case <-beat.C:
		}
		if sound {
			continue
		}
		now, want := time.Now(), bits
		if _, free, rate := s.watching(); free && now.Sub(tuned) > time.Second {
			want = min(max(rate*85/100, leastRate), mostCamera)
		}
		// The wish is taken before it is passed on: one that comes after that is another.
		key := now.Sub(lastKey) >= keyEvery && s.key.Swap(false)
		if !key && max(want, bits)-min(want, bits) < bits/6 {
			continue
		}
		select {
		case tune <- platform.LiveTune{Bits: want, Key: key}:
			bits, tuned = want, now
			if key {
				lastKey = now
			}
		default:
			if key {
				s.key.Store(true) // not passed on yet
			}
		}
	}
}

// listen has the backend send what it has until ctx ends.
func (s *source) listen(ctx context.Context, put func(data []byte, key bool, ticks uint32), tune <-chan platform.LiveTune) error {
	o := s.outlet
	if o.codec == pcmuCodec {
		var m mulaw
		_, err := o.backend.Record(ctx, platform.RecordOrder{
			Kind: o.kind, Device: o.device, Format: platform.FormatPCM, Duration: endless, Progress: func(time.Duration) {},
			Write: func(p []byte) error {
				m.add(p, func(packet []byte) { put(packet, true, pcmuTick) })
				return nil
			},
		})
		return err
	}
	bits, ticks := cameraBits, uint32(0)
	if o.codec == opusCodec {
		bits, ticks = soundBits, opusTick
	}
	return o.backend.(platform.LiveSensors).Live(ctx, platform.LiveOrder{
		Kind: o.kind, Device: o.device, Bits: bits, Tune: tune, Frame: func(data []byte, key bool) { put(data, key, ticks) },
	})
}

// mulaw makes PCMU (G.711, 8 kHz, packets of 20 ms) of samples of 48 kHz.
type mulaw struct {
	past [tapCount]float64 // the last samples, a ring
	at   int
	n    int
	rest []byte // half a sample
	out  []byte
}

// taps is a low pass that leaves nothing above half of 8 kHz.
const (
	tapCount = 96
	down     = 6 // 48 to 8 kHz
)

func tap(i int) float64 {
	const cut = 3400.0 / 48000
	x := float64(i) - (tapCount-1)/2.0
	window := 0.54 - 0.46*math.Cos(2*math.Pi*float64(i)/(tapCount-1))
	return window * math.Sin(2*math.Pi*cut*x) / (math.Pi * x)
}

// add takes signed 16-bit samples, and returns a packet whenever one is full.
func (m *mulaw) add(p []byte, packet func([]byte)) {
	if len(m.rest) > 0 {
		p = append(m.rest, p...)
		m.rest = nil
	}
	for ; len(p) >= 2; p = p[2:] {
		m.past[m.at] = float64(int16(uint16(p[0]) | uint16(p[1])<<8))
		m.at = (m.at + 1) % tapCount
		if m.n++; m.n%down != 0 {
			continue
		}
		sum := 0.0
		for i := range tapCount {
			sum += lowPass[i] * m.past[(m.at+i)%tapCount]
		}
		if m.out = append(m.out, toMulaw(sum)); len(m.out) == pcmuTick {
			packet(m.out)
			m.out = nil
		}
	}
	if len(p) > 0 {
		m.rest = []byte{p[0]}
	}
}

var lowPass = func() (all [tapCount]float64) {
	for i := range all {
		all[i] = tap(i)
	}
	return all
}()

// toMulaw compresses a sample (ITU-T G.711).
func toMulaw(v float64) byte {
	const bias, most = 0x84, 32635
	x := int(math.Round(v))
	sign := byte(0)
	if x < 0 {
		x, sign = -x, 0x80
	}
	x = min(x, most) + bias
	exponent := 7
	for mask := 0x4000; exponent > 0 && x&mask == 0; mask >>= 1 {
		exponent--
	}
	return ^(sign | byte(exponent<<4) | byte(x>>(exponent+3)&0x0f))
}
