// Package blackbox holds the tests of who may do what, of what is kept and of
// what is said, by the program alone:
// they start the binary, speak HTTP, WebSocket and stdio to it, and look at
// what its servers were really asked to do. Nothing of the hub is imported, but
// the servers that its store may be on.
//
// STOA_BIN names the binary to test; without it one is built from this tree.
// Each test fails with the binary of commit d6a0795, whose review found what
// they are about, so that they also tell whether a binary of unknown age is
// safe. Tests of one finding begin with a comment that has its id.
package blackbox
