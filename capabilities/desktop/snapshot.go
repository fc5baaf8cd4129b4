package desktop

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
	"github.com/handrail-dev/handrail/platform"
)

// Bounds of a snapshot; see the catalog.
const (
	maxWindows   = 32
	maxChildren  = 128
	maxTreeDepth = 30 // of two levels of JSON each, of which 64 are read anywhere
	// maxTreeBytes keeps a tree of long names and many states below the result limit.
	maxTreeBytes = 3 << 19
)

type snapshotArgs struct {
	Outline  bool   `json:"outline"`
	Tree     bool   `json:"include_tree"`
	Image    bool   `json:"include_image"`
	Window   string `json:"window"`
	App      string `json:"app"`
	Since    string `json:"diff_since"`
	MaxNodes int    `json:"max_nodes"`
	MaxText  int    `json:"max_text_chars"`
}

type snapshotResult struct {
	Backend   backend      `json:"backend"`
	Windows   []windowInfo `json:"windows"`
	Tree      *treeResult  `json:"tree,omitempty"`
	Outline   *string      `json:"outline,omitempty"`
	ID        string       `json:"snapshot_id,omitempty"`
	DiffOf    string       `json:"diff_of,omitempty"`
	Hung      []string     `json:"hung,omitempty"`
	Truncated bool         `json:"truncated,omitempty"`
	Timestamp time.Time    `json:"timestamp"`
	*imageResult
}

// imageResult is the image beside a snapshot.
type imageResult struct {
	FrameID string     `json:"frame_id,omitempty"`
	Frame   *frameInfo `json:"frame,omitempty"`
	MIME    string     `json:"mime"`
	Width   int        `json:"width"`
	Height  int        `json:"height"`
}

type backend struct {
	Mode        string      `json:"mode"`
	Permissions permissions `json:"permissions"`
}

type permissions struct {
	Accessibility bool `json:"accessibility"`
	Screen        bool `json:"screen_capture"`
	Input         bool `json:"input_control"`
}

type windowInfo struct {
	Ref       string `json:"ref"`
	Title     string `json:"title,omitempty"`
	App       string `json:"app,omitempty"`
	PID       int    `json:"pid,omitempty"`
	Bounds    rect   `json:"bounds"`
	Focused   bool   `json:"focused,omitempty"`
	Minimized bool   `json:"minimized,omitempty"`
	Z         int    `json:"z"`
}

type treeResult struct {
	Root *node `json:"root"`
}

// node is an element with those below it.
type node struct {
	Ref string `json:"ref,omitempty"`
	summary
	Children []*node `json:"children"`
}

// snapshot carries out tyrum.desktop.snapshot.
func (h *call) snapshot(ctx context.Context) (capabilities.Output, error) {
	args := snapshotArgs{MaxNodes: 2048, MaxText: 32768}
	if err := h.decode(&args); err != nil {
		return capabilities.Output{}, err
	}
	args.Outline = args.Outline || args.Since != ""
	var out capabilities.Output
	err := h.reading(ctx, func(d *platform.Desktop) (err error) {
		out, err = h.snap(ctx, d, args)
		return err
	})
	return out, err
}

func (h *call) snap(ctx context.Context, d *platform.Desktop, args snapshotArgs) (capabilities.Output, error) {
	result := snapshotResult{Backend: backendOf(d), Windows: []windowInfo{}, Timestamp: time.Now().UTC()}
	out := capabilities.Output{Untrusted: true}
	windows, err := h.list(ctx, d)
	if err != nil {
		return out, err
	}
	h.observe(keyScreen, "windows")
	wanted, err := h.wanted(ctx, windows, args)
	if err != nil {
		return out, err
	}
	for _, w := range wanted[:min(len(wanted), maxWindows)] {
		result.Windows = append(result.Windows, windowInfo{
			Ref: capabilities.Clip(w.Ref, 256), Title: capabilities.Clip(w.Title, 512), App: capabilities.Clip(w.App, 256), PID: max(w.PID, 0),
			Bounds: rectOf(w.Bounds), Focused: w.Focused, Minimized: w.Minimized, Z: max(w.Z, 0),
		})
	}
	result.Truncated = len(wanted) > maxWindows
	if (args.Outline || args.Tree) && d.Accessibility != nil {
		if err := h.readElements(ctx, d, args, windows, wanted, &result); err != nil {
			return out, err
		}
	}
	if args.Image {
		if out.Blobs, result.imageResult, err = h.snapImage(ctx, d, args, wanted); err != nil {
			return out, err
		}
	}
	out.Result = result
	return out, nil
}

func backendOf(d *platform.Desktop) backend {
	b := backend{Mode: "pixel", Permissions: permissions{d.Accessibility != nil, d.Screen != nil, d.Input != nil}}
	switch {
	case d.Accessibility != nil && d.Screen != nil:
		b.Mode = "hybrid"
	case d.Accessibility != nil:
		b.Mode = "a11y"
	}
	return b
}

// wanted are the windows that the call is about, topmost first: none of our own.
func (h *call) wanted(ctx context.Context, all []platform.Window, args snapshotArgs) ([]platform.Window, error) {
	if args.Window != "" {
		w, err := h.window(ctx, args.Window)
		return []platform.Window{w}, err
	}
	var list []platform.Window
	for _, w := range all {
		if !w.Own && (args.App == "" || sameApp(w.App, args.App)) {
			list = append(list, w)
		}
	}
	return list, nil
}

func sameApp(app, want string) bool {
	return strings.Contains(strings.ToLower(app), strings.ToLower(want))
}

// readElements reads the trees of the wanted windows in bulk and returns what was asked of them.
func (h *call) readElements(ctx context.Context, d *platform.Desktop, args snapshotArgs, windows, wanted []platform.Window,
	result *snapshotResult) error {
	q := platform.TreeQuery{MaxElements: maxElements, Bounds: true, PerApp: perApp}
	narrow := args.Window != "" || args.App != ""
	if narrow && len(wanted) > 0 {
		q.PID = wanted[0].PID
		for _, w := range wanted {
			if w.PID != q.PID {
				q.PID = 0
			}
		}
	}
	h.observe(keyScreen, "elements")
	tree, err := d.Accessibility.Tree(ctx, q)
	if err == nil && q.PID != 0 && len(tree.Elements) == 0 && len(tree.Hung) == 0 {
		q.PID = 0 // in a container of its own, an application has another number there
		tree, err = d.Accessibility.Tree(ctx, q)
	}
	if err != nil {
		return err
	}
	s := selector.NewScene(tree, windows, h.refs.full)
	result.Hung = s.Names()
	v := &view{Scene: s, refs: h.refs, maxNodes: args.MaxNodes, maxText: args.MaxText}
	v.arrange()
	if narrow {
		v.narrow(args, wanted)
	}
	if args.Tree {
		result.Tree = &treeResult{Root: v.tree(wholeOf(ctx, d))}
	}
	if args.Outline {
		kept := v.outline(wanted)
		kept.id = h.snapshots.add(kept)
		result.ID = kept.id
		text := kept.text()
		if before, ok := h.snapshots.get(args.Since); ok {
			text, result.DiffOf = kept.diff(before), before.id
		}
		result.Outline = &text
	}
	result.Truncated = result.Truncated || s.Truncated || v.cut
	return nil
}

func wholeOf(ctx context.Context, d *platform.Desktop) platform.Rect {
	if d.Screen == nil {
		return platform.Rect{}
	}
	layout, err := d.Screen.Layout(ctx)
	if err != nil {
		return platform.Rect{}
	}
	return layout.Whole()
}

// snapImage takes the image of what the snapshot is about.
func (h *call) snapImage(ctx context.Context, d *platform.Desktop, args snapshotArgs,
	wanted []platform.Window) ([]capabilities.Blob, *imageResult, error) {
	layout, err := h.layout(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	shotOf := shotArgs{Display: display{word: "all"}}
	if args.Window != "" && len(wanted) == 1 {
		shotOf.Window = wanted[0].Ref
	}
	want := shot{}
	if want.area, err = h.areaOf(ctx, layout, shotOf); err != nil {
		return nil, nil, err
	}
	t, err := h.grab(ctx, d, layout, want, "")
	if err != nil {
		return nil, nil, err
	}
	return t.blobs(), &imageResult{FrameID: t.id, Frame: t.info(), MIME: t.mime, Width: t.width, Height: t.height}, nil
}

// view is what of a reading is told.
type view struct {
	*selector.Scene
	refs              *refTable
	children          [][]int
	roots             []int
	maxNodes, maxText int
	cut               bool // a bound was reached
}

func (v *view) arrange() {
	v.children = make([][]int, len(v.Elements))
	for i := range v.Elements {
		if p := v.Elements[i].Parent; p >= 0 && p < i {
			v.children[p] = append(v.children[p], i)
		} else {
			v.roots = append(v.roots, i)
		}
	}
	v.inReadingOrder()
}

// narrow leaves the elements of the wanted windows. An application that does not
// say which window an element is in is told as a whole.
func (v *view) narrow(args snapshotArgs, wanted []platform.Window) {
	var roots []int
	for _, r := range v.roots {
		app := &v.Elements[r]
		if args.Window == "" {
			if sameApp(app.App, args.App) || slices.ContainsFunc(wanted, func(w platform.Window) bool { return w.PID != 0 && w.PID == app.PID }) {
				roots = append(roots, r)
			}
			continue
		}
		w, found := wanted[0], false
		for _, c := range v.children[r] {
			if v.Elements[c].Window == w.Ref {
				roots, found = append(roots, c), true
			}
		}
		if !found && w.PID != 0 && app.PID == w.PID {
			roots = append(roots, r)
		}
	}
	v.roots = roots
}

// told reports whether an element and what is below it is told at all.
func told(e *platform.Element) bool {
	return e.Parent < 0 || e.Role == "application" || selector.Visible(e)
}

// tree returns the elements as JSON, within all bounds.
func (v *view) tree(whole platform.Rect) *node {
	root := &node{summary: summary{Role: "desktop", States: []string{}, Actions: []string{}, Bounds: rectOf(whole)}, Children: []*node{}}
	nodes, text, size := 1, 0, 0
	var walk func(into *node, list []int, depth int)
	walk = func(into *node, list []int, depth int) {
		for _, i := range list {
			e := &v.Elements[i]
			if !told(e) {
				continue
			}
			if len(into.Children) == maxChildren || depth >= maxTreeDepth || nodes >= v.maxNodes || size > maxTreeBytes {
				v.cut = true
				return
			}
			n := &node{Ref: v.refs.name(*e), summary: *summarize(*e), Children: []*node{}}
			for _, part := range []*string{&n.Name, &n.Value} {
				if *part, text = capabilities.First(*part, v.maxText-text), text+runes(*part); text > v.maxText {
					v.cut, text = true, v.maxText
				}
			}
			nodes++
			size += 160 + len(n.Name) + len(n.Value)
			for _, w := range append(n.States, n.Actions...) {
				size += len(w) + 3
			}
			into.Children = append(into.Children, n)
			walk(n, v.children[i], depth+1)
		}
	}
	walk(root, v.roots, 1)
	return root
}

func runes(s string) int { return len([]rune(s)) }
