// Package oracle holds what package llm says and understands to the providers'
// own Go SDKs: each SDK, as a client of our fakes, has to read what our codec
// reads; each request of ours has to be one that the SDK knows, and the one that
// it sends for the same conversation.
//
// It is a module of its own, so that no SDK is a dependency of the product; it
// has tests only. `make test` runs them.
package oracle
