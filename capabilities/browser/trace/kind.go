package trace

import "strings"

// Kinds of work, as people who tune pages name them.
const (
	scripting = "scripting"
	rendering = "rendering"
	painting  = "painting"
	loading   = "loading"
	garbage   = "garbage collection"
	other     = "other"
)

var kinds = map[string]string{
	"EvaluateScript": scripting, "FunctionCall": scripting, "RunMicrotasks": scripting, "TimerFire": scripting, "EventDispatch": scripting,
	"FireAnimationFrame": scripting, "FireIdleCallback": scripting, "XHRReadyStateChange": scripting, "XHRLoad": scripting,
	"UpdateLayoutTree": rendering, "Layout": rendering, "PrePaint": rendering, "Layerize": rendering,
	"IntersectionObserverController::computeIntersections": rendering,
	"Paint": painting, "Commit": painting, "CompositeLayers": painting, "PaintImage": painting, "Decode Image": painting,
	"UpdateLayer": painting,
	"ParseHTML":   loading, "ParseAuthorStyleSheet": loading, "ResourceReceiveResponse": loading, "ResourceReceivedData": loading,
	"MajorGC": garbage, "MinorGC": garbage,
}

// kindOf is the kind of an event by its name; "" for one that is as what it happens in.
func kindOf(name string) string {
	switch kind := kinds[name]; {
	case kind != "":
		return kind
	case strings.HasPrefix(name, "BlinkGC.") || strings.HasPrefix(name, "V8.GC"):
		return garbage
	case strings.HasPrefix(name, "v8.") || strings.HasPrefix(name, "V8."):
		return scripting
	}
	return ""
}
