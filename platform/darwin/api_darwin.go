package darwin

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// ref is a reference to an object of Core Foundation; 0 is none. A caller who gets one from a
// function with Create or Copy in its name owns it, and releases it.
type ref uintptr

// span is CFRange.
type span struct{ at, length int }

// api holds the functions of the system, each with the arguments and results that
// its header declares: int32 for int32_t, CGError and AXError, uint32 for
// uint32_t and enumerations, int for CFIndex and NSInteger, bool for bool and
// Boolean, float64 for CGFloat and double, float32 for float.
type api struct {
	// CoreFoundation
	release          func(o ref)
	retain           func(o ref) ref
	typeOf           func(o ref) uint                                                               // CFGetTypeID
	equal            func(a, b ref) bool                                                            // CFEqual
	hash             func(o ref) uint                                                               // CFHash
	stringType       func() uint                                                                    // CFStringGetTypeID
	numberType       func() uint                                                                    // CFNumberGetTypeID
	booleanType      func() uint                                                                    // CFBooleanGetTypeID
	arrayType        func() uint                                                                    // CFArrayGetTypeID
	stringMake       func(allocator ref, bytes *byte, n int, encoding uint32, external bool) ref    // CFStringCreateWithBytes
	stringLength     func(s ref) int                                                                // CFStringGetLength
	stringCharacters func(s ref, of span, buffer *uint16)                                           // CFStringGetCharacters
	arrayMake        func(allocator ref, values *ref, n int, callbacks uintptr) ref                 // CFArrayCreate
	arrayCount       func(a ref) int                                                                // CFArrayGetCount
	arrayValue       func(a ref, i int) ref                                                         // CFArrayGetValueAtIndex
	dictionaryValue  func(d, key ref) ref                                                           // CFDictionaryGetValue
	booleanValue     func(b ref) bool                                                               // CFBooleanGetValue
	numberMake       func(allocator ref, kind int, value *float64) ref                              // CFNumberCreate
	numberValue      func(n ref, kind int, value *float64) bool                                     // CFNumberGetValue
	loopCurrent      func() ref                                                                     // CFRunLoopGetCurrent
	loopAdd          func(loop, source, mode ref)                                                   // CFRunLoopAddSource
	loopRemove       func(loop, source, mode ref)                                                   // CFRunLoopRemoveSource
	loopRun          func(mode ref, seconds float64, untilOne bool) int32                           // CFRunLoopRunInMode
	loopStop         func(loop ref)                                                                 // CFRunLoopStop
	portSource       func(allocator, port ref, order int) ref                                       // CFMachPortCreateRunLoopSource
	portInvalidate   func(port ref)                                                                 // CFMachPortInvalidate
	displays         func(most uint32, ids *uint32, n *uint32) int32                                // CGGetActiveDisplayList
	mainDisplay      func() uint32                                                                  // CGMainDisplayID
	displayBounds    func(id uint32) rect                                                           // CGDisplayBounds
	displayMode      func(id uint32) ref                                                            // CGDisplayCopyDisplayMode
	modeWidth        func(mode ref) uint                                                            // CGDisplayModeGetPixelWidth
	modeHeight       func(mode ref) uint                                                            // CGDisplayModeGetPixelHeight
	colorSpace       func() ref                                                                     // CGColorSpaceCreateDeviceRGB
	bitmapMake       func(data *byte, width, height, bits, stride uint, space ref, info uint32) ref // CGBitmapContextCreate
	drawImage        func(context ref, to rect, image ref)                                          // CGContextDrawImage
	windowInfo       func(option, relativeTo uint32) ref                                            // CGWindowListCopyWindowInfo
	rectOf           func(dictionary ref, r *rect) bool                                             // CGRectMakeWithDictionaryRepresentation
	sessionInfo      func() ref                                                                     // CGSessionCopyCurrentDictionary
	sourceMake       func(state int32) ref                                                          // CGEventSourceCreate
	eventMake        func(source ref) ref                                                           // CGEventCreate
	eventMouse       func(source ref, kind uint32, at point, button uint32) ref                     // CGEventCreateMouseEvent
	eventKey         func(source ref, code uint16, down bool) ref                                   // CGEventCreateKeyboardEvent
	eventScroll      func(source ref, units, wheels uint32, vertical, horizontal, third int32) ref  // CGEventCreateScrollWheelEvent2
	eventText        func(event ref, n uint, units *uint16)                                         // CGEventKeyboardSetUnicodeString
	eventLocation    func(event ref) point                                                          // CGEventGetLocation
	eventFlags       func(event ref) uint64                                                         // CGEventGetFlags
	eventSetFlags    func(event ref, flags uint64)                                                  // CGEventSetFlags
	eventField       func(event ref, field uint32) int64                                            // CGEventGetIntegerValueField
	eventSetField    func(event ref, field uint32, v int64)                                         // CGEventSetIntegerValueField
	eventPost        func(tap uint32, event ref)                                                    // CGEventPost
	tapMake          func(tap, place, options uint32, mask uint64, callback, user uintptr) ref      // CGEventTapCreate
	tapEnable        func(tap ref, on bool)                                                         // CGEventTapEnable
	trusted          func() bool                                                                    // AXIsProcessTrusted
	axApplication    func(pid int32) ref                                                            // AXUIElementCreateApplication
	axEverything     func() ref                                                                     // AXUIElementCreateSystemWide
	axPatience       func(element ref, seconds float32) int32                                       // AXUIElementSetMessagingTimeout
	axValue          func(element, name ref, value *ref) int32                                      // AXUIElementCopyAttributeValue
	axValues         func(element, names ref, options uint32, values *ref) int32                    // AXUIElementCopyMultipleAttributeValues
	axSet            func(element, name, value ref) int32                                           // AXUIElementSetAttributeValue
	axSettable       func(element, name ref, settable *bool) int32                                  // AXUIElementIsAttributeSettable
	axActions        func(element ref, names *ref) int32                                            // AXUIElementCopyActionNames
	axDo             func(element, action ref) int32                                                // AXUIElementPerformAction
	axPID            func(element ref, pid *int32) int32                                            // AXUIElementGetPid
	axElementType    func() uint                                                                    // AXUIElementGetTypeID
	axValueType      func() uint                                                                    // AXValueGetTypeID
	axValueMake      func(kind uint32, value unsafe.Pointer) ref                                    // AXValueCreate
	axValueRead      func(value ref, kind uint32, to unsafe.Pointer) bool                           // AXValueGetValue
	axObserver       func(pid int32, callback uintptr, observer *ref) int32                         // AXObserverCreate
	axObserve        func(observer, element, notification ref, user uintptr) int32                  // AXObserverAddNotification
	axObserverSource func(observer ref) ref                                                         // AXObserverGetRunLoopSource
	poolPush         func() uintptr                                                                 // objc_autoreleasePoolPush
	poolPop          func(pool uintptr)                                                             // objc_autoreleasePoolPop

	// These are not on every macOS: nil where they are not.
	displayImage  func(id uint32) ref                     // CGDisplayCreateImage
	mayRecord     func() bool                             // CGPreflightScreenCaptureAccess, since 10.15
	mayListen     func() bool                             // CGPreflightListenEventAccess, since 10.15
	mayPost       func() bool                             // CGPreflightPostEventAccess, since 10.15
	axWindowOf    func(element ref, number *uint32) int32 // _AXUIElementGetWindow
	defaultMode   ref                                     // kCFRunLoopDefaultMode
	yes, no       ref                                     // kCFBooleanTrue, kCFBooleanFalse
	ownArrayItems uintptr                                 // the address of kCFTypeArrayCallBacks
}

const (
	coreFoundation = "/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation"
	coreGraphics   = "/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics"
	appServices    = "/System/Library/Frameworks/ApplicationServices.framework/ApplicationServices"
	appKit         = "/System/Library/Frameworks/AppKit.framework/AppKit"
	objcRuntime    = "/usr/lib/libobjc.A.dylib"
)

// function is a function of a library and where it goes.
type function struct {
	library, name string
	to            any
	optional      bool
}

func (a *api) functions() []function {
	cf := func(name string, to any) function { return function{coreFoundation, name, to, false} }
	cg := func(name string, to any) function { return function{coreGraphics, name, to, false} }
	ax := func(name string, to any) function { return function{appServices, name, to, false} }
	maybe := func(f function) function { f.optional = true; return f }
	return []function{
		cf("CFRelease", &a.release), cf("CFRetain", &a.retain), cf("CFGetTypeID", &a.typeOf), cf("CFEqual", &a.equal), cf("CFHash", &a.hash),
		cf("CFStringGetTypeID", &a.stringType), cf("CFNumberGetTypeID", &a.numberType), cf("CFBooleanGetTypeID", &a.booleanType),
		cf("CFArrayGetTypeID", &a.arrayType), cf("CFStringCreateWithBytes", &a.stringMake), cf("CFStringGetLength", &a.stringLength),
		cf("CFStringGetCharacters", &a.stringCharacters), cf("CFArrayCreate", &a.arrayMake), cf("CFArrayGetCount", &a.arrayCount),
		cf("CFArrayGetValueAtIndex", &a.arrayValue), cf("CFDictionaryGetValue", &a.dictionaryValue), cf("CFBooleanGetValue", &a.booleanValue),
		cf("CFNumberCreate", &a.numberMake), cf("CFNumberGetValue", &a.numberValue), cf("CFRunLoopGetCurrent", &a.loopCurrent),
		cf("CFRunLoopAddSource", &a.loopAdd), cf("CFRunLoopRemoveSource", &a.loopRemove), cf("CFRunLoopRunInMode", &a.loopRun),
		cf("CFRunLoopStop", &a.loopStop), cf("CFMachPortCreateRunLoopSource", &a.portSource), cf("CFMachPortInvalidate", &a.portInvalidate),
		cg("CGGetActiveDisplayList", &a.displays), cg("CGMainDisplayID", &a.mainDisplay), cg("CGDisplayBounds", &a.displayBounds),
		cg("CGDisplayCopyDisplayMode", &a.displayMode), cg("CGDisplayModeGetPixelWidth", &a.modeWidth),
		cg("CGDisplayModeGetPixelHeight", &a.modeHeight), cg("CGColorSpaceCreateDeviceRGB", &a.colorSpace),
		cg("CGBitmapContextCreate", &a.bitmapMake), cg("CGContextDrawImage", &a.drawImage), cg("CGWindowListCopyWindowInfo", &a.windowInfo),
		cg("CGRectMakeWithDictionaryRepresentation", &a.rectOf), cg("CGSessionCopyCurrentDictionary", &a.sessionInfo),
		cg("CGEventSourceCreate", &a.sourceMake), cg("CGEventCreate", &a.eventMake), cg("CGEventCreateMouseEvent", &a.eventMouse),
		cg("CGEventCreateKeyboardEvent", &a.eventKey), cg("CGEventCreateScrollWheelEvent2", &a.eventScroll),
		cg("CGEventKeyboardSetUnicodeString", &a.eventText), cg("CGEventGetLocation", &a.eventLocation), cg("CGEventGetFlags", &a.eventFlags),
		cg("CGEventSetFlags", &a.eventSetFlags), cg("CGEventGetIntegerValueField", &a.eventField),
		cg("CGEventSetIntegerValueField", &a.eventSetField), cg("CGEventPost", &a.eventPost), cg("CGEventTapCreate", &a.tapMake),
		cg("CGEventTapEnable", &a.tapEnable), ax("AXIsProcessTrusted", &a.trusted), ax("AXUIElementCreateApplication", &a.axApplication),
		ax("AXUIElementCreateSystemWide", &a.axEverything), ax("AXUIElementSetMessagingTimeout", &a.axPatience),
		ax("AXUIElementCopyAttributeValue", &a.axValue), ax("AXUIElementCopyMultipleAttributeValues", &a.axValues),
		ax("AXUIElementSetAttributeValue", &a.axSet), ax("AXUIElementIsAttributeSettable", &a.axSettable),
		ax("AXUIElementCopyActionNames", &a.axActions), ax("AXUIElementPerformAction", &a.axDo), ax("AXUIElementGetPid", &a.axPID),
		ax("AXUIElementGetTypeID", &a.axElementType), ax("AXValueGetTypeID", &a.axValueType), ax("AXValueCreate", &a.axValueMake),
		ax("AXValueGetValue", &a.axValueRead), ax("AXObserverCreate", &a.axObserver), ax("AXObserverAddNotification", &a.axObserve),
		ax("AXObserverGetRunLoopSource", &a.axObserverSource), {objcRuntime, "objc_autoreleasePoolPush", &a.poolPush, false},
		{objcRuntime, "objc_autoreleasePoolPop", &a.poolPop, false}, maybe(cg("CGDisplayCreateImage", &a.displayImage)),
		maybe(cg("CGPreflightScreenCaptureAccess", &a.mayRecord)), maybe(cg("CGPreflightListenEventAccess", &a.mayListen)),
		maybe(cg("CGPreflightPostEventAccess", &a.mayPost)), maybe(ax("_AXUIElementGetWindow", &a.axWindowOf)),
	}
}

// load finds every function once; the error names the first that is missing.
var load = sync.OnceValues(func() (*api, error) {
	a := &api{}
	libraries := map[string]uintptr{}
	for _, path := range []string{coreFoundation, coreGraphics, appServices, appKit, objcRuntime} {
		handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err != nil {
			return nil, fmt.Errorf("darwin: %w", err)
		}
		libraries[path] = handle
	}
	for _, f := range a.functions() {
		address, err := purego.Dlsym(libraries[f.library], f.name)
		switch {
		case err == nil && address != 0:
			purego.RegisterFunc(f.to, address)
		case !f.optional:
			return nil, fmt.Errorf("darwin: this macOS has no %s", f.name)
		}
	}
	for name, to := range map[string]*ref{"kCFRunLoopDefaultMode": &a.defaultMode, "kCFBooleanTrue": &a.yes, "kCFBooleanFalse": &a.no} {
		address, err := purego.Dlsym(libraries[coreFoundation], name)
		if err != nil || address == 0 {
			return nil, fmt.Errorf("darwin: this macOS has no %s", name)
		}
		*to = *at[ref](address)
	}
	var err error
	if a.ownArrayItems, err = purego.Dlsym(libraries[coreFoundation], "kCFTypeArrayCallBacks"); err != nil || a.ownArrayItems == 0 {
		return nil, fmt.Errorf("darwin: this macOS has no kCFTypeArrayCallBacks")
	}
	return a, nil
})

// at reads what an address handed over by the system points to; that memory is
// the system's, and the collector never moves it.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }
