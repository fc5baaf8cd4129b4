package camera

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"

	"github.com/handrail-dev/handrail/platform"
)

// maxSide bounds a picture's sides in pixels.
const maxSide = 8192

var errFrame = errors.New("the camera returned a frame that is no picture")

// fromYUYV makes a picture of packed 4:2:2 samples, rows of stride bytes:
//
//	Y0 U Y1 V | Y2 U Y3 V | …
func fromYUYV(b []byte, width, height, stride int) (*image.YCbCr, error) {
	if width <= 0 || height <= 0 || width > maxSide || height > maxSide || width%2 != 0 || stride < 2*width ||
		len(b) < stride*(height-1)+2*width {
		return nil, fmt.Errorf("%w: %d bytes for %d x %d", errFrame, len(b), width, height)
	}
	p := image.NewYCbCr(image.Rect(0, 0, width, height), image.YCbCrSubsampleRatio422)
	for y := range height {
		row := b[y*stride : y*stride+2*width]
		luma, blue, red := p.Y[y*p.YStride:], p.Cb[y*p.CStride:], p.Cr[y*p.CStride:]
		for x := 0; x < width/2; x++ {
			luma[2*x], blue[x], luma[2*x+1], red[x] = row[4*x], row[4*x+1], row[4*x+2], row[4*x+3]
		}
	}
	return p, nil
}

// wholeJPEG returns a camera's Motion-JPEG frame as a JPEG file: the padding after the
// picture cut off, and the Huffman tables put in that such frames may leave out because
// everybody has them (the AVI1 convention).
func wholeJPEG(b []byte) ([]byte, error) {
	if len(b) < 4 || b[0] != 0xFF || b[1] != 0xD8 {
		return nil, fmt.Errorf("%w: no JPEG", errFrame)
	}
	end := bytes.LastIndex(b, []byte{0xFF, 0xD9})
	if end < 0 {
		return nil, fmt.Errorf("%w: a JPEG that was cut off", errFrame)
	}
	b = b[:end+2]
	// Segments up to the picture's data: FF marker, length of two bytes with itself.
	tables := false
	i := 2
	for {
		if i+4 > len(b) || b[i] != 0xFF {
			return nil, fmt.Errorf("%w: a JPEG without a picture", errFrame)
		}
		marker, size := b[i+1], int(b[i+2])<<8|int(b[i+3])
		if marker == 0xC4 {
			tables = true
		}
		if marker == 0xDA {
			break
		}
		if i += 2 + size; size < 2 {
			return nil, fmt.Errorf("%w: a JPEG with an empty part", errFrame)
		}
	}
	if tables {
		return b, nil
	}
	whole := make([]byte, 0, len(b)+len(huffman))
	whole = append(append(append(whole, b[:i]...), huffman...), b[i:]...)
	return whole, nil
}

// sides returns a JPEG's size, within bounds.
func sides(b []byte) (width, height int, err error) {
	c, err := jpeg.DecodeConfig(bytes.NewReader(b))
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", errFrame, err)
	}
	if c.Width > maxSide || c.Height > maxSide || c.Width == 0 || c.Height == 0 {
		return 0, 0, fmt.Errorf("%w: %d x %d", errFrame, c.Width, c.Height)
	}
	return c.Width, c.Height, nil
}

// packed makes the file of a picture. quality is 0 to 1.
func packed(p image.Image, mime string, quality float64) ([]byte, error) {
	var file bytes.Buffer
	var err error
	if mime == "image/png" {
		err = (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&file, p)
	} else {
		err = jpeg.Encode(&file, p, &jpeg.Options{Quality: 1 + int(quality*99)})
	}
	return file.Bytes(), err
}

// light is how bright a picture is, 0 to 255, by some of its pixels.
func light(luma []byte) float64 {
	var sum, n float64
	for i := 0; i < len(luma); i += 97 {
		sum, n = sum+float64(luma[i]), n+1
	}
	return sum / max(n, 1)
}

// lightOfJPEG is light of a Motion-JPEG frame.
func lightOfJPEG(frame []byte) (float64, error) {
	whole, err := wholeJPEG(frame)
	if err != nil {
		return 0, err
	}
	if _, _, err := sides(whole); err != nil {
		return 0, err
	}
	p, err := jpeg.Decode(bytes.NewReader(whole))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errFrame, err)
	}
	switch p := p.(type) {
	case *image.YCbCr:
		return light(p.Y), nil
	case *image.Gray:
		return light(p.Pix), nil
	}
	return 0, errFrame
}

// develop makes the file of a frame, which is YUYV or else Motion-JPEG. A camera's own
// JPEG stays as it is, unless less quality is asked for than cameras give.
func develop(frame []byte, yuyv bool, width, height, stride int, o platform.PhotoOrder) (platform.Photo, error) {
	taken := platform.Photo{Width: width, Height: height}
	var p image.Image
	var err error
	if yuyv {
		if p, err = fromYUYV(frame, width, height, stride); err != nil {
			return platform.Photo{}, err
		}
	} else {
		whole, err := wholeJPEG(frame)
		if err != nil {
			return platform.Photo{}, err
		}
		if taken.Width, taken.Height, err = sides(whole); err != nil {
			return platform.Photo{}, err
		}
		if o.MIME == "image/jpeg" && o.Quality >= cameraQuality {
			taken.Bytes = whole
			return taken, nil
		}
		if p, err = jpeg.Decode(bytes.NewReader(whole)); err != nil {
			return platform.Photo{}, fmt.Errorf("%w: %w", errFrame, err)
		}
	}
	taken.Bytes, err = packed(p, o.MIME, o.Quality)
	return taken, err
}

// cameraQuality is about what cameras pack their own pictures with: to pack such a one
// again would take as much room and lose some more of it.
const cameraQuality = 0.85
