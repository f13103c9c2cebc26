// Package e2e holds the tests that run the built stoa binary between third-party peers: the official conformance
// suite (as client and as server), the TypeScript SDKs, the Inspector, mcp-remote, published MCP servers, the agent
// client of the router's specification, a client without any SDK, and Chromium with our own browser client in it.
//
// The table of package matrix, which internal/hub holds for our own peers and for go-sdk, is held here for the TypeScript
// SDKs as clients and as servers.
//
// Several hubs on one store run behind HAProxy, which sends each request to the next of them.
//
// docs/tour.md is run here as a newcomer would run it, and must print what it shows.
//
// It owns the harness that starts those peers and the pinned list of them (npm/package-lock.json). It promises that
// every process it starts has ended when its test ends, that no port is fixed, and that nothing outside temporary
// folders is written. The hub is a black box: only its command line, its hub.json and its HTTP routes are used.
//
// What a pair of peers cannot reach is in baseline_test.go with its reason; a failure that is not there fails the test,
// and so does an entry that passes.
//
// The peers are installed by npm/install, Chromium by chromium, HAProxy by haproxy. Where they are absent the tests skip and say so, unless
// STOA_E2E=require is set (as make does), which turns every absence into a failure; only of a browser and of a
// balancer may be said that there is none (STOA_BROWSER=none, STOA_HAPROXY=none). Each matrix has a control cell that leaves the hub out; when that one fails, the
// peers changed, not the hub.
package e2e
