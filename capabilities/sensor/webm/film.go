package webm

import (
	"encoding/binary"
	"errors"
	"io"
	"time"
)

// The elements that only films have (RFC 9559 sections 5.1.7 and 5.1.4).
const (
	idVersion      = 0x4286
	idReadVersion  = 0x42F7
	idMaxID        = 0x42F2
	idMaxSize      = 0x42F3
	idDocType      = 0x4282
	idDocVersion   = 0x4287
	idDocRead      = 0x4285
	idUID          = 0x73C5
	idLacing       = 0x9C
	idChapters     = 0x1043A770
	idEdition      = 0x45B9
	idChapter      = 0xB6
	idChapterUID   = 0x73C4
	idChapterFrom  = 0x91
	idChapterEnd   = 0x92
	idChapterShown = 0x80
	idChapterText  = 0x85
	idChapterLang  = 0x437C
)

const (
	// clusterTime is about how long a cluster is; times in it are 16 bits of
	// milliseconds.
	clusterTime = 5 * time.Second
	// clusterSize is when a cluster is full.
	clusterSize = 1 << 20
	videoTrack  = 1
)

// Chapter is a part of a film that has a name.
type Chapter struct {
	From, To time.Duration // since the beginning of the film
	Title    string
}

// Film collects frames of VP8 in memory until Write. The zero value is empty. Not safe
// for concurrent use.
type Film struct {
	width, height int
	frames        int
	size          int
	last          time.Duration // of the last frame, in whole milliseconds
	clusters      []part
}

// part is a cluster that is being made.
type part struct {
	at     time.Duration
	key    bool
	blocks []byte
}

// Frames is how many there are.
func (f *Film) Frames() int { return f.frames }

// Bytes is how much its frames take; a file has little beside them.
func (f *Film) Bytes() int { return f.size }

// Size is the picture's, as its first frame has it.
func (f *Film) Size() (width, height int) { return f.width, f.height }

// ErrNoKey says that a film has to begin with a frame that can be shown by itself.
var ErrNoKey = errors.New("webm: a film begins with a key frame")

// Add takes the next frame; its bytes are copied. A frame that is not later than the one
// before counts as a millisecond later.
func (f *Film) Add(at time.Duration, frame []byte) error {
	key := len(frame) >= 10 && frame[0]&1 == 0
	if f.frames == 0 {
		if !key {
			return ErrNoKey
		}
		// A key frame of VP8 (RFC 6386, 9.1): three bytes, a start code, width and
		// height of 14 bits.
		f.width, f.height = int(binary.LittleEndian.Uint16(frame[6:])&0x3FFF), int(binary.LittleEndian.Uint16(frame[8:])&0x3FFF)
		f.last = -time.Millisecond
	}
	at = max(at.Truncate(time.Millisecond), f.last+time.Millisecond)
	n := len(f.clusters)
	if n == 0 || key || at-f.clusters[n-1].at > clusterTime || len(f.clusters[n-1].blocks) > clusterSize {
		f.clusters = append(f.clusters, part{at: at, key: key})
		n++
	}
	c := &f.clusters[n-1]
	head := [4]byte{0x80 | videoTrack}
	binary.BigEndian.PutUint16(head[1:], uint16((at-c.at)/time.Millisecond))
	if key {
		head[3] = 0x80
	}
	c.blocks = appendHead(c.blocks, idSimple, len(head)+len(frame))
	c.blocks = append(append(c.blocks, head[:]...), frame...)
	f.last = at
	f.frames++
	f.size += len(frame) + headLen(idSimple) + len(head)
	return nil
}

// Write returns the file, which lasts until end:
//
//	header | segment( seek head | info | tracks | chapters | cluster… | cues )
func (f *Film) Write(w io.Writer, end time.Duration, chapters []Chapter) error {
	if f.frames == 0 {
		return ErrNoKey
	}
	end = max(end.Truncate(time.Millisecond), f.last+time.Millisecond)
	info := appendUint(nil, idScale, 1e6)
	info = appendFloat(info, idDuration, float64(end/time.Millisecond))
	info = appendBytes(info, idMuxer, []byte("Handrail"))
	info = appendBytes(info, idWriter, []byte("Handrail"))
	info = appendBytes(nil, idInfo, info)

	entry := appendUint(appendUint(nil, idNumber, videoTrack), idUID, videoTrack)
	entry = appendUint(appendUint(entry, idType, 1), idLacing, 0)
	entry = appendBytes(entry, idCodec, []byte("V_VP8"))
	entry = appendBytes(entry, idVideo, appendUint(appendUint(nil, idWidth, uint64(f.width)), idHeight, uint64(f.height)))
	tracks := appendBytes(nil, idTracks, appendBytes(nil, idEntry, entry))
	named := chapterList(chapters, end)

	seek := func(info, tracks, chapters, cues int) []byte {
		parts := []place{{idInfo, info}, {idTracks, tracks}, {idCues, cues}}
		if named != nil {
			parts = append(parts, place{idChapters, chapters})
		}
		return seekHead(parts)
	}
	infoAt := len(seek(0, 0, 0, 0))
	tracksAt := infoAt + len(info)
	chaptersAt := tracksAt + len(tracks)
	at := chaptersAt + len(named)
	var cues []byte
	for i := range f.clusters {
		c := &f.clusters[i]
		if c.key {
			cues = appendCue(cues, cluster{time: uint64(c.at / time.Millisecond), cueTrack: videoTrack}, at)
		}
		at += headLen(idCluster) + len(c.time()) + len(c.blocks)
	}
	cues = appendBytes(nil, idCues, cues)

	doc := appendUint(appendUint(nil, idVersion, 1), idReadVersion, 1)
	doc = appendUint(appendUint(doc, idMaxID, 4), idMaxSize, 8)
	doc = appendBytes(doc, idDocType, []byte("webm"))
	doc = appendUint(appendUint(doc, idDocVersion, 4), idDocRead, 2)
	head := appendHead(appendBytes(nil, idHeader, doc), idSegment, at+len(cues))
	for _, b := range [][]byte{head, seek(infoAt, tracksAt, chaptersAt, at), info, tracks, named} {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	for i := range f.clusters {
		c := &f.clusters[i]
		when := c.time()
		if _, err := w.Write(append(appendHead(nil, idCluster, len(when)+len(c.blocks)), when...)); err != nil {
			return err
		}
		if _, err := w.Write(c.blocks); err != nil {
			return err
		}
	}
	_, err := w.Write(cues)
	return err
}

func (c *part) time() []byte { return appendUint(nil, idTime, uint64(c.at/time.Millisecond)) }

// chapterList returns the chapters; nil for none.
func chapterList(chapters []Chapter, end time.Duration) []byte {
	var all []byte
	for i, c := range chapters {
		from := min(max(c.From, 0), end)
		to := min(max(c.To, from), end)
		shown := appendBytes(appendBytes(nil, idChapterText, []byte(c.Title)), idChapterLang, []byte("eng"))
		one := appendUint(nil, idChapterUID, uint64(i+1))
		one = appendUint(appendUint(one, idChapterFrom, uint64(from)), idChapterEnd, uint64(to))
		all = appendBytes(all, idChapter, appendBytes(one, idChapterShown, shown))
	}
	if all == nil {
		return nil
	}
	return appendBytes(nil, idChapters, appendBytes(nil, idEdition, all))
}
