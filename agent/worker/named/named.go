package named

import (
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

var (
	quoted = capabilities.Pattern(`"([^"]*)"|“([^”]*)”|„([^“”]*)[“”]|«\s*([^»]*?)\s*»`)
	// A name that ends in a top-level domain is an address; one with another ending is a file.
	page = capabilities.Pattern(
		`(?i)\b(?:https?|ftp)://\S+|(?:[\pL\d-]+\.)+(?:com|org|net|edu|gov|io|dev|app|info|biz|eu|uk|de|fr|es|it|at|ch|nl|be|pl|se|no|fi|dk|us|ca|au|jp)\b(?:[:/]\S*)?`)
	file = capabilities.Pattern(
		`(?i)(?:~|\.{1,2})?/[\pL\d_.~/-]+|[\pL\d_.-]+/[\pL\d_./-]*|[\pL\d_-]+(?:\.[\pL\d_-]+)*\.[a-z][a-z0-9]{0,4}\b`)
)

// Quote returns the first words that stand in quotation marks, "" if none do.
func Quote(message string) string {
	for _, m := range quoted().FindAllStringSubmatch(message, -1) {
		if words := strings.Join(m[1:], ""); words != "" {
			return words
		}
	}
	return ""
}

// Page returns the first address of a page, with a scheme; "" if there is none.
func Page(message string) string {
	url := strings.TrimRight(page().FindString(message), ".,;:!?)»”\"'")
	if url != "" && !strings.Contains(url, "://") {
		url = "https://" + url
	}
	return url
}

// File returns the first path, or name with an ending; "" if there is none. The address of a page
// is neither.
func File(message string) string {
	return strings.TrimRight(file().FindString(page().ReplaceAllString(message, " ")), ".")
}

// Replace puts a word in the place of each quotation, page and file. Quotations go first: what they
// name is theirs.
func Replace(message, quote, url, path string) string {
	message = quoted().ReplaceAllString(message, quote)
	message = page().ReplaceAllString(message, url)
	return file().ReplaceAllString(message, path)
}

// Unquoted returns a message with a space for each quotation.
func Unquoted(message string) string { return quoted().ReplaceAllString(message, " ") }
