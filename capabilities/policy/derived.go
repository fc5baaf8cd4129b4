package policy

import (
	"path"
	"regexp"
	"strings"

	cedar "github.com/cedar-policy/cedar-go"

	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// derivedApp and derivedRoot are what other arguments add to context.args; like
// those of a URL they are always there for tools that have such arguments.
var (
	// derivedApp is the application a call names, in lower case; "" if it names none.
	derivedApp = arg{name: "application", kind: argString}
	// derivedRoot is the deepest folder that holds all files of a call, with / at its
	// end, so that a pattern such as "/srv/out/*" means the folder and what is below.
	derivedRoot = arg{name: "root", kind: argString}
)

// derived lists what a tool's arguments add to context.args.
func (spec *argSpec) derived() []arg {
	var list []arg
	if spec.url >= 0 {
		list = append(list, derivedArgs...)
	}
	if spec.app {
		list = append(list, derivedApp)
	}
	if spec.files >= 0 {
		list = append(list, derivedRoot)
	}
	return list
}

// namesApp matches a chain that begins with an exact term for the application.
var namesApp = regexp.MustCompile(`^\s*app\s*[:=]\s*(?:"([^"\\]*)"|'([^'\\]*)'|([^\s"'\\()|&>!~]+))\s*(?:&&|>>|$)`)

// application returns the application that a call names: the one it launches, or the
// one that its target's chain begins with. A chain with alternatives names none, and
// neither does a drag that ends in another application.
func application(root canonical.Value) cedar.String {
	action, _ := root.Get("action")
	if app, ok := action.Get("app"); ok && app.Kind == canonical.String {
		return cedar.String(strings.ToLower(strings.TrimSpace(app.Str)))
	}
	target, _ := root.Get("target")
	name := chainApp(target)
	if to, ok := action.Get("to"); ok && chainApp(to) != name {
		return ""
	}
	return cedar.String(name)
}

func chainApp(v canonical.Value) string {
	if v.Kind != canonical.String || strings.Contains(v.Str, "||") {
		return ""
	}
	m := namesApp.FindStringSubmatch(v.Str)
	if m == nil {
		return ""
	}
	return strings.ToLower(strings.TrimSpace(m[1] + m[2] + m[3]))
}

// commonRoot returns the deepest folder that holds every path. A path that is not absolute is below
// "./"; one that leaves it is below "../".
func commonRoot(paths []string) cedar.String {
	var common []string
	for i, p := range paths {
		dir := path.Dir(path.Clean(strings.ReplaceAll(p, `\`, "/")))
		steps := strings.Split(dir, "/")
		switch {
		case dir == "/":
			steps = []string{""}
		case dir != "." && !strings.HasPrefix(dir, "/") && !drive(dir):
			steps = append([]string{"."}, steps...)
			if steps[1] == ".." {
				return "../"
			}
		}
		if i == 0 {
			common = steps
			continue
		}
		n := 0
		for n < len(common) && n < len(steps) && common[n] == steps[n] {
			n++
		}
		common = common[:n]
	}
	if len(common) == 0 {
		return ""
	}
	return cedar.String(strings.Join(common, "/") + "/")
}

// drive reports whether a path begins with a drive's letter, as on Windows.
func drive(p string) bool {
	return len(p) > 1 && p[1] == ':' && (p[0]|0x20) >= 'a' && (p[0]|0x20) <= 'z'
}
