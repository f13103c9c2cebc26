// Command stoa is a hub between AI clients and the MCP servers, agents and
// models they use.
package main

import (
	"os"

	"github.com/stoahub/stoa/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args)) }
