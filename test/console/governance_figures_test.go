//go:build unix

package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/test/bench/figures"
	"github.com/handrail-dev/handrail/test/site"
)

// yearOfCalls are the calls of a year that ten million packets are about: four for each.
const yearOfCalls = 2_500_000

// series numbers what a number counts, as the store has it.
type series map[[5]string]int

func (s series) of(fact, tool, a, b, c string) int {
	at := [5]string{fact, tool, a, b, c}
	if s[at] == 0 {
		s[at] = len(s) + 1
	}
	return s[at]
}

// oneCall adds what a call's packets say: 60 tools, 8 principals, 6 devices, three policies.
func oneCall(r *rand.Rand, s series, add func(id int)) {
	pick := func(what string, of int) string { return fmt.Sprintf("%s-%d", what, r.IntN(of)) }
	n := r.IntN(60)
	tool, who, node, rule := fmt.Sprintf("tool.made-%d.act", n), pick("agent", 8), pick("node", 6), pick("rule", 12)
	class := []string{"t0", "t1", "t2", "t3"}[n%4]
	keys := []string{"data.read.workspace", "network.egress.https", "execution.proc.spawn"}
	if n%4 == 3 {
		keys = append(keys, "privileged.secret.read")
	}
	effect, code := "allow", ""
	switch r.IntN(20) {
	case 0:
		effect, code = "deny", "denied_by_policy"
	case 1, 2:
		effect = "allow by a person"
	}
	add(s.of("decisions", tool, effect, code, rule))
	add(s.of("profiles", tool, "sha256:"+strings.Repeat(fmt.Sprint(n%10), 64), "sha256:"+strings.Repeat(fmt.Sprint(r.IntN(3)), 64), ""))
	for _, k := range keys {
		add(s.of("declared", tool, k, "", ""))
		add(s.of("effective", tool, k, "", ""))
		if effect != "allow" {
			category, _, _ := strings.Cut(k, ".")
			add(s.of("refusals", tool, category, effect, rule))
		}
	}
	if effect == "deny" {
		add(s.of("outcomes", tool, code, "", ""))
		return
	}
	add(s.of("executions", tool, class, class, node))
	add(s.of("outcomes", tool, []string{"ok", "ok", "ok", "timeout"}[r.IntN(4)], "", ""))
	for _, k := range keys {
		add(s.of("used", tool, k, who, node))
		if r.IntN(2) == 0 {
			add(s.of("observed", tool, k, "", ""))
		}
	}
	if n%4 == 3 {
		add(s.of("privileged", tool, who, "", ""))
	}
	if r.IntN(1000) == 0 {
		add(s.of("drifts", tool, []string{"warning", "violation", "critical"}[r.IntN(3)], "network", "network.egress.http"))
	}
}

// yearOfNumbers puts the numbers of such a year behind those of the site, as a fold leaves them: by
// the hour for 60 days, by the day and by the month. It returns how many numbers there are.
func (d *desk) yearOfNumbers() (numbers int) {
	now := time.Now().UTC()
	day := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	type at struct{ grain, start int64 }
	sums, s, r := map[at]map[int]int64{}, series{}, rand.New(rand.NewPCG(1, 2))
	const hours = 365 * 24
	for h := range hours {
		t := day.Add(-time.Duration(h+1) * time.Hour)
		into := []map[int]int64{}
		for grain, start := range []time.Time{t, t.Truncate(24 * time.Hour), time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)} {
			if grain == 0 && h >= 60*24 {
				continue
			}
			w := at{int64(grain), start.Unix()}
			if sums[w] == nil {
				sums[w] = map[int]int64{}
			}
			into = append(into, sums[w])
		}
		for range yearOfCalls / hours {
			oneCall(r, s, func(id int) {
				for _, sum := range into {
					sum[id]++
				}
			})
		}
	}
	must(d.t, d.Store.Write(context.Background(), func(tx *store.Tx) error {
		var had int
		if err := tx.QueryRow("SELECT COALESCE(MAX(id), 0) FROM governance_series").Scan(&had); err != nil {
			return err
		}
		for of, id := range s {
			if _, err := tx.Exec("INSERT INTO governance_series (id, fact, tool, a, b, c) VALUES ($1, $2, $3, $4, $5, $6)", had+id, of[0], of[1], of[2], of[3], of[4]); err != nil {
				return err
			}
		}
		for w, sum := range sums {
			list := make([]int64, 0, 2*len(sum))
			for _, id := range slices.Sorted(maps.Keys(sum)) {
				list = append(list, int64(had+id), sum[id])
			}
			numbers += len(sum)
			text, err := json.Marshal(list)
			if err != nil {
				return err
			}
			if _, err := tx.Exec("INSERT INTO governance_time (grain, start, numbers) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", w.grain, w.start, string(text)); err != nil {
				return err
			}
		}
		return nil
	}))
	return numbers
}

// TestGovernanceFigures measures the pages of governance in a real Chrome, over the numbers of ten
// million packets; `make bench-governance` runs it. Each page comes after one more call, so that
// nothing that was read before stands any more.
func TestGovernanceFigures(t *testing.T) {
	if !*measure {
		t.Skip("measures only with -figures")
	}
	load := figures.Load()
	d := startSite(t)
	numbers := d.yearOfNumbers()
	d.Restart() // it reads what there is when it starts
	d.node = d.AddNode("study", d.handler)
	d.enter(principal.RoleAdmin)
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s, %d cores, %s; %s; load average %s; medians of 9 pages; %d numbers of a year.\n\n", figures.Machine(), runtime.NumCPU(),
		runtime.Version(), time.Now().Format(time.DateOnly), load, numbers)
	text.WriteString("| page | first paint | target | | until it is loaded | its answer begins |\n|---|---|---|---|---|---|\n")
	for _, page := range []struct{ name, address string }{
		{"the last day", "/console/governance?days=1"}, {"the last week", "/console/governance?days=7"}, {"the last 30 days", "/console/governance?days=30"},
		{"the last 90 days", "/console/governance?days=90"}, {"the last year", "/console/governance?days=365"},
		{"who used the microphone last week", "/console/governance?days=7&key=data.capture.audio"}, {"the report, 30 days", "/console/governance/report?days=30"},
		{"beside them: the stop switch", "/console/stop"},
	} {
		var paint, loaded, first []float64
		for range 9 {
			d.result(d.call("robot", string(site.ToolEcho), `{"text":"x"}`))
			d.goTo(page.address)
			d.await(`performance.getEntriesByType("navigation")[0].loadEventEnd > 0 && performance.getEntriesByName("first-contentful-paint").length > 0`)
			paint = append(paint, d.number(`performance.getEntriesByName("first-contentful-paint")[0].startTime`))
			loaded = append(loaded, d.number(`performance.getEntriesByType("navigation")[0].loadEventEnd`))
			first = append(first, d.number(`performance.getEntriesByType("navigation")[0].responseStart`))
		}
		verdict := "met"
		if figures.Median(paint) > 150 {
			verdict = "missed"
		}
		fmt.Fprintf(&text, "| %s | %.0f ms | ≤ 150 ms | %s | %.0f ms | %.0f ms |\n", page.name, figures.Median(paint), verdict, figures.Median(loaded), figures.Median(first))
	}
	t.Log("\n" + text.String())
	if *into != "" {
		must(t, figures.Save(*into, "<!-- figures of governance: written by test/console -->", "<!-- end of the figures of governance -->", text.Bytes()))
	}
}
