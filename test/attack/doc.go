// Package attack tries what must never work, against whole sites: real gateways
// and nodes over loopback, with a fixture handler that counts what really ran.
// Prevention is counted from that count, never from what the gateway says of
// itself, and every attack has a benign control beside it that must go through.
//
// It must never import a fake of what it attacks.
package attack
