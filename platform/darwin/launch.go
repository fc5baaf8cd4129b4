package darwin

import (
	"strings"

	"github.com/handrail-dev/handrail/platform"
)

// openArguments are those of the system's open for an application: by its name, or by the full path
// of its folder. A word that could be taken for an option, a file or several words of a command is
// no name of an application.
func openArguments(app string, args []string) ([]string, error) {
	folder := strings.HasPrefix(app, "/") && strings.HasSuffix(app, ".app") && !strings.Contains(app, "/../")
	if app == "" || strings.HasPrefix(app, "-") || strings.ContainsAny(app, "\x00\n") || strings.Contains(app, "/") && !folder {
		return nil, platform.ErrNoApp
	}
	out := []string{"-a", app}
	if len(args) > 0 {
		out = append(append(out, "--args"), args...)
	}
	return out, nil
}
