// Package install puts nodeadmit in front of a node's container engines, and
// takes it out again.
//
// It first makes a Plan, which has every file as it is and as it will be, and
// then applies it: so a dry run shows exactly what would be done. Files of
// others are edited as text, with their comments, and the result is read back and
// must mean what was meant. What was there is recorded.
//
// What is called by an engine that runs is never deleted: see Uninstall.
package install
