// Package cli owns the command grammar: what can be said on the command line,
// what each command prints, and what it exits with.
//
// It promises that stdout carries what was asked for and nothing else (frames
// only, in stdio), that an error is one line on stderr with a line of advice
// under it, and that exit codes mean the same for every command. Commands that
// ask a hub do so as any MCP client does, over HTTP, whether it runs already
// or was opened for this one command. The package keeps nothing.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/stoahub/stoa/internal/config"
)

// grammar is the whole command line.
type grammar struct {
	Serve     serveCmd     `cmd:"" help:"Run the hub."`
	Stdio     stdioCmd     `cmd:"" help:"Attach stdin and stdout to the hub, launching it if none runs, for clients that start their servers."`
	Agent     agentCmd     `cmd:"" help:"Serve commands and files of this machine as an agent of their own."`
	Bridge    bridgeCmd    `cmd:"" help:"Serve WebSocket agents as a tool on stdin and stdout, for clients that start their servers."`
	Stop      stopCmd      `cmd:"" help:"Stop the hub that runs on the data folder."`
	Tools     toolsCmd     `cmd:"" help:"List the tools that are offered."`
	Call      callCmd      `cmd:"" help:"Call a tool."`
	Chat      chatCmd      `cmd:"" help:"Talk to a model that uses the tools."`
	Resources resourcesCmd `cmd:"" help:"List resources, or read one."`
	Prompts   promptsCmd   `cmd:"" help:"List prompts, or get one."`
	Servers   serversCmd   `cmd:"" help:"Show the servers behind the hub and how they do."`
	Hubs      hubsCmd      `cmd:"" help:"List the hubs that share the store, and how each does."`
	Sessions  sessionsCmd  `cmd:"" help:"List, show, export or remove sessions and what they hold."`
	Tasks     tasksCmd     `cmd:"" help:"List, show or cancel durable tasks."`
	Calls     callsCmd     `cmd:"" help:"List or cancel the calls of tools that run now."`
	Plan      planCmd      `cmd:"" help:"Make, check, run, debug and look at plans."`
	Approvals approvalsCmd `cmd:"" help:"Show which calls wait for an approval, and decide about them."`
	Policy    policyCmd    `cmd:"" help:"Show what the policy would decide."`
	Modules   modulesCmd   `cmd:"" help:"Show what is offered, and switch it on and off."`
	Console   consoleCmd   `cmd:"" help:"Open the web console, starting the hub if none runs, and manage its sign-ins."`
	Errors    errorsCmd    `cmd:"" help:"Show what went wrong, also before the hub was started."`
	Events    eventsCmd    `cmd:"" help:"Show what happens in the hub, as it happens: calls, servers, sessions, runs, errors."`
	Trace     traceCmd     `cmd:"" help:"Show one trace as a tree of what was called for what."`
	Doctor    doctorCmd    `cmd:"" help:"Examine the servers as a client would, and say what to do."`
	Logs      logsCmd      `cmd:"" help:"Show the hub's log files, also when it does not run."`
	Config    configCmd    `cmd:"" help:"Check or show the configuration, or print its schema."`
	Token     tokenCmd     `cmd:"" help:"Make, list or revoke tokens for clients on other machines."`
	Version   versionCmd   `cmd:"" help:"Print the version."`

	Reap       reapCmd       `cmd:"" hidden:"" help:"End what a killed agent has left."`
	Completion completionCmd `cmd:"" help:"Print a script that lets a shell complete commands and flags."`
}

// files are the flags of commands that read a config.
type files struct {
	Config  []string `help:"Config file; may be given more than once, later ones win." placeholder:"FILE" short:"c" sep:"none"`
	EnvFile []string `help:"File with variables for the config; may be given more than once." placeholder:"FILE" sep:"none"`
	Data    string   `help:"Data folder." placeholder:"DIR"`
}

func (f *files) load(listen []string) (*config.Config, []config.Note, error) {
	return config.Load(f.options(listen))
}

// folder is the data folder, also where something else in the files is wrong: a
// hub that runs has to be found exactly then.
func (f *files) folder() (string, error) {
	cfg, _, err := f.load(nil)
	if err == nil {
		return cfg.Data, nil
	}
	if data := config.DataFolder(f.options(nil)); data != "" {
		return data, nil
	}
	return "", err
}

func (f *files) options(listen []string) config.Options {
	return config.Options{Files: f.Config, EnvFiles: f.EnvFile, Data: f.Data, Listen: listen, Tolerant: true}
}

// asJSON is the flag of commands whose output scripts may want.
type asJSON struct {
	JSON bool `help:"Print JSON, for scripts." name:"json"`
}

const description = "One hub between AI clients and the MCP servers, agents and models they use."

// Main runs the command line and returns the exit code.
func Main(args []string) int {
	probeProcesses()
	return run(args[1:], std{os.Stdin, os.Stdout, os.Stderr})
}

// probeProcesses makes package os find out now how to start processes. It does
// so by a child that shares our memory and has our signal handlers, so that a
// Ctrl-C, which goes to both, may crash us while it lives (seen with Go 1.26).
// At the first server that is started a Ctrl-C is likely; here it is not.
func probeProcesses() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Release() // it was only looked for
	}
}

func run(args []string, s std) int {
	var g grammar
	exited := -1
	out := s.out
	if len(args) == 0 {
		out = s.err // nobody asked for the help that is coming
	}
	parser, err := kong.New(&g, kong.Name("stoa"), kong.Description(description),
		kong.Vars{"planWord": planWord}, kong.Writers(out, s.err), kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}))
	if err != nil {
		return s.report(context.Background(), fmt.Errorf("read the grammar: %w", err))
	}
	cmd, err := parser.Parse(rewrite(args))
	switch {
	case exited >= 0 && len(args) == 0:
		return exitUsage
	case exited >= 0:
		return exited
	case err != nil:
		return s.report(context.Background(), usage(cmd, err))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	cmd.BindTo(ctx, (*context.Context)(nil))
	return s.report(ctx, cmd.Run(s))
}

// rewrite lets people say what they say to other programs.
func rewrite(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(args[1:len(args):len(args)], "--help")
	case args[0] == "--version" && len(args) == 1:
		return []string{"version"}
	}
	return args
}

// usage is the error of a command line that cannot be understood.
func usage(cmd *kong.Context, err error) error {
	help := "stoa --help"
	if parse, ok := err.(*kong.ParseError); ok && parse.Context != nil {
		cmd = parse.Context
	}
	if cmd != nil && cmd.Selected() != nil {
		help = cmd.Selected().FullPath() + " --help"
	}
	if missing, ok := strings.CutPrefix(err.Error(), `expected "`); ok {
		err = errors.New(`missing "` + missing)
	}
	return &failure{err: err, hint: "Run " + help + " to see what can be said.", code: exitUsage}
}
