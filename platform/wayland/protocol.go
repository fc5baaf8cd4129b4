//go:build linux

package wayland

// iface is an interface as far as it is used here: the newest version that this
// program knows, and which of its events brings a descriptor (its number plus 1;
// 0: none), which has to be taken even when nobody cares for the event.
type iface struct {
	name    string
	version uint32
	fdEvent int
}

// The interfaces. Numbers of requests and events are their places in the files
// that define the protocols (wayland.xml and those of wlr-protocols).
var (
	wlDisplay  = &iface{name: "wl_display", version: 1}
	wlRegistry = &iface{name: "wl_registry", version: 1}
	wlCallback = &iface{name: "wl_callback", version: 1}

	wlShm      = &iface{name: "wl_shm", version: 1}
	wlShmPool  = &iface{name: "wl_shm_pool", version: 1}
	wlBuffer   = &iface{name: "wl_buffer", version: 1}
	wlOutput   = &iface{name: "wl_output", version: 4}
	wlSeat     = &iface{name: "wl_seat", version: 5}
	wlKeyboard = &iface{name: "wl_keyboard", version: 5, fdEvent: keyboardKeymap + 1}

	xdgOutputManager = &iface{name: "zxdg_output_manager_v1", version: 3}
	xdgOutput        = &iface{name: "zxdg_output_v1", version: 3}

	screencopyManager = &iface{name: "zwlr_screencopy_manager_v1", version: 3}
	screencopyFrame   = &iface{name: "zwlr_screencopy_frame_v1", version: 3}

	virtualPointerManager = &iface{name: "zwlr_virtual_pointer_manager_v1", version: 2}
	virtualPointer        = &iface{name: "zwlr_virtual_pointer_v1", version: 2}

	virtualKeyboardManager = &iface{name: "zwp_virtual_keyboard_manager_v1", version: 1}
	virtualKeyboard        = &iface{name: "zwp_virtual_keyboard_v1", version: 1}
)

// wl_display, wl_registry.
const (
	displaySync        = 0
	displayGetRegistry = 1

	displayError    = 0 // object, code, message
	displayDeleteID = 1 // number

	registryBind = 0 // name, interface, version, new object

	registryGlobal = 0 // name, interface, version
	registryRemove = 1 // name
)

// wl_shm and what it makes.
const (
	shmCreatePool = 0 // new, descriptor, size

	poolCreateBuffer = 0 // new, offset, width, height, stride, format
	poolDestroy      = 1

	bufferDestroy = 0
)

// wl_output and zxdg_output_v1.
const (
	outputRelease = 0 // since 3

	outputGeometry    = 0 // x, y, mm, mm, subpixel, make, model, transform
	outputMode        = 1 // flags, width, height, refresh
	outputDone        = 2 // since 2
	outputScale       = 3 // factor; since 2
	outputName        = 4 // since 4
	outputDescription = 5 // since 4

	outputModeCurrent = 1

	xdgManagerGetOutput = 1 // new, wl_output

	xdgOutputDestroy = 0

	xdgOutputPosition    = 0 // x, y
	xdgOutputSize        = 1 // width, height
	xdgOutputDone        = 2 // until 2
	xdgOutputName        = 3 // since 2
	xdgOutputDescription = 4 // since 2
)

// wl_seat, wl_keyboard.
const (
	seatGetPointer  = 0
	seatGetKeyboard = 1
	seatRelease     = 3 // since 5

	seatCapabilities = 0 // bits
	seatName         = 1

	seatHasPointer  = 1
	seatHasKeyboard = 2

	keyboardRelease = 0 // since 3

	keyboardKeymap = 0 // format, descriptor, size
)

// zwlr_screencopy: the numbers of the frame's events.
const (
	screencopyOutput       = 0 // new, with cursor, output
	screencopyOutputRegion = 1 // new, with cursor, output, x, y, width, height

	frameCopy           = 0 // buffer
	frameDestroy        = 1
	frameCopyWithDamage = 2 // buffer; since 2

	frameBuffer     = 0 // format, width, height, stride
	frameFlags      = 1 // bits
	frameReady      = 2 // seconds:8, nanoseconds:4
	frameFailed     = 3
	frameDamage     = 4 // x, y, width, height; since 2
	frameDmabuf     = 5
	frameBufferDone = 6 // since 3

	frameInverted = 1 // the rows come bottom first
)

// zwlr_virtual_pointer.
const (
	pointersCreate = 0 // seat, new

	pointerMotion         = 0 // time, x, y
	pointerMotionAbsolute = 1 // time, x, y, width, height
	pointerButton         = 2 // time, button, pressed
	pointerAxis           = 3 // time, axis, value
	pointerFrame          = 4
	pointerAxisSource     = 5 // source
	pointerAxisStop       = 6 // time, axis
	pointerAxisDiscrete   = 7 // time, axis, value, clicks
	pointerDestroy        = 8

	axisVertical   = 0
	axisHorizontal = 1
	axisWheel      = 0
)

// zwp_virtual_keyboard.
const (
	keyboardsCreate = 0 // seat, new

	virtualKeymap    = 0 // format, descriptor, size
	virtualKey       = 1 // time, key, pressed
	virtualModifiers = 2 // depressed, latched, locked, group
	virtualDestroy   = 3

	keymapXKB = 1
)

// The clipboard's protocol: that of wlroots, and its successor, which differ in
// their names only.
var (
	wlrDataControl = &iface{name: "zwlr_data_control_manager_v1", version: 2}
	extDataControl = &iface{name: "ext_data_control_manager_v1", version: 1}

	dataDevice = &iface{name: "zwlr_data_control_device_v1", version: 2}
	dataSource = &iface{name: "zwlr_data_control_source_v1", version: 1, fdEvent: sourceSend + 1}
	dataOffer  = &iface{name: "zwlr_data_control_offer_v1", version: 1}
)

const (
	dataCreateSource = 0 // new
	dataGetDevice    = 1 // new, seat

	deviceSetSelection = 0 // source or 0

	deviceOffer     = 0 // new
	deviceSelection = 1 // offer or 0
	deviceFinished  = 2
	devicePrimary   = 3 // offer or 0; since 2

	sourceOffer   = 0 // type
	sourceDestroy = 1

	sourceSend      = 0 // type, descriptor
	sourceCancelled = 1

	offerReceive = 0 // type, descriptor
	offerDestroy = 1

	offerType = 0 // type
)

// zwlr_foreign_toplevel_management.
var (
	toplevelManager = &iface{name: "zwlr_foreign_toplevel_manager_v1", version: 3}
	toplevelHandle  = &iface{name: "zwlr_foreign_toplevel_handle_v1", version: 3}
)

const (
	managerToplevel = 0 // new
	managerFinished = 1

	toplevelMinimize   = 2
	toplevelUnminimize = 3
	toplevelActivate   = 4 // seat
	toplevelClose      = 5
	toplevelDestroy    = 7

	toplevelTitle  = 0 // text
	toplevelApp    = 1 // text
	toplevelState  = 4 // array of states, 4 bytes each
	toplevelDone   = 5
	toplevelClosed = 6

	stateMinimized = 1
	stateActivated = 2
)

// The seat's activity: ext-idle-notify, and KDE's older one.
var (
	extIdleManager = &iface{name: "ext_idle_notifier_v1", version: 2}
	extIdle        = &iface{name: "ext_idle_notification_v1", version: 2}
	kdeIdleManager = &iface{name: "org_kde_kwin_idle", version: 1}
	kdeIdle        = &iface{name: "org_kde_kwin_idle_timeout", version: 1}
)

const (
	extIdleGet      = 1 // new, milliseconds, seat
	extIdleGetInput = 2 // the same, whatever keeps the screen on; since 2
	extIdleDestroy  = 0

	kdeIdleGet     = 0 // new, seat, milliseconds
	kdeIdleRelease = 0

	idleIdled   = 0 // of both
	idleResumed = 1
)

// The requests of wlr-layer-shell, which make a surface above everything.
var (
	wlCompositor = &iface{name: "wl_compositor", version: 4}
	wlSurface    = &iface{name: "wl_surface", version: 4}
	wlPointer    = &iface{name: "wl_pointer", version: 5}
	layerShell   = &iface{name: "zwlr_layer_shell_v1", version: 4}
	layerSurface = &iface{name: "zwlr_layer_surface_v1", version: 4}
)

const (
	compositorCreateSurface = 0 // new

	surfaceDestroy = 0
	surfaceAttach  = 1 // buffer, x, y
	surfaceDamage  = 2 // x, y, width, height
	surfaceCommit  = 6

	pointerEnter     = 0 // serial, surface, x, y
	wlPointerRelease = 1 // since 3

	shellGetSurface = 0 // new, surface, output, layer, name

	layerOverlay  = 3
	layerAllEdges = 15

	layerSetAnchor    = 1 // bits
	layerSetExclusive = 2 // zone
	layerAck          = 6 // serial
	layerDestroy      = 7

	layerConfigure = 0 // serial, width, height
)
