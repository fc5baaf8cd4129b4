package media

import "time"

// The quantiser's range: finer costs bits that nobody sees, coarser is unreadable.
const (
	fineQuant   = 10 // of a screen at rest
	leastQuant  = 20 // of one that moves
	mostQuant   = 110
	firstQuant  = 40
	frameShare  = 250 * time.Millisecond // of what the way carries may go into one frame of change
	refineShare = 60 * time.Millisecond  // and so much into one that only sharpens
)

// control chooses how coarse the next frame is, so that a frame has left before the
// next one is due. It has no queue to empty: what does not fit is coarser.
type control struct {
	quant int
	each  int // bytes that sharpening one macroblock took, lately
}

func newControl() control { return control{quant: firstQuant, each: 100} }

// budget is the bytes of so much time.
func budget(rate int, share time.Duration) int {
	return int(int64(rate/8) * int64(share) / int64(time.Second))
}

// sent learns from a frame that showed a change.
func (c *control) sent(bytes, rate int) {
	switch most := budget(rate, frameShare); {
	case bytes > 2*most:
		c.quant += 24
	case bytes > most:
		c.quant += 8
	case bytes < most/3:
		c.quant -= 4
	}
	c.quant = min(max(c.quant, leastQuant), mostQuant)
}

// refine returns how many macroblocks the next frame may sharpen.
func (c *control) refine(rate int) int { return max(8, budget(rate, refineShare)/c.each) }

// refined learns from a frame that sharpened some.
func (c *control) refined(bytes, macroblocks int) {
	if macroblocks > 0 {
		c.each = max(16, (3*c.each+bytes/macroblocks)/4)
	}
}
