package vp8

import (
	"errors"
	"image"
)

// Bounds of a picture, in pixels. Both sides fit the format's 14 bits; the whole
// keeps the first partition within its 19.
const (
	MaxSide   = 8192
	MaxPixels = 3840 * 2400
)

// MaxQuant is the coarsest index of the quantiser; 0 is the finest.
const MaxQuant = 127

// Errors of New and Encode.
var (
	ErrSize   = errors.New("vp8: no picture has this size")
	ErrPixels = errors.New("vp8: there are fewer pixels than the picture's size needs")
)

// Params of one frame.
type Params struct {
	Key bool // a frame that needs none before it; the first one always is
	// Quant is the index of the quantiser, 0 (finest) to MaxQuant; beyond counts as
	// the nearest.
	Quant int
	// Refine is how many macroblocks that did not change may be coded anew because
	// they are coarser than Quant.
	Refine int
	// Fine is the index that Info.Coarse is counted against.
	Fine int
}

// Info says what was made of a frame. All counts are macroblocks.
type Info struct {
	Key     bool
	Changed int // differed from the last frame's pixels
	Coded   int // have coefficients
	Moved   int // came from elsewhere in the last frame
	Refined int // did not change and were coded anew
	Coarse  int // could be finer: Params.Fine says how fine
	Shift   int // rows by which the screen moved; 0: it did not
}

// Encoder makes a stream of one size. It is not safe for concurrent use.
type Encoder struct {
	width, height int // pixels
	mbw, mbh      int // macroblocks

	src picture // what the screen shows
	rec picture // what decoders show
	old picture // what they showed before this frame, if something moved

	last       []byte // the pixels of the last frame
	lastStride int
	changed    image.Rectangle // all that differs from it
	whole      [1]image.Rectangle
	round      uint32

	mbs     []macroblock
	motions []motion // with a border at the left and above, which stays as it is
	above   [][9]uint8
	left    [9]uint8
	tokens  []token
	probs   [nSets][nTree]uint8
	counts  counts
	costs   *costs
	steps   [MaxQuant + 1]steps
	rows    []row
	votes   []int32
	head    boolWriter
	body    boolWriter
	work    work
	noSmall bool // macroblocks are predicted as a whole only
}

// macroblock is what is known of one. The fields above the line hold from frame to frame.
type macroblock struct {
	seen  uint32 // the round in which its pixels were compared
	rest  uint32 // the sum of squared errors that decoders show
	quant uint8  // it was coded with

	dirty    bool
	skip     bool // no coefficients
	inter    bool
	yMode    uint8 // modeSmall for blocks with modes of their own
	uvMode   uint8
	blocks   [16]uint8
	from, to int32 // its tokens
}

const modeSmall = nModes

// motion is what the coding of its neighbours' vectors needs of a macroblock.
type motion struct {
	inter bool
	shift int16 // rows
}

// New makes an encoder for pictures of one size. Errors: ErrSize.
func New(width, height int) (*Encoder, error) {
	if width < 1 || height < 1 || width > MaxSide || height > MaxSide || width*height > MaxPixels {
		return nil, ErrSize
	}
	e := &Encoder{width: width, height: height, mbw: (width + 15) / 16, mbh: (height + 15) / 16, costs: newCosts()}
	e.src, e.rec, e.old = newPicture(e.mbw, e.mbh), newPicture(e.mbw, e.mbh), newPicture(e.mbw, e.mbh)
	e.mbs = make([]macroblock, e.mbw*e.mbh)
	e.motions = make([]motion, (e.mbw+1)*(e.mbh+1))
	e.above = make([][9]uint8, e.mbw)
	e.votes = make([]int32, 2*maxShift+1)
	size := 64
	for size < 2*height {
		size *= 2
	}
	e.rows = make([]row, size)
	for i := range e.steps {
		e.steps[i] = stepsOf(i)
	}
	return e, nil
}

// Size returns the width and height of the pictures, in pixels.
func (e *Encoder) Size() (width, height int) { return e.width, e.height }

// Encode appends the next frame to dst. pix holds rows of stride bytes, each pixel
// blue, green, red and one that counts for nothing; the encoder compares the next
// frame with it, so nobody may write to it any more. Only what lies within dirty
// can differ from the last frame. Errors: ErrPixels; the stream then goes on as if
// the call had not been.
func (e *Encoder) Encode(dst, pix []byte, stride int, dirty []image.Rectangle, p Params) ([]byte, Info, error) {
	if stride < e.width*4 || len(pix) < (e.height-1)*stride+e.width*4 {
		return dst, Info{}, ErrPixels
	}
	p.Quant = min(max(p.Quant, 0), MaxQuant)
	p.Fine = min(max(p.Fine, 0), MaxQuant)
	p.Key = p.Key || e.last == nil
	for i := range e.mbs {
		e.mbs[i].dirty = false
	}
	e.look(pix, stride, dirty)
	shift := 0
	if !p.Key {
		shift = e.scroll(pix, stride)
	}
	e.last, e.lastStride = pix, stride
	info := e.picture(p, shift)
	out, ok := e.write(dst, p)
	if !ok { // the modes of so many blocks have no room: without them they have
		e.noSmall, p.Key = true, true
		info = e.picture(p, 0)
		out, _ = e.write(dst, p)
		e.noSmall = false
	}
	return out, info, nil
}

// picture decides how every macroblock is coded, and makes what decoders will show.
func (e *Encoder) picture(p Params, shift int) Info {
	info := Info{Key: p.Key, Shift: shift}
	if shift != 0 {
		e.old.copyFrom(&e.rec)
	}
	e.tokens = e.tokens[:0]
	clear(e.above)
	q := &e.steps[p.Quant]
	e.work.begin(q, shift)
	fine := enough(&e.steps[p.Fine])
	for my := range e.mbh {
		e.left = [9]uint8{}
		for mx := range e.mbw {
			m := &e.mbs[my*e.mbw+mx]
			if m.dirty {
				info.Changed++
			}
			at := &e.motions[(my+1)*(e.mbw+1)+mx+1]
			*at = motion{}
			switch {
			case p.Key:
				e.intra(m, mx, my, p)
			case m.dirty:
				e.inter(m, mx, my, p, at)
			case info.Refined < p.Refine && int(m.quant) > p.Quant && m.rest > e.work.enough:
				info.Refined++
				e.inter(m, mx, my, p, at)
			default:
				m.inter, m.skip = true, true
			}
			at.inter = m.inter
			if m.skip {
				e.clean(m, mx)
			} else {
				info.Coded++
			}
			if at.shift != 0 {
				info.Moved++
			}
			if int(m.quant) > p.Fine && m.rest > fine {
				info.Coarse++
			}
		}
	}
	return info
}

// clean notes for the neighbours that a macroblock has no coefficients. One with
// small blocks says nothing about the second luma plane (section 13.3).
func (e *Encoder) clean(m *macroblock, mx int) {
	a := &e.above[mx]
	if !m.inter && m.yMode == modeSmall {
		*a, e.left = [9]uint8{8: a[8]}, [9]uint8{8: e.left[8]}
		return
	}
	*a, e.left = [9]uint8{}, [9]uint8{}
}

// enough is the error of a macroblock that is not worth coefficients.
func enough(q *steps) uint32 {
	s := uint32(q.y.step[1])
	return 384 * max(1, s*s/24)
}

// Reconstruction returns what a decoder shows after the last frame. It stays the
// encoder's: read it before the next Encode.
func (e *Encoder) Reconstruction() *image.YCbCr {
	return &image.YCbCr{
		Y: e.rec.y.pix, Cb: e.rec.u.pix, Cr: e.rec.v.pix, YStride: e.rec.y.stride, CStride: e.rec.u.stride,
		SubsampleRatio: image.YCbCrSubsampleRatio420, Rect: image.Rect(0, 0, e.width, e.height),
	}
}
