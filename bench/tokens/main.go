// Command tokens measures how much of what tools say a model has to read again
// and again, with and without handles.
//
// A model keeps nothing between requests: each turn of a conversation sends it
// the definitions of the tools, all earlier calls and all earlier results. The
// command has a list of conversations with published MCP servers, whose answers
// were recorded (testdata; record_test.go makes them). It plays each one twice
// through a real hub in front of servers that answer as recorded: on /mcp,
// where results come as they are and a model that passes data on has to write
// it out, with the servers' tools alone, and on /s/{session}/mcp, with saveAs, cards and references. It counts
// bytes, since how many tokens these are depends on the model.
//
// It promises that both ways ask the servers for the same: an argument that is
// not the recorded one is an error. It sets no bar and measures no time.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	rows, err := measureAll(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tokens:", err)
		os.Exit(1)
	}
	fmt.Print(table(rows))
}
