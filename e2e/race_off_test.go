//go:build !race

package e2e

// raceEnabled says whether the hub is built with the race detector: when the tests are, it is.
const raceEnabled = false
