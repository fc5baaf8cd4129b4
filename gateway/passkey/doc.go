// Package passkey lets people sign in and approve with passkeys (WebAuthn): it makes challenges,
// and says of an answer whether the right key made it to the right challenge at the right place,
// with the person verified.
//
// Promises: every challenge is for one purpose, one place and, but for signing in,
// one session; that of an approval also for that very question and that very answer;
// each is good once and for two minutes; an answer without user verification counts
// for nothing; nothing is kept for whoever is not signed in.
//
// It must never import a surface (gateway/front), nor decide what a person may
// approve. The WebAuthn library is used here only.
package passkey
