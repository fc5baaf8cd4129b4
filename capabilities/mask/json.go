package mask

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
)

// JSON returns a value of JSON without personal data in its texts, numbers and the names of its
// members, and without what stands in the fields that personal names: paths of members, "*" for
// any element or member. An error says that data is no JSON.
func JSON(data []byte, personal [][]string) ([]byte, Counts, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	m := masker{in: d, counts: Counts{}}
	if err := m.value(personal, false); err != nil {
		return nil, nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, nil, errors.New("mask: there is something behind the value")
	}
	return m.out.Bytes(), m.counts, nil
}

type masker struct {
	in     *json.Decoder
	out    bytes.Buffer
	counts Counts
}

// value copies the next value. below are the paths that go on below it; whole says that all of
// it is a name.
func (m *masker) value(below [][]string, whole bool) error {
	t, err := m.in.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		return m.inside(t, below, whole)
	case string:
		if whole && t != "" && t != Name.placeholder() {
			m.counts[Name]++
			t = Name.placeholder()
		}
		return m.text(t)
	case json.Number:
		m.number(t.String())
	default: // a bool or null
		b, err := json.Marshal(t)
		m.out.Write(b)
		return err
	}
	return nil
}

func (m *masker) inside(open json.Delim, below [][]string, whole bool) error {
	m.out.WriteByte(byte(open))
	names := map[string]bool{}
	for i := 0; m.in.More(); i++ {
		if i > 0 {
			m.out.WriteByte(',')
		}
		step := "*"
		if open == '{' {
			t, err := m.in.Token()
			if err != nil {
				return err
			}
			step, _ = t.(string)
			if err := m.member(step, names); err != nil {
				return err
			}
		}
		next, ends := onwards(below, step)
		if err := m.value(next, whole || ends); err != nil {
			return err
		}
	}
	t, err := m.in.Token()
	if err != nil {
		return err
	}
	end, _ := t.(json.Delim)
	m.out.WriteByte(byte(end))
	return nil
}

// member writes the name of a member, another one than those before it.
func (m *masker) member(name string, taken map[string]bool) error {
	masked, counts := Text(name)
	m.counts.Add(counts)
	for n, first := 2, masked; taken[masked] && masked != name; n++ {
		masked = first + " " + strconv.Itoa(n)
	}
	taken[masked] = true
	if err := m.plain(masked); err != nil {
		return err
	}
	m.out.WriteByte(':')
	return nil
}

func (m *masker) text(s string) error {
	masked, counts := Text(s)
	m.counts.Add(counts)
	return m.plain(masked)
}

func (m *masker) plain(s string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(s)
	m.out.Write(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return err
}

// number writes a number, or 0 where its digits are those of a card.
func (m *masker) number(s string) {
	if len(s) >= 13 && len(s) <= 19 && len(only(s)) == len(s) && card(s) {
		m.counts[Card]++
		s = "0"
	}
	m.out.WriteString(s)
}

// onwards returns what is left of paths behind one step, and whether one of them ends there.
func onwards(paths [][]string, step string) (left [][]string, ends bool) {
	for _, p := range paths {
		switch {
		case len(p) == 0 || p[0] != step && p[0] != "*":
		case len(p) == 1:
			ends = true
		default:
			left = append(left, p[1:])
		}
	}
	return left, ends
}
