package page

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// taken are the members of elements and documents that the page script asks for and that
// a page can hide by the name of a field or an image (HTML standard, named properties of
// form and of Document). Each belongs to one of names.js's classes and is asked of
// nothing but nodes, documents, ranges and windows' event targets.
const taken = "activeElement activeViewTransition addEventListener adoptedStyleSheets assignedSlot attributes baseURI body " +
	"checkVisibility childElementCount childNodes children className clientHeight clientWidth " +
	"cloneNode closest compareDocumentPosition contains contentType createRange createTreeWalker defaultView dispatchEvent documentElement " +
	"editContext elementFromPoint execCommand " +
	"firstChild firstElementChild focus getAnimations getAttribute getBoundingClientRect getClientRects getElementById getElementsByTagName " +
	"getRootNode " +
	"hasAttribute hasAttributes hasChildNodes id inert innerText isConnected isContentEditable matches nextElementSibling nodeType " +
	"offsetHeight offsetWidth outerHTML ownerDocument parentElement " +
	"parentNode previousElementSibling querySelector querySelectorAll readyState removeEventListener scrollHeight scrollIntoView scrollLeft " +
	"scrollTop scrollWidth scrollingElement shadowRoot " +
	"styleSheets tabIndex tagName textContent title " +
	"URL"

var takenNames = capabilities.Pattern(`\.(` + strings.ReplaceAll(taken, " ", "|") + `)\b`)

// secondEnd makes a name its second one, which no page knows.
var secondEnd = func() string {
	random := make([]byte, 8)
	rand.Read(random) // never fails
	return "$" + hex.EncodeToString(random)
}()

// Taken lists those members.
func Taken() []string { return strings.Fields(taken) }

// Second returns the second name of a member.
func Second(name string) string { return name + secondEnd }

// renamed returns the script with second names in place of those, and NAMES in front of it:
// pairs of a name and its second one.
func renamed(script string) string {
	var pairs [][2]string
	for name := range strings.FieldsSeq(taken) {
		pairs = append(pairs, [2]string{name, name + secondEnd})
	}
	names, _ := json.Marshal(pairs) // of strings: cannot fail
	return "const NAMES = " + string(names) + ";\n" + takenNames().ReplaceAllString(script, ".${1}$"+secondEnd)
}
