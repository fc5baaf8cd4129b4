package vp8

// block is 4x4 values, row by row.
type block [16]int32

// forward is the forward DCT. Any will do, as decoders do not see it; this one
// belongs to inverse.
func (b *block) forward() {
	for i := 0; i < 16; i += 4 {
		s, t := (b[i]+b[i+3])*8, (b[i+1]+b[i+2])*8
		u, v := (b[i+1]-b[i+2])*8, (b[i]-b[i+3])*8
		b[i], b[i+2] = s+t, s-t
		b[i+1] = (u*2217 + v*5352 + 14500) >> 12
		b[i+3] = (v*2217 - u*5352 + 7500) >> 12
	}
	for i := range 4 {
		s, t := b[i]+b[i+12], b[i+4]+b[i+8]
		u, v := b[i+4]-b[i+8], b[i]-b[i+12]
		b[i], b[i+8] = (s+t+7)>>4, (s-t+7)>>4
		b[i+4] = (u*2217 + v*5352 + 12000) >> 16
		if v != 0 {
			b[i+4]++
		}
		b[i+12] = (v*2217 - u*5352 + 51000) >> 16
	}
}

// inverse is the inverse DCT of section 14.3, exactly.
func (b *block) inverse() {
	const c1, c2 = 85627, 35468
	for i := range 4 {
		s, t := b[i]+b[i+8], b[i]-b[i+8]
		u := b[i+4]*c2>>16 - b[i+12]*c1>>16
		v := b[i+4]*c1>>16 + b[i+12]*c2>>16
		b[i], b[i+4], b[i+8], b[i+12] = s+v, t+u, t-u, s-v
	}
	for i := 0; i < 16; i += 4 {
		s, t := b[i]+4+b[i+2], b[i]+4-b[i+2]
		u := b[i+1]*c2>>16 - b[i+3]*c1>>16
		v := b[i+1]*c1>>16 + b[i+3]*c2>>16
		b[i], b[i+1], b[i+2], b[i+3] = (s+v)>>3, (t+u)>>3, (t-u)>>3, (s-v)>>3
	}
}

// forwardWalsh is the transform of the 16 DC values.
func (b *block) forwardWalsh() {
	for i := 0; i < 16; i += 4 {
		s, d := (b[i]+b[i+2])*4, (b[i+1]+b[i+3])*4
		t, c := (b[i]-b[i+2])*4, (b[i+1]-b[i+3])*4
		b[i], b[i+1], b[i+2], b[i+3] = s+d, t+c, t-c, s-d
		if s != 0 {
			b[i]++
		}
	}
	for i := range 4 {
		s, d := b[i]+b[i+8], b[i+4]+b[i+12]
		t, c := b[i]-b[i+8], b[i+4]-b[i+12]
		for j, v := range [4]int32{s + d, t + c, t - c, s - d} {
			if v < 0 {
				v++
			}
			b[i+4*j] = (v + 3) >> 3
		}
	}
}

// inverseWalsh is the inverse of section 14.3, exactly.
func (b *block) inverseWalsh() {
	for i := range 4 {
		s, t := b[i]+b[i+12], b[i+4]+b[i+8]
		u, v := b[i+4]-b[i+8], b[i]-b[i+12]
		b[i], b[i+8], b[i+4], b[i+12] = s+t, s-t, v+u, v-u
	}
	for i := 0; i < 16; i += 4 {
		s, t := b[i]+3+b[i+3], b[i+1]+b[i+2]
		u, v := b[i+1]-b[i+2], b[i]+3-b[i+3]
		b[i], b[i+1], b[i+2], b[i+3] = (s+t)>>3, (v+u)>>3, (s-t)>>3, (v-u)>>3
	}
}

// quantiser is the step of one kind of coefficients, DC and AC.
type quantiser struct {
	step  [2]int32
	half  [2]int32 // what is added before the division
	recip [2]int32 // 1<<16 over step, rounded up
}

func newQuantiser(dc, ac int32) quantiser {
	q := quantiser{step: [2]int32{dc, ac}}
	// Small AC values cost more bits than they give sharpness.
	q.half = [2]int32{dc / 2, ac * 3 / 8}
	for i, s := range q.step {
		q.recip[i] = (1<<16)/s + 1
	}
	return q
}

const maxLevel = 2047 // of a coefficient: category 6 holds 11 bits beyond 67

// quantise turns coefficients into levels, in the order they are sent, and the coefficients into
// what a decoder makes of those. It returns the index after the last level that is not 0, and the
// bits they may cost, roughly.
func (q *quantiser) quantise(b *block, first int, levels *[16]int16) (end, cost int) {
	for i := first; i < 16; i++ {
		k := 1
		if i == 0 {
			k = 0
		}
		z := zigzag[i] & 15
		v := b[z]
		sign := v >> 31
		v = (v ^ sign) - sign
		v = int32(int64(v+q.half[k]) * int64(q.recip[k]) >> 16)
		if v == 0 {
			levels[i], b[z] = 0, 0
			continue
		}
		v = min(v, maxLevel)
		end = i + 1
		cost += 3
		for n := v; n > 1; n >>= 1 {
			cost += 2
		}
		v = (v ^ sign) - sign
		levels[i], b[z] = int16(v), v*q.step[k]
	}
	return end, cost + end/2
}

// steps are the quantisers of a frame (section 14.1), for an index from 0, the
// finest, to 127.
type steps struct{ y, y2, uv quantiser }

func stepsOf(index int) steps {
	return steps{
		y:  newQuantiser(stepsDC[index], stepsAC[index]),
		y2: newQuantiser(stepsDC[index]*2, max(8, stepsAC[index]*155/100)),
		uv: newQuantiser(min(stepsDC[index], 132), stepsAC[index]),
	}
}
