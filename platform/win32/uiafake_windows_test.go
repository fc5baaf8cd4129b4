package win32

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
)

// fakeUIA is UI Automation as its documentation has it, for a system that has
// none: every interface's table is laid out by the documented order, whatever
// this package believes it to be, and a method that nobody should call says so.
type fakeUIA struct {
	t      *testing.T
	root   *fakeNode
	hwnd   windows.HWND
	tables map[string][]uintptr

	mu      sync.Mutex
	objects map[uintptr]*fakeObject
	put     map[string]uintptr // what was put, by method
}

// fakeObject is what an address handed to the package points to.
type fakeObject struct {
	table uintptr // as COM wants it: first
	refs  atomic.Int32
	of    string
	node  *fakeNode
	// of a cache request
	properties []uintptr
	scope      uintptr
}

// fakeNode is an element.
type fakeNode struct {
	props    map[uintptr]any
	area     rect
	patterns map[uintptr]bool
	parent   *fakeNode
	children []*fakeNode

	mu     sync.Mutex
	did    []string
	text   string
	number float64
	state  int32
	gone   bool
	wait   chan struct{} // a call about it waits for its end
}

func (n *fakeNode) add(children ...*fakeNode) *fakeNode {
	for _, c := range children {
		c.parent = n
		n.children = append(n.children, c)
	}
	return n
}

func (n *fakeNode) do(what string) uintptr {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone {
		return 0x80040201
	}
	n.did = append(n.did, what)
	return 0
}

func (n *fakeNode) done() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.did...)
}

type fakeMethod = func(o *fakeObject, a, b, c uintptr) uintptr

// newFakeUIA lays the tables out.
func newFakeUIA(t *testing.T, hwnd windows.HWND, root *fakeNode) *fakeUIA {
	f := &fakeUIA{t: t, root: root, hwnd: hwnd, tables: map[string][]uintptr{}, objects: map[uintptr]*fakeObject{}, put: map[string]uintptr{}}
	f.lay(order(t), f.methods())
	return f
}

// lay makes the tables of interfaces by their documented order; made are the methods
// that may be called.
func (f *fakeUIA) lay(documented map[string][]string, made map[string]fakeMethod) {
	t := f.t
	for of, names := range documented {
		for _, name := range names {
			do := made[of+"."+name]
			switch name {
			case "AddRef":
				do = func(o *fakeObject, _, _, _ uintptr) uintptr { return uintptr(o.refs.Add(1)) }
			case "Release":
				do = func(o *fakeObject, _, _, _ uintptr) uintptr {
					n := o.refs.Add(-1)
					if n < 0 {
						t.Errorf("an %s was released too often", of)
					}
					return uintptr(n)
				}
			}
			delete(made, of+"."+name)
			f.tables[of] = append(f.tables[of], windows.NewCallback(func(this, a, b, c uintptr) uintptr {
				f.mu.Lock()
				o := f.objects[this]
				f.mu.Unlock()
				if o == nil || o.of != of || do == nil {
					t.Errorf("%s.%s was called", of, name)
					return 0x80004001
				}
				return do(o, a, b, c)
			}))
		}
	}
	for name := range made {
		t.Errorf("%s is not documented", name)
	}
}

// object makes an object, which its taker owns.
func (f *fakeUIA) object(of string, n *fakeNode) uintptr {
	o := &fakeObject{table: uintptr(unsafe.Pointer(&f.tables[of][0])), of: of, node: n}
	o.refs.Store(1)
	address := uintptr(unsafe.Pointer(o))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects[address] = o // keeps it alive, too
	return address
}

// leaks counts objects that somebody still holds.
func (f *fakeUIA) leaks() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := map[string]int{}
	for _, o := range f.objects {
		if o.refs.Load() > 0 {
			left[o.of]++
		}
	}
	return left
}

// write puts a value where the caller wants it.
func write[T any](address uintptr, v T) uintptr { *at[T](address) = v; return 0 }

func bstr(s string) uintptr {
	units := utf16.Encode([]rune(s))
	b, _, _ := procSysAllocString.Call(uintptr(unsafe.Pointer(unsafe.SliceData(units))), uintptr(len(units)))
	return b
}

var procVector = oleaut32.NewProc("SafeArrayCreateVector")

// fill makes a VARIANT of a property.
func fill(address uintptr, v any) uintptr {
	var out variant
	switch v := v.(type) {
	case int:
		out.kind, out.value = kindInt, uint64(uint32(int32(v)))
	case bool:
		out.kind = kindBool
		if v {
			out.value = 0xFFFF
		}
	case float64:
		out.kind, out.value = kindFloat, math.Float64bits(v)
	case string:
		out.kind, out.value = kindText, uint64(bstr(v))
	case []int32:
		a, _, _ := procVector.Call(kindInt, 0, uintptr(len(v)))
		copy(unsafe.Slice(at[int32](at[array](a).data), len(v)), v)
		out.kind, out.value = kindInts, uint64(a)
	}
	return write(address, out)
}

// sibling returns what comes after n.
func (n *fakeNode) sibling() *fakeNode {
	if n.parent == nil {
		return nil
	}
	for i, c := range n.parent.children {
		if c == n && i+1 < len(n.parent.children) {
			return n.parent.children[i+1]
		}
	}
	return nil
}

func (f *fakeUIA) lookup(address uintptr) *fakeObject {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.objects[address]
}

// fetch hands out an element with what the request asks for.
func (f *fakeUIA) fetch(n *fakeNode, request, out uintptr) uintptr {
	if r := f.lookup(request); r == nil || r.of != "IUIAutomationCacheRequest" || len(r.properties) != len(fetched) {
		f.t.Error("an element was asked for without its properties")
	}
	if n == nil {
		return write[uintptr](out, 0)
	}
	if n.wait != nil {
		select {
		case <-n.wait:
		case <-time.After(time.Minute):
		}
	}
	n.mu.Lock()
	gone := n.gone
	n.mu.Unlock()
	if gone {
		return 0x80040201
	}
	return write(out, f.object("IUIAutomationElement", n))
}

var patternNames = map[uintptr]string{
	10000: "Invoke", 10002: "Value", 10003: "RangeValue", 10005: "ExpandCollapse", 10010: "SelectionItem", 10014: "Text", 10015: "Toggle", 10017: "ScrollItem", 10018: "LegacyIAccessible",
}

// methods are those that a client may call, by their documented names and with
// their documented arguments.
func (f *fakeUIA) methods() map[string]fakeMethod {
	putting := func(what string) fakeMethod {
		return func(_ *fakeObject, a, _, _ uintptr) uintptr {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.put[what] = a
			return 0
		}
	}
	doing := func(what string) fakeMethod {
		return func(o *fakeObject, _, _, _ uintptr) uintptr { return o.node.do(what) }
	}
	double := func(read func(n *fakeNode) float64) fakeMethod {
		return func(o *fakeObject, out, _, _ uintptr) uintptr { return write(out, read(o.node)) }
	}
	return map[string]fakeMethod{
		"IUIAutomation2.put_AutoSetFocus":       putting("focus"),
		"IUIAutomation2.put_ConnectionTimeout":  putting("connection"),
		"IUIAutomation2.put_TransactionTimeout": putting("transaction"),
		"IUIAutomation2.get_ControlViewWalker": func(_ *fakeObject, out, _, _ uintptr) uintptr {
			return write(out, f.object("IUIAutomationTreeWalker", nil))
		},
		"IUIAutomation2.CreateCacheRequest": func(_ *fakeObject, out, _, _ uintptr) uintptr {
			return write(out, f.object("IUIAutomationCacheRequest", nil))
		},
		"IUIAutomation2.ElementFromHandleBuildCache": func(_ *fakeObject, hwnd, request, out uintptr) uintptr {
			if windows.HWND(hwnd) != f.hwnd {
				return 0x80040201
			}
			return f.fetch(f.root, request, out)
		},
		"IUIAutomationCacheRequest.AddProperty": func(o *fakeObject, id, _, _ uintptr) uintptr {
			o.properties = append(o.properties, id)
			return 0
		},
		"IUIAutomationCacheRequest.put_TreeScope": func(o *fakeObject, scope, _, _ uintptr) uintptr { o.scope = scope; return 0 },
		"IUIAutomationTreeWalker.GetFirstChildElementBuildCache": func(_ *fakeObject, el, request, out uintptr) uintptr {
			var first *fakeNode
			if n := f.lookup(el).node; len(n.children) > 0 {
				first = n.children[0]
			}
			return f.fetch(first, request, out)
		},
		"IUIAutomationTreeWalker.GetNextSiblingElementBuildCache": func(_ *fakeObject, el, request, out uintptr) uintptr {
			return f.fetch(f.lookup(el).node.sibling(), request, out)
		},
		"IUIAutomationElement.BuildUpdatedCache": func(o *fakeObject, request, out, _ uintptr) uintptr {
			return f.fetch(o.node, request, out)
		},
		"IUIAutomationElement.GetCachedPropertyValue": func(o *fakeObject, id, out, _ uintptr) uintptr { return fill(out, o.node.props[id]) },
		"IUIAutomationElement.GetCachedChildren": func(o *fakeObject, out, _, _ uintptr) uintptr {
			if len(o.node.children) == 0 {
				return write[uintptr](out, 0)
			}
			return write(out, f.object("IUIAutomationElementArray", o.node))
		},
		"IUIAutomationElement.get_CachedBoundingRectangle": func(o *fakeObject, out, _, _ uintptr) uintptr { return write(out, o.node.area) },
		"IUIAutomationElement.SetFocus":                    doing("focus"),
		"IUIAutomationElement.GetCurrentPatternAs": func(o *fakeObject, id, as, out uintptr) uintptr {
			if !o.node.patterns[id] {
				return write[uintptr](out, 0)
			}
			if *at[windows.GUID](as) != guid(patternIDs[id]) {
				return 0x80004002
			}
			return write(out, f.object("IUIAutomation"+patternNames[id]+"Pattern", o.node))
		},
		"IUIAutomationElementArray.get_Length": func(o *fakeObject, out, _, _ uintptr) uintptr { return write(out, int32(len(o.node.children))) },
		"IUIAutomationElementArray.GetElement": func(o *fakeObject, i, out, _ uintptr) uintptr {
			return write(out, f.object("IUIAutomationElement", o.node.children[int32(i)]))
		},
		"IUIAutomationInvokePattern.Invoke":           doing("invoke"),
		"IUIAutomationTogglePattern.Toggle":           doing("toggle"),
		"IUIAutomationExpandCollapsePattern.Expand":   doing("expand"),
		"IUIAutomationExpandCollapsePattern.Collapse": doing("collapse"),
		"IUIAutomationExpandCollapsePattern.get_CurrentExpandCollapseState": func(o *fakeObject, out, _, _ uintptr) uintptr {
			return write(out, o.node.state)
		},
		"IUIAutomationSelectionItemPattern.Select":         doing("select"),
		"IUIAutomationSelectionItemPattern.AddToSelection": doing("add"),
		"IUIAutomationScrollItemPattern.ScrollIntoView":    doing("reveal"),
		"IUIAutomationValuePattern.SetValue": func(o *fakeObject, b, _, _ uintptr) uintptr {
			o.node.mu.Lock()
			defer o.node.mu.Unlock()
			o.node.text = textOf(b, math.MaxInt32)
			return 0
		},
		"IUIAutomationValuePattern.get_CurrentValue": func(o *fakeObject, out, _, _ uintptr) uintptr { return write(out, bstr(o.node.text)) },
		"IUIAutomationTextPattern.get_DocumentRange": func(o *fakeObject, out, _, _ uintptr) uintptr {
			return write(out, f.object("IUIAutomationTextRange", o.node))
		},
		"IUIAutomationTextRange.GetText": func(o *fakeObject, most, out, _ uintptr) uintptr {
			units := utf16.Encode([]rune(o.node.text))
			return write(out, bstr(string(utf16.Decode(units[:min(len(units), int(int32(most)))]))))
		},
		// A fraction comes in a register that a Go function is not given; what Go puts
		// there on amd64 stands in the other, too.
		"IUIAutomationRangeValuePattern.SetValue": func(o *fakeObject, v, _, _ uintptr) uintptr {
			o.node.number = math.Float64frombits(uint64(v))
			return 0
		},
		"IUIAutomationRangeValuePattern.get_CurrentValue":       double(func(n *fakeNode) float64 { return n.number }),
		"IUIAutomationRangeValuePattern.get_CurrentMinimum":     double(func(*fakeNode) float64 { return -1 }),
		"IUIAutomationRangeValuePattern.get_CurrentMaximum":     double(func(*fakeNode) float64 { return 10 }),
		"IUIAutomationRangeValuePattern.get_CurrentSmallChange": double(func(*fakeNode) float64 { return 0.25 }),
		"IUIAutomationRangeValuePattern.get_CurrentIsReadOnly":  func(_ *fakeObject, out, _, _ uintptr) uintptr { return write(out, int32(0)) },
		"IUIAutomationLegacyIAccessiblePattern.get_CurrentDefaultAction": func(o *fakeObject, out, _, _ uintptr) uintptr {
			return write(out, bstr(o.node.text))
		},
		"IUIAutomationLegacyIAccessiblePattern.DoDefaultAction": doing("default"),
		"IUIAutomationLegacyIAccessiblePattern.SetValue": func(o *fakeObject, s, _, _ uintptr) uintptr {
			o.node.text = windows.UTF16PtrToString(at[uint16](s))
			return 0
		},
	}
}
