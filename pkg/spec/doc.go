// Package spec reads an OCI bundle and says what its config.json means in the
// words of a Kubernetes pod.
//
// It works in two steps, and data goes one way:
//
//	ReadBundle / Parse   config.json -> Document: strict, or an error
//	Map                  Document    -> Intent: facts, each with its source
//
// Reading is strict because the runtimes behind it differ: where a config.json
// has a key twice, runc takes the last and crun the first; where a key differs
// from a known one by case, runc folds it and crun doesn't. Such a document is
// refused, so that what is judged is what any runtime would run.
//
// Map never guesses: the engine that wrote the bundle is named by the caller
// ([Engine]), and what the document can't tell is [Unknown], not false.
package spec
