package console

import (
	"context"
	"fmt"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	x "github.com/handrail-dev/handrail/test/desk"
)

// marked is the page's expression for whether a mark is, up to a few pixels of the screen,
// there, of that size (0: a ring), and seen.
func marked(px, py, width, height int, label string) string {
	return fmt.Sprintf(`((v, at) => [...document.querySelectorAll(".mark")].some((m) => {
	const p = v.getBoundingClientRect(), r = m.getBoundingClientRect(), scale = v.videoWidth / p.width;
	const near = (a, b) => Math.abs(a - b) <= 4;
	const x = ((r.left + r.right) / 2 - p.left) * scale, y = ((r.top + r.bottom) / 2 - p.top) * scale;
	return near(x, at[0]) && near(y, at[1]) && m.classList.contains("point") === !at[2] && m.checkVisibility() &&
		(!at[2] || near(m.offsetWidth * scale, at[2]) && near(m.offsetHeight * scale, at[3])) && (m.textContent === %q);
}))(document.getElementById("screen"), [%d, %d, %d, %d])`, label, px, py, width, height)
}

// notes has the page note from now on whether an expression of it ever holds after a change:
// a mark may go before anybody asks for it.
func (b *browser) notes(expression string) (noted func() bool) {
	b.t.Helper()
	must(b.t, b.run(fmt.Sprintf(`window.noted = false; new MutationObserver(() => { noted ||= %s; }).observe(document, {childList: true, subtree: true}); 1`, expression), nil))
	return func() bool { return b.value("noted") == "true" }
}

// The page marks on the picture where a call acts while it does, for all who watch, and
// no longer; a call that acts nowhere in particular has no mark.
func TestCallsAreMarkedOnThePicture(t *testing.T) {
	w := startHeld(t)
	w.watchesHere()
	also, page := *w, *w.desk
	also.desk = &page
	also.watchesHere()
	both := func(expression string) {
		t.Helper()
		w.await(expression)
		also.await(expression)
	}
	const none = `document.querySelectorAll(".mark").length === 0`
	// Once the pages hear of calls, they know whose each is.
	for _, one := range []*watched{w, &also} {
		x.Await(t, "the page to hear of calls", func() bool {
			w.result(first(w.robot("tool.desktop.mouse", `{"action":"move","x":5,"y":5}`)))
			return one.value(`document.getElementById("latest").textContent`) == "robot: tool.desktop.mouse"
		})
	}
	both(none)

	// A drag that nobody would wait for.
	ctx, end := context.WithCancel(w.ctx)
	defer end()
	ended := make(chan capabilities.Result, 1)
	go func() {
		ended <- w.Dispatcher.Call(ctx, dispatch.Request{
			Caller: dispatch.Caller{Principal: "robot", Role: "agent", Lane: "robot"}, Tool: "tool.desktop.mouse", Surface: "test",
			Args: []byte(`{"action":"drag","path":[{"x":100,"y":150}],"x":640,"y":480,"duration_ms":600000}`),
		})
	}()
	both(marked(100, 150, 0, 0, ""))
	both(marked(640, 480, 0, 0, "robot: tool.desktop.mouse"))
	w.shots("marked")
	both(marked(640, 480, 0, 0, "robot: tool.desktop.mouse")) // at any width
	if n := w.value(`document.querySelectorAll(".mark").length`); n != "2" {
		t.Errorf("%s marks of one drag", n)
	}
	end()
	if r := w.result(ended); r.Code != capabilities.CodeCancelled {
		t.Errorf("the drag ended as %+v", r)
	}
	both(none)

	// A mark that takes no time is seen all the same.
	noted := w.notes(marked(280, 352, 160, 96, "robot: tool.desktop.screenshot"))
	x.Await(t, "the mark of a region", func() bool {
		r := w.result(first(w.robot("tool.desktop.screenshot", `{"display":"primary","region":{"x":200,"y":304,"width":160,"height":96}}`)))
		if r.Status != capabilities.StatusOK {
			t.Fatalf("the region: %+v", r)
		}
		return noted()
	})
	both(none)

	// A viewer who stops watching is shown none.
	must(t, also.run(`document.getElementById("watch").click()`, nil))
	also.await(`document.getElementById("watch").textContent === "Watch"`)
	noted = w.notes(marked(400, 300, 0, 0, "robot: tool.desktop.mouse"))
	alsoNoted := also.notes(`document.querySelector(".mark") !== null`)
	x.Await(t, "the mark of a point", func() bool {
		w.result(first(w.robot("tool.desktop.mouse", `{"action":"move","x":400,"y":300}`)))
		return noted()
	})
	if alsoNoted() {
		t.Error("a mark where nothing is watched")
	}
	w.quiet()
	also.quiet()
}
