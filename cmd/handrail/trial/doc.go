// Package trial has the commands that try a site: 'handrail suite' tries what an installed node can
// do, and 'handrail ci' runs any command beside a gateway and a node that live for it.
//
// Promises: calls go over MCP, as an agent's do; where a site does not allow them, the person is
// told what does; ci ends with its command's exit code; a suite fails with one of its behaviours,
// and if none could be run.
//
// It must never import gateway or agent: it is given a Host, and the site of ci is a process of its
// own, which package ci keeps.
package trial
