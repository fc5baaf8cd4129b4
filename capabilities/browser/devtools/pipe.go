package devtools

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/chromedp/chromedp"
)

// MaxMessage bounds one message from Chrome before it is held in memory: a
// full-page image in base64 is the largest there is.
const MaxMessage = 96 << 20

// OverPipe is Chrome's debugging pipe as a transport: JSON messages, each ended by a zero
// byte, both ways. Closing the transport does nothing: the pipe is the process's.
func OverPipe(out io.Reader, in io.Writer) chromedp.Transport {
	return chromedp.NewPipeConn(&bounded{r: bufio.NewReaderSize(out, 64<<10)}, unclosed{in})
}

// bounded fails within a message that is too large; the transport itself would read on.
type bounded struct {
	r    *bufio.Reader
	held int // of a message that has not ended
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if end := bytes.LastIndexByte(p[:n], 0); end >= 0 {
		b.held = n - end - 1
	} else {
		b.held += n
	}
	if b.held > MaxMessage {
		return 0, fmt.Errorf("the browser sent a message larger than %d bytes", MaxMessage)
	}
	return n, err
}

func (b *bounded) Close() error { return nil }

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
