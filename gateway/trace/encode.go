package trace

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// A request is an ExportTraceServiceRequest of OTLP 1, in Protocol Buffers (trace/v1/trace.proto of
// https://github.com/open-telemetry/opentelemetry-proto):
//
//	request   1 resource spans, repeated
//	resource  1 resource {1 attributes}   2 scope spans {1 scope {1 name, 2 version}   2 spans, repeated}
//	span      1 trace ID   2 span ID   4 span ID above   5 name   6 kind   7 start, 8 end (fixed64, ns)
//	          9 attributes   15 status {3 code}   16 flags (fixed32)
//	attribute 1 key   2 value {1 string}
//
// One group of spans is the gateway's, and one each those of devices.

// The types of fields.
const (
	fieldVarint  = 0
	fieldFixed64 = 1
	fieldBytes   = 2
	fieldFixed32 = 5
)

const statusError = 2

// scope names who made the spans.
const scope = "github.com/handrail-dev/handrail"

// source is who the spans are of.
type source struct {
	gateway, node []attr // of the resource; the node's lacks its ID
	version       string
}

// encode makes the request with the spans of calls, and counts those.
func (s *source) encode(calls []Call) (body []byte, count int) {
	var own []byte
	devices := map[capabilities.NodeID][]byte{}
	for i := range calls {
		c := &calls[i]
		all := c.spans()
		count += len(all)
		for j := range all {
			one := appendSpan(nil, c.Trace, &all[j])
			if all[j].onNode {
				devices[c.Node] = appendField(devices[c.Node], 2, one)
			} else {
				own = appendField(own, 2, one)
			}
		}
	}
	body = s.group(body, s.gateway, own)
	for id, spans := range devices {
		body = s.group(body, append(slices.Clip(s.node), attr{"service.instance.id", string(id)}), spans)
	}
	return body, count
}

// group appends the spans of one resource; they are encoded.
func (s *source) group(to []byte, resource []attr, spans []byte) []byte {
	said := appendField(appendField(nil, 1, []byte(scope)), 2, []byte(s.version))
	inScope := append(appendField(nil, 1, said), spans...)
	return appendField(to, 1, appendField(appendField(nil, 1, appendAttrs(nil, 1, resource)), 2, inScope))
}

func appendSpan(to []byte, trace ID, s *span) []byte {
	to = appendField(to, 1, trace[:])
	to = appendField(to, 2, s.id[:])
	if s.above != (SpanID{}) {
		to = appendField(to, 4, s.above[:])
	}
	to = appendField(to, 5, []byte(s.name))
	to = appendVarint(to, 6, s.kind)
	to = appendTime(to, 7, s.start)
	to = appendTime(to, 8, s.end)
	to = appendAttrs(to, 9, s.attrs)
	if s.failed != "" {
		to = appendAttrs(to, 9, []attr{{"error.type", string(s.failed)}})
		to = appendField(to, 15, appendVarint(nil, 3, statusError))
	}
	return binary.LittleEndian.AppendUint32(appendKey(to, 16, fieldFixed32), 1) // sampled
}

func appendAttrs(to []byte, field uint64, list []attr) []byte {
	for _, a := range list {
		to = appendField(to, field, appendField(appendField(nil, 1, []byte(a.key)), 2, appendField(nil, 1, []byte(a.value))))
	}
	return to
}

func appendKey(to []byte, field, kind uint64) []byte { return binary.AppendUvarint(to, field<<3|kind) }

func appendVarint(to []byte, field, value uint64) []byte {
	return binary.AppendUvarint(appendKey(to, field, fieldVarint), value)
}

func appendField(to []byte, field uint64, value []byte) []byte {
	return append(binary.AppendUvarint(appendKey(to, field, fieldBytes), uint64(len(value))), value...)
}

func appendTime(to []byte, field uint64, at time.Time) []byte {
	return binary.LittleEndian.AppendUint64(appendKey(to, field, fieldFixed64), uint64(at.UnixNano()))
}

// rejected reads how many spans a collector says that it did not take, out of its
// ExportTraceServiceResponse: field 1 is a message whose field 1 is the number. An answer that
// cannot be read says nothing.
func rejected(answer []byte) uint64 {
	partial, _, ok := find(answer, 1)
	if !ok {
		return 0
	}
	_, n, _ := find(partial, 1)
	return n
}

// find returns the first field of that number, as bytes or as a number.
func find(message []byte, number uint64) (inside []byte, value uint64, ok bool) {
	for len(message) > 0 {
		key, n := binary.Uvarint(message)
		if n <= 0 {
			return nil, 0, false
		}
		message = message[n:]
		switch key & 7 {
		case fieldVarint:
			if value, n = binary.Uvarint(message); n <= 0 {
				return nil, 0, false
			}
			inside = nil
		case fieldBytes:
			length, m := binary.Uvarint(message)
			if m <= 0 || length > uint64(len(message)-m) {
				return nil, 0, false
			}
			inside, value, n = message[m:m+int(length)], 0, m+int(length)
		case fieldFixed64:
			inside, value, n = nil, 0, 8
		case fieldFixed32:
			inside, value, n = nil, 0, 4
		default:
			return nil, 0, false
		}
		if n > len(message) {
			return nil, 0, false
		}
		if key>>3 == number {
			return inside, value, true
		}
		message = message[n:]
	}
	return nil, 0, false
}
