package fs

import (
	"bufio"
	"bytes"
	"context"
	iofs "io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/folder"
)

// Bounds of a search.
const (
	maxMatches = 1000
	maxLine    = 400 // characters of a line that is shown
	maxVisited = 200_000
)

// skipped are folders whose files nobody looks for.
var skipped = []string{".git", "node_modules", ".hg", ".svn"}

// walk visits the files below a folder, in order. Links are not followed.
func (h *Handler) walk(ctx context.Context, from string, visit func(name string) error) error {
	if from == "" {
		from = "."
	}
	rel, err := h.local(from)
	if err != nil {
		return err
	}
	visited := 0
	err = iofs.WalkDir(h.root.FS(), shown(rel), func(name string, e iofs.DirEntry, err error) error {
		if visited++; visited > maxVisited {
			return capabilities.Errorf(capabilities.CodeResultTooLarge, "there are more than %d files; give a folder", maxVisited)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && name == shown(rel):
			return err
		case err != nil: // a folder that may not be read is left out
			return nil
		case e.IsDir() && name != shown(rel) && slices.Contains(skipped, e.Name()):
			return iofs.SkipDir
		case !e.Type().IsRegular() || h.opts.Check(h.dir+"/"+name) != nil:
			return nil
		}
		return visit(name)
	})
	if err != nil {
		return failed(from, err)
	}
	return nil
}

// pattern reads a glob: "**" stands for any folders, "*", "?" and "[a-z]" for what they do in
// one name, "{a,b}" for either.
func pattern(glob string) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString("^")
	depth := 0
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '*':
			switch {
			case strings.HasPrefix(glob[i:], "**/"):
				b.WriteString("(?:.*/)?")
				i += 2
			case strings.HasPrefix(glob[i:], "**"):
				b.WriteString(".*")
				i++
			default:
				b.WriteString("[^/]*")
			}
		case '?':
			b.WriteString("[^/]")
		case '[':
			end := strings.IndexByte(glob[i:], ']')
			if end < 2 {
				return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "the pattern has a [ without its ]")
			}
			class := strings.ReplaceAll(glob[i+1:i+end], `\`, `\\`)
			if rest, not := strings.CutPrefix(class, "!"); not {
				class = "^" + rest
			}
			b.WriteString("[" + class + "]")
			i += end
		case '{':
			depth++
			b.WriteString("(?:")
		case '}':
			if depth--; depth < 0 {
				return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "the pattern has a } without its {")
			}
			b.WriteString(")")
		case ',':
			if depth > 0 {
				b.WriteString("|")
			} else {
				b.WriteString(",")
			}
		default:
			r, n := utf8.DecodeRuneInString(glob[i:])
			b.WriteString(regexp.QuoteMeta(string(r)))
			i += n - 1
		}
	}
	if depth != 0 {
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "the pattern has a { without its }")
	}
	re, err := regexp.Compile(b.String() + "$")
	if err != nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "the pattern cannot be read")
	}
	return re, nil
}

// matcher matches names below a folder: by the whole path if the glob has a slash, else by the
// last name.
func matcher(glob, from string) (func(name string) bool, error) {
	re, err := pattern(glob)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(glob, "/") {
		return func(name string) bool { return re.MatchString(path.Base(name)) }, nil
	}
	base := strings.TrimPrefix(path.Clean(from)+"/", "./")
	return func(name string) bool { return re.MatchString(strings.TrimPrefix(name, base)) }, nil
}

// glob finds files by their names.
func (h *Handler) glob(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	var args struct {
		Pattern string `json:"pattern"`
		Path    string `json:"path"`
	}
	if err := arguments(inv, &args); err != nil {
		return capabilities.Output{}, err
	}
	fits, err := matcher(args.Pattern, args.Path)
	if err != nil {
		return capabilities.Output{}, err
	}
	matches := []string{}
	err = h.walk(ctx, args.Path, func(name string) error {
		if fits(name) {
			if len(matches) == maxMatches {
				return iofs.SkipAll
			}
			matches = append(matches, strings.ToValidUTF8(name, "\uFFFD"))
		}
		return nil
	})
	if err != nil {
		return capabilities.Output{}, err
	}
	inv.Observe("data.read.workspace", args.Path)
	return capabilities.Output{
		Effect: capabilities.EffectConfirmed, Result: map[string]any{"matches": matches, "truncated": len(matches) == maxMatches},
	}, nil
}

// grep finds lines by their text.
func (h *Handler) grep(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	var args struct {
		Pattern    string `json:"pattern"`
		Path       string `json:"path"`
		Include    string `json:"include"`
		Regex      bool   `json:"regex"`
		IgnoreCase bool   `json:"ignore_case"`
	}
	if err := arguments(inv, &args); err != nil {
		return capabilities.Output{}, err
	}
	text := args.Pattern
	if !args.Regex {
		text = regexp.QuoteMeta(text)
	}
	if args.IgnoreCase {
		text = "(?i)" + text
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "pattern: is no regular expression (RE2)")
	}
	fits := func(string) bool { return true }
	if args.Include != "" {
		if fits, err = matcher(args.Include, args.Path); err != nil {
			return capabilities.Output{}, err
		}
	}
	matches := []map[string]any{}
	err = h.walk(ctx, args.Path, func(name string) error {
		if !fits(name) {
			return nil
		}
		matches = h.grepFile(name, re, matches)
		if len(matches) == maxMatches {
			return iofs.SkipAll
		}
		return nil
	})
	if err != nil {
		return capabilities.Output{}, err
	}
	inv.Observe("data.read.workspace", args.Path)
	return capabilities.Output{
		Effect: capabilities.EffectConfirmed, Result: map[string]any{"matches": matches, "truncated": len(matches) == maxMatches},
	}, nil
}

// grepFile adds the lines of one file, of which one that is no text has none.
func (h *Handler) grepFile(name string, re *regexp.Regexp, matches []map[string]any) []map[string]any {
	f, _, err := folder.Open(h.root, name, os.O_RDONLY)
	if err != nil {
		return matches
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 0, 64<<10), 1<<20)
	for n := 1; lines.Scan() && len(matches) < maxMatches; n++ {
		line := lines.Bytes()
		if bytes.IndexByte(line, 0) >= 0 {
			return matches
		}
		if re.Match(line) {
			matches = append(matches, map[string]any{
				"path": strings.ToValidUTF8(name, "\uFFFD"), "line": n,
				"text": capabilities.Brief(strings.ToValidUTF8(string(line), "\uFFFD"), maxLine),
			})
		}
	}
	return matches
}
