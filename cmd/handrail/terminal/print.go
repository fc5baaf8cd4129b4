package terminal

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

// Plain makes text of others (a device's name, a page's title) safe to print: what could drive
// the terminal, or turn and hide text, is written out.
func Plain(s string) string { return capabilities.Escape(s) }

// layout are the characters that make lines of a text.
var layout = map[rune]string{'\n': "\n", '\t': "\t"}

// PlainBlock is Plain for text of several lines.
func PlainBlock(s string) string { return capabilities.EscapeBut(s, layout) }

// Table prints aligned columns under a header.
type Table struct {
	w    *tabwriter.Writer
	rows int
}

// NewTable returns a table with its header printed.
func NewTable(w io.Writer, header ...string) *Table {
	t := &Table{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	fmt.Fprintln(t.w, strings.Join(header, "\t"))
	return t
}

// Row adds a row; an empty cell is shown as a dash.
func (t *Table) Row(cells ...string) {
	t.rows++
	for i, c := range cells {
		if cells[i] = Plain(c); c == "" {
			cells[i] = "-"
		}
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

// Flush prints what there is.
func (t *Table) Flush() { _ = t.w.Flush() }

// PrintJSON writes v as one line.
func PrintJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// PrintItems writes one line for each item of a list.
func PrintItems[T any](w io.Writer, items []T) error {
	for _, item := range items {
		if err := PrintJSON(w, item); err != nil {
			return err
		}
	}
	return nil
}

// PrintValue prints a decoded JSON value for a person: objects as "key: value",
// lists as "- item", long text as an indented block.
func PrintValue(w io.Writer, indent string, v any) {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			printField(w, indent, Plain(k)+":", v[k])
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
				line = append(line, Plain(k)+"="+strconv.Quote(scalar(v)))
			} else if v != "" {
				line = append(line, Plain(k)+"="+scalar(v))
			}
		default:
			line = append(line, Plain(k)+"="+scalar(v))
		}
	}
	slices.Sort(line)
	fmt.Fprintf(w, "%s- %s\n", indent, strings.Join(line, "  "))
	PrintValue(w, indent+"  ", rest)
}

func printField(w io.Writer, indent, name string, v any) {
	switch x := v.(type) {
	case map[string]any:
		if len(x) == 0 {
			fmt.Fprintf(w, "%s%s {}\n", indent, name)
			return
		}
		fmt.Fprintf(w, "%s%s\n", indent, name)
		PrintValue(w, indent+"  ", x)
	case []any:
		if len(x) == 0 {
			fmt.Fprintf(w, "%s%s []\n", indent, name)
			return
		}
		fmt.Fprintf(w, "%s%s\n", indent, name)
		PrintValue(w, indent+"  ", x)
	case string:
		if strings.Contains(strings.TrimRight(x, "\n"), "\n") {
			fmt.Fprintf(w, "%s%s\n", indent, name)
			for line := range strings.Lines(strings.TrimRight(x, "\n")) {
				fmt.Fprintf(w, "%s  %s\n", indent, PlainBlock(strings.TrimRight(line, "\r\n")))
			}
			return
		}
		fmt.Fprintf(w, "%s%s %s\n", indent, name, Plain(strings.TrimRight(x, "\n")))
	default:
		fmt.Fprintf(w, "%s%s %s\n", indent, name, scalar(v))
	}
}

func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return Plain(v)
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
	Clock    = "15:04:05 MST"
	DayClock = "2006-01-02 15:04:05 MST"
)

// Ago says how long before now t was, roughly.
func Ago(now, t time.Time) string {
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

// Interactive reports whether v (a command's input or output) is a terminal.
func Interactive(v any) bool {
	f, ok := Bare(v).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Output is the standard output of a command, and remembers whether it took all that
// was written: most of what prints does not look.
type Output struct {
	To  io.Writer
	mu  sync.Mutex
	err error // the first
}

func (o *Output) Write(p []byte) (int, error) {
	n, err := o.To.Write(p)
	if err != nil {
		o.mu.Lock()
		o.err = cmp.Or(o.err, err)
		o.mu.Unlock()
	}
	return n, err
}

// Failed returns the first error of a write.
func (o *Output) Failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return nil
	}
	return fmt.Errorf("not all was printed: %w", o.err)
}

// Bare returns what a command's input or output really is.
func Bare(v any) any {
	if o, ok := v.(*Output); ok {
		return o.To
	}
	return v
}

// ShowWaiting writes, on a terminal only, a line that counts the seconds until
// stop is called; nothing for work that ends within one.
func ShowWaiting(cmd *cobra.Command, what string) (stop func()) {
	w := cmd.ErrOrStderr()
	if !Interactive(w) || FlagsOf(cmd).JSON {
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

// Count says how many of a thing there are.
func Count[N int | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// OrDash returns s, or a dash for an empty one.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return Plain(s)
}
