package browser

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"

	"github.com/handrail-dev/handrail/capabilities"
)

// Where the owner allows the scheme file, pages get the files of the upload roots
// and no others. Chrome never opens one itself: every request of a page, its
// frames and what they load is answered from here, with what os.Root opened, so
// that no link and no frame leads out. Web pages can not ask for files at all.

// maxFile bounds one file that a page gets.
const maxFile = 32 << 20

// allowSchemes reads Options.AllowSchemes.
func (h *Handler) allowSchemes() error {
	for _, scheme := range h.o.AllowSchemes {
		switch {
		case scheme != "file":
			return errors.New("browser: scheme " + scheme + ": only file can be allowed")
		case len(h.o.UploadRoots) == 0:
			return errors.New("browser: the scheme file needs an upload root")
		}
		h.rules.File = h.checkFile
	}
	return nil
}

// checkFile decides on a file address that the caller wants opened.
func (h *Handler) checkFile(u *url.URL) error {
	path, err := filePath(u)
	if err == nil {
		f, openErr := h.openUpload(path)
		if err = openErr; err == nil {
			f.Close()
			return nil
		}
	}
	return capabilities.Wrap(capabilities.CodeURLBlocked, err, "That file is not in the folders that the node's owner allows, or is none.").
		WithHint("Give the full path of a file below an allowed folder; folders are not listed.")
}

var drive = regexp.MustCompile(`^/[A-Za-z]:/`)

// filePath gives the path that a file address names on this machine.
func filePath(u *url.URL) (string, error) {
	if u.Host != "" && !strings.EqualFold(u.Host, "localhost") || u.Opaque != "" {
		return "", errOutside
	}
	path := u.Path
	if runtime.GOOS == "windows" && drive.MatchString(path) {
		path = path[1:]
	}
	if !filepath.IsAbs(filepath.FromSlash(path)) {
		return "", errOutside
	}
	return path, nil
}

// guardFiles has Chrome ask us for the tab's files.
func (t *tab) guardFiles(ctx context.Context) []*pending {
	if len(t.chrome.h.o.AllowSchemes) == 0 {
		return nil
	}
	return []*pending{start(ctx, t.s, fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{URLPattern: "file:*"}}}).pending}
}

// serveFile answers a request for a file, off the reading goroutine.
func (t *tab) serveFile(params []byte) {
	var e struct {
		RequestID fetch.RequestID `json:"requestId"`
		Request   struct {
			URL    string `json:"url"`
			Method string `json:"method"`
		} `json:"request"`
	}
	if !decodeEvent(params, &e) {
		return
	}
	t.chrome.h.wg.Go(func() {
		data, kind, err := t.chrome.h.readFile(e.Request.URL, e.Request.Method)
		if err != nil {
			start(t.life, t.s, fetch.FailRequest, fetch.FailRequestParams{RequestID: e.RequestID, ErrorReason: network.ErrorReasonAccessDenied})
			return
		}
		if u, err := url.Parse(e.Request.URL); err == nil {
			t.lane.saw(observedUpload, filepath.Base(u.Path))
		}
		start(t.life, t.s, fetch.FulfillRequest, fetch.FulfillRequestParams{
			RequestID: e.RequestID, ResponseCode: 200, Body: data,
			ResponseHeaders: []*fetch.HeaderEntry{{Name: "Content-Type", Value: kind}},
		})
	})
}

func (h *Handler) readFile(address, method string) (data []byte, kind string, err error) {
	u, err := url.Parse(address)
	if err != nil || !strings.EqualFold(u.Scheme, "file") || method != http.MethodGet {
		return nil, "", errOutside
	}
	path, err := filePath(u)
	if err != nil {
		return nil, "", err
	}
	f, err := h.openUpload(path)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	data, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = errors.New("the file is too large for a page")
	}
	if err != nil {
		return nil, "", err
	}
	if kind = mime.TypeByExtension(filepath.Ext(path)); kind == "" {
		kind = http.DetectContentType(data)
	}
	return data, kind, nil
}
