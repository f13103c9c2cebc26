// Package guard owns what stands between callers and a bad upstream: the
// Breaker that gives a failing one a rest, and the Backoff that spaces attempts
// to get it back.
//
// A Breaker is safe for concurrent use and starts no goroutine. One that has
// seen no failure costs one atomic load per question and takes no lock.
//
// The package does not decide what counts as a failure, does not retry, and
// knows no upstream by name: it hands out verdicts, its callers act on them.
package guard
