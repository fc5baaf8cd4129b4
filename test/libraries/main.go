package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"

	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/browser"
	"github.com/handrail-dev/handrail/suite/libraries"
	"github.com/handrail-dev/handrail/suite/products"
	"github.com/handrail-dev/handrail/suite/tasks"
	"github.com/handrail-dev/handrail/test/bench/figures"
)

// The table stands between these lines.
const begin, end = "<!-- libraries -->", "<!-- end of libraries -->"

// kind is what is tried: libraries in pages of ours, whole products, or tasks to be compared by.
type kind struct {
	noun     string
	document string // whose table says what worked before; "": there is none
	all      func() []*suite.Behaviour
	of       func() []*browser.Behaviour
	tried    func() []libraries.Tried
	shared   bool // one after the other may use a browser
}

var kinds = map[string]kind{
	"libraries": {"libraries", "docs/libraries.md", libraries.All, libraries.Behaviours, libraries.AllTried, true},
	"products":  {"products", "docs/products.md", products.All, products.Behaviours, products.Tried, false},
	"tasks":     {noun: "tasks", all: tasks.All, of: tasks.Behaviours, shared: true},
}

type options struct {
	kind                                kind
	of, packages, chosen, table, report string
	peer, figures                       string
	lanes, sample                       int
	out                                 bool
	at                                  addresses
}

func main() {
	var o options
	flag.StringVar(&o.of, "of", "libraries", "what is tried: libraries; products, whose servers this starts, with a site of their own; or tasks, with -peer alone")
	flag.StringVar(&o.packages, "packages", "", "folder with node_modules and bundles, which .ci/libraries fills")
	flag.StringVar(&o.chosen, "run", "", "only behaviours whose ID matches this regular expression")
	flag.StringVar(&o.table, "table", "", "document whose table says what worked before (default docs/libraries.md, docs/products.md)")
	flag.BoolVar(&o.out, "out", false, "write the table there; rows of behaviours that are not run stay")
	flag.IntVar(&o.lanes, "lanes", 1, "how many behaviours run side by side")
	flag.StringVar(&o.report, "report", "", "folder for junit.xml, report.json and a trace of each failure")
	flag.StringVar(&o.peer, "peer", "", "folder with @playwright/mcp and gpt-tokenizer, to have the same done by both")
	flag.IntVar(&o.sample, "sample", 1, "with -peer: only every n-th behaviour, by ID")
	flag.StringVar(&o.figures, "figures", "", "with -peer: document to put the comparison into, between its marks")
	flag.Var(&o.at, "at", "NAME=ADDRESS of a product's server; set by this program for the one that it starts")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "libraries:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	var ok bool
	if o.kind, ok = kinds[o.of]; !ok {
		return fmt.Errorf("-of %s: want libraries, products or tasks", o.of)
	}
	if o.table == "" {
		o.table = o.kind.document
	}
	match, err := regexp.Compile(o.chosen)
	if err != nil {
		return err
	}
	chosen := suite.Select(o.kind.all(), match)
	if o.table != "" {
		if err := figures.Check(o.table, begin, end); err != nil {
			return err
		}
	} else if o.peer == "" {
		return fmt.Errorf("-of %s: needs -peer; 'make bench-tasks' says it", o.of)
	}
	switch {
	case o.packages == "" && o.table != "":
		return fmt.Errorf("needs -packages; 'make %s' says it", o.of)
	case os.Getenv("HANDRAIL_MCP_URL") != "" && o.peer != "":
		return compare(ctx, o, chosen)
	case os.Getenv("HANDRAIL_MCP_URL") != "":
		return try(ctx, o, chosen)
	case o.of == "products":
		return withServers(ctx, o, chosen)
	}
	return fmt.Errorf("needs what 'handrail ci' sets; 'make %s' does it", o.of)
}

// browser returns what a run of the chosen behaviours is told.
func (o options) browser(chosen []*suite.Behaviour) browser.Options {
	b := browser.Options{
		Of: o.kind.of(), Files: o.packages, Lanes: o.lanes, Untraced: o.report == "", Shared: o.kind.shared, Addresses: o.at,
	}
	b.Uploads = os.Getenv("HANDRAIL_SUITE_UPLOADS")
	b.URL, b.Token, b.Name = os.Getenv("HANDRAIL_MCP_URL"), os.Getenv("HANDRAIL_TOKEN"), "libraries"
	for i, page := range strings.SplitN(os.Getenv("HANDRAIL_SUITE_PAGES"), ",", 2) {
		b.Pages[i] = page
	}
	b.Behaviours = chosen
	return b
}

// try runs what was chosen against the gateway that 'handrail ci' tells of.
func try(ctx context.Context, tried options, chosen []*suite.Behaviour) error {
	text, err := os.ReadFile(tried.table)
	if err != nil {
		return err
	}
	o := tried.browser(chosen)
	n := 0
	o.Done = func(x suite.Outcome) {
		n++
		fmt.Printf("%d/%d  %-7s %6d ms  %s\n", n, len(o.Behaviours), x.Status, x.Duration.Milliseconds(), x.ID)
		if x.Status != suite.Passed {
			fmt.Println("   ", strings.ReplaceAll(x.Error, "\n", "\n    "))
		}
	}
	r, err := browser.Run(ctx, o)
	if err != nil {
		return err
	}
	if tried.report != "" {
		if err := r.WriteTo(tried.report); err != nil {
			return err
		}
	}
	rows, err := libraries.Rows(r.Outcomes, tried.packages, tried.kind.tried())
	if err != nil {
		return err
	}
	before := libraries.Parse(string(text))
	of, passed := libraries.Count(rows)
	fmt.Printf("%d %s, %d behaviours, %d passed; %s\n", of, tried.kind.noun, len(rows), passed, r.Behind)
	if tried.out {
		merged := libraries.Merge(before, rows, tried.kind.tried())
		if err := figures.Save(tried.table, begin, end, []byte(libraries.Table(merged, tried.kind.noun, r.Behind))); err != nil {
			return err
		}
	}
	if worse := libraries.Worse(before, rows); len(worse) > 0 {
		var ids []string
		for _, w := range worse {
			ids = append(ids, w.ID)
		}
		return fmt.Errorf("worked before and does not now: %s", strings.Join(ids, ", "))
	}
	return nil
}
