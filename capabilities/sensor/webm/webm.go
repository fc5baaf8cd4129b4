package webm

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// Track is one track.
type Track struct {
	Number        uint64
	Codec         string // such as "V_VP8", "A_OPUS"; at most 64 bytes
	Video         bool
	Width, Height int // of video
	Rate          float64
	Channels      int // of sound
	Frames        int
	// End is when its last frame ends, as far as one can tell: frames do not say how
	// long they are, so the last counts as long as the one before.
	End time.Duration
}

// Info is what is in a recording.
type Info struct {
	Duration time.Duration // the end of the track that ends last
	Tracks   []Track
}

// Bounds of a recording: five minutes have some hundred clusters.
const (
	maxTracks   = 8
	maxClusters = 1 << 16
	maxTime     = 1 << 32 // in units of the scale, which then fits a time.Duration
	maxScale    = 1e9     // nanoseconds
)

// cluster is one cluster and where its parts lie.
type cluster struct {
	time      uint64
	from, end int  // its parts, one after another
	timed     bool // its time was read
	cue       bool // it begins with a frame that can be shown by itself
	first     bool // a block was seen
	cueTrack  uint64
}

// reader walks a recording.
type reader struct {
	b        []byte
	header   element
	tracks   element
	scale    uint64
	list     []Track
	last     []uint64 // of each track: the time of its last frame, and of the one before
	before   []uint64
	clusters []cluster
}

// Read tells what is in a recording.
func Read(b []byte) (Info, error) {
	r, err := walk(b)
	if err != nil {
		return Info{}, err
	}
	return r.info(), nil
}

// Finish writes the recording with its duration, known sizes and an index.
func Finish(w io.Writer, b []byte) (Info, error) {
	r, err := walk(b)
	if err != nil {
		return Info{}, err
	}
	info := r.info()
	return info, r.write(w, info)
}

func walk(b []byte) (*reader, error) {
	r := &reader{b: b, scale: 1e6}
	var err error
	if r.header, err = at(b, 0, len(b)); err != nil {
		return nil, err
	}
	if r.header.id != idHeader || r.header.size == unknown {
		return nil, fmt.Errorf("%w: it does not begin as one", ErrBroken)
	}
	segment, err := at(b, r.header.body+r.header.size, len(b))
	if err != nil {
		return nil, err
	}
	if segment.id != idSegment {
		return nil, fmt.Errorf("%w: no segment", ErrBroken)
	}
	end := len(b)
	if segment.size != unknown {
		end = segment.body + segment.size
	}
	for i := segment.body; i < end; {
		e, err := at(b, i, end)
		if err != nil {
			return nil, err
		}
		if i, err = r.part(e); err != nil {
			return nil, err
		}
	}
	switch {
	case r.tracks.id == 0 || len(r.list) == 0:
		return nil, fmt.Errorf("%w: no tracks", ErrBroken)
	case len(r.clusters) == 0:
		return nil, fmt.Errorf("%w: nothing was recorded", ErrBroken)
	}
	for i := range r.clusters {
		if !r.clusters[i].timed {
			return nil, fmt.Errorf("%w: a cluster without a time", ErrBroken)
		}
	}
	return r, nil
}

// part takes one element of the segment, or of the cluster that is open: one whose size is not
// known ends where an element that cannot be in it begins. It returns where the next begins.
func (r *reader) part(e element) (next int, err error) {
	if e.id == idCluster {
		if len(r.clusters) == maxClusters {
			return 0, fmt.Errorf("%w: too many clusters", ErrBroken)
		}
		r.clusters = append(r.clusters, cluster{from: e.body, end: e.body})
		return e.body, nil
	}
	if e.size == unknown {
		return 0, fmt.Errorf("%w: element %X has no size", ErrBroken, e.id)
	}
	next = e.body + e.size
	switch e.id {
	case idInfo:
		err = r.readInfo(e)
	case idTracks:
		if r.tracks.id != 0 {
			return 0, fmt.Errorf("%w: tracks twice", ErrBroken)
		}
		r.tracks = e
		err = each(r.b, e.body, next, r.readTrack)
	case idTime, idSimple, idGroup:
		err = r.inCluster(e)
	}
	return next, err
}

func (r *reader) readInfo(e element) error {
	return each(r.b, e.body, e.body+e.size, func(e element) error {
		if e.id == idScale {
			if r.scale = e.uint(r.b); r.scale == 0 || r.scale > maxScale {
				return fmt.Errorf("%w: time scale", ErrBroken)
			}
		}
		return nil
	})
}

func (r *reader) readTrack(e element) error {
	if e.id != idEntry {
		return nil
	}
	if len(r.list) == maxTracks {
		return fmt.Errorf("%w: too many tracks", ErrBroken)
	}
	var t Track
	err := each(r.b, e.body, e.body+e.size, func(e element) error {
		switch e.id {
		case idNumber:
			t.Number = e.uint(r.b)
		case idType:
			t.Video = e.uint(r.b) == 1
		case idCodec:
			t.Codec = string(r.b[e.body : e.body+min(e.size, 64)])
		case idVideo, idAudio:
			return each(r.b, e.body, e.body+e.size, func(e element) error {
				switch e.id {
				case idWidth:
					t.Width = int(uint16(e.uint(r.b)))
				case idHeight:
					t.Height = int(uint16(e.uint(r.b)))
				case idRate:
					t.Rate = e.float(r.b)
				case idChannels:
					t.Channels = int(uint8(e.uint(r.b)))
				}
				return nil
			})
		}
		return nil
	})
	r.list = append(r.list, t)
	r.last, r.before = append(r.last, 0), append(r.before, 0)
	return err
}

func (r *reader) inCluster(e element) error {
	if len(r.clusters) == 0 {
		return fmt.Errorf("%w: a frame outside of a cluster", ErrBroken)
	}
	c := &r.clusters[len(r.clusters)-1]
	if e.start != c.end { // something of no use was in between: only what follows at once is copied
		if c.end != c.from {
			return fmt.Errorf("%w: a foreign element in a cluster", ErrBroken)
		}
		c.from = e.start
	}
	c.end = e.body + e.size
	switch e.id {
	case idTime:
		if c.timed {
			return fmt.Errorf("%w: a cluster with two times", ErrBroken)
		}
		if c.time, c.timed = e.uint(r.b), true; c.time > maxTime {
			return fmt.Errorf("%w: a time out of bounds", ErrBroken)
		}
		return nil
	case idSimple:
		return r.frame(c, e, true, false)
	}
	found, refers := element{}, false
	err := each(r.b, e.body, e.body+e.size, func(e element) error {
		switch e.id {
		case idBlock:
			found = e
		case idRefer:
			refers = true
		}
		return nil
	})
	if err != nil || found.id == 0 {
		return err
	}
	return r.frame(c, found, false, !refers)
}

// frame reads a block's head:
//
//	+------------+-----------------+-------+-------+
//	| track 1…8  | time, signed 2  | flags | frame |
//	+------------+-----------------+-------+-------+
func (r *reader) frame(c *cluster, e element, simple, key bool) error {
	track, n, err := number(r.b, e.body, e.body+e.size, 8)
	if err != nil {
		return err
	}
	track &^= 1 << (7 * n)
	i := e.body + n
	if e.size < n+3 || !c.timed {
		return fmt.Errorf("%w: a frame without a head", ErrBroken)
	}
	when := int64(c.time) + int64(int16(binary.BigEndian.Uint16(r.b[i:])))
	if simple {
		key = r.b[i+2]&0x80 != 0
	}
	for k := range r.list {
		t := &r.list[k]
		if t.Number != track {
			continue
		}
		if at := uint64(max(when, 0)); t.Frames == 0 || at > r.last[k] {
			if r.before[k] = r.last[k]; t.Frames == 0 {
				r.before[k] = at
			}
			r.last[k] = at
		}
		t.Frames++
		if !c.first {
			c.first, c.cue, c.cueTrack = true, key, track
		}
		return nil
	}
	return fmt.Errorf("%w: a frame of no track", ErrBroken)
}

func (r *reader) info() Info {
	info := Info{Tracks: r.list}
	for k := range info.Tracks {
		t := &info.Tracks[k]
		if t.Frames == 0 {
			continue
		}
		// A pause before the last frame says nothing about how long that is.
		length := min(time.Duration(r.last[k]-r.before[k])*time.Duration(r.scale), 100*time.Millisecond)
		t.End = time.Duration(r.last[k])*time.Duration(r.scale) + length
		info.Duration = max(info.Duration, t.End)
	}
	return info
}

// write returns the file:
//
//	header | segment( seek head | info | tracks | cluster… | cues )
func (r *reader) write(w io.Writer, info Info) error {
	about := appendUint(nil, idScale, r.scale)
	about = appendFloat(about, idDuration, float64(info.Duration)/float64(r.scale))
	about = appendBytes(about, idMuxer, []byte("Handrail"))
	about = appendBytes(about, idWriter, []byte("Handrail"))
	about = append(appendHead(nil, idInfo, len(about)), about...)
	tracks := append(appendHead(nil, idTracks, r.tracks.size), r.b[r.tracks.body:r.tracks.body+r.tracks.size]...)

	seekLen := len(r.seekHead(0, 0, 0))
	infoAt := seekLen
	tracksAt := infoAt + len(about)
	place := tracksAt + len(tracks)
	var cues []byte
	for _, c := range r.clusters {
		if c.cue {
			cues = appendCue(cues, c, place)
		}
		place += headLen(idCluster) + c.end - c.from
	}
	cues = append(appendHead(nil, idCues, len(cues)), cues...)

	head := append([]byte(nil), r.b[r.header.start:r.header.body+r.header.size]...)
	head = appendHead(head, idSegment, place+len(cues))
	head = append(head, r.seekHead(infoAt, tracksAt, place)...)
	head = append(append(head, about...), tracks...)
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, c := range r.clusters {
		if _, err := w.Write(appendHead(nil, idCluster, c.end-c.from)); err != nil {
			return err
		}
		if _, err := w.Write(r.b[c.from:c.end]); err != nil {
			return err
		}
	}
	_, err := w.Write(cues)
	return err
}

// seekHead says where in the segment the parts are; always of one length.
func (r *reader) seekHead(info, tracks, cues int) []byte {
	return seekHead([]place{{idInfo, info}, {idTracks, tracks}, {idCues, cues}})
}

// place is where in the segment a part is.
type place struct {
	id uint32
	at int
}

func seekHead(parts []place) []byte {
	var body []byte
	for _, p := range parts {
		entry := appendBytes(nil, idSeekID, appendID(nil, p.id))
		entry = appendUint(entry, idSeekPos, uint64(p.at))
		body = appendBytes(body, idSeek, entry)
	}
	return append(appendHead(nil, idSeekHead, len(body)), body...)
}

func appendCue(b []byte, c cluster, place int) []byte {
	at := appendUint(appendUint(nil, idCueTrack, c.cueTrack), idCuePos, uint64(place))
	return appendBytes(b, idCue, appendBytes(appendUint(nil, idCueTime, c.time), idCueAt, at))
}
