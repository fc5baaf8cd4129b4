package web

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"github.com/handrail-dev/handrail/capabilities/markdown"
)

// textTypes are media types of texts that do not say so by their names.
var textTypes = []string{
	"application/json", "application/xml", "application/xhtml+xml", "application/javascript", "application/ecmascript",
	"application/x-javascript", "application/x-ndjson", "application/yaml", "application/x-yaml", "application/toml", "application/sql",
	"application/graphql", "application/x-sh", "application/rtf",
}

// isText reports whether an answer of that type, which begins so, is read as text.
func isText(media string, first []byte) bool {
	text := strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+json") ||
		strings.HasSuffix(media, "+xml") && media != "image/svg+xml" || slices.Contains(textTypes, media)
	if !text {
		return false
	}
	wide := len(first) > 1 && (first[0] == 0xfe && first[1] == 0xff || first[0] == 0xff && first[1] == 0xfe)
	return wide || !strings.ContainsRune(string(first), 0)
}

func isHTML(media string) bool { return media == "text/html" || media == "application/xhtml+xml" }

// text makes an answer's bytes text, and fills in what the result says of it.
func (h *Handler) text(ctx context.Context, data []byte, contentType string, r *result, at *url.URL, main bool) (string, error) {
	text := decode(data, contentType)
	if !isHTML(r.ContentType) {
		return markdown.Clean(text), nil
	}
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	done := make(chan markdown.Page, 1)
	go func() {
		defer func() { <-h.slots }()
		done <- markdown.Convert(text, at, main)
	}()
	select {
	case p := <-done:
		r.Title, r.Links, r.Cut = p.Title, p.Links, r.Cut || p.Cut
		return p.Text, nil
	case <-ctx.Done(): // the page is bounded: its work ends by itself
		return "", context.Cause(ctx)
	}
}

// decode makes bytes UTF-8: by their mark, by what the answer says, by what the page says, else as
// they are if that is UTF-8, else as browsers do.
func decode(data []byte, contentType string) string {
	enc, name, certain := charset.DetermineEncoding(data[:min(len(data), 1024)], contentType)
	if name == "utf-8" || !certain && utf8.Valid(data) {
		return strings.TrimPrefix(strings.ToValidUTF8(string(data), "\uFFFD"), "\uFEFF")
	}
	text, err := enc.NewDecoder().Bytes(data)
	if err != nil {
		return strings.ToValidUTF8(string(data), "\uFFFD")
	}
	return strings.TrimPrefix(strings.ToValidUTF8(string(text), "\uFFFD"), "\uFEFF")
}
