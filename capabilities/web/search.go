package web

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// Bounds of a search.
const (
	maxAnswer    = 4 << 20 // bytes of a search server's answer, and of an index
	defaultHits  = 10
	maxHitTitle  = 300
	maxHitURL    = 2048
	maxHitText   = 500
	searchHeader = 30 * time.Second
)

// backend finds pages.
type backend interface {
	// find returns the best hits, at most most, and says how it knows.
	find(ctx context.Context, h *Handler, inv capabilities.Invocation, query string, most int) (hits []hit, evidence string, err error)
}

// hit is one page that was found.
type hit struct {
	Title string `json:"title"`
	URL   string `json:"url"`
	Text  string `json:"text,omitempty"`
}

// search finds pages by words.
func (h *Handler) search(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	args := struct {
		Query string `json:"query"`
		Limit int    `json:"limit"`
	}{Limit: defaultHits}
	if err := json.Unmarshal(inv.Args, &args); err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "")
	}
	if h.backend == nil {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNodeNotReady, "there is nothing to search the web with on this device")
	}
	hits, evidence, err := h.backend.find(ctx, h, inv, args.Query, args.Limit)
	if err != nil {
		return capabilities.Output{}, err
	}
	return capabilities.Output{Effect: capabilities.EffectConfirmed, Evidence: evidence, Result: map[string]any{"results": hits}}, nil
}

// hitOf makes of what a backend says a hit that fits the schema; false if it leads nowhere.
func hitOf(title, link, text string) (hit, bool) {
	to := address.Classify(link)
	if to.Scheme != "http" && to.Scheme != "https" || to.Host == "" || len(link) > maxHitURL {
		return hit{}, false
	}
	line := func(s string, most int) string {
		return capabilities.Clip(capabilities.Printable(strings.Join(strings.Fields(s), " ")), most)
	}
	return hit{cmp.Or(line(title, maxHitTitle), line(link, maxHitTitle)), capabilities.Printable(link), line(text, maxHitText)}, true
}

// searXNG asks a SearXNG server, which asks others.
type searXNG struct {
	base *url.URL
	way  *egress.Way // to it and nowhere else
}

// newSearXNG reads the address of a server, such as http://127.0.0.1:8888. Its owner named it, so
// that its address need not be public.
func newSearXNG(raw string, block []string) (*searXNG, error) {
	base, err := url.Parse(raw)
	to := address.Classify(raw)
	switch {
	case err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https":
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "%.200q is no address of a search server", raw).
			WithHint("Name a SearXNG server as http://127.0.0.1:8888, or a file.")
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the address of a search server has no name, query or fragment")
	}
	way, err := egress.NewWay(nil, "--web-search")
	if err == nil {
		err = way.Name([]string{to.Origin})
	}
	if err == nil {
		err = way.Narrow(nil, block)
	}
	return &searXNG{base, way}, err
}

func (s *searXNG) find(ctx context.Context, h *Handler, inv capabilities.Invocation, query string, most int) ([]hit, string, error) {
	at := s.base.JoinPath("search")
	at.RawQuery = url.Values{"q": {query}, "format": {"json"}}.Encode()
	if !has(inv.Grants, "network.egress."+at.Scheme) {
		return nil, "", capabilities.Errorf(capabilities.CodeURLBlocked, "Policy does not let this call use %s.", at.Scheme).
			WithHint("Ask the node's owner to name a search server by https.")
	}
	to := address.Classify(at.String())
	if err := s.way.Admits(ctx, to.Host, strconv.Itoa(to.Port), egress.Granted(inv.Grants)); err != nil {
		return nil, "", err
	}
	by := s.way.Transport(egress.TransportOptions{MaxBytes: maxAnswer, HeaderTimeout: searchHeader})
	defer by.CloseIdleConnections()
	resp, err := h.askFor(ctx, by, at, "application/json", inv)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		e := capabilities.Errorf(capabilities.CodeNavigationFailed, "the search server answers %d", resp.StatusCode)
		if resp.StatusCode == http.StatusForbidden {
			return nil, "", e.WithHint("Its settings.yml has to allow JSON: search: formats: [html, json].")
		}
		return nil, "", e.WithHint("Look at the search server, and try again.")
	}
	var said struct {
		Results []struct {
			Title   string `json:"title"`
			URL     string `json:"url"`
			Content string `json:"content"`
		} `json:"results"`
		Unresponsive []any `json:"unresponsive_engines"`
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, "", failed(at, err)
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return nil, "", capabilities.Wrap(capabilities.CodeNavigationFailed, err, "the search server does not answer as SearXNG does").
			WithHint("Name a SearXNG server that answers in JSON.")
	}
	hits := []hit{}
	for _, r := range said.Results {
		if one, ok := hitOf(r.Title, r.URL, r.Content); ok && len(hits) < most {
			hits = append(hits, one)
		}
	}
	evidence := fmt.Sprintf("the search server answered %d with %d results", resp.StatusCode, len(said.Results))
	if n := len(said.Unresponsive); n > 0 {
		evidence += fmt.Sprintf("; %d of its engines did not answer", n)
	}
	return hits, evidence, nil
}

// index is pages in a file, for what has no network.
type index struct{ pages []indexed }

type indexed struct {
	hit
	words string
}

// readIndex reads a file with a JSON object {"title", "url", "text"} on each line.
func readIndex(name string) (*index, error) {
	bad := func(format string, args ...any) error {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "the search index cannot be used: "+format, args...).
			WithHint(`Write one JSON object a line: {"title": …, "url": …, "text": …}.`)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, bad("%v", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxAnswer+1))
	if err != nil || len(data) > maxAnswer {
		return nil, bad("it cannot be read, or has more than %d bytes", maxAnswer)
	}
	x := &index{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxAnswer)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var p hit
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return nil, bad("line %d is no JSON object", n)
		}
		one, ok := hitOf(p.Title, p.URL, p.Text)
		if !ok {
			return nil, bad("line %d has no http or https url", n)
		}
		x.pages = append(x.pages, indexed{one, strings.ToLower(p.Title + " " + p.Title + " " + p.Text)})
	}
	return x, nil
}

func (x *index) find(_ context.Context, _ *Handler, _ capabilities.Invocation, query string, most int) ([]hit, string, error) {
	words := strings.FieldsFunc(strings.ToLower(query), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	type scored struct {
		hit
		score int
	}
	var found []scored
	for _, p := range x.pages {
		score := 0
		for _, w := range words {
			if len(w) > 2 {
				score += strings.Count(p.words, w)
			}
		}
		if score > 0 {
			found = append(found, scored{p.hit, score})
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].score > found[j].score })
	hits := []hit{}
	for _, f := range found[:min(len(found), most)] {
		hits = append(hits, f.hit)
	}
	return hits, fmt.Sprintf("%d of %d pages of the index have a word of it", len(found), len(x.pages)), nil
}
