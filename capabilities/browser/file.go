package browser

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/target"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// No document of the scheme file is ever shown. Where the owner allows that scheme, a
// lane's own proxy serves the files of the upload roots, each root at a host of its own
// below egress.FilesDomain: so every request of every frame, link and tab is one that the
// owner's rules are asked about, whoever made it. A host's name is made up for each lane
// and root and cannot be guessed, so that no page of the web and no other lane can name a
// file, and the gateway's policy is asked about the first of a root. Each document is an
// origin of its own, as Chrome has it for files: none reads another.

// folders are the upload roots as one lane's proxy serves them.
type folders struct {
	l     *lane
	hosts []string // by root

	mu    sync.Mutex
	asked string // the file that the running call named, which the person may have been asked about
}

func (l *lane) newFolders() *folders {
	f := &folders{l: l}
	for range l.h.o.UploadRoots {
		var name [16]byte
		rand.Read(name[:])
		f.hosts = append(f.hosts, hex.EncodeToString(name[:])+"."+egress.FilesDomain)
	}
	return f
}

// allowSchemes reads Options.AllowSchemes.
func (h *Handler) allowSchemes() error {
	for _, scheme := range h.o.AllowSchemes {
		switch {
		case scheme != "file":
			return errors.New("browser: scheme " + scheme + ": only file can be allowed")
		case len(h.o.UploadRoots) == 0:
			return errors.New("browser: the scheme file needs an upload root")
		}
		h.rules.File = func(raw string) error {
			_, _, err := h.findFile(raw)
			return err
		}
	}
	return nil
}

// findFile returns the root and the name below it of a file that the caller wants opened.
func (h *Handler) findFile(raw string) (root int, name string, err error) {
	path, _ := address.File(raw, runtime.GOOS)
	err = errOutside
	for i, dir := range h.o.UploadRoots {
		below, ok := below(dir, filepath.FromSlash(path))
		if path == "" || !ok {
			continue
		}
		if err = h.mayRead(i, below, true); err != nil {
			return 0, "", err
		}
		var f *os.File
		if f, err = openRegular(dir, below); err == nil {
			f.Close()
			return i, below, nil
		}
	}
	return 0,
		"", capabilities.Wrap(capabilities.CodeURLBlocked, err, "That file is not in the folders that the node's owner allows, or is none.").
			WithHint("Give the full path of a file below an allowed folder; folders are not listed.")
}

// mayRead is what the owner says about a file now. asked: a call names it, so the person
// was asked about it where the owner wants that.
func (h *Handler) mayRead(root int, name string, asked bool) error {
	if h.o.CheckFile == nil {
		return nil
	}
	path, err := filepath.Abs(filepath.Join(h.o.UploadRoots[root], name))
	if err != nil {
		return err
	}
	if err := h.o.CheckFile(path); err != nil && (!asked || err.Code != capabilities.CodeConsentUnavailable) {
		return err
	}
	return nil
}

// served returns the address at which the lane opens what the caller wants opened, and what
// is to be called when the call is over.
func (c *call) served(raw string) (shown string, done func(), err error) {
	if _, isFile := address.File(raw, runtime.GOOS); !isFile {
		return raw, func() {}, nil
	}
	c.lane.mu.Lock()
	f := c.lane.files
	c.lane.mu.Unlock()
	if f == nil {
		return "", nil, errNoFiles
	}
	root, name, err := c.h.findFile(raw)
	if err != nil {
		return "", nil, err
	}
	f.mention(filepath.Join(c.h.o.UploadRoots[root], name))
	u := url.URL{Scheme: "http", Host: f.hosts[root], Path: "/" + filepath.ToSlash(name)}
	rest := ""
	if end := strings.IndexAny(raw, "?#"); end >= 0 {
		rest = strings.TrimRight(raw[end:], "\t\n\r ")
	}
	return u.String() + rest, func() { f.mention("") }, nil
}

var errNoFiles = capabilities.Errorf(capabilities.CodeURLBlocked,
	"A person's own Chrome opens no files for calls: it reads them past the owner's rules.").
	WithHint("Close this browser and launch without attach.")

func (f *folders) mention(path string) {
	f.mu.Lock()
	f.asked = path
	f.mu.Unlock()
}

// opaque is a document of an origin of its own, which may do all else.
const opaque = "sandbox allow-scripts allow-forms allow-modals allow-popups allow-popups-to-escape-sandbox allow-downloads " +
	"allow-pointer-lock allow-top-navigation"

// serve answers one request for a file. The error says why there is no answer; nothing is
// written then.
func (f *folders) serve(w http.ResponseWriter, r *http.Request) error {
	h := f.l.h
	for i, host := range f.hosts {
		if r.URL.Host != host {
			continue
		}
		escaped := strings.ToLower(r.URL.EscapedPath())
		name := filepath.FromSlash(strings.TrimPrefix(r.URL.Path, "/"))
		if r.Method != http.MethodGet && r.Method != http.MethodHead || strings.Contains(escaped, "%2f") || strings.Contains(escaped, "%5c") ||
			!filepath.IsLocal(name) {
			break
		}
		f.mu.Lock()
		asked := f.asked == filepath.Join(h.o.UploadRoots[i], name)
		f.mu.Unlock()
		if err := h.mayRead(i, name, asked); err != nil {
			return err
		}
		file, err := openRegular(h.o.UploadRoots[i], name)
		if err != nil {
			return errNoSuchFile
		}
		defer file.Close()
		f.l.saw(observedUpload, filepath.Base(name))
		header := w.Header()
		kind := mime.TypeByExtension(filepath.Ext(name))
		if kind != "" {
			header.Set("Content-Type", kind)
		}
		if kind != "application/pdf" { // Chrome shows none in a sandbox, and it holds no script of a page
			header.Set("Content-Security-Policy", opaque)
		}
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer") // the host's name is nobody else's
		header.Set("Cache-Control", "no-store")      // the owner is asked each time
		info, err := file.Stat()
		if err != nil {
			return errNoSuchFile
		}
		http.ServeContent(w, r, name, info.ModTime(), file)
		return nil
	}
	return errNoSuchFile
}

var errNoSuchFile = capabilities.Errorf(capabilities.CodeURLBlocked,
	"That file is not in the folders that the node's owner allows, or is none.").
	WithHint("Give navigate the file: address of a file below an allowed folder; folders are not listed.")

// fileAddress returns a served file's address as callers name it, and any other as it is.
func (l *lane) fileAddress(shown string) string {
	l.mu.Lock()
	f := l.files
	l.mu.Unlock()
	if f == nil || !strings.Contains(shown, egress.FilesDomain) {
		return shown
	}
	for i, host := range f.hosts {
		rest, ok := strings.CutPrefix(shown, "http://"+host+"/")
		root, err := filepath.Abs(l.h.o.UploadRoots[i])
		if !ok || err != nil {
			continue
		}
		root = filepath.ToSlash(root)
		if !strings.HasPrefix(root, "/") {
			root = "/" + root
		}
		u := url.URL{Scheme: "file", Path: strings.TrimSuffix(root, "/") + "/"}
		return u.String() + rest
	}
	return shown
}

// closeUnread ends a tab that shows what it must not, or has a frame that does: nobody
// reads it.
func (t *laneTab) closeUnread(why error) {
	t.end(why)
	t.lane.remove(t)
	t.chrome.h.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), settleWait)
		defer cancel()
		devtools.Do(ctx, t.chrome.Root, target.CloseTarget, target.CloseTargetParams{TargetID: t.id})
	})
}

// isFileDocument reports whether Chrome shows a file by itself, which it must not.
func isFileDocument(shown string) bool {
	return len(shown) >= 5 && strings.EqualFold(shown[:5], "file:")
}

var errFileShown = capabilities.Errorf(capabilities.CodeURLBlocked, "The tab had come to show a file by itself, and was closed unread.").
	WithHint("Open a file with tool.browser.navigate and its file: address, where the node's owner allows that.")
