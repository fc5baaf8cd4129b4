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
	"github.com/handrail-dev/handrail/test/bench/figures"
)

// The table stands between these lines.
const begin, end = "<!-- libraries -->", "<!-- end of libraries -->"

func main() {
	packages := flag.String("packages", "", "folder with node_modules and bundles, which .ci/libraries fills")
	chosen := flag.String("run", "", "only behaviours whose ID matches this regular expression")
	document := flag.String("table", "docs/libraries.md", "document whose table says what worked before")
	out := flag.Bool("out", false, "write the table there; rows of behaviours that are not run stay")
	lanes := flag.Int("lanes", 1, "how many behaviours run side by side")
	report := flag.String("report", "", "folder for junit.xml, report.json and a trace of each failure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *packages, *chosen, *document, *report, *lanes, *out); err != nil {
		fmt.Fprintln(os.Stderr, "libraries:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, packages, chosen, document, report string, lanes int, out bool) error {
	match, err := regexp.Compile(chosen)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	if err := figures.Check(document, begin, end); err != nil {
		return err
	}
	o := browser.Options{Of: libraries.Behaviours(), Files: packages, Lanes: lanes, Untraced: report == "", Shared: true}
	o.Uploads = os.Getenv("HANDRAIL_SUITE_UPLOADS")
	o.URL, o.Token, o.Name = os.Getenv("HANDRAIL_MCP_URL"), os.Getenv("HANDRAIL_TOKEN"), "libraries"
	if o.URL == "" || packages == "" {
		return fmt.Errorf("needs -packages and what 'handrail ci' sets; 'make libraries' does both")
	}
	for i, page := range strings.SplitN(os.Getenv("HANDRAIL_SUITE_PAGES"), ",", 2) {
		o.Pages[i] = page
	}
	o.Behaviours = suite.Select(libraries.All(), match)
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
	if report != "" {
		if err := r.WriteTo(report); err != nil {
			return err
		}
	}
	rows, err := libraries.Rows(r.Outcomes, packages)
	if err != nil {
		return err
	}
	before := libraries.Parse(string(text))
	of, passed := libraries.Count(rows)
	fmt.Printf("%d libraries, %d behaviours, %d passed; %s\n", of, len(rows), passed, r.Behind)
	if out {
		if err := figures.Save(document, begin, end, []byte(libraries.Table(libraries.Merge(before, rows), r.Behind))); err != nil {
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
