// Package sensor is the camera and the microphone as capabilities: photos, films and
// sound. It chooses the backend (platform.Sensors), checks what that returned and words
// what went wrong.
//
// Promises: one capture of a device at a time; a recording is whole or an error, never
// shorter than was asked for and called done; a cancelled or stopped one frees the
// device before its call ends and leaves nothing; sound is recorded only where the
// envelope grants it; made-up devices are called fake in readiness and in every result.
//
// It must never import wire, policy or an implementation of the platform.
package sensor
