package console

import (
	"testing"

	"github.com/handrail-dev/handrail/gateway/principal"
	x "github.com/handrail-dev/handrail/test/desk"
)

// The console's page shows a camera and has a microphone heard, each by itself and only
// to who may, with nothing on it that is the screen's.
func TestCameraAndMicrophoneInTheConsole(t *testing.T) {
	w := startSensed(t, madeUp(t))
	page := "/console/live/" + string(w.node.ID)
	w.enter(principal.RoleViewer)
	w.goTo("/console/nodes")
	w.says("study")
	if n := w.value(`document.querySelectorAll('a[href^="/console/live/"]').length`); n != "0" {
		t.Errorf("a viewer is led to %s live pages", n)
	}
	w.goTo(page + "?source=camera")
	w.says("You may not watch")

	w.enter(principal.RoleOperator)
	w.Grant("ann", w.node, "tool.live.camera")
	w.Grant("ann", w.node, "tool.live.microphone")
	w.goTo(page)
	w.says("This device does not offer its screen.")
	w.goTo("/console/nodes")
	if n := w.value(`document.querySelectorAll('a[href="` + page + `"]').length`); n != "0" {
		t.Errorf("it has no screen, and %s links to it", n)
	}
	w.click("View camera")
	w.await(`document.getElementById("stage")?.dataset.source === "camera" && document.readyState === "complete"`)
	if n := w.value(`document.querySelectorAll("#take, #pause, #record, #taken, #latest").length`); n != "0" {
		t.Errorf("%s parts of the screen's page", n)
	}
	w.click("Watch")
	w.await(`document.getElementById("screen").videoWidth >= 640`)
	w.await(`document.getElementById("watching").textContent === "ann"`)
	w.await(`document.getElementById("watch-state").textContent === "Live."`)
	w.shots("live-camera")
	w.click("Stop watching")
	x.Await(t, "the view to end", func() bool { return len(w.Live.Watching(w.node.ID)) == 0 })

	w.click("Listen to microphone")
	w.await(`document.getElementById("stage")?.dataset.source === "microphone" && document.readyState === "complete"`)
	w.click("Listen")
	w.await(`document.getElementById("watch-state").textContent === "Live."`)
	must(t, w.run(`window.whep = { video: document.getElementById("screen") }; `+hearing, nil))
	must(t, w.run("whep.listen()", nil))
	w.await("!whep.video.muted && !whep.video.paused && whep.loudest().db > -50")
	w.shots("live-microphone")
	w.click("Stop listening")
	x.Await(t, "nobody to listen", func() bool { return len(w.Live.Watching(w.node.ID)) == 0 })
	// One link tells who used it, and the number leads to the call.
	w.goTo("/console/governance")
	w.click("who used the microphone last week")
	w.await(`new URLSearchParams(location.search).get("key") === "data.capture.audio" && document.readyState === "complete"`)
	who := `[...document.querySelectorAll("#privilege tbody tr")].find((r) => r.innerText.includes("tool.live.microphone"))`
	w.await(who + `?.innerText.includes("ann") && ` + who + `.innerText.includes("study") && ` + who + `.querySelectorAll("svg rect").length > 0`)
	w.shots("governance-microphone")
	must(t, w.run(`[...`+who+`.querySelectorAll("a")].at(-1).click()`, nil))
	w.await(`location.pathname === "/console/calls" && document.querySelectorAll("tbody tr").length === 1`)
	w.quiet()
}
