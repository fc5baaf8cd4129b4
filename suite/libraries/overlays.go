package libraries

import "github.com/handrail-dev/handrail/suite/browser"

// overlays: dialogs, menus, tours and banners.
func overlays() []*library {
	return []*library{
		lib("bootstrap", "bootstrap",
			does("modal", "opens the modal and presses its button", "it is answered and gone", click(`button "Open modal"`), click(`button "Yes"`),
				is(`[document.title, m.classList.contains('show')]`, []any{"yes", false})),
			does("modal-escape", "opens the modal and presses Escape", "it is gone", click(`button "Open modal"`), key("Escape"), is(`getComputedStyle(m).display`, "none")),
			does("dropdown", "opens the menu and clicks an entry", "it ran", click(`button "Menu"`), click(`"Cut"`), is(`document.title`, "cut")),
			does("collapse", "opens what is folded", "it is shown", click(`button "More"`), is(`c.classList.contains('show')`, true), shows("About it")),
			does("offcanvas", "opens the side and closes it", "it is gone", click(`button "Side"`), click(`button "Close side"`), is(`getComputedStyle(o).visibility`, "hidden")),
			does("tooltip", "hovers the button", "the tip is in the outline", hover(`button "Tip"`), is(`!!document.querySelector('.tooltip.show')`, true), shows("Explains it")),
		),
		lib("sweetalert2", "sweetalert2",
			does("confirm", "opens the question and confirms", "the page has the answer", click(`button "Delete"`), click(`button "Yes, delete"`), is(`res`, true)),
			does("cancel", "opens the question and cancels", "the page has the answer", click(`button "Delete"`), click(`button "Cancel"`), is(`res`, false)),
			does("prompt", "opens the question for a name, fills it and confirms", "the page has the name", click(`button "Ask"`), filledOn("Ada", ".swal2-input"),
				click(`button "OK"`), is(`res`, "Ada")),
		),
		lib("driver", "driver.js",
			does("next", "goes on to the second step", "it is the step", click(`button "Next`), is(`dr.getActiveIndex()`, 1)),
			does("close", "closes the tour and presses what was below", "the page is free", click(`button "Close"`), is(`dr.isActive()`, false), click(`button "Beta"`),
				is(`document.title`, "b")),
			does("covered", "presses what the tour covers", "it is refused with what covers it, and not pressed",
				browser.Refused("element_obscured", "click", map[string]any{"selector": "#b"}), is(`document.title`, "driver.js")),
		),
		lib("intro", "intro.js",
			does("next", "goes on to the second step", "its text is shown", click(`"Next"`), is(`document.querySelector('.introjs-tooltiptext').textContent`, "Second hint")),
			does("escape", "leaves the tour by Escape and presses a button", "the page is free", key("Escape"), is(`!document.querySelector('.introjs-overlay')`, true),
				click(`button "Beta"`), is(`document.title`, "b")),
		),
		lib("cookieconsent", "vanilla-cookieconsent",
			does("accept", "accepts all and presses Buy", "the consent is given and the page is free", click(`button "Accept all"`),
				is(`CookieConsent.acceptedCategory('analytics')`, true), click(`button "Buy"`), is(`document.title`, "buy")),
			does("reject", "rejects all", "no consent is given", click(`button "Reject all"`), is(`[CookieConsent.validConsent(), CookieConsent.acceptedCategory('analytics')]`, []bool{true, false})),
			does("covered", "presses Buy below the banner", "it is refused with what covers it",
				browser.Refused("element_obscured", "click", map[string]any{"selector": "button"}), is(`document.title`, "CookieConsent")),
			does("preferences", "opens the preferences, checks one and saves", "it is the consent", click(`button "Manage"`), filled("true", "Analytics"), click(`button "Save choice"`),
				is(`CookieConsent.acceptedCategory('analytics')`, true)),
		),
		lib("tippy", "tippy.js",
			does("menu", "opens what floats and presses its button", "it ran", click(`button "Menu"`), click(`button "Cut"`), is(`document.title`, "cut")),
			does("hover", "hovers the button", "the hint is in the outline", hover(`button "Hint"`), is(`!!document.querySelector('.tippy-box')`, true), shows("Explains it")),
		),
	}
}
