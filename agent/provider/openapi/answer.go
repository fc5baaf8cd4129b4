package openapi

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// Bounds of an answer.
const (
	maxText   = 512 << 10 // bytes of text
	maxJSON   = 900 << 10 // bytes of JSON
	maxBytes  = 16 << 20  // bytes of anything else
	maxFault  = 4 << 10   // bytes of a refusal's body that are told
	maxLinks  = 20
	maxLink   = 2048
	mostRetry = 24 * 60 * 60 // seconds that an API may ask for
)

// Kept takes the values that a provider was given out of its words; agent/withhold implements it.
type Kept interface {
	Text(s string) string
	Bytes(data []byte) []byte
	// Cut does so with data that was cut, at whose edge there may be the most of a value.
	Cut(data []byte) []byte
}

// Result makes a call's result of an answer: its status, what it says as data, text or bytes, and
// where its Link and Location headers lead. Statuses from 400 on are errors. kept takes values
// out of what is cut here; whoever has the result takes them out of that.
func Result(resp *http.Response, q *tools.Request, kept Kept) (capabilities.Output, error) {
	out := capabilities.Output{Effect: capabilities.EffectUnverifiable}
	if q.Method == http.MethodGet || q.Method == http.MethodHead || q.Method == http.MethodOptions {
		out.Effect = capabilities.EffectConfirmed
	}
	kind, params, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	most := maxBytes
	switch {
	case resp.StatusCode >= 400:
		most = maxFault
	case isJSON(kind):
		most = maxJSON
	case isText(kind):
		most = maxText
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(most)+1))
	if err != nil {
		return capabilities.Output{Effect: capabilities.EffectUnverifiable}, Failed(errors.Join(ErrBroken, err), "")
	}
	whole := len(body) <= most
	if resp.StatusCode >= 400 {
		if whole {
			body = kept.Bytes(body)
		} else {
			body = kept.Cut(body)
		}
		return capabilities.Output{}, refusal(resp, q, kind, body[:min(len(body), maxFault)])
	}
	if !whole {
		return out, capabilities.Errorf(capabilities.CodeResultTooLarge, "the API answered %d, with more than %d bytes of %.64s", resp.StatusCode,
			most, capabilities.Printable(kept.Text(kind))).
			WithHint("Ask for less, such as a smaller page.")
	}
	result := map[string]any{tools.FieldStatus: resp.StatusCode}
	out.Result = result
	if list := links(resp, kept); len(list) > 0 {
		result[tools.FieldLinks] = list
	}
	if len(body) == 0 {
		return out, nil
	}
	if isJSON(kind) || kind == "" && (body[0] == '{' || body[0] == '[') {
		if data, err := canonical.Decode(body, canonical.Limits{MaxBytes: maxJSON, MaxValues: maxJSON, Foreign: true}); err == nil {
			result[tools.FieldData] = data.Interface()
			return out, nil
		}
		if len(body) > maxText { // numbers that lose digits, say, or no JSON after all: as it came
			return out, capabilities.Errorf(capabilities.CodeResultTooLarge, "the API's JSON can only be told as text, and has more than %d bytes",
				maxText).WithHint("Ask for less, such as a smaller page.")
		}
		result[tools.FieldText], result["mime"] = strings.ToValidUTF8(string(body), "\uFFFD"), "application/json"
		return out, nil
	}
	charset := strings.ToLower(params["charset"])
	if (isText(kind) || kind == "" && utf8.Valid(body)) && (charset == "" || charset == "utf-8" || charset == "us-ascii") {
		result[tools.FieldText] = strings.ToValidUTF8(string(body), "\uFFFD")
		if kind != "" && kind != mimeText {
			result["mime"] = clean(kept.Text(kind), 128)
		}
		return out, nil
	}
	if kind == "" {
		kind = "application/octet-stream"
	}
	blob := capabilities.Blob{Field: tools.FieldBytes, MIME: clean(kept.Text(kind), 128), Bytes: body}
	result["mime"] = blob.MIME
	out.Blobs = []capabilities.Blob{blob}
	return out, nil
}

func clean(s string, most int) string { return capabilities.Clip(capabilities.Printable(s), most) }

func isText(kind string) bool {
	switch kind {
	case "application/xml", "application/yaml", "application/x-yaml", "application/x-ndjson", "application/javascript", mimeForm:
		return true
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+xml") || strings.HasSuffix(kind, "+yaml")
}

// links are where the headers Link and Location lead.
func links(resp *http.Response, kept Kept) []any {
	var list []any
	add := func(to, rel string) {
		u, err := resp.Request.URL.Parse(strings.TrimSpace(to))
		if err != nil || len(list) >= maxLinks {
			return
		}
		u.User = nil
		text := kept.Text(u.String())
		if len(text) <= maxLink && capabilities.Printable(text) == text {
			list = append(list, map[string]any{"uri": text, "name": clean(kept.Text(rel), 256)})
		}
	}
	if to := resp.Header.Get("Location"); to != "" {
		add(to, "location")
	}
	for _, header := range resp.Header.Values("Link") {
		for header != "" && len(list) < maxLinks {
			_, rest, ok := strings.Cut(header, "<")
			to, rest, closed := strings.Cut(rest, ">")
			if !ok || !closed {
				break
			}
			attributes := rest
			if i := strings.Index(rest, ",<"); i >= 0 {
				attributes, rest = rest[:i], rest[i+1:]
			} else if i := strings.Index(rest, ", <"); i >= 0 {
				attributes, rest = rest[:i], rest[i+1:]
			} else {
				rest = ""
			}
			rel := ""
			for attribute := range strings.SplitSeq(attributes, ";") {
				if name, value, ok := strings.Cut(strings.TrimSpace(attribute), "="); ok && strings.EqualFold(strings.TrimSpace(name), "rel") {
					rel = strings.Trim(strings.TrimSpace(value), `"`)
				}
			}
			add(to, rel)
			header = rest
		}
	}
	return list
}

// refusal is the error of a status from 400 on.
func refusal(resp *http.Response, q *tools.Request, kind string, body []byte) error {
	details := map[string]any{"status": resp.StatusCode}
	if (isJSON(kind) || isText(kind) || kind == "") && len(body) > 0 {
		details["body"] = capabilities.Clip(capabilities.Escape(strings.ToValidUTF8(string(body), "\uFFFD")), maxFault)
	}
	wait, told := retryAfter(resp.Header.Get("Retry-After"))
	if told {
		details["retry_after_seconds"] = wait
	}
	e := func(code capabilities.Code, format string, args ...any) *capabilities.Error {
		return capabilities.Errorf(code, format, args...).WithDetails(details)
	}
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized && len(q.Auth) == 0, status == http.StatusForbidden && len(q.Auth) == 0:
		return e(capabilities.CodeForbidden, "the API wants a credential (%d), and this provider has none", status).
			WithAction(capabilities.Action{Key: capabilities.ActionAddProvider},
				"An admin can add the provider anew with a secret for a header, or for a scheme of the document.")
	case status == http.StatusUnauthorized:
		return e(capabilities.CodeForbidden, "the API does not take the provider's credential (401)").
			WithAction(capabilities.Action{Key: capabilities.ActionListSecrets}, "An admin has to look at the secret "+names(q)+".")
	case status == http.StatusForbidden:
		return e(capabilities.CodeForbidden, "the API does not let the provider's credential do that (403)").
			WithHint("An admin can give " + names(q) + " another secret, with the rights that this needs.")
	case status == http.StatusNotFound, status == http.StatusGone:
		return e(capabilities.CodeNotFound, "the API says that there is no such thing (%d)", status).WithHint("Check the arguments.")
	case status == http.StatusConflict, status == http.StatusPreconditionFailed:
		return e(capabilities.CodeConflict, "the API says that this conflicts with what is there (%d)", status)
	case status == http.StatusTooManyRequests:
		hint := "Wait a moment and try again."
		if told {
			hint = "Try again in " + strconv.Itoa(wait) + " seconds."
		}
		return e(capabilities.CodeOverloaded, "the API takes no more calls for now (429)").WithHint(hint)
	case status == http.StatusRequestTimeout:
		err := e(capabilities.CodeExecutionFailed, "the API did not get the request in time (408)")
		err.Passing = true
		return err
	case status == http.StatusBadGateway, status == http.StatusGatewayTimeout:
		// Somebody between us and the API says so: the API may have had the request.
		err := capabilities.Wrap(capabilities.CodeExecutionFailed, ErrBroken,
			"The API did not answer whoever stands before it ("+strconv.Itoa(status)+").").WithDetails(details)
		err.Passing = true
		return err
	case status >= 500:
		err := e(capabilities.CodeExecutionFailed, "the API failed (%d)", status)
		err.Passing = status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported
		return err
	}
	return e(capabilities.CodeInvalidArguments, "the API does not take these arguments (%d)", resp.StatusCode).
		WithHint("See details.body for what it says, and correct them.")
}

// names are the credentials that a request carried.
func names(q *tools.Request) string {
	var list []string
	for _, a := range q.Auth {
		list = append(list, clean(a.Name, 64))
	}
	return "of " + strings.Join(list, " and ")
}

// retryAfter reads seconds, or a date, of RFC 9110 10.2.3.
func retryAfter(text string) (int, bool) {
	if text == "" {
		return 0, false
	}
	if n, err := strconv.Atoi(text); err == nil {
		return min(max(n, 0), mostRetry), true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return min(max(int(time.Until(at).Seconds()), 0), mostRetry), true
}

// ErrBroken is in the error of an answer that began and did not come to its end, or that is a
// proxy's word of an API that answered nothing.
var ErrBroken = errors.New("the answer broke off")

// Failed is the error of a request that got no answer; why is a sentence about it, or "". A
// client's own error holds the address, in which a key may stand, so nothing of that is kept.
func Failed(err error, why string) error {
	var known *capabilities.Error
	if errors.As(err, &known) {
		if known.Code != capabilities.CodeNavigationFailed { // as pages say it
			return known
		}
		e := capabilities.Wrap(capabilities.CodeExecutionFailed, err, strings.TrimSpace("The API's server cannot be reached. "+why))
		e.Passing = true
		return e.WithHint("Check its address, that it runs, and that the device which hosts the provider reaches it.")
	}
	var about *url.Error
	for errors.As(err, &about) {
		err = about.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return capabilities.Wrap(capabilities.CodeDeadlineExceeded, err, "The API did not answer in time.")
	}
	text := "The API ended the connection, or does not speak HTTP."
	if why != "" {
		text = "The API does not answer. " + why
	}
	e := capabilities.Wrap(capabilities.CodeExecutionFailed, err, text)
	e.Passing = true
	return e
}
