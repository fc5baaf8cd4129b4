package browser

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
)

// How a download goes. Chrome writes it below its own scratch folder, which ends
// with Chrome whatever happens (the guard sees to it), under a name of its own
// making. Only when Chrome says that it is complete is it looked at: it must be a
// plain file of the size that was received. Then it is hashed and gets a safe form
// of its name: in the owner's Options.DownloadDir, where it stays, or where it is,
// until its lane or Chrome ends.

// Bounds of a lane.
const (
	maxDownloads = 200
	// downloadWait is how long the call that started one waits for its end.
	downloadWait = 2 * time.Second
	// laneFiles is how many of the largest files all of a lane's may take together.
	laneFiles = 4
)

// States of a download.
const (
	downloadRuns     = "in_progress"
	downloadComplete = "completed"
	downloadFailed   = "failed"
	downloadTooLarge = "too_large"
	// downloadOverLimit: it was cancelled, because its lane has had maxDownloads.
	downloadOverLimit = "over_limit"
	// downloadElsewhere: a Chrome that the person runs saves it as it always does.
	downloadElsewhere = "left_to_browser"
)

// download is one file that a page of the lane sent.
type download struct {
	id, guid string
	name     string
	state    string
	told     string // the state that a call reported last
	bytes    int64
	sum      string
	path     string
	lane     *lane
	chrome   *chrome
	context  cdp.BrowserContextID
}

// downloads are those of a lane.
type downloads struct {
	mu      sync.Mutex
	list    []*download
	bytes   int64
	changed chan struct{} // closed and replaced at every change
}

// downloaded is a download as results show it.
type downloaded struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Path   string `json:"path,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	State  string `json:"state"`
}

func (d *downloads) changeLocked() {
	if d.changed != nil {
		close(d.changed)
	}
	d.changed = make(chan struct{})
}

// incoming is the folder, below Chrome's scratch folder, that a context's
// downloads arrive in.
func incoming(id cdp.BrowserContextID) string {
	if id == "" {
		id = "default"
	}
	return filepath.Join("downloads", filepath.Base(string(id)))
}

// allowDownloads has Chrome hand over what the context's pages download.
func (l *lane) allowDownloads(ctx context.Context, c *chrome, id cdp.BrowserContextID) error {
	if dir := c.h.o.DownloadDir; dir != "" {
		c.h.sweep.Do(func() { sweepParts(dir) })
	}
	_, err := devtools.Do(ctx, c.Root, cdpbrowser.SetDownloadBehavior, cdpbrowser.SetDownloadBehaviorParams{
		Behavior: cdpbrowser.SetDownloadBehaviorBehaviorAllowAndName, BrowserContextID: id, EventsEnabled: ptr(true),
		DownloadPath: filepath.Join(c.Program.Scratch(), incoming(id)), // Chrome makes it, under its own account
	})
	return err
}

// downloadBegan takes the event of a tab. It runs on the reading goroutine.
func (t *laneTab) downloadBegan(params []byte) {
	var e struct {
		GUID string `json:"guid"`
		Name string `json:"suggestedFilename"`
		URL  string `json:"url"`
	}
	if !decodeEvent(params, &e) {
		return
	}
	l, c := t.lane, t.chrome
	l.mu.Lock()
	context := l.context
	l.mu.Unlock()
	d := &download{guid: e.GUID, name: safeName(l.hider().text(e.Name)), state: downloadRuns, lane: l, chrome: c, context: context}
	if c.Attached {
		d.state = downloadElsewhere
	}
	ds := &l.downloads
	ds.mu.Lock()
	if len(ds.list) >= maxDownloads {
		d.state = downloadOverLimit
		c.cancelDownload(e.GUID, context)
		ds.list = ds.list[:maxDownloads] // of those over the limit the latest is kept, to be told
	}
	ds.list = append(ds.list, d)
	d.id = "d" + strconv.Itoa(len(ds.list))
	ds.changeLocked()
	ds.mu.Unlock()
	cause := t.network.Became(record.PlainURL(e.URL), d.id).cause
	if d.state == downloadRuns {
		l.sawDownload(l.hider().text("download "+d.name), cause)
	}
	c.mu.Lock()
	if d.state == downloadRuns {
		c.downloads[e.GUID] = d
	}
	opener := c.tabs[t.opener]
	c.mu.Unlock()
	t.change(func(s *tabState) { s.downloads++ })
	if opener != nil && opener.lane == l {
		opener.change(func(s *tabState) { s.downloads++ }) // by a link that opens a tab
	}
}

func (c *chrome) cancelDownload(guid string, context cdp.BrowserContextID) {
	c.h.wg.Go(func() {
		devtools.Start(c.h.life, c.Root, cdpbrowser.CancelDownload, cdpbrowser.CancelDownloadParams{GUID: guid, BrowserContextID: context})
	})
}

// downloadMoved takes the browser's event of a download's progress. It runs on
// the reading goroutine.
func (c *chrome) downloadMoved(params []byte) {
	var e struct {
		GUID     string  `json:"guid"`
		Received float64 `json:"receivedBytes"`
		Total    float64 `json:"totalBytes"`
		State    string  `json:"state"`
	}
	if !decodeEvent(params, &e) {
		return
	}
	c.mu.Lock()
	d := c.downloads[e.GUID]
	if d != nil && e.State != "inProgress" {
		delete(c.downloads, e.GUID)
	}
	c.mu.Unlock()
	if d == nil {
		return
	}
	ds, most := &d.lane.downloads, float64(c.h.o.MaxDownloadBytes)
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.bytes += int64(e.Received) - d.bytes
	d.bytes = int64(e.Received)
	switch {
	case d.state != downloadRuns:
	case max(e.Received, e.Total) > most || float64(ds.bytes) > laneFiles*most:
		d.state = downloadTooLarge
		ds.bytes, d.bytes = ds.bytes-d.bytes, 0
		ds.changeLocked()
		c.cancelDownload(e.GUID, d.context)
	case e.State == "completed":
		c.h.wg.Go(d.finish)
	case e.State == "canceled":
		d.state = downloadFailed
		ds.bytes, d.bytes = ds.bytes-d.bytes, 0
		ds.changeLocked()
	}
}

// finish examines a complete download and puts it where it stays.
func (d *download) finish() {
	path, sum, err := d.keep()
	state := downloadComplete
	if err != nil {
		state = downloadFailed
		d.chrome.h.log.Info("browser.download.failed", "download", d.id, "error", err)
	}
	ds := &d.lane.downloads
	ds.mu.Lock()
	d.state, d.path, d.sum = state, path, sum
	ds.changeLocked()
	ds.mu.Unlock()
}

func (d *download) keep() (path, sum string, err error) {
	scratch, err := os.OpenRoot(d.chrome.Program.Scratch())
	if err != nil {
		return "", "", err
	}
	defer scratch.Close()
	from := filepath.Join(incoming(d.context), filepath.Base(d.guid))
	in, err := openPlain(scratch, from)
	if err != nil {
		return "", "", err
	}
	defer in.Close()
	ds := &d.lane.downloads
	if d.chrome.h.o.DownloadDir == "" {
		h := sha256.New()
		if err := d.read(h, io.Discard, in); err != nil {
			return "", "", err
		}
		ds.mu.Lock()
		defer ds.mu.Unlock()
		to, err := freeName(scratch, incoming(d.context), d.name)
		if err == nil {
			err = scratch.Rename(from, to)
		}
		return filepath.Join(scratch.Name(), to), hex.EncodeToString(h.Sum(nil)), err
	}
	kept, err := openKept(d.chrome.h.o.DownloadDir, d.lane.id)
	if err != nil {
		return "", "", err
	}
	defer kept.Close()
	part := partPrefix + filepath.Base(d.guid)
	out, err := kept.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", "", err
	}
	h := sha256.New()
	err = errors.Join(d.read(h, out, in), out.Close())
	var to string
	if err == nil {
		ds.mu.Lock()
		if to, err = freeName(kept, ".", d.name); err == nil {
			err = kept.Rename(part, to)
		}
		ds.mu.Unlock()
	}
	if err != nil {
		kept.Remove(part)
		return "", "", err
	}
	scratch.Remove(from)
	return filepath.Join(kept.Name(), to), hex.EncodeToString(h.Sum(nil)), nil
}

// read passes the file on and hashes it; it must be as long as Chrome said.
func (d *download) read(h hash.Hash, out io.Writer, in io.Reader) error {
	ds := &d.lane.downloads
	ds.mu.Lock()
	want := d.bytes
	ds.mu.Unlock()
	n, err := io.Copy(io.MultiWriter(h, out), io.LimitReader(in, want+1))
	if err == nil && n != want {
		err = errNotWhole
	}
	return err
}

var errNotWhole = errors.New("the file is not as long as what was received")

// partPrefix begins the names of files that are being copied into the owner's
// folder; those of a node that was killed are removed when the next one first
// starts a browser.
const partPrefix = ".handrail-part-"

// openKept opens the lane's folder below the owner's.
func openKept(dir string, id capabilities.LaneID) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	owner, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer owner.Close()
	name := laneFolder(id)
	if err := owner.Mkdir(name, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	return owner.OpenRoot(name)
}

// sweepParts removes what a killed node was copying.
func sweepParts(dir string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close()
	lanes, _ := os.ReadDir(dir)
	for _, lane := range lanes {
		if !lane.IsDir() {
			continue
		}
		files, _ := os.ReadDir(filepath.Join(dir, lane.Name()))
		for _, f := range files {
			if strings.HasPrefix(f.Name(), partPrefix) {
				root.Remove(filepath.Join(lane.Name(), f.Name()))
			}
		}
	}
}

// becameDownload reports whether a navigation that brought no document makes a
// download: then the server answered, and Chrome says so a moment later.
func (c *call) becameDownload(before tabState) bool {
	begun := func(s tabState) bool { return s.downloads != before.downloads }
	if now, _ := c.tab.look(); begun(now) {
		return true
	}
	return c.tab.network.AnsweredWithFile() && c.tab.awaitFor(c.ctx, boundToCome, begun)
}

// tellDownloads returns the downloads whose state no call has reported yet. For one
// that only began it waits, bounded, for its end.
func (l *lane) tellDownloads(ctx context.Context) []downloaded {
	ds := &l.downloads
	ds.mu.Lock()
	defer ds.mu.Unlock()
	var bound <-chan time.Time
	for waiting := true; waiting; {
		waiting = false
		for _, d := range ds.list {
			waiting = waiting || d.state == downloadRuns && d.told == ""
		}
		if !waiting {
			break
		}
		if bound == nil {
			timer := time.NewTimer(downloadWait)
			defer timer.Stop()
			bound = timer.C
		}
		changed := ds.changed
		ds.mu.Unlock()
		select {
		case <-changed:
		case <-bound:
			waiting = false
		case <-ctx.Done():
			waiting = false
		}
		ds.mu.Lock()
	}
	return ds.untoldLocked()
}

// untoldLocked returns the downloads whose state no call has reported yet, and takes them
// for reported.
func (ds *downloads) untoldLocked() (list []downloaded) {
	for _, d := range ds.list {
		if d.told == d.state || len(list) == 64 {
			continue
		}
		d.told = d.state
		list = append(list, downloaded{d.id, d.name, d.path, d.bytes, d.sum, d.state})
	}
	return list
}

// lostDownloads ends what a Chrome that went did not finish, and forgets the
// files that went with it.
func (l *lane) lostDownloads(c *chrome) {
	ds := &l.downloads
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for _, d := range ds.list {
		if d.chrome != c || d.state == downloadElsewhere {
			continue
		}
		if d.state == downloadRuns {
			d.state = downloadFailed
		}
		if c.h.o.DownloadDir == "" {
			ds.bytes, d.bytes, d.path = ds.bytes-d.bytes, 0, ""
		}
	}
	ds.changeLocked()
}

// dropDownloads deletes what a context's pages downloaded, once it is disposed of.
func (l *lane) dropDownloads(c *chrome, id cdp.BrowserContextID, disposed *devtools.Pending) {
	l.lostDownloads(c)
	if c.Attached {
		return
	}
	c.h.wg.Go(func() {
		ctx, cancel := context.WithTimeout(c.h.life, 5*time.Second)
		defer cancel()
		disposed.Wait(ctx)
		if root, err := os.OpenRoot(c.Program.Scratch()); err == nil {
			root.RemoveAll(incoming(id))
			root.Close()
		}
	})
}

// downloadBytes is the tool network-requests asked for a download's bytes.
func (c *call) downloadBytes(id, keepAs string) (capabilities.Output, error) {
	if err := c.keeps(keepAs); err != nil {
		return capabilities.Output{}, err
	}
	ds := &c.lane.downloads
	ds.mu.Lock()
	var d *download
	for _, one := range ds.list {
		if one.id == id {
			d = one
		}
	}
	var was download
	if d != nil {
		was = *d
	}
	ds.mu.Unlock()
	switch {
	case d == nil:
		return capabilities.Output{},
			capabilities.Errorf(capabilities.CodeNotFound, "This conversation has no download %s.", capabilities.Clip(id, 40)).
				WithHint("Use the id of a download that an action reported.")
	case was.state == downloadRuns:
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeConflict, "The download %s has not finished yet.", id).
			WithHint("Try again in a moment.")
	case was.state != downloadComplete:
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeExecutionFailed, "The download %s did not complete (%s).", id,
			was.state).WithHint("Start it again.")
	case was.path == "":
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeResultExpired, "The file went with the browser that downloaded it.").
			WithHint("Download it again.")
	}
	root, err := os.OpenRoot(filepath.Dir(was.path))
	if err != nil {
		return capabilities.Output{}, err
	}
	defer root.Close()
	f, err := openPlain(root, filepath.Base(was.path))
	if err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeResultExpired, err, "The file is not there any more.").
			WithHint("Download it again.")
	}
	defer f.Close()
	changed := capabilities.Errorf(capabilities.CodeConflict, "The file on the node was changed since it was downloaded.").
		WithHint("Download it again.")
	out := capabilities.Output{Result: requestList{Requests: []record.Entry{}}, Untrusted: true}
	var head [512]byte
	n, err := io.ReadFull(f, head[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return capabilities.Output{}, err
	}
	mime, _, _ := strings.Cut(http.DetectContentType(head[:n]), ";")
	whole := io.LimitReader(io.MultiReader(bytes.NewReader(head[:n]), f), was.bytes+1)
	if keepAs == "" && (was.bytes <= capabilities.InlineBytes || c.inv.Spool == nil) {
		if was.bytes > maxBlob {
			return capabilities.Output{},
				capabilities.Errorf(capabilities.CodeResultTooLarge, "The file has %d bytes; at most %d are given here.", was.bytes, maxBlob).
					WithHint("Its path on the node is in the result of the action that downloaded it.")
		}
		data, err := io.ReadAll(whole)
		if err != nil {
			return capabilities.Output{}, err
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != was.sum {
			return capabilities.Output{}, changed
		}
		out.Blobs = []capabilities.Blob{{Field: "bytesBase64", MIME: mime, Bytes: data}}
	}
	if c.inv.Spool == nil {
		return out, nil
	}
	if len(out.Blobs) > 0 {
		whole = bytes.NewReader(out.Blobs[0].Bytes)
	}
	if err := c.keep(&out, cmp.Or(keepAs, was.name), mime, whole); err != nil {
		return capabilities.Output{}, err
	}
	if string(out.Artifacts[0].ID) != was.sum {
		return capabilities.Output{}, changed // and what was committed goes with the call
	}
	return out, nil
}

// keeps refuses a name under which the call cannot keep a file; "": it is asked for none.
func (c *call) keeps(name string) error {
	switch {
	case name == "":
		return nil
	case name != safeName(name):
		return capabilities.Errorf(capabilities.CodeInvalidArguments, "keep_as: want a plain file name of at most 150 bytes, such as %q.",
			safeName(name))
	case c.inv.Spool == nil:
		return capabilities.Errorf(capabilities.CodeNotSupported, "This node keeps no files of calls.").
			WithHint("Leave keep_as out: the answer brings the bytes.")
	}
	return nil
}

// keep leaves a file as an artifact of the call, apart from the answer.
func (c *call) keep(out *capabilities.Output, name, mime string, from io.Reader) error {
	w, err := c.inv.CreateArtifact(capabilities.ArtifactSpec{Name: name, MIME: mime})
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := io.Copy(w, from); err != nil {
		return err
	}
	kept, err := w.Commit()
	if err == nil {
		out.Artifacts = append(out.Artifacts, kept)
	}
	return err
}
