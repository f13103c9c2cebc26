// Package guard owns what stands between callers and a bad upstream: the
// Breaker that gives a failing one a rest, the Limiter that bounds how much
// of it runs and waits, and the Backoff that spaces attempts to get it back.
//
// A Breaker and a Limiter are safe for concurrent use and start no goroutine.
// A Limiter serves in the order of arrival and never loses a slot, however
// callers give up. A Breaker that has seen no failure costs one atomic load
// per question and takes no lock.
//
// The package does not decide what counts as a failure, does not retry, and
// knows no upstream by name: it hands out verdicts, its callers act on them.
package guard
