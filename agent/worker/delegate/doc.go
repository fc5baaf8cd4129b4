// Package delegate is the harness that has a sub-agent do what a message wants (S3-16): one call of
// it with the message as its task, and its summary as the answer.
//
// Promises: it calls nothing else, and claims nothing that the sub-agent did not say.
//
// It must never import a gateway or a model.
package delegate
