// Package media shows what a device sees and hears to people who watch from afar, live,
// over WebRTC: one encoder for each screen, camera or microphone, and as many viewers as
// policy lets in.
//
// Promises: a session lives exactly as long as its call, so what ends calls (the
// stop switches, a revocation, a lease that is over, the viewer who goes) ends it at
// once; the newest frame wins and one is in flight, never a queue; viewers see the
// frames of the capture bus, those that calls act on, and are told where on them calls
// act; while nobody watches, nothing is captured and no port is open.
//
// It must never import the gateway or a platform implementation: it is handed a
// platform.DesktopOpener and platform.Sensors. WebRTC's types stay in here.
package media
