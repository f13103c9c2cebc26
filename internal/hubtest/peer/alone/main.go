// Alone is a stdio peer as a program of its own, which starts far sooner than a
// test binary does; see peer.Apart.
package main

import "github.com/stoahub/stoa/internal/hubtest/peer"

func main() { peer.Main() }
