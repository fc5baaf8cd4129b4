package libraries

import "github.com/handrail-dev/handrail/suite/browser"

// routes: pages that load parts of themselves, and bindings of markup to state.
func routes() []*library {
	return []*library{
		lib("htmx", "htmx.org",
			does("load", "presses a button whose answer comes late", "the part is in the next outline", click(`button "Load"`),
				shows("Loaded")),
			does("post", "fills the form and sends it", "the server has it and the page shows its answer", filled("ada", "Query"),
				click(`button "Send"`),
				browser.Served("echo", "POST", "q=ada"), is(`o.textContent.includes('POST')`, true)),
		),
		lib("turbo", "@hotwired/turbo",
			does("visit", "follows a link", "the next page is there without a load, and the outline has it",
				browser.Another("next", `<title>Next</title><h1>The next page</h1>`), is(`window.mark = 1`, 1),
				click(`link "Next page"`), shows("The next page"),
				is(`[window.mark, document.title]`, []any{1, "Next"})),
			does("frame", "follows a link in a frame", "only the frame is replaced",
				browser.Another("part", `<turbo-frame id=f><b>The part</b></turbo-frame>`), click(`link "Part"`), shows("The part"),
				shows("Next page")),
			does("back", "follows a link and goes back", "the first page is there again",
				browser.Another("next", `<title>Next</title><h1>The next page</h1>`), click(`link "Next page"`),
				is(`document.title`, "Next"),
				browser.Do("navigate-back", nil), shows("Next page")),
		),
		lib("alpine", "alpinejs",
			does("toggle", "presses the button", "the text is in the outline", click(`button "Toggle"`), shows("Shown"),
				is(`getComputedStyle(p).display != 'none'`, true)),
			does("model", "fills the filter", "the list follows", filled("pea", "Filter"),
				is(`document.querySelectorAll('li').length`, 1)),
		),
		lib("stimulus", "@hotwired/stimulus",
			does("action", "fills the name and presses the button", "the page greets", filled("Ada", "Name"), click(`button "Greet"`),
				is(`o.textContent`, "Hello Ada")),
		),
	}
}
