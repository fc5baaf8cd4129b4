package owner

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// CedarName is the owner's Cedar file; files that match CedarExtra stand beside it,
// written by set-up commands, so that a person can read and delete them.
const (
	CedarName  = policy.OwnerName
	CedarExtra = "owner-*.cedar"
	generated  = "owner.json.cedar"
)

// Options of Open; required unless a default is named.
type Options struct {
	Dir     string // of the node
	Catalog *catalog.Catalog
	// Tools returns the tools that there are now: one value until they change. Default:
	// those of Catalog.
	Tools func() *catalog.Catalog
	Extra []policy.Source // rules from elsewhere: what a flag of the owner's says; default: none
	Roots []string        // folders that relative paths in calls are taken below; default: none
	Now   func() time.Time
	Log   *slog.Logger // default: discards
}

// Rules are the owner's rules in force. All methods are safe for concurrent use.
type Rules struct {
	opts Options

	mu      sync.Mutex
	tools   *catalog.Catalog // that loader loads over
	loader  *policy.Loader
	file    *File
	cedar   []policy.Source
	sum     [sha256.Size]byte
	refused [sha256.Size]byte // what was found wrong last, so that it is said once
	engines map[facts]*policy.Engine
}

// maxEngines bounds what is kept compiled; there are few kinds of moments in a day.
const maxEngines = 64

// Open reads the owner's files. Missing ones are written with their defaults, so
// that the rules in force are always something to read. A mistake in one is an
// error: a node does not start on rules that it does not understand.
func Open(o Options) (*Rules, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for name, text := range map[string][]byte{CedarName: policy.DefaultOwnerSource(), FileName: DefaultFile()} {
		if err := writeNew(filepath.Join(o.Dir, name), text); err != nil {
			return nil, fmt.Errorf("owner's rules: %w", err)
		}
	}
	if o.Tools == nil {
		o.Tools = func() *catalog.Catalog { return o.Catalog }
	}
	r := &Rules{opts: o}
	_, err := r.load()
	return r, err
}

// over returns the tools of this moment and what loads rules over them. When the tools have
// changed, nothing that was loaded before counts.
func (r *Rules) over() (*catalog.Catalog, *policy.Loader, error) {
	now := r.opts.Tools()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tools == now {
		return r.tools, r.loader, nil
	}
	loader, err := policy.NewLoader(now)
	if err != nil {
		return nil, nil, err
	}
	r.tools, r.loader, r.engines = now, loader, map[facts]*policy.Engine{}
	return now, loader, nil
}

// writeNew writes a file unless it is there.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// Reload takes over what has changed in the files; false: nothing has. A mistake
// changes nothing: the rules in force stay, and the error says what is wrong, once
// for each text.
func (r *Rules) Reload() (changed bool, err error) { return r.load() }

func (r *Rules) load() (bool, error) {
	data, err := readFile(filepath.Join(r.opts.Dir, FileName))
	if err != nil {
		return false, err
	}
	cedar, err := r.readCedar()
	if err != nil {
		return false, err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d %s\n", len(data), data)
	for _, s := range cedar {
		fmt.Fprintf(h, "%s %d %s\n", s.Name, len(s.Data), s.Data)
	}
	sum := [sha256.Size]byte(h.Sum(nil))
	r.mu.Lock()
	known := r.file != nil && (sum == r.sum || sum == r.refused)
	r.mu.Unlock()
	if known {
		return false, nil
	}
	tools, loader, err := r.over()
	if err != nil {
		return false, err
	}
	file, err := Parse(data, tools)
	var engine *policy.Engine
	if err == nil {
		engine, err = engineOf(tools, loader, file, cedar, facts{})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.refused = sum
		return false, err
	}
	r.file, r.cedar, r.sum, r.refused = file, cedar, sum, [sha256.Size]byte{}
	r.engines = map[facts]*policy.Engine{{}: engine}
	return true, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("owner's rules: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.Size() > maxFileBytes {
		err = mistake("%s is larger than %d bytes", filepath.Base(path), maxFileBytes)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func (r *Rules) readCedar() ([]policy.Source, error) {
	// Matched by name alone: a folder's own path may hold what Glob takes for a
	// pattern, and then a forbid of the owner's would be missed without a word.
	entries, err := os.ReadDir(r.opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("owner's rules: %w", err)
	}
	sources := slices.Clone(r.opts.Extra)
	for _, e := range entries {
		if ok, _ := filepath.Match(CedarExtra, e.Name()); !ok && e.Name() != CedarName {
			continue
		}
		data, err := readFile(filepath.Join(r.opts.Dir, e.Name()))
		if err != nil {
			return nil, err
		}
		sources = append(sources, policy.Source{Name: e.Name(), Data: data})
	}
	return sources, nil
}

func engineOf(tools *catalog.Catalog, loader *policy.Loader, f *File, cedar []policy.Source, x facts) (*policy.Engine, error) {
	e, err := loader.Load(append(slices.Clone(cedar), policy.Source{Name: generated, Data: f.compile(tools, x)}))
	if err == nil && e.CountsAny() { // it would never hold: a device does not know
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest,
			"calls are counted by the gateway: a device's own rules cannot look at context.calls_last_minute, _hour or _day")
	}
	return e, err
}

// at returns the engine for a call with these facts, and the file it comes from.
func (r *Rules) at(req *policy.Request) (*policy.Engine, *File, error) {
	for {
		tools, loader, err := r.over()
		if err != nil {
			return nil, nil, err
		}
		d, _ := tools.Get(req.Tool)
		r.mu.Lock()
		file, cedar := r.file, r.cedar
		r.mu.Unlock()
		x := file.factsOf(d, req.Args, r.opts.Now().Local(), r.opts.Roots)
		r.mu.Lock()
		if file != r.file || tools != r.tools { // changed meanwhile
			r.mu.Unlock()
			continue
		}
		e := r.engines[x]
		r.mu.Unlock()
		if e != nil {
			return e, file, nil
		}
		e, err = engineOf(tools, loader, file, cedar, x)
		if err != nil {
			return nil, nil, err
		}
		r.mu.Lock()
		if file == r.file && tools == r.tools {
			if len(r.engines) >= maxEngines {
				clear(r.engines)
			}
			r.engines[x] = e
		}
		r.mu.Unlock()
		return e, file, nil
	}
}

// Judge decides as the owner would. The reason of a deny or an ask is in the owner's words. A call
// that cannot be judged is denied.
func (r *Rules) Judge(req policy.Request) policy.Decision {
	e, file, err := r.at(&req)
	if err != nil { // the file loaded for other moments, so this is a defect of ours
		r.opts.Log.Error("owner.rules", "err", err)
		return policy.Decision{Effect: policy.Deny, Code: capabilities.CodeDeniedByNode, Reason: "The owner's rules cannot be evaluated."}
	}
	d := e.Decide(req)
	if d.Effect != policy.Deny && len(d.Withheld) > 0 {
		// The ticket grants these keys, and nothing here takes them back out of it.
		d.Effect, d.Code, d.Reason = policy.Deny, capabilities.CodeDeniedByNode, "the owner withholds "+strings.Join(d.Withheld, ", ")+" from it"
	}
	if words := file.words(d.Determining); words != "" && d.Effect != policy.Allow {
		d.Reason = words
	}
	return d
}

// words says in plain words what of the file made a decision so.
func (f *File) words(ids []string) string {
	for _, id := range ids {
		switch {
		case id == ruleNever:
			return "it is never allowed on this device"
		case id == ruleAsk:
			return "the owner wants to be asked about it each time"
		case id == ruleDomainOnly:
			return "it is not one of the hosts that calls may open on this device"
		case id == ruleDomainAsk:
			return "the owner wants to be asked about this host"
		case id == ruleDomainNever:
			return "this host is never opened on this device"
		case id == ruleApp:
			return "the owner's file is about this application"
		case id == ruleFolder:
			return "the owner's file is about the folder of these files"
		case strings.HasPrefix(id, ruleQuiet):
			for i, q := range f.QuietHours {
				if id == fmt.Sprintf("%s-%d", ruleQuiet, i+1) {
					return "it is quiet time on this device until " + q.To
				}
			}
		}
	}
	return ""
}

// Read judges the reading of one file by a page, whichever way it came to ask for it. nil:
// it may. Nobody is asked in the middle of a page.
func (r *Rules) Read(path string) *capabilities.Error {
	r.mu.Lock()
	file := r.file
	r.mu.Unlock()
	switch file.folder(path, nil) {
	case ModeNever:
		return capabilities.Errorf(capabilities.CodeDeniedByNode, "The device's owner does not allow files of that folder.")
	case ModeAsk:
		return capabilities.Errorf(capabilities.CodeConsentUnavailable,
			"The device's owner wants to be asked about files of that folder, which a page cannot wait for.").
			WithHint("Open the file itself with tool.browser.navigate.")
	}
	return nil
}

// Whole judges giving a whole folder to a program, whose steps nobody sees. nil: it may be, for no
// rule is about a part of it.
func (r *Rules) Whole(folder string) *capabilities.Error {
	const hint = "A program gets only folders that the owner's file, owner.json on the device, allows with all that is in them."
	switch r.File().whole(folder) {
	case ModeNever:
		return capabilities.Errorf(capabilities.CodeDeniedByNode, "The device's owner does not allow all files of that folder.").WithHint(hint)
	case ModeAsk:
		return capabilities.Errorf(capabilities.CodeConsentUnavailable,
			"The device's owner wants to be asked about files of that folder, which a program cannot wait for.").WithHint(hint)
	}
	return nil
}

// Setting is what the file says about a capability now, whatever its arguments, and
// why in plain words if it is not allowed.
func (r *Rules) Setting(tool capabilities.ToolID) (Mode, string) {
	r.mu.Lock()
	file := r.file
	r.mu.Unlock()
	cat := r.opts.Tools()
	m := file.Mode(cat, tool)
	why := map[Mode]string{ModeNever: "the owner has switched it off", ModeAsk: "the owner is asked each time"}[m]
	now := r.opts.Now().Local()
	for i := range file.QuietHours {
		q := &file.QuietHours[i]
		if q.covers(cat, tool) && q.active(now) && stricter(m, q.Mode) != m {
			m, why = q.Mode, "quiet time until "+q.To
		}
	}
	return m, why
}

func (q *Quiet) covers(cat *catalog.Catalog, tool capabilities.ToolID) bool {
	return len(q.Capabilities) == 0 || q.names(cat, tool)
}

// File returns the file in force. It is not to be changed.
func (r *Rules) File() *File {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file
}

// ID addresses the texts in force: the same files have the same ID.
func (r *Rules) ID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("sha256:%x", r.sum)
}
