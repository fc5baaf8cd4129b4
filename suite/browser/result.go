package browser

import (
	"image"

	"github.com/handrail-dev/handrail/suite"
)

// picture wants an image as the last result and looks at it.
func picture(look func(img image.Image) string) step {
	return func(r *run) {
		if wrong := look(suite.Picture(r)); wrong != "" {
			r.Fail("the image: %s", wrong)
		}
	}
}
