// Package browser carries out the browser family on a node: it drives one
// Chrome that it starts itself, one browser context per lane.
//
// The story in the order of reading: handler.go (what is offered), call.go (one invocation),
// lane.go (one conversation's context and tabs) with observer.go (whose call is told what really
// happened), act.go (how an action is performed: aim, input, outcome) with aim.go (where it goes),
// evidence.go (what was seen, as causes), phrase.go (their words), acted.go (what it answers) and
// follows.go (what it waits for first), then its tools (click.go, hover.go, drag.go, keys.go,
// type.go, fill.go, choose.go with unfold.go, upload.go), dialog.go and clipboard.go,
// navigate.go with await.go, ready.go and the room ready (when a page can be worked with) and
// restless.go (pages that would not be left), snapshot.go (with marks.go, listeners.go and the
// room outline), tools that look (screenshot.go, evaluate.go, wait.go, console.go, network.go
// with requests.go and the room record, which keeps messages and requests, read.go, pdf.go),
// cookies.go and stored.go (what an origin keeps), rules.go with record.go and the room traffic
// (requests that are blocked, answered, recorded), performance.go with the room trace (how fast
// the page is), audit.go (what keeps people out of it), download.go and emulate.go with
// throttle.go, the room page (what runs inside pages, in an isolated world), reach.go (how a ref
// or selector finds its document), internals.go (what custom elements keep to themselves),
// chrome.go (what lanes have in a Chrome), the room process (its life), the room devtools (the
// protocol); the room egress is the way out to the network. Which browser a lane works in:
// launch.go, then profile.go, attach.go and storage.go. Scripts of many steps: code.go and the
// room script.
//
// A tab has files of its own, which alone lock it, and which reach its lane and Chrome by host.go
// and nothing else: tab.go (what it reports, and waits for that), location.go (where it is),
// frames.go, foreign.go and closed.go (frames of other origins and processes, closed shadow roots),
// world.go (our script in its documents), dialogs.go, network.go, ready.go and noted.go (what calls
// note on it).
//
// Where a new thing goes: an action is a file of its own and a row of tools (handler.go); it
// aims, calls perform and answers with result. An evidence is a cause (evidence.go) with its
// phrase (phrase.go), and a code in page/outcome.js where the page shows it (pageCauses). A
// function of the page script is a constant of the room page. A role of the outline is in
// page/outline.js.
//
// Promises: Chrome never outlives the node; two lanes share nothing; dialogs, hanging scripts,
// crashed tabs and a killed browser never block a call beyond its deadline; traffic leaves through
// the node's own checked proxy only, but for a person's Chrome that the owner lets calls attach
// to; what was typed is in no evidence, log or error, and what was typed in secret in no result
// either where docs/secrets.md says so (typed.go, hider.go, page/secret.js), as far as the page
// did not change it; no result claims an effect that was not seen in the page.
//
// It must never import an agent or gateway package, or a platform package but the root: cmd
// hands it the finder and the launcher. It and its rooms devtools, process and record alone may
// import chromedp and its protocol types. It uses chromedp's transports and key codes, but not
// its browser and contexts: those wait for each command's answer before they send the next, know
// no sessions but their own, and their allocator cannot start Chrome below a guard under another
// account. See the room devtools. Tests ask all of chromedp what it sees (oracle_test.go).
package browser
