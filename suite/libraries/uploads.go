package libraries

import (
	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/browser"
)

// uploads are controls that files are handed to.
func uploads() []*library {
	file := func(selector string) step {
		args := suite.With("paths", []any{"{uploads}/suite-upload.txt"})
		if selector != "" {
			args["selector"] = selector
		}
		return browser.Do("upload-file", args)
	}
	return []*library{
		lib("dropzone", "dropzone",
			does("chooser", "clicks the zone and answers its chooser with a file", "the zone has it", browser.NeedsUploads,
				clickOn("#z"), file(""), is(`dz.files.map(x=>x.name).join()`, "suite-upload.txt")),
			does("input", "hands the file to the input that nobody sees", "the zone has it", browser.NeedsUploads,
				file(".dz-hidden-input"), is(`dz.files.map(x=>x.name).join()`, "suite-upload.txt")),
			does("remove", "adds a file and removes it by its link", "the zone is empty", browser.NeedsUploads, clickOn("#z"), file(""),
				click(`link "Remove file"`), is(`dz.files.length`, 0)),
			does("send", "adds a file and sends it", "the server has its content, and the zone says so", browser.NeedsUploads,
				clickOn("#z"), file(""), click(`button "Send"`), browser.Served("echo", "POST", "content of the suite's file"),
				is(`dz.files[0].status`, "success")),
		),
		lib("uppy", "uppy",
			does("chooser", "presses browse and answers the chooser with a file", "the dashboard has it", browser.NeedsUploads,
				click("browse files"), file(""), is(`u.getFiles().map(x=>x.name).join()`, "suite-upload.txt"), shows("suite-upload.txt")),
			does("remove", "adds a file and presses its button", "the dashboard is empty", browser.NeedsUploads, click("browse files"), file(""),
				click(`button "Remove file`), is(`u.getFiles().length`, 0)),
			does("send", "adds a file and uploads it", "the server has its content, and the dashboard says so", browser.NeedsUploads,
				click("browse files"), file(""), click(`button "Upload 1 file"`), browser.Served("echo", "POST", "content of the suite's file"),
				is(`u.getFiles()[0].progress.uploadComplete`, true), shows("Complete")),
		),
	}
}
