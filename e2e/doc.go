// Package e2e holds the tests that run the built stoa binary between third-party peers: the official conformance
// suite, the TypeScript SDKs, the Inspector, published MCP servers, and the agent client of the router's
// specification.
//
// It owns the harness that starts those peers and the pinned list of them (npm/package-lock.json). It promises that
// every process it starts has ended when its test ends, that no port is fixed, and that nothing outside temporary
// folders is written. The hub is a black box: only its command line, its hub.json and its HTTP routes are used.
//
// The peers are installed by npm/install. Where they are absent the tests skip and say so, unless STOA_E2E=require is
// set (as make does), which turns every absence into a failure. Each matrix has a control cell that leaves the hub
// out; when that one fails, the peers changed, not the hub.
package e2e
