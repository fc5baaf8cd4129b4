package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
	"github.com/handrail-dev/handrail/capabilities/egress"
	"github.com/handrail-dev/handrail/capabilities/markdown"
)

// Bounds of a fetch.
const (
	maxBody      = 4 << 20  // bytes of text that are read, unpacked
	maxFile      = 64 << 20 // bytes of what is no text
	maxRedirects = 10
	defaultChars = 20_000
)

// arguments are those of a call, which fit the schema.
type arguments struct {
	URL   string `json:"url"`
	Start int    `json:"start_index"`
	Max   int    `json:"max_chars"`
	Main  *bool  `json:"main_content"`
}

// result is what the schema describes.
type result struct {
	URL         string `json:"url"`
	Status      int    `json:"status"`
	ContentType string `json:"content_type"`
	Title       string `json:"title,omitempty"`
	Content     string `json:"content"`
	Total       int    `json:"total_chars"`
	Next        int    `json:"next_index,omitempty"` // where the text goes on; 0: it does not
	Redirect    string `json:"redirect,omitempty"`

	Links []markdown.Link `json:"links,omitempty"`
	// Cut says that the answer was longer than what is read.
	Cut bool `json:"answer_cut,omitempty"`
}

// fetch asks for an address and returns the answer as text.
func (h *Handler) fetch(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	args := arguments{Max: defaultChars}
	if err := json.Unmarshal(inv.Args, &args); err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "")
	}
	way := h.way.For(inv.Reach)
	to, err := judge(ctx, way, args.URL, inv.Grants)
	if err != nil {
		return capabilities.Output{}, err
	}
	transport := way.Transport(egress.TransportOptions{MaxBytes: maxFile, HeaderTimeout: 60 * time.Second})
	defer transport.CloseIdleConnections()
	for hop := 0; ; hop++ {
		resp, err := h.ask(ctx, transport, to, inv)
		if err != nil {
			return capabilities.Output{}, err
		}
		next, err := redirected(resp)
		if err != nil {
			return capabilities.Output{}, err
		}
		if next == nil {
			defer resp.Body.Close()
			return h.answer(ctx, inv, args, resp)
		}
		_ = resp.Body.Close()
		if !samePlace(to, next) {
			return elsewhere(resp, next), nil
		}
		if hop == maxRedirects {
			return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNavigationFailed,
				"%.253s sends requests round in a circle: more than %d redirects", to.Host, maxRedirects)
		}
		if to, err = judge(ctx, way, next.String(), inv.Grants); err != nil {
			return capabilities.Output{}, err
		}
	}
}

// judge decides on an address and returns it with the host that was decided on: how Go reads an
// address and how the rules do are two things. Of a host on no list of the owner's a person is
// asked.
func judge(ctx context.Context, way *egress.Way, raw string, grants []string) (*url.URL, error) {
	to := address.Classify(raw)
	u, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case to.Scheme != "http" && to.Scheme != "https":
		return nil, capabilities.Errorf(capabilities.CodeURLBlocked, "Addresses of the scheme %.40q are not fetched.", to.Scheme).
			WithHint("Use an http or https address, with http:// or https:// in front.")
	case err != nil || to.Host == "":
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "The url is not well formed, or names no host.")
	case u.User != nil:
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "The url holds a name or a password.").
			WithHint("Leave out what stands before the @: no credentials are sent.")
	case !has(grants, "network.egress."+to.Scheme):
		return nil, capabilities.Errorf(capabilities.CodeURLBlocked, "Policy does not let this call use %s.", to.Scheme).
			WithHint("Use the https address, if there is one.")
	}
	port := strconv.Itoa(to.Port)
	if err := way.Admits(ctx, to.Host, port, egress.Granted(grants)); err != nil {
		return nil, err
	}
	u.Scheme, u.Fragment, u.RawFragment = to.Scheme, "", ""
	u.Host = net.JoinHostPort(to.Host, port)
	if to.Scheme == "http" && port == "80" || to.Scheme == "https" && port == "443" {
		if u.Host = to.Host; strings.Contains(to.Host, ":") {
			u.Host = "[" + to.Host + "]"
		}
	}
	return u, nil
}

// accept asks for Markdown first, which some servers have, then for what can be made it.
const accept = "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5"

// ask sends one request. Redirects are the caller's.
func (h *Handler) ask(ctx context.Context, by http.RoundTripper, to *url.URL, inv capabilities.Invocation) (*http.Response, error) {
	return h.askFor(ctx, by, to, accept, inv)
}

// askFor is ask for an answer of some kind.
func (h *Handler) askFor(ctx context.Context, by http.RoundTripper, to *url.URL, accept string,
	inv capabilities.Invocation) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "The url is not well formed.")
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("User-Agent", "handrail")
	inv.Progress(capabilities.Progress{Message: "asking " + capabilities.Clip(to.Host, 150)})
	resp, err := by.RoundTrip(r)
	if capabilities.CodeOf(err) != capabilities.CodeURLBlocked { // else nothing was sent
		inv.Observe("network.egress."+to.Scheme, egress.HostOf(to))
	}
	if err != nil {
		return nil, failed(to, err)
	}
	return resp, nil
}

// failed words an error of the way to a server, or of its answer.
func failed(to *url.URL, err error) error {
	var own *capabilities.Error
	if !errors.As(err, &own) {
		return capabilities.Wrap(capabilities.CodeNavigationFailed, err,
			fmt.Sprintf("%.253s does not answer as a web server does: %s.", to.Host, capabilities.Brief(capabilities.Escape(err.Error()), 300)))
	}
	if own.Code == capabilities.CodeURLBlocked && own.Hint == "" {
		own = own.WithAction(capabilities.Action{Key: capabilities.ActionAllowOrigin},
			"Use a public web address, or ask the node's owner to name this origin.")
	}
	return own
}

// redirected returns where an answer sends the request on; nil: nowhere.
func redirected(resp *http.Response) (*url.URL, error) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil
	}
	if resp.Header.Get("Location") == "" {
		return nil, nil
	}
	next, err := resp.Location()
	if err != nil || len(next.String()) > maxURL {
		_ = resp.Body.Close()
		return nil, capabilities.Errorf(capabilities.CodeNavigationFailed, "%.253s sends requests on to what is no address",
			resp.Request.URL.Host)
	}
	next.User = nil
	return next, nil
}

// samePlace reports whether a redirect stays where the call was allowed to go: at one host and
// port, or from there to the same host by https.
func samePlace(from, to *url.URL) bool {
	a, b := address.Classify(from.String()), address.Classify(to.String())
	return a.Host == b.Host &&
		(a.Scheme == b.Scheme && a.Port == b.Port || a.Scheme == "http" && b.Scheme == "https" && a.Port == 80 && b.Port == 443)
}

// elsewhere is the result of a redirect to another place, on which nobody has decided.
func elsewhere(resp *http.Response, next *url.URL) capabilities.Output {
	return capabilities.Output{
		Effect:   capabilities.EffectConfirmed,
		Evidence: fmt.Sprintf("the server answered %d; the redirect leads elsewhere and was not followed", resp.StatusCode),
		Result:   &result{URL: resp.Request.URL.String(), Status: resp.StatusCode, ContentType: typeOf(resp), Redirect: next.String()},
	}
}

// maxURL bounds the addresses of a result, in bytes.
const maxURL = 8192

// typeOf is the media type that an answer states, in one spelling; "" if it states none.
func typeOf(resp *http.Response) string {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || len(media) > 128 {
		return ""
	}
	return capabilities.Printable(media)
}

// answer makes the result of the answer at the end of the way.
func (h *Handler) answer(ctx context.Context, inv capabilities.Invocation, args arguments,
	resp *http.Response) (capabilities.Output, error) {
	at := resp.Request.URL
	body := &counted{r: resp.Body, tell: inv.Progress, total: resp.ContentLength}
	first, err := io.ReadAll(io.LimitReader(body, 4096))
	if err != nil {
		return capabilities.Output{}, failed(at, err)
	}
	r := &result{URL: at.String(), Status: resp.StatusCode, ContentType: typeOf(resp)}
	out := capabilities.Output{
		Result: r, Effect: capabilities.EffectConfirmed, Evidence: "the server answered " + strconv.Itoa(resp.StatusCode),
	}
	if r.ContentType == "" || r.ContentType == "application/octet-stream" {
		r.ContentType, _, _ = strings.Cut(http.DetectContentType(first), ";")
	}
	if !isText(r.ContentType, first) {
		err := keep(inv, &out, r, resp, io.MultiReader(strings.NewReader(string(first)), body))
		if err != nil {
			return capabilities.Output{}, failed(at, err)
		}
		return out, nil
	}
	rest, err := io.ReadAll(io.LimitReader(body, int64(maxBody-len(first)+1)))
	if err != nil {
		return capabilities.Output{}, failed(at, err)
	}
	data := append(first, rest...)
	if len(data) > maxBody {
		data, r.Cut = data[:maxBody], true
	}
	text, err := h.text(ctx, data, resp.Header.Get("Content-Type"), r, at, args.Main == nil || *args.Main)
	if err != nil {
		return capabilities.Output{}, err
	}
	r.window(text, args.Start, args.Max)
	return out, nil
}

// window puts the characters of text into the result that the call asked for.
func (r *result) window(text string, start, most int) {
	runes := []rune(text)
	r.Total = len(runes)
	from := min(start, len(runes))
	to := min(from+most, len(runes))
	r.Content = string(runes[from:to])
	if to < len(runes) {
		r.Next = to
	}
}

// keep leaves what is no text as an artifact.
func keep(inv capabilities.Invocation, out *capabilities.Output, r *result, resp *http.Response, body io.Reader) error {
	w, err := inv.CreateArtifact(capabilities.ArtifactSpec{Name: nameOf(resp), MIME: r.ContentType, Limit: maxFile})
	if err != nil {
		return err
	}
	defer w.Abort()
	inv.Observe("data.write.temp", "artifact")
	if _, err := io.Copy(w, body); err != nil {
		return err
	}
	kept, err := w.Commit()
	if err != nil {
		return err
	}
	out.Artifacts = append(out.Artifacts, kept)
	return nil
}

// nameOf is a plain file name for an answer: the one that it states, or the end of its address.
func nameOf(resp *http.Response) string {
	_, params, _ := mime.ParseMediaType(resp.Header.Get("Content-Disposition"))
	for _, name := range []string{params["filename"], path.Base(resp.Request.URL.Path)} {
		name = capabilities.Printable(name[strings.LastIndexAny(name, `/\`)+1:])
		name = strings.TrimLeft(strings.Map(func(c rune) rune {
			if strings.ContainsRune(`<>:"|?*`, c) {
				return '_'
			}
			return c
		}, name), ". ")
		if name = capabilities.Clip(strings.TrimSpace(name), 120); name != "" {
			return name
		}
	}
	return "download"
}

// counted tells a person who waits how much of an answer came.
type counted struct {
	r     io.Reader
	tell  func(capabilities.Progress)
	total int64 // -1: not known
	done  int64
	told  int64
}

// progressEvery is after how many bytes progress is told.
const progressEvery = 256 << 10

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.done += int64(n); c.done-c.told >= progressEvery {
		c.told = c.done
		c.tell(capabilities.Progress{Done: float64(c.done), Total: float64(max(c.total, 0)), Message: "reading the answer"})
	}
	return n, err
}
