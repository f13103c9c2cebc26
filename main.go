// Command stoa is a hub between AI clients and the MCP servers, agents and
// models they use.
package main

func main() {}
