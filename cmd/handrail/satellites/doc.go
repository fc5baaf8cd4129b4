// Package satellites has the commands of a satellite on its own machine: 'handrail satellite join'
// and 'handrail satellite run'.
//
// Promises: a code is read without being shown; a satellite runs only after it joined; a program
// reaches the folders and hosts that were named, and never the data directory; each heartbeat says
// whether what stands behind it answers.
//
// It must never import gateway: it meets one over the bus, as every satellite does. The walls round
// a program are given to it.
package satellites
