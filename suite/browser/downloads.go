package browser

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// downloads: where the file is, what is in it, and that the page goes on.
func downloads() []*behaviour {
	const content = "0123456789"
	sum := sha256.Sum256([]byte(content))
	digest := hex.EncodeToString(sum[:])
	whole := func(r *run) {
		id := suite.Pick(r.Last().Result, "downloads.0.id")
		if id == nil {
			r.Fail("%s reported no download: %s", r.Last().Tool, suite.Brief(r.Last().Result))
		}
		c := r.Made(r.Call("network-requests", with("download", id)))
		if string(c.Blob) != content {
			r.Fail("the download's bytes are %q, want %q (%s)", capabilities.Brief(string(c.Blob), 100), content, c.End())
		}
	}
	link := html(`<title>list</title><a id=x href="download/report.bin">Get</a>`)
	click := finished(call("click", with("selector", "#x")))
	return []*behaviour{
		b("download.link", "a link to a file", "name, size and hash are told, and the page is as it was", link, click,
			field("downloads.0.name", "report.bin"), field("downloads.0.bytes", len(content)), field("downloads.0.sha256", digest),
			served("download/report.bin"), holds(`document.title`, "list")),
		b("download.fetch", "a file that was downloaded", "its bytes can be had", link, click, whole, served("download/report.bin")),
		b("download.attribute", "a link with the download attribute", "it is downloaded under that name",
			html(`<a id=x href="slow?ms=1&type=text/plain&body=0123456789" download="notes.txt">Get</a>`), click,
			field("downloads.0.name", "notes.txt"), field("downloads.0.sha256", digest), served("slow")),
		b("download.blob", "a file made by the page", "it is downloaded whole",
			html(`<a id=x download="made.txt">Get</a><script>x.href=URL.createObjectURL(new Blob(['0123456789']))</script>`), click,
			field("downloads.0.name", "made.txt"), whole, holds(`x.href.startsWith('blob:')`, true)),
		b("download.data-url", "a file within the link itself", "it is downloaded whole",
			html(`<a id=x download="d.txt" href="data:text/plain,0123456789">Get</a>`), click, field("downloads.0.sha256", digest),
			holds(`x.download`, "d.txt")),
		b("download.navigate", "an address that is a file", "opening it reports the download; the page is as it was", html(`<title>list</title>`),
			finished(either("navigate", with("url", "{A}download/direct.bin"))), field("downloads.0.name", "direct.bin"),
			served("download/direct.bin"), holds(`document.title`, "list")),
		b("download.name-is-tame", "a file name that climbs out of its folder", "the name is tame",
			html(`<title>list</title><a id=x download="../../../etc/cron.d/evil" href="data:text/plain,0123456789">Get</a>`), click,
			check(func(_ *run, c *suite.Call) string {
				name, _ := suite.Pick(c.Result, "downloads.0.name").(string)
				path, _ := suite.Pick(c.Result, "downloads.0.path").(string)
				if strings.ContainsAny(name, `/\`) || strings.Contains(path, "/../") || strings.Contains(path, "cron.d/") {
					return "it is " + name + " at " + path
				}
				if name == "" {
					return "no download was reported"
				}
				return ""
			}), holds(`document.title`, "list")),
		b("download.two", "two files one after the other", "both are reported, each with its own ID",
			html(`<a id=x href="download/one.bin">1</a><a id=y href="download/two.bin">2</a>`), click, field("downloads.0.name", "one.bin"),
			keepID("first", "downloads.0.id"), finished(call("click", with("selector", "#y"))), check(func(_ *run, c *suite.Call) string {
				list, _ := suite.Pick(c.Result, "downloads").([]any)
				if len(list) != 1 {
					return fmt.Sprintf("%d downloads are reported: %s", len(list), suite.Brief(list))
				}
				return ""
			}), field("downloads.0.name", "two.bin"), served("download/two.bin")),
		b("download.then-work", "after a download", "the page can be worked with",
			html(`<a id=x href="download/a.bin">Get</a><button id=y onclick="document.title='y'">Y</button>`), click,
			call("click", with("selector", "#y")), holds(`document.title`, "y")),
	}
}

// finished makes a call that starts a download. On a busy machine the download
// may end after the call; a later one then tells of it.
func finished(start step) step {
	return func(r *run) {
		start(r)
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			list, started := suite.Pick(r.Last().Result, "downloads").([]any)
			if started && suite.Pick(list, "0.state") != "in_progress" {
				return
			}
			c := r.Call("hover", with("x", 1, "y", 1))
			if _, more := suite.Pick(c.Result, "downloads").([]any); more {
				r.Made(c)
			}
		}
		r.Fail("no download has ended: %s", suite.Brief(r.Last().Result))
	}
}

// keepID stores a field of the last result.
func keepID(name, path string) step {
	return func(r *run) { r.refs[name] = fmt.Sprint(suite.Pick(r.Last().Result, path)) }
}
