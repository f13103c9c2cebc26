//go:build race

package e2e

// raceEnabled says whether the tests are built with the race detector.
const raceEnabled = true
