package camera

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/platform"
)

// The part of the kernel's interface (linux/videodev2.h) that a photo needs. Requests
// are _IOWR('V', n, struct), whose size is that of a 64-bit system, the only ones that
// this program is built for.
const (
	queryCap      = 0x80685600 // VIDIOC_QUERYCAP
	setFormat     = 0xC0D05605 // VIDIOC_S_FMT
	requestBuffer = 0xC0145608 // VIDIOC_REQBUFS
	queryBuffer   = 0xC0585609 // VIDIOC_QUERYBUF
	queueBuffer   = 0xC058560F // VIDIOC_QBUF
	takeBuffer    = 0xC0585611 // VIDIOC_DQBUF
	streamOn      = 0x40045612 // VIDIOC_STREAMON
	streamOff     = 0x40045613 // VIDIOC_STREAMOFF

	capCapture   = 0x00000001
	capStreaming = 0x04000000
	capDevice    = 0x80000000 // deviceCaps counts

	typeCapture = 1
	memoryMap   = 1
	fieldNone   = 1

	pixMJPEG = 'M' | 'J'<<8 | 'P'<<16 | 'G'<<24
	pixJPEG  = 'J' | 'P'<<8 | 'E'<<16 | 'G'<<24
	pixYUYV  = 'Y' | 'U'<<8 | 'Y'<<16 | 'V'<<24

	bufferError = 0x40 // the frame is damaged
)

//lint:file-ignore U1000 the fields are the layouts of the kernel

type v4lCapability struct {
	driver               [16]byte
	card, bus            [32]byte
	version, caps, dcaps uint32
	reserved             [3]uint32
}

type v4lFormat struct {
	kind uint32
	_    uint32
	pix  struct {
		width, height, pixels, field, stride, size, space, private uint32
		flags, encoding, quantization, transfer                    uint32
	}
	_ [200 - 48]byte
}

type v4lRequest struct{ count, kind, memory, caps, flags uint32 }

type v4lBuffer struct {
	index, kind, used, flags, field uint32
	_                               uint32
	time                            [2]int64
	timecode                        [16]byte
	sequence, memory                uint32
	offset                          uint64
	length, _, _, _                 uint32
}

// The sizes are part of the requests' numbers; the compiler checks them.
var (
	_ [104]byte = [unsafe.Sizeof(v4lCapability{})]byte{}
	_ [208]byte = [unsafe.Sizeof(v4lFormat{})]byte{}
	_ [20]byte  = [unsafe.Sizeof(v4lRequest{})]byte{}
	_ [88]byte  = [unsafe.Sizeof(v4lBuffer{})]byte{}
)

const (
	buffers   = 3
	frameTime = 3 * time.Second // the wait for one frame
	// settleTime is how long a camera may take to find its exposure.
	settleTime = time.Second
	settleStep = 3.0 // of 255, between two frames that are alike
)

// device is an open camera.
type device struct {
	fd     int
	format v4lFormat
	maps   [][]byte
	on     bool
}

func ioctl[T any](fd int, request uintptr, arg *T) error {
	for {
		_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(arg)))
		switch e {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return e
		}
	}
}

// Photo takes one picture.
func (b *Backend) Photo(ctx context.Context, o platform.PhotoOrder) (platform.Photo, error) {
	list, all := describe(nodes(b.o.root))
	at, err := platform.ChooseSensor(platform.SensorCamera, list, o.Device, o.Facing)
	if err != nil {
		return platform.Photo{}, err
	}
	p, err := photo(ctx, all[at].path(b.o.root), o)
	if ctx.Err() != nil {
		return platform.Photo{}, ctx.Err()
	}
	p.Device = list[at]
	return p, err
}

func photo(ctx context.Context, path string, o platform.PhotoOrder) (platform.Photo, error) {
	d, err := open(path)
	if err != nil {
		return platform.Photo{}, condition(path, err)
	}
	defer d.close()
	if err := d.start(); err != nil {
		return platform.Photo{}, condition(path, err)
	}
	var last float64 = -1
	calm := 0
	for end := time.Now().Add(settleTime); ; {
		frame, err := d.frame(ctx)
		if err != nil {
			return platform.Photo{}, condition(path, err)
		}
		now, err := d.light(frame)
		if err != nil { // the first frames of some cameras are damaged
			if time.Now().After(end) {
				return platform.Photo{}, fmt.Errorf("%w: %w", platform.ErrSensorLost, err)
			}
			continue
		}
		if last >= 0 && now > 4 && now-last < settleStep && last-now < settleStep {
			calm++
		} else {
			calm = 0
		}
		if last = now; calm < 2 && time.Now().Before(end) {
			continue
		}
		taken := time.Now()
		d.close() // the camera is free before the picture is packed
		p, err := d.picture(frame, o)
		p.At = taken
		return p, err
	}
}

// condition words the kernel's errors.
func condition(path string, err error) error {
	switch {
	case errors.Is(err, platform.ErrSensorCannot), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%w: %s", platform.ErrSensorBusy, path)
	case errors.Is(err, os.ErrPermission):
		return refused(path)
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO), errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: %s", platform.ErrNoSensor, path)
	}
	return fmt.Errorf("%w: %s: %w", platform.ErrSensorLost, path, err)
}

// open opens a camera and has it send frames that can be read here.
func open(path string) (*device, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	d := &device{fd: fd}
	if err := d.setUp(); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *device) setUp() error {
	var c v4lCapability
	if err := ioctl(d.fd, queryCap, &c); err != nil {
		return err
	}
	caps := c.caps
	if caps&capDevice != 0 {
		caps = c.dcaps
	}
	if caps&capCapture == 0 || caps&capStreaming == 0 {
		return fmt.Errorf("%w: it returns no pictures", platform.ErrSensorCannot)
	}
	for _, pixels := range []uint32{pixMJPEG, pixYUYV} {
		f := v4lFormat{kind: typeCapture}
		f.pix.width, f.pix.height, f.pix.pixels, f.pix.field = 1920, 1080, pixels, fieldNone
		if err := ioctl(d.fd, setFormat, &f); err != nil {
			if errors.Is(err, unix.EINVAL) {
				continue
			}
			return err
		}
		if f.pix.pixels == pixMJPEG || f.pix.pixels == pixJPEG || f.pix.pixels == pixYUYV {
			if f.pix.width > maxSide || f.pix.height > maxSide {
				return fmt.Errorf("%w: %d x %d", platform.ErrSensorCannot, f.pix.width, f.pix.height)
			}
			d.format = f
			return nil
		}
	}
	return fmt.Errorf("%w: it returns neither MJPEG nor YUYV", platform.ErrSensorCannot)
}

// start maps buffers and begins the stream.
func (d *device) start() error {
	r := v4lRequest{count: buffers, kind: typeCapture, memory: memoryMap}
	if err := ioctl(d.fd, requestBuffer, &r); err != nil {
		return err
	}
	for i := range min(r.count, 8) {
		b := v4lBuffer{index: i, kind: typeCapture, memory: memoryMap}
		if err := ioctl(d.fd, queryBuffer, &b); err != nil {
			return err
		}
		if b.length > maxSide*maxSide*2 {
			return errFrame
		}
		m, err := unix.Mmap(d.fd, int64(b.offset), int(b.length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		d.maps = append(d.maps, m)
		if err := ioctl(d.fd, queueBuffer, &b); err != nil {
			return err
		}
	}
	kind := uint32(typeCapture)
	if err := ioctl(d.fd, streamOn, &kind); err != nil {
		return err
	}
	d.on = true
	return nil
}

// frame returns a copy of the next whole frame.
func (d *device) frame(ctx context.Context) ([]byte, error) {
	for end := time.Now().Add(frameTime); ; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if time.Now().After(end) {
			return nil, errors.New("the camera returned no frame")
		}
		poll := []unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(poll, 50); err != nil && !errors.Is(err, unix.EINTR) {
			return nil, err
		} else if n <= 0 {
			continue
		}
		if poll[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0 {
			return nil, unix.ENODEV
		}
		b := v4lBuffer{kind: typeCapture, memory: memoryMap}
		if err := ioctl(d.fd, takeBuffer, &b); errors.Is(err, unix.EAGAIN) {
			continue
		} else if err != nil {
			return nil, err
		}
		if int(b.index) >= len(d.maps) {
			return nil, errFrame
		}
		var frame []byte
		if b.flags&bufferError == 0 && b.used > 0 {
			frame = bytes.Clone(d.maps[b.index][:min(int(b.used), len(d.maps[b.index]))])
		}
		if err := ioctl(d.fd, queueBuffer, &b); err != nil {
			return nil, err
		}
		if frame != nil {
			return frame, nil
		}
	}
}

// light is how bright a frame is.
func (d *device) light(frame []byte) (float64, error) {
	p := &d.format.pix
	if p.pixels == pixYUYV {
		picture, err := fromYUYV(frame, int(p.width), int(p.height), int(p.stride))
		if err != nil {
			return 0, err
		}
		return light(picture.Y), nil
	}
	return lightOfJPEG(frame)
}

// picture makes the file.
func (d *device) picture(frame []byte, o platform.PhotoOrder) (platform.Photo, error) {
	p := &d.format.pix
	got, err := develop(frame, p.pixels == pixYUYV, int(p.width), int(p.height), int(p.stride), o)
	if err != nil {
		err = fmt.Errorf("%w: %w", platform.ErrSensorLost, err)
	}
	return got, err
}

// close frees the camera. Idempotent.
func (d *device) close() {
	if d.fd < 0 {
		return
	}
	if d.on {
		kind := uint32(typeCapture)
		_ = ioctl(d.fd, streamOff, &kind) // closing it does the same
	}
	for _, m := range d.maps {
		_ = unix.Munmap(m)
	}
	unix.Close(d.fd)
	d.fd, d.maps = -1, nil
}
