// Package consent is where people are asked at a terminal: questions, answers, grants, calls that
// are kept for later, the stop switch of a site, and the board that 'handrail tui' shows.
//
// Promises: a person is shown what they permit before they do, as the console shows it; what an
// agent wrote cannot drive the terminal; a question that this token cannot answer names no command
// that answers it.
//
// It must never import gateway/consent or decide anything: the gateway does.
package consent
