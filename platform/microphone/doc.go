// Package microphone records sound from PulseAudio, or from PipeWire by the same
// protocol, in this process: no program to start and no permission to hand on. It
// serves Linux; elsewhere it says that it is not there.
//
// Promises: samples are counted, and a recording that lost any is an error; a source
// that is only what the loudspeakers play is never taken for a microphone; when Record
// returns, the source is free.
//
// It must never import handlers; it knows no calls.
package microphone
