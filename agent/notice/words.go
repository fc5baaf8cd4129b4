package notice

import (
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// words says what a capability key lets a call do, for people, in the order in which
// they are said. Keys that are not here say nothing a person would look for.
var words = []struct{ key, what string }{
	{"privileged.input.inject", "your mouse and keyboard"},
	{"data.read.screen", "your screen"},
	{"data.capture.camera", "your camera"},
	{"data.capture.audio", "your microphone"},
	{"data.read.location", "your location"},
	{"data.read.clipboard", "your clipboard"},
	{"data.write.clipboard", "your clipboard"},
	{"privileged.secret.read", "a secret you stored"},
	{"execution.proc.spawn", "programs on this device"},
	{"data.write.workspace", "the files of your workspace"},
	{"data.read.workspace", "the files of your workspace"},
	{"privileged.admin.mutate_policy", "the providers of this device"},
	{"network.egress.http", "web pages"},
	{"network.browser.session", "a browser"},
	{"execution.browser.script", "a browser"},
}

// uses returns what those keys are about, in words and without repetition; other for
// none.
func uses(keys []string, other string) []string {
	var out []string
	for _, w := range words {
		if slices.Contains(keys, w.key) && !slices.Contains(out, w.what) {
			out = append(out, w.what)
		}
	}
	if len(out) == 0 {
		out = []string{other}
	}
	return out
}

// list joins words as people do: "a, b and c".
func list(all []string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

// live ends the words for what is watched while it happens.
const live = ", live"

func isLive(what string) bool { return strings.HasSuffix(what, live) }

// maxName bounds a name that others chose.
const maxName = 64

// name makes a name that others chose safe to show: nothing in it turns or hides text, and it
// is not so long that it pushes the rest out of sight.
func name(s string) string { return capabilities.Brief(capabilities.Escape(s), maxName) }
