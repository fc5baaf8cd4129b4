package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/handrail-dev/handrail/capabilities"
)

// plain makes text of others (a device's name, a page's title) safe to print: what could drive
// the terminal, or turn and hide text, is written out.
func plain(s string) string { return capabilities.Escape(s) }

// layout are the characters that make lines of a text.
var layout = map[rune]string{'\n': "\n", '\t': "\t"}

// plainBlock is plain for text of several lines.
func plainBlock(s string) string { return capabilities.EscapeBut(s, layout) }

// table prints aligned columns under a header.
type table struct {
	w    *tabwriter.Writer
	rows int
}

func newTable(w io.Writer, header ...string) *table {
	t := &table{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	fmt.Fprintln(t.w, strings.Join(header, "\t"))
	return t
}

func (t *table) row(cells ...string) {
	t.rows++
	for i, c := range cells {
		if cells[i] = plain(c); c == "" {
			cells[i] = "-"
		}
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

func (t *table) flush() { _ = t.w.Flush() }

// printJSON writes v as one line.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// printItems writes one line for each item of a list.
func printItems[T any](w io.Writer, items []T) error {
	for _, item := range items {
		if err := printJSON(w, item); err != nil {
			return err
		}
	}
	return nil
}

// printValue prints a decoded JSON value for a person: objects as "key: value",
// lists as "- item", long text as an indented block.
func printValue(w io.Writer, indent string, v any) {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			printField(w, indent, plain(k)+":", v[k])
		}
	case []any:
		for _, item := range v {
			if m, ok := item.(map[string]any); ok {
				printRecord(w, indent, m)
				continue
			}
			printField(w, indent, "-", item)
		}
	default:
		fmt.Fprintf(w, "%s%s\n", indent, scalar(v))
	}
}

// printRecord prints one object of a list: its scalars on one line, the rest below.
func printRecord(w io.Writer, indent string, m map[string]any) {
	var line []string
	rest := map[string]any{}
	for k, v := range m {
		switch v := v.(type) {
		case map[string]any, []any:
			rest[k] = v
		case string:
			if strings.Contains(v, "\n") {
				rest[k] = v
			} else if strings.Contains(v, " ") {
				line = append(line, plain(k)+"="+strconv.Quote(scalar(v)))
			} else if v != "" {
				line = append(line, plain(k)+"="+scalar(v))
			}
		default:
			line = append(line, plain(k)+"="+scalar(v))
		}
	}
	slices.Sort(line)
	fmt.Fprintf(w, "%s- %s\n", indent, strings.Join(line, "  "))
	printValue(w, indent+"  ", rest)
}

func printField(w io.Writer, indent, name string, v any) {
	switch x := v.(type) {
	case map[string]any:
		if len(x) == 0 {
			fmt.Fprintf(w, "%s%s {}\n", indent, name)
			return
		}
		fmt.Fprintf(w, "%s%s\n", indent, name)
		printValue(w, indent+"  ", x)
	case []any:
		if len(x) == 0 {
			fmt.Fprintf(w, "%s%s []\n", indent, name)
			return
		}
		fmt.Fprintf(w, "%s%s\n", indent, name)
		printValue(w, indent+"  ", x)
	case string:
		if strings.Contains(strings.TrimRight(x, "\n"), "\n") {
			fmt.Fprintf(w, "%s%s\n", indent, name)
			for line := range strings.Lines(strings.TrimRight(x, "\n")) {
				fmt.Fprintf(w, "%s  %s\n", indent, plainBlock(strings.TrimRight(line, "\r\n")))
			}
			return
		}
		fmt.Fprintf(w, "%s%s %s\n", indent, name, plain(strings.TrimRight(x, "\n")))
	default:
		fmt.Fprintf(w, "%s%s %s\n", indent, name, scalar(v))
	}
}

func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return plain(v)
	case nil:
		return "none"
	case float64:
		return strings.TrimSuffix(fmt.Sprintf("%.6f", v), ".000000")
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

// How times are printed: with their zone, because a gateway, its devices and whoever reads
// may be in several.
const (
	clock    = "15:04:05 MST"
	dayClock = "2006-01-02 15:04:05 MST"
)

// ago says how long before now t was, roughly.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	switch d := now.Sub(t); {
	case d < 2*time.Second:
		return "now"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days ago", int(d.Hours()/24))
	}
}

// isTerminal reports whether v (a command's input or output) is a terminal.
func isTerminal(v any) bool {
	f, ok := bare(v).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// output is the standard output of a command, and remembers whether it took all that
// was written: most of what prints does not look.
type output struct {
	to  io.Writer
	mu  sync.Mutex
	err error // the first
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil {
		o.mu.Lock()
		o.err = cmp.Or(o.err, err)
		o.mu.Unlock()
	}
	return n, err
}

func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return nil
	}
	return fmt.Errorf("not all was printed: %w", o.err)
}

// bare returns what a command's input or output really is.
func bare(v any) any {
	if o, ok := v.(*output); ok {
		return o.to
	}
	return v
}

// showWaiting writes, on a terminal only, a line that counts the seconds until
// stop is called; nothing for work that ends within one.
func showWaiting(cmd *cobra.Command, what string) (stop func()) {
	w := cmd.ErrOrStderr()
	if !isTerminal(w) || commonOf(cmd).json {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		start, shown := time.Now(), false
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				shown = true
				fmt.Fprintf(w, "\r%s: %d s (ctrl-C cancels)", what, int(time.Since(start).Seconds()))
			case <-done:
				if shown {
					fmt.Fprint(w, "\r\033[K")
				}
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}
