package health

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser"
	"github.com/handrail-dev/handrail/capabilities/desktop"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

// Host is how this program sees the host it runs on. All fields are required.
type Host struct {
	Version string // of this program
	Browser platform.BrowserFinder
	Desktop func() platform.DesktopOpener
	Notices func() platform.Notifier
	Walls   func(context.Context) []sandbox.Standing
	// Unboxed is the name of the rule in the policy folder that accepts a browser without its sandbox.
	Unboxed string
}

// findings looks at this host, without changing it: the browser, its sandbox, the desktop, the
// walls, and the data directory.
func (h Host) findings(ctx context.Context, data datadir.Dir) []Finding {
	found := append(browserFindings(ctx, h.Browser, filepath.Join(data.PolicyDir(), h.Unboxed)),
		desktopFindings(ctx, h.Desktop(), h.Notices())...)
	found = append(found, wallFindings(h.Walls(ctx))...)
	return append(found, dataFindings(data)...)
}

// wallFindings says of each isolation class whether it stands here, then of each wall what it keeps
// and what it stands on, or what is missing and how to have it. A host without a wall is no fault
// of its own: what needs the class is refused, and says so.
func wallFindings(walls []sandbox.Standing) []Finding {
	found := make([]Finding, 0, len(sandbox.Classes)+len(walls))
	for _, class := range sandbox.Classes {
		f, missing, all := Finding{Part: "host", Name: "isolation " + string(class), OK: true}, []string{}, 0
		for _, w := range walls {
			if w.Class != class || w.Deeper {
				continue
			}
			if all++; w.Err != nil {
				missing = append(missing, string(w.Wall))
			}
		}
		f.Detail = class.Keeps() + "; "
		if len(missing) == 0 {
			f.Detail += fmt.Sprintf("all of its %d walls stand", all)
		} else {
			f.Code = string(capabilities.ReasonIsolationMissing)
			f.Detail += "what needs it is refused here, for want of: " + strings.Join(missing, ", ")
		}
		found = append(found, f)
	}
	for i, w := range walls {
		if slices.ContainsFunc(walls[:i], func(o sandbox.Standing) bool { return alikeWalls(o, w) }) {
			continue
		}
		var of []string
		for _, o := range walls {
			if alikeWalls(o, w) {
				of = append(of, string(o.Class))
			}
		}
		found = append(found, wallFinding(w, strings.Join(of, ", ")))
	}
	return found
}

// alikeWalls reports whether of two walls the same is to be said.
func alikeWalls(a, b sandbox.Standing) bool {
	return a.Wall == b.Wall && a.By == b.By && a.Fix == b.Fix && fmt.Sprint(a.Err) == fmt.Sprint(b.Err)
}

func wallFinding(w sandbox.Standing, classes string) Finding {
	f := Finding{Part: "host", Name: fmt.Sprintf("wall %s (%s)", w.Wall, classes), OK: true, Detail: w.Wall.Keeps() + "; it stands on " + w.By}
	switch {
	case w.Err != nil && w.Deeper:
		f.Missing, f.Fix = true, w.Fix
		f.Detail = w.Wall.Keeps() + "; not here, and no class rests on it: " + w.Err.Error()
	case w.Err != nil:
		f.Code, f.Fix = string(capabilities.ReasonIsolationMissing), w.Fix
		f.Detail = w.Wall.Keeps() + "; missing here: " + w.Err.Error()
	}
	return f
}

// desktopTime bounds opening the desktop for a look.
const desktopTime = 20 * time.Second

// desktopFindings opens the session's desktop and says what of it is missing.
// None at all is no fault: a server has none.
func desktopFindings(ctx context.Context, opener platform.DesktopOpener, shown platform.Notifier) []Finding {
	ctx, cancel := context.WithTimeout(ctx, desktopTime)
	defer cancel()
	defer func() { _, _ = opener.Close(), shown.Close() }()
	d, err := opener.Open(ctx)
	var missing *platform.MissingError
	switch {
	case err != nil && ctx.Err() != nil:
		return []Finding{{
			Part: "host", Name: "desktop", Code: string(capabilities.ReasonBackendFailing), Detail: "it did not open within " + desktopTime.String(),
		}}
	case errors.As(err, &missing):
		return []Finding{lack("desktop", missing, !missing.Permission)}
	case err != nil:
		return []Finding{
			{Part: "host", Name: "desktop", Code: string(capabilities.ReasonBackendFailing), Detail: "it could not be opened: " + err.Error()},
		}
	}
	found := []Finding{{Part: "host", Name: "desktop", OK: true, Detail: d.Name}}
	for _, part := range slices.Sorted(maps.Keys(d.Missing)) {
		found = append(found, lack("desktop "+string(part), d.Missing[part], false))
	}
	for _, part := range slices.Sorted(maps.Keys(d.Instead)) {
		found = append(found, Finding{Part: "host", Name: "desktop " + string(part), OK: true, Detail: d.Instead[part]})
	}
	notices := noticeFinding(ctx, shown)
	found = append(found, notices, answerFinding(ctx, d, notices))
	if locked := opener.Locked(ctx); locked != "" {
		found = append(found, Finding{
			Part: "host", Name: "desktop session", Code: string(capabilities.ReasonSessionLocked), Detail: locked,
			Fix: "Ask the person to unlock it.",
		})
	}
	return found
}

// noticeFinding says whether the session shows its person that calls use the device. Where
// it shows nothing the rest works: 'handrail node status' and the console say it, too.
func noticeFinding(ctx context.Context, n platform.Notifier) Finding {
	f := Finding{Part: "host", Name: "desktop notices", OK: true, Detail: "the session shows when calls use this device"}
	asked, can := n.(interface{ Ready(context.Context) error })
	if !can {
		return f
	}
	if err := asked.Ready(ctx); err != nil {
		f.Code, f.Detail = string(capabilities.ReasonBackendMissing), "Nothing on the screen says when calls use this device: "+err.Error()+"."
		f.Fix = "Start a notification daemon in the session (dunst, mako or the desktop's own); 'handrail node status' says the same."
	}
	return f
}

// answerFinding says whether the person here can answer questions by keys while an agent
// has the mouse and the keyboard. Where it cannot be told who presses a key, they cannot.
func answerFinding(ctx context.Context, d *platform.Desktop, notices Finding) Finding {
	const name = "answers by keys"
	if err := desktop.TellsKeys(ctx, d); err != nil {
		var missing *platform.MissingError
		if errors.As(err, &missing) {
			return lack(name, missing, true)
		}
		return Finding{Part: "host", Name: name, OK: true, Code: string(capabilities.ReasonBackendMissing), Detail: err.Error()}
	}
	if notices.Code != "" {
		return Finding{
			Part: "host", Name: name, OK: true, Code: notices.Code, Detail: "Questions cannot be shown, as the session shows no notices.",
			Fix: notices.Fix,
		}
	}
	return Finding{
		Part: "host", Name: name, OK: true,
		Detail: "the person's own keys are told from a program's; a keyboard that a program makes (uinput) does not count",
	}
}

// lack says what is missing, by the word that the list of nodes has for it.
func lack(name string, m *platform.MissingError, fine bool) Finding {
	code := capabilities.ReasonBackendMissing
	if m.Permission {
		code = capabilities.ReasonPermission
	}
	return Finding{Part: "host", Name: name, OK: fine, Code: string(code), Detail: m.What, Fix: m.Fix}
}

func browserFindings(ctx context.Context, finder platform.BrowserFinder, rule string) []Finding {
	b, err := finder.Find(ctx)
	var missing *platform.MissingError
	switch {
	case errors.As(err, &missing):
		return []Finding{lack("browser", missing, false)}
	case err != nil:
		return []Finding{{Part: "host", Name: "browser", Detail: err.Error()}}
	}
	found := []Finding{
		{Part: "host", Name: "browser", OK: true, Detail: strings.TrimSpace(fmt.Sprintf("%s %s, %s", b.Product, b.Version, b.Path))},
	}
	if b.Version == "" {
		found[0].OK, found[0].Fix = false, "It is there but does not tell its version; run it by hand to see why."
	}
	found = append(found, sandboxFinding(b, rule))
	if b.SmallShm {
		found = append(found,
			Finding{Part: "host", Name: "shared memory", OK: true, Detail: "/dev/shm is small; the browser uses files instead, a little slower"})
	}
	return found
}

// sandboxFinding says whether Chrome runs in its sandbox here, and if not, whether the file rule of
// the policy folder accepts that.
func sandboxFinding(b platform.Browser, rule string) Finding {
	f := Finding{Part: "host", Name: "browser sandbox"}
	_, barred := browser.SandboxRequired.Without(b)
	if barred != nil {
		f.Detail = barred.What
		f.Fix = strings.TrimSpace(barred.Fix + " Or accept Chrome without its sandbox: --browser-sandbox auto.")
	}
	switch text, err := os.ReadFile(rule); {
	case err == nil:
		why, _, _ := strings.Cut(strings.TrimPrefix(string(text), "// "), "\n")
		f.OK, f.Code, f.Detail = true, string(capabilities.ReasonIsolationMissing), "not used, which "+rule+" accepts: "+why
		if barred != nil {
			f.Fix = b.SandboxFix
		}
	case barred == nil:
		f.OK, f.Detail = true, "user namespaces are available"
		if b.RunAs != nil {
			f.Detail += fmt.Sprintf("; runs as uid %d, not as root", b.RunAs.UID)
		}
	}
	return f
}

// dataFindings checks that nobody else can read the keys. A data directory that
// is not there yet is made with its first use.
func dataFindings(data datadir.Dir) []Finding {
	var found []Finding
	for _, dir := range []string{data.Gateway(), data.Node()} {
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		f := Finding{Part: "host", Name: "data directory", OK: true, Detail: dir}
		if err := datadir.Private(dir); err != nil {
			f.OK, f.Detail, f.Fix = false, err.Error(), "The keys inside belong to you alone."
		}
		found = append(found, f)
	}
	return found
}
