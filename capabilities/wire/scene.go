package wire

import (
	"errors"
	"fmt"

	"github.com/handrail-dev/handrail/capabilities"
)

// SceneAsk asks a node what a call would meet there now, for the person who is asked about
// it. Nothing is carried out. On a call stream, gateway to node; a node that does not know it
// resets the stream.
type SceneAsk struct {
	Tool       capabilities.ToolID       `cbor:"1,keyasint"`
	Capability capabilities.CapabilityID `cbor:"2,keyasint"`
	Lane       capabilities.LaneID       `cbor:"3,keyasint,omitempty"`
	Args       []byte                    `cbor:"4,keyasint"` // canonical JSON, at most MaxSceneArgs
	Principal  capabilities.PrincipalID  `cbor:"5,keyasint"` // who would call, for the owner's rules
	Role       string                    `cbor:"6,keyasint,omitempty"`
}

// Scene is the answer: names as the device has them, empty where it does not say.
type Scene struct {
	App      string `cbor:"1,keyasint,omitempty"`
	Window   string `cbor:"2,keyasint,omitempty"` // its title
	Field    string `cbor:"3,keyasint,omitempty"` // the name of what has the focus
	Password bool   `cbor:"4,keyasint,omitempty"` // what is typed there is not shown
	Role     string `cbor:"5,keyasint,omitempty"` // of Field
	Address  string `cbor:"6,keyasint,omitempty"` // of the page
	// Elements are those that arguments name, at most capabilities.MaxSceneElements.
	Elements []SceneElement `cbor:"7,keyasint,omitempty"`
}

// SceneElement is an element that an argument names; without one, what has the focus.
type SceneElement struct {
	Arg    string `cbor:"1,keyasint,omitempty"`
	Role   string `cbor:"2,keyasint,omitempty"`
	Name   string `cbor:"3,keyasint,omitempty"`
	Secret bool   `cbor:"4,keyasint,omitempty"`
}

// Empty reports whether the device said nothing.
func (s *Scene) Empty() bool {
	return s.App == "" && s.Window == "" && s.Field == "" && !s.Password && s.Role == "" && s.Address == "" && len(s.Elements) == 0
}

// Kind is KindSceneAsk.
func (*SceneAsk) Kind() Kind { return KindSceneAsk }

// Kind is KindScene.
func (*Scene) Kind() Kind { return KindScene }

func (a *SceneAsk) check() error {
	switch {
	case a.Tool == "" || a.Capability == "":
		return errors.New("tool and capability must be given")
	case len(a.Tool) > maxName || len(a.Capability) > maxName || len(a.Lane) > maxName || len(a.Principal) > maxName || len(a.Role) > maxName:
		return fmt.Errorf("an identifier is longer than %d bytes", maxName)
	case len(a.Args) == 0 || len(a.Args) > MaxSceneArgs:
		return fmt.Errorf("args must be 1 to %d bytes", MaxSceneArgs)
	}
	return nil
}

func (s *Scene) check() error {
	if len(s.App) > maxName || len(s.Window) > 2*maxName || len(s.Field) > maxName {
		return fmt.Errorf("app and field are at most %d bytes, window %d", maxName, 2*maxName)
	}
	if len(s.Elements) > capabilities.MaxSceneElements {
		return fmt.Errorf("more than %d elements", capabilities.MaxSceneElements)
	}
	for _, e := range s.Elements {
		if err := names("an element's word", maxName, e.Arg, e.Role, e.Name); err != nil {
			return err
		}
	}
	return names("role or address", maxName, s.Role, s.Address)
}

// Clip cuts what is too long for a frame.
func (s *Scene) Clip() {
	s.App, s.Window, s.Field = capabilities.Clip(s.App, maxName), capabilities.Clip(s.Window, 2*maxName), capabilities.Clip(s.Field, maxName)
	s.Role, s.Address = capabilities.Clip(s.Role, maxName), capabilities.Clip(s.Address, maxName)
	s.Elements = s.Elements[:min(len(s.Elements), capabilities.MaxSceneElements)]
	for i := range s.Elements {
		e := &s.Elements[i]
		e.Arg, e.Role, e.Name = capabilities.Clip(e.Arg, maxName), capabilities.Clip(e.Role, maxName), capabilities.Clip(e.Name, maxName)
	}
}
