package capabilities

import (
	"regexp"
	"sync"
)

// Pattern returns a regular expression that is compiled when it is first asked for, and panics
// then if it is none. One of hundreds of words costs a program's start more than all else that
// it does there, and most programs of a node or a command line never ask.
func Pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
