//go:build linux

package browser

import (
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// BenchmarkReady is how long it takes until a page can be worked with, beside its floor:
// bare Chrome's own parsed document, or first paint of one that never is parsed.
func BenchmarkReady(b *testing.B) {
	s := slowSite(b, map[string]string{
		"/image": html(`<p>here</p><img src=/hang>`),
		"/never": html(`<p>here</p><script>fetch('/hang')</script>`),
		"/plain": smallPage,
		"/link":  html(`<a id=a href=/plain>A</a>`),
	})
	n := newNode(b, s.URL)
	n.goTo(s.URL + "/plain")
	t := n.tabOf()
	for _, path := range []string{"/plain", "/image", "/never", "/stream"} {
		b.Run(path[1:]+"-floor", func(b *testing.B) {
			for b.Loop() {
				before, _ := t.look()
				if _, err := devtools.Do(b.Context(), t.s, page.Navigate, page.NavigateParams{URL: s.URL + path}); err != nil {
					b.Fatal(err)
				}
				t.await(b.Context(), func(s tabState) bool {
					return s.documents > before.documents && (s.domReady || path == "/stream" && !s.progress.Shown.IsZero())
				})
			}
		})
		b.Run(path[1:], func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				n.goTo(s.URL + path)
				took = append(took, time.Since(began))
			}
			report(b, took)
		})
	}
	b.Run("click-that-navigates", func(b *testing.B) {
		var took []time.Duration
		for b.Loop() {
			n.goTo(s.URL + "/link")
			began := time.Now()
			n.must("click", obj{"selector": "#a"})
			took = append(took, time.Since(began))
		}
		report(b, took)
	})
}
