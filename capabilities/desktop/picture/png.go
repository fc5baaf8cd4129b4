package picture

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/klauspost/compress/zlib"
)

// PNG gives m as a PNG file.
func PNG(m Image) []byte {
	var out bytes.Buffer
	out.WriteString("\x89PNG\r\n\x1a\n")
	head := binary.BigEndian.AppendUint32(nil, uint32(m.Width))
	head = binary.BigEndian.AppendUint32(head, uint32(m.Height))
	chunk(&out, "IHDR", append(head, 8, 2, 0, 0, 0))
	var data bytes.Buffer
	z, _ := zlib.NewWriterLevel(&data, 1)
	row := make([]byte, 1+3*m.Width)
	for y := range m.Height {
		src := m.row(y)
		for x, o := 0, 1; x < len(src); x, o = x+4, o+3 {
			row[o], row[o+1], row[o+2] = src[x+2], src[x+1], src[x]
		}
		_, _ = z.Write(row)
	}
	_ = z.Close()
	chunk(&out, "IDAT", data.Bytes())
	chunk(&out, "IEND", nil)
	return out.Bytes()
}

// chunk appends length:4, kind, data and the checksum of both.
func chunk(out *bytes.Buffer, kind string, data []byte) {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	out.Write(append(b, kind...))
	out.Write(data)
	out.Write(binary.BigEndian.AppendUint32(nil, crc32.Update(crc32.ChecksumIEEE([]byte(kind)), crc32.IEEETable, data)))
}
