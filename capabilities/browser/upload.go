package browser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// observedUpload is the capability key of a file that was handed to a page.
const observedUpload = "data.read.workspace"

// Bounds of the files of one call, and of the copies that a lane holds.
const (
	maxUpload  = 2 << 30
	maxUploads = 8 << 30
)

// uploadFile carries out tyrum.browser.upload-file. Only regular files below the
// owner's roots are taken, opened once and copied to where Chrome may read them:
// what was checked is what the page gets, whoever changes the original meanwhile,
// and Chrome itself needs no right to it.
func uploadFile(c *call) (capabilities.Output, error) {
	var args struct {
		Ref      string   `json:"ref"`
		Selector string   `json:"selector"`
		Paths    []string `json:"paths"`
	}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	open, err := c.h.openUploads(args.Paths)
	defer func() {
		for _, f := range open {
			f.Close()
		}
	}()
	if err != nil {
		return capabilities.Output{}, err
	}
	handed := func() {
		for _, f := range open {
			c.inv.Observe(observedUpload, filepath.Base(f.Name()))
		}
	}
	params := dom.SetFileInputFilesParams{}
	var s *devtools.Session
	if args.Ref == "" && args.Selector == "" {
		now, _ := c.tab.look()
		if now.chooser == nil {
			return capabilities.Output{}, capabilities.Errorf(capabilities.CodeExecutionFailed, "The page has no file chooser open.").
				WithHint("Give the ref or selector of the file input, or click first what opens the chooser.")
		}
		if len(open) > 1 && !now.chooser.multiple {
			return capabilities.Output{}, errOneFile
		}
		params.BackendNodeID, s = now.chooser.node, now.chooser.s
	} else {
		w, at, err := c.aim(aimArgs{Ref: args.Ref, Selector: args.Selector, Kind: "upload", Count: len(open)})
		if err != nil {
			return capabilities.Output{}, err
		}
		if at.Drop {
			files, err := c.stage(open)
			if err != nil {
				return capabilities.Output{}, err
			}
			c.shape = func(acted) any { return uploads{len(open)} }
			v, err := c.dropOn(w, at, &input.DragData{Items: []*input.DragDataItem{}, Files: files}, handed)
			if err != nil {
				return capabilities.Output{}, err
			}
			return capabilities.Output{Result: uploads{len(open)}, Effect: v.effect, Evidence: v.words()}, nil
		}
		got, err := devtools.Do(c.ctx, w.s, runtime.Evaluate,
			runtime.EvaluateParams{Expression: inpage.UploadTo.Call(), ContextID: w.id, Silent: ptr(true)})
		if err != nil {
			return capabilities.Output{}, err
		}
		if got.Result == nil || got.Result.ObjectID == "" {
			return capabilities.Output{}, capabilities.Errorf(capabilities.CodeElementNotFound, "The file input is gone.")
		}
		defer devtools.Start(c.whole, w.s, runtime.ReleaseObject, runtime.ReleaseObjectParams{ObjectID: got.Result.ObjectID})
		params.ObjectID, s = got.Result.ObjectID, w.s
	}
	if params.Files, err = c.stage(open); err != nil {
		return capabilities.Output{}, err
	}
	c.shape = func(acted) any { return uploads{len(open)} }
	ctx := c.input()
	if _, err := devtools.Do(ctx, s, dom.SetFileInputFiles, params); err != nil {
		var refused *devtools.ProtocolError
		if errors.As(err, &refused) && c.stopped() == nil {
			return capabilities.Output{}, capabilities.Wrap(capabilities.CodeElementNotFound, err,
				"The page's file input is gone, or takes no files.")
		}
		if c.stopped() == nil {
			return capabilities.Output{}, err
		}
	}
	handed()
	c.tab.change(func(s *tabState) { s.chooser = nil })
	v, err := c.uploaded(s, params, open)
	if err != nil {
		return capabilities.Output{}, err
	}
	if v, err = c.follow(v); err != nil && c.stopped() == nil {
		return capabilities.Output{}, err
	}
	return capabilities.Output{Result: uploads{len(open)}, Effect: v.effect, Evidence: v.words()}, nil
}

// dropOn drops something of another program where the page takes it: files as a person's
// file manager does, or data. Chrome would open what nobody takes: so that is carried away
// again. It calls handed right before the drop.
func (c *call) dropOn(w world, at aimed, data *input.DragData, handed func()) (verdict, error) {
	const copying = 1
	data.DragOperationsMask = copying
	ctx := c.input()
	send := func(kind input.DispatchDragEventType) *devtools.Pending {
		return devtools.Start(ctx, c.tab.s, input.DispatchDragEvent,
			input.DispatchDragEventParams{Type: kind, X: at.X, Y: at.Y, Data: data}).Pending
	}
	for _, kind := range []input.DispatchDragEventType{input.DispatchDragEventTypeDragEnter, input.DispatchDragEventTypeDragOver} {
		if _, err := send(kind).Wait(ctx); err != nil {
			ctx = c.whole
			send(input.DispatchDragEventTypeDragCancel)
			return verdict{}, err
		}
	}
	if err := w.put(ctx, inpage.TakesDrop, struct{}{}).get(ctx, nil); err != nil {
		send(input.DispatchDragEventTypeDragCancel).Wait(ctx)
		return verdict{}, err
	}
	handed()
	v, _, err := c.conclude(w, []*devtools.Pending{send(input.DispatchDragEventTypeDrop)})
	return v, err
}

type uploads struct {
	Uploaded int `json:"uploaded"`
}

var errOneFile = capabilities.Errorf(capabilities.CodeInvalidArguments, "The file input takes one file.").WithHint("Give one path.")

// uploaded compares what the input holds with what it was given. A page that takes
// the files at once often empties its input.
func (c *call) uploaded(s *devtools.Session, params dom.SetFileInputFilesParams, files []*os.File) (verdict, error) {
	taken := of(filesTaken)
	if c.stopped() != nil {
		now, _ := c.tab.look()
		return opened(now), nil
	}
	id := params.ObjectID
	if id == "" {
		node, err := devtools.Do(c.ctx, s, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: params.BackendNodeID})
		if err != nil || node.Object == nil {
			return taken, c.ctx.Err()
		}
		id = node.Object.ObjectID
		defer devtools.Start(c.whole, s, runtime.ReleaseObject, runtime.ReleaseObjectParams{ObjectID: id})
	}
	held, err := devtools.Do(c.ctx, s, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
		FunctionDeclaration: "function() { return [...this.files].map(f => f.size).join() }", ObjectID: id, ReturnByValue: ptr(true),
		Silent: ptr(true),
	})
	if err != nil || held.Result == nil {
		if c.stopped() != nil || contextLost(err) {
			return taken, nil
		}
		return taken, c.ctx.Err()
	}
	var sizes []string
	for _, f := range files {
		if info, err := f.Stat(); err == nil {
			sizes = append(sizes, strconv.FormatInt(info.Size(), 10))
		}
	}
	if string(held.Result.Value) == strconv.Quote(strings.Join(sizes, ",")) {
		return evidence{cause: filesHeld, number: len(files)}.alone(), nil
	}
	return taken, nil
}

// openUploads opens every file, or none.
func (h *Handler) openUploads(paths []string) (open []*os.File, err error) {
	if len(h.o.UploadRoots) == 0 {
		return nil, capabilities.Errorf(capabilities.CodeDeniedByNode, "This node allows no uploads.").
			WithAction(capabilities.Action{Key: capabilities.ActionAllowUploads}, "The node's owner can allow a folder.")
	}
	var size int64
	for i, path := range paths {
		f, err := h.openUpload(path)
		if err != nil {
			return open, uploadError(i, path, err)
		}
		open = append(open, f)
		if info, err := f.Stat(); err == nil {
			size += info.Size()
		}
	}
	if size > maxUpload {
		return open, capabilities.Errorf(capabilities.CodeInvalidArguments, "The files are larger than %d MiB together.", maxUpload>>20)
	}
	return open, nil
}

var errOutside = errors.New("outside of the allowed folders")
var errIrregular = errors.New("not a regular file")

// openUpload opens a regular file below a root. A link may lead to another place
// below the same root, never out of it.
func (h *Handler) openUpload(path string) (*os.File, error) {
	reason := errOutside
	for _, dir := range h.o.UploadRoots {
		name, ok := below(dir, filepath.FromSlash(path))
		if !ok {
			continue
		}
		f, err := openRegular(dir, name)
		if err == nil {
			return f, nil
		}
		reason = err
	}
	return nil, reason
}

// below returns a path as it is named below dir; dir may be a link itself.
func below(dir, path string) (name string, ok bool) {
	if !filepath.IsAbs(path) {
		return path, filepath.IsLocal(path)
	}
	real, _ := filepath.EvalSymlinks(dir)
	for _, base := range []string{dir, real} {
		base, err := filepath.Abs(base)
		if err != nil {
			continue
		}
		if name, err = filepath.Rel(base, filepath.Clean(path)); err == nil && filepath.IsLocal(name) {
			return name, true
		}
	}
	return "", false
}

func openRegular(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// Looked at before it is opened: opening a pipe would wait, a device may act.
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errIrregular
	}
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, cmp.Or(err, errIrregular)
	}
	return f, nil
}

func uploadError(i int, path string, err error) error {
	name := strconv.Quote(capabilities.Clip(path, 200))
	switch {
	case errors.Is(err, errIrregular):
		return capabilities.Errorf(capabilities.CodeInvalidArguments, "paths[%d]: %s is not a regular file.", i, name).
			WithHint("Give the path of a file.")
	case errors.Is(err, os.ErrNotExist):
		return capabilities.Errorf(capabilities.CodeNotFound, "paths[%d]: there is no file %s in the allowed folders.", i, name).
			WithHint("Give a path relative to an allowed folder of the node, or a full one below it.")
	case errors.Is(err, os.ErrPermission):
		return capabilities.Wrap(capabilities.CodeDeniedByNode, err, fmt.Sprintf("paths[%d]: the node may not read %s.", i, name))
	}
	// Also what os.Root says of a link that leads out.
	return capabilities.Wrap(capabilities.CodeDeniedByNode, err,
		fmt.Sprintf("paths[%d]: %s is outside of the folders that the node's owner allows for uploads.", i, name)).
		WithAction(capabilities.Action{Key: capabilities.ActionAllowUploads}, "The node's owner can allow a folder.")
}

// stagedDir is the folder below Chrome's scratch folder that holds the copies, one
// folder for each browser context.
const stagedDir = "uploads"

// stage copies the files to where Chrome may read them; they go with the lane's
// context. The scratch folder belongs to the account that Chrome runs under, which
// is not trusted: all paths are taken below it by os.Root.
func (c *call) stage(files []*os.File) (paths []string, err error) {
	l := c.lane
	l.mu.Lock()
	chrome, id := l.chrome, l.context
	l.uploads++
	batch := l.uploads
	for _, f := range files {
		if info, err := f.Stat(); err == nil {
			l.uploaded += info.Size()
		}
	}
	full := l.uploaded > maxUploads
	l.mu.Unlock()
	if chrome == nil {
		return nil, errBrowserGone
	}
	if full {
		return nil, capabilities.Errorf(capabilities.CodeOverloaded, "This conversation has uploaded %d MiB already.", maxUploads>>20).
			WithHint("Close the conversation's browser with tool.browser.close and begin anew.")
	}
	if chrome.Attached {
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "Files are not handed to pages of a person's own browser.").
			WithHint("Use the isolated browser: launch without attach.")
	}
	scratch := chrome.Program.Scratch()
	root, err := os.OpenRoot(scratch)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for i, f := range files {
		dir := filepath.Join(stagedDir, string(id), strconv.Itoa(batch), strconv.Itoa(i))
		if err := mkdirAll(root, dir); err != nil {
			return nil, err
		}
		name := filepath.Join(dir, filepath.Base(f.Name()))
		if err := copyTo(c.ctx, root, name, f); err != nil {
			return nil, err
		}
		paths = append(paths, filepath.Join(scratch, name))
	}
	return paths, nil
}

// mkdirAll makes folders that Chrome's account may pass, whatever our umask.
func mkdirAll(root *os.Root, dir string) error {
	made := ""
	for part := range strings.SplitSeq(filepath.ToSlash(dir), "/") {
		made = filepath.Join(made, part)
		err := root.Mkdir(made, 0o711)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err == nil {
			err = root.Chmod(made, 0o711)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyTo(ctx context.Context, root *os.Root, name string, from *os.File) error {
	to, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, &untilDone{ctx, from})
	if err == nil {
		err = to.Chmod(0o444)
	}
	return errors.Join(err, to.Close())
}

// untilDone reads until ctx ends.
type untilDone struct {
	//lint:ignore containedctx a reader has no other way to be cut short
	ctx context.Context
	r   io.Reader
}

func (u *untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// unstage deletes the copies of a context.
func (c *chrome) unstage(id cdp.BrowserContextID) {
	root, err := os.OpenRoot(c.Program.Scratch())
	if err != nil {
		return // gone with Chrome
	}
	defer root.Close()
	if err := root.RemoveAll(filepath.Join(stagedDir, string(id))); err != nil {
		c.h.log.Warn("browser.uploads.left", "error", err)
	}
}
