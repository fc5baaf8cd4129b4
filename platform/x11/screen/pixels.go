package screen

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/wire"
)

// pixelFormat is how a server lays out the pixels of its screen.
type pixelFormat struct {
	size    int // bytes of a pixel: 2, 3 or 4
	pad     int // rows are multiples of that many bytes
	same    bool
	channel [3]channel // blue, green, red
}

type channel struct {
	shift int
	mask  uint32 // after shifting
}

// formatOf finds the layout for c's screen. Palettes and big-endian servers are
// refused: nothing that runs today has them as its desktop.
func formatOf(c *wire.Conn) (pixelFormat, error) {
	refuse := func(what string) (pixelFormat, error) {
		return pixelFormat{}, &platform.MissingError{What: fmt.Sprintf("The X server of %s shows %s, which cannot be read.", c.Name, what),
			Fix: "Start it with a depth of 24 bits, such as Xvfb -screen 0 1920x1080x24."}
	}
	if c.Setup.ImageByteOrder != xproto.ImageOrderLSBFirst {
		return refuse("pixels in big-endian order")
	}
	var f pixelFormat
	for _, p := range c.Setup.PixmapFormats {
		if p.Depth == c.Screen.RootDepth {
			f.size, f.pad = int(p.BitsPerPixel)/8, int(p.ScanlinePad)/8
		}
	}
	for _, d := range c.Screen.AllowedDepths {
		for _, v := range d.Visuals {
			if v.VisualId != c.Screen.RootVisual {
				continue
			}
			if v.Class != xproto.VisualClassTrueColor && v.Class != xproto.VisualClassDirectColor {
				return refuse("colours of a palette")
			}
			for i, mask := range []uint32{v.BlueMask, v.GreenMask, v.RedMask} {
				if mask == 0 {
					return refuse("colours of a palette")
				}
				shift := bits.TrailingZeros32(mask)
				f.channel[i] = channel{shift, mask >> shift}
			}
		}
	}
	if f.size < 2 || f.size > 4 || f.pad == 0 || f.channel[0].mask == 0 {
		return refuse(fmt.Sprintf("pixels of %d bits", c.Screen.RootDepth))
	}
	f.same = f.size == 4 && f.channel == [3]channel{{0, 0xff}, {8, 0xff}, {16, 0xff}}
	return f, nil
}

// pitch is the length of a row of width pixels.
func (f *pixelFormat) pitch(width int) int { return (width*f.size + f.pad - 1) / f.pad * f.pad }

// convert copies height rows into blue, green, red, unused.
func (f *pixelFormat) convert(dst []byte, stride int, src []byte, pitch, width, height int) {
	if f.same {
		if stride == pitch && stride == width*4 {
			copy(dst[:stride*height], src)
			return
		}
		for y := range height {
			copy(dst[y*stride:][:width*4], src[y*pitch:])
		}
		return
	}
	for y := range height {
		d, s := dst[y*stride:][:width*4], src[y*pitch:][:width*f.size]
		for x := range width {
			var v uint32
			switch p := s[x*f.size:]; f.size {
			case 2:
				v = uint32(binary.LittleEndian.Uint16(p))
			case 3:
				v = uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16
			default:
				v = binary.LittleEndian.Uint32(p)
			}
			o := d[x*4:][:4]
			for i, c := range f.channel {
				o[i] = byte((v >> c.shift & c.mask) * 255 / c.mask)
			}
			o[3] = 0
		}
	}
}
