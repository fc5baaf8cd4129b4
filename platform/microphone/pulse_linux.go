package microphone

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jfreymuth/pulse/proto"

	"github.com/handrail-dev/handrail/platform"
)

// askTime bounds one answer of the sound server.
const askTime = 3 * time.Second

// firstTime bounds the wait for a source's first samples, and gapTime for the next: a source that
// sleeps takes a while to wake, one that was unplugged sends no more.
const (
	firstTime = 10 * time.Second
	gapTime   = 5 * time.Second
)

type backend struct {
	mu      sync.Mutex
	looked  time.Time
	look    platform.SensorLook
	resting []func() // ends of what records
}

// lookAge is how long an answer about the server is believed.
const lookAge = 2 * time.Second

// Look asks the server what sources it has.
func (b *Backend) Look(ctx context.Context, kind platform.SensorKind) platform.SensorLook {
	b.mu.Lock()
	if time.Since(b.looked) < lookAge {
		defer b.mu.Unlock()
		return b.look
	}
	b.mu.Unlock()
	l := platform.SensorLook{}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if c, err := b.dial(ctx); err != nil {
		l.Missing = b.missing(err)
	} else {
		defer c.close()
		if l.Backend, l.Devices, _, err = c.sources(); err != nil {
			l.Missing = b.missing(err)
		}
		l.Listed = err == nil
	}
	if ctx.Err() == nil {
		b.mu.Lock()
		b.looked, b.look = time.Now(), l
		b.mu.Unlock()
	}
	return l
}

// List returns the microphones for others that record with the same server. ok is false
// if there is none.
func (b *Backend) List(ctx context.Context) (list []platform.SensorDevice, ok bool) {
	l := b.Look(ctx, platform.SensorMicrophone)
	return l.Devices, l.Listed
}

func (b *Backend) missing(err error) *platform.MissingError {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, proto.ErrAccessDenied) {
		return &platform.MissingError{
			What: "The sound server refuses this account.", Fix: "Run the node in the person's own session.", Permission: true,
		}
	}
	return &platform.MissingError{
		What: "No sound server (PulseAudio, PipeWire) answers.",
		Fix:  "Start it, or run the node in the person's own session: systemctl --user start pipewire-pulse, or pulseaudio --start.",
	}
}

// Photo is not what it does.
func (b *Backend) Photo(context.Context, platform.PhotoOrder) (platform.Photo, error) {
	return platform.Photo{}, platform.ErrSensorCannot
}

// client is one connection to the server.
type client struct {
	conn  net.Conn
	proto *proto.Client
	lost  chan struct{} // closed when the connection ended

	mu   sync.Mutex
	take func(p []byte) // what a record stream returns
	died bool           // the server ended the stream
}

// watched tells when reading fails: the protocol's client keeps some errors to itself.
type watched struct {
	net.Conn
	lost func()
}

func (w watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err != nil {
		w.lost()
	}
	return n, err
}

// addresses returns where the server may be.
func (b *Backend) addresses() []string {
	server := b.o.Server
	if server == "" {
		server = os.Getenv("PULSE_SERVER")
	}
	if server == "" {
		dir := os.Getenv("XDG_RUNTIME_DIR")
		if dir == "" {
			dir = fmt.Sprintf("/run/user/%d", os.Getuid())
		}
		return []string{filepath.Join(dir, "pulse", "native")}
	}
	var all []string
	for _, s := range strings.Fields(server) {
		if s[0] == '{' { // {host}address
			_, s, _ = strings.Cut(s, "}")
		}
		// Sound of another machine is not this device's.
		if s = strings.TrimPrefix(s, "unix:"); strings.HasPrefix(s, "/") {
			all = append(all, s)
		}
	}
	return all
}

func (b *Backend) dial(ctx context.Context) (*client, error) {
	err := error(fs.ErrNotExist)
	for _, address := range b.addresses() {
		var conn net.Conn
		if conn, err = (&net.Dialer{}).DialContext(ctx, "unix", address); err != nil {
			continue
		}
		var c *client
		if c, err = greet(conn); err == nil {
			return c, nil
		}
	}
	if errors.Is(err, syscall.EACCES) {
		err = fs.ErrPermission
	}
	return nil, err
}

// greet opens the protocol.
func greet(conn net.Conn) (*client, error) {
	c := &client{conn: conn, proto: &proto.Client{}, lost: make(chan struct{})}
	c.proto.SetTimeout(askTime)
	c.proto.Callback = c.said
	c.proto.Open(watched{conn, sync.OnceFunc(func() { close(c.lost) })})
	cookie := make([]byte, 256) // any will do for the account's own server
	for _, file := range []string{os.Getenv("PULSE_COOKIE"), filepath.Join(os.Getenv("HOME"), ".config/pulse/cookie")} {
		if data, err := os.ReadFile(file); err == nil && len(data) == len(cookie) {
			cookie = data
			break
		}
	}
	var auth proto.AuthReply
	if err := c.proto.Request(&proto.Auth{Version: c.proto.Version(), Cookie: cookie}, &auth); err != nil {
		c.close()
		return nil, err
	}
	c.proto.SetVersion(auth.Version)
	err := c.proto.Request(&proto.SetClientName{Props: proto.PropList{
		"application.name":       proto.PropListString("Handrail"),
		"application.icon_name":  proto.PropListString("audio-input-microphone"),
		"application.process.id": proto.PropListString(fmt.Sprint(os.Getpid())),
	}}, &proto.SetClientNameReply{})
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// close ends the connection, and with it everything of it at the server, and waits
// until nothing is read any more.
func (c *client) close() {
	c.conn.Close()
	<-c.lost
}

// said takes what comes without being asked for, on the reading goroutine.
func (c *client) said(message any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m := message.(type) {
	case *proto.DataPacket:
		if c.take != nil {
			c.take(m.Data)
		}
	case *proto.RecordStreamKilled:
		c.died = true
		if c.take != nil {
			c.take(nil)
		}
	}
}

// sources lists the microphones, with each one's index at the server.
func (c *client) sources() (server string, devices []platform.SensorDevice, index []uint32, err error) {
	var info proto.GetServerInfoReply
	if err := c.proto.Request(&proto.GetServerInfo{}, &info); err != nil {
		return "", nil, nil, err
	}
	var list proto.GetSourceInfoListReply
	if err := c.proto.Request(&proto.GetSourceInfoList{}, &list); err != nil {
		return "", nil, nil, err
	}
	// PipeWire says "PulseAudio (on PipeWire 1.0.5)".
	name := info.PackageName + " " + info.PackageVersion
	if strings.Contains(info.PackageName, "PipeWire") {
		name = strings.TrimSuffix(info.PackageName[strings.Index(info.PackageName, "PipeWire"):], ")")
	} else if info.PackageName == "pulseaudio" {
		name = "PulseAudio " + info.PackageVersion
	}
	devices = []platform.SensorDevice{}
	for _, s := range list {
		if s.MonitorSourceIndex != proto.Undefined { // what a loudspeaker plays
			continue
		}
		label := s.Properties["device.description"].String()
		if label == "" {
			label = s.Device
		}
		if label == "" {
			label = s.SourceName
		}
		devices = append(devices,
			platform.SensorDevice{Label: label, Kind: platform.SensorMicrophone, Default: s.SourceName == info.DefaultSourceName})
		index = append(index, s.SourceIndex)
	}
	platform.SensorIDs(devices)
	return name, devices, index, nil
}

// Record records until all samples are there.
func (b *Backend) Record(ctx context.Context, o platform.RecordOrder) (platform.Recording, error) {
	if !b.Gives(o.Kind, o.Format) {
		return platform.Recording{}, platform.ErrSensorCannot
	}
	ctx, rest := context.WithCancel(ctx)
	defer rest()
	defer b.endWith(rest)()
	c, err := b.dial(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return platform.Recording{}, ctx.Err()
		}
		return platform.Recording{}, b.missing(err)
	}
	defer c.close()
	// A server that does not answer is not waited for longer than the call.
	defer context.AfterFunc(ctx, func() { c.conn.Close() })()
	recording, err := b.stream(ctx, c, o)
	if ctx.Err() != nil {
		return platform.Recording{}, ctx.Err()
	}
	return recording, err
}

func (b *Backend) stream(ctx context.Context, c *client, o platform.RecordOrder) (platform.Recording, error) {
	_, devices, index, err := c.sources()
	if err != nil {
		return platform.Recording{}, fmt.Errorf("%w: %w", platform.ErrSensorLost, err)
	}
	at, err := platform.ChooseSensor(o.Kind, devices, o.Device, "")
	if err != nil {
		return platform.Recording{}, err
	}
	want := int(o.Duration*Rate/time.Second) * 2 // bytes
	h := &heard{want: want, arrived: make(chan struct{}, 1), order: o}
	c.mu.Lock()
	c.take = h.take
	c.mu.Unlock()
	var reply proto.CreateRecordStreamReply
	err = c.proto.Request(&proto.CreateRecordStream{
		SampleSpec:  proto.SampleSpec{Format: proto.FormatInt16LE, Channels: 1, Rate: Rate},
		ChannelMap:  proto.ChannelMap{proto.ChannelMono},
		SourceIndex: index[at],
		// Parts of 20 ms; room for seconds, so that a busy node loses none.
		BufferMaxLength: Rate * 2 * 8, BufferFragSize: Rate * 2 / 50, AdjustLatency: true,
		DirectOnInputIndex: proto.Undefined, NoMove: true,
		ChannelVolumes: proto.ChannelVolumes{uint32(proto.VolumeNorm)},
		Properties:     proto.PropList{"media.name": proto.PropListString("Recording"), "media.role": proto.PropListString("production")},
	}, &reply)
	switch {
	case errors.Is(err, proto.ErrAccessDenied):
		return platform.Recording{}, fmt.Errorf("%w: %w", platform.ErrSensorRefused, err)
	case errors.Is(err, proto.ErrDeviceOrEesourceBusy):
		return platform.Recording{}, fmt.Errorf("%w: %w", platform.ErrSensorBusy, err)
	case errors.Is(err, proto.ErrNoSuchEntity):
		return platform.Recording{}, &platform.NoSensorError{Kind: o.Kind, Device: o.Device, Have: devices}
	case err != nil:
		return platform.Recording{}, fmt.Errorf("%w: %w", platform.ErrSensorLost, err)
	}
	patience := time.NewTimer(firstTime)
	defer patience.Stop()
	for {
		select {
		case <-ctx.Done():
			return platform.Recording{}, ctx.Err()
		case <-c.lost:
			return platform.Recording{}, fmt.Errorf("%w: the sound server ended", platform.ErrSensorLost)
		case <-patience.C:
			return platform.Recording{}, fmt.Errorf("%w: the microphone returned no sound for %v", platform.ErrSensorLost, gapTime)
		case <-h.arrived:
		}
		patience.Reset(gapTime)
		c.mu.Lock()
		got, begin, err, died := h.got, h.begin, h.err, c.died
		if got >= want {
			c.take = nil
		}
		c.mu.Unlock()
		switch {
		case err != nil:
			return platform.Recording{}, err
		case got >= want:
			return platform.Recording{Device: devices[at], Rate: Rate, Channels: 1, At: begin}, nil
		case died:
			return platform.Recording{}, fmt.Errorf("%w: the microphone went away", platform.ErrSensorLost)
		}
		o.Progress(time.Duration(got/2) * time.Second / Rate)
	}
}

// heard collects samples. Its client's mutex guards it.
type heard struct {
	order     platform.RecordOrder
	want, got int
	begin     time.Time
	err       error
	arrived   chan struct{}
}

// take takes the next samples, no more than are wanted.
func (h *heard) take(p []byte) {
	if h.begin.IsZero() && len(p) > 0 {
		h.begin = time.Now()
	}
	if p = p[:min(len(p), h.want-h.got)]; len(p) > 0 && h.err == nil {
		h.got += len(p)
		h.err = h.order.Write(p)
	}
	select {
	case h.arrived <- struct{}{}:
	default:
	}
}

// endWith has Rest end a recording.
func (b *Backend) endWith(end func()) (forget func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := len(b.resting)
	b.resting = append(b.resting, end)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.resting[at] = nil
		for len(b.resting) > 0 && b.resting[len(b.resting)-1] == nil {
			b.resting = b.resting[:len(b.resting)-1]
		}
	}
}

// Rest ends every recording.
func (b *Backend) Rest() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, end := range b.resting {
		if end != nil {
			end()
		}
	}
}

// Close is Rest.
func (b *Backend) Close() error {
	b.Rest()
	return nil
}
