// Package rules shows, tries, compares and activates policies.
//
// Promises: a policy is tried with the gateway's own evaluator, also where no gateway runs; a set
// is put in force only after its difference was shown and a person said yes, or said so before.
//
// It must never import gateway/rules to change anything: activating is the gateway's.
package rules
