// Package lane keeps the lanes: which conversation belongs to which principal,
// and which nodes are attached to it.
//
// Promises: a lane belongs to the first principal that uses it, because what
// lives in it (a browser's cookies, say) must not be met by another agent; the
// nodes of a lane are answered from memory, on every call's path; attaching and
// detaching is durable before it is answered; what is attached to a lane holds there and
// nowhere else. A new lane of a principal begins with the nodes of the lane that is
// named like the principal (the home lane): Claim copies them and records each copy as an
// attachment of the new lane. No call falls back to the home lane later: where a lane has no
// node, its calls have no attached node. A lane keeps which tools its searches found, at most 40.
//
// It must never import a surface (gateway/front), the dispatcher, or choose a
// node: selection is gateway/route's.
package lane
