// Package recent knows which calls have results that may stand for the same call made again
// (S4-28, S4-29): under what they are recognised, and until when. The results themselves lie
// sealed where all kept results do.
//
// Promises: nothing of arguments or results is in it but a sum; memory is bounded; what it
// forgets costs an execution, never a wrong result.
//
// It must never import anything of the gateway but dispatch/internal/execution.
package recent
