// Package cli owns the command grammar: what can be said on the command line,
// what each command prints, and what it exits with.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/stoahub/stoa/internal/config"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitToolSaidNo  = 3
	exitUnreachable = 4
	exitDenied      = 5
	exitInterrupted = 130
)

// grammar is the whole command line.
type grammar struct {
	Serve serveCmd `cmd:"" help:"Run the hub."`
	Stdio stdioCmd `cmd:"" help:"Run a complete hub on stdin and stdout, for clients that start their servers."`
}

// files are the flags of commands that read a config.
type files struct {
	Config  []string `help:"Config file; may be given more than once, later ones win." placeholder:"FILE" short:"c"`
	EnvFile []string `help:"File with variables for the config." placeholder:"FILE"`
	Data    string   `help:"Data folder." placeholder:"DIR"`
}

func (f *files) load(listen []string) (*config.Config, []config.Note, error) {
	return config.Load(config.Options{Files: f.Config, EnvFiles: f.EnvFile, Data: f.Data, Listen: listen})
}

// std are the streams of the process.
type std struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// Main runs the command line and returns the exit code.
func Main(args []string) int {
	return run(args[1:], std{os.Stdin, os.Stdout, os.Stderr})
}

func run(args []string, s std) int {
	var g grammar
	exited := -1
	parser, err := kong.New(&g, kong.Name("stoa"),
		kong.Description("One hub between AI clients and the MCP servers, agents and models they use."),
		kong.UsageOnError(), kong.Writers(s.out, s.err), kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	if err != nil {
		fmt.Fprintln(s.err, "stoa:", err)
		return exitFailed
	}
	cmd, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		fmt.Fprintf(s.err, "stoa: %v\nRun stoa --help to see what can be said.\n", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd.BindTo(ctx, (*context.Context)(nil))
	return s.report(ctx, cmd.Run(s))
}

// report prints an error and returns the exit code for it.
func (s std) report(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	if problems, ok := errors.AsType[config.Problems](err); ok {
		fmt.Fprintln(s.err, problems.Error())
		return exitUsage
	}
	fmt.Fprintln(s.err, "stoa:", err)
	return exitFailed
}
