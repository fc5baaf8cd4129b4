// Package oidctest is the other side of a sign-in of people in tests: a real OpenID provider
// (zitadel/oidc) with people and their groups, whose ID tokens tests may change and sign otherwise.
//
// It must never be imported but by tests.
package oidctest
