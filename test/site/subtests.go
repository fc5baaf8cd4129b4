package site

import (
	"flag"
	"regexp"
	"strings"
)

// Subtests is what -run wants of a test's subtests, for a test that does their work before they
// run: a suite that is told of one behaviour then tries no other. Nil: all of them.
func Subtests() *regexp.Regexp {
	f := flag.Lookup("test.run")
	if f == nil {
		return nil
	}
	_, below, _ := strings.Cut(f.Value.String(), "/")
	if below, _, _ = strings.Cut(below, "/"); below == "" {
		return nil
	}
	wanted, err := regexp.Compile(below)
	if err != nil {
		return nil // testing says what is wrong with it
	}
	return wanted
}
