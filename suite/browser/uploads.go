package browser

import (
	"os"
	"path/filepath"

	"github.com/handrail-dev/handrail/suite"
)

// uploadContent is what the suite's own file holds.
const uploadContent = "content of the suite's file"

// putFile writes the suite's file into the folder for uploads.
func putFile(dir string) error {
	return os.WriteFile(filepath.Join(dir, "suite-upload.txt"), []byte(uploadContent), 0o644)
}

// uploads: files of the node, where its owner allows them.
func uploads() []*behaviour {
	refusedAnyhow := check(func(_ *run, c *suite.Call) string {
		if c.Code == "" {
			return "it was not refused"
		}
		return ""
	})
	file := with("selector", "#f", "paths", []any{"{uploads}/suite-upload.txt"})
	return []*behaviour{
		b("upload.file", "a file of an allowed folder", "the page reads its content, and is told", needsUploads,
			html(`<input id=f type=file onchange="this.files[0].text().then(t=>document.title=t)">`), call("upload-file", file),
			field("uploaded", 1), becomes(`[document.title, f.files[0].name]`, []string{uploadContent, "suite-upload.txt"})),
		b("upload.sent", "a form with a file", "the server gets the file's content", needsUploads,
			html(`<form action=go method=post enctype=multipart/form-data><input id=f type=file name=doc><button id=x>Go</button></form>`),
			page{"go", `<title>went</title>`}, call("upload-file", file), call("click", with("selector", "#x")),
			served("go", "POST", uploadContent, "suite-upload.txt"), holds(`document.title`, "went")),
		b("upload.chooser", "a file chooser that the page opened", "it is answered with the file", needsUploads,
			html(`<input id=f type=file hidden onchange="document.title=this.files[0].name"><button id=x onclick="f.click()">Choose</button>`),
			call("click", with("selector", "#x")), call("upload-file", with("paths", []any{"{uploads}/suite-upload.txt"})),
			becomes(`document.title`, "suite-upload.txt")),
		b("upload.hidden-input", "an input that nobody sees", "it takes the file", needsUploads,
			html(`<input id=f type=file style="display:none">`), call("upload-file", file), holds(`f.files.length`, 1)),
		b("upload.frame", "an input in a frame of another origin", "it takes the file", needsUploads,
			html(`<iframe src="{B}in"></iframe><script>var heard=[];onmessage=e=>heard.push(e.data)</script>`),
			page{"in", `<input id=f type=file onchange="top.postMessage(this.files[0].name,'*')">`}, call("upload-file", file),
			becomes(`heard.join()`, "suite-upload.txt")),
		b("upload.outside", "a file outside the folders that the owner allows", "refused; the page gets nothing", html(`<input id=f type=file>`),
			either("upload-file", with("selector", "#f", "paths", []any{"/etc/passwd"})), refusedAnyhow, holds(`f.files.length`, 0)),
		b("upload.climbing", "a path that climbs out of an allowed folder", "refused; the page gets nothing", html(`<input id=f type=file>`),
			either("upload-file", with("selector", "#f", "paths", []any{"{uploads}/../../../../../../etc/passwd"})), refusedAnyhow,
			holds(`f.files.length`, 0)),
		b("upload.chooser-reported", "a button that opens the file chooser", "no window opens, the call says so, and the page goes on",
			html(`<input id=f type=file><button id=x onclick="f.click()">Choose</button><button id=y onclick="document.title='on'">On</button>`),
			call("click", with("selector", "#x")), effect("confirmed"), call("click", with("selector", "#y")), holds(`document.title`, "on")),
	}
}
