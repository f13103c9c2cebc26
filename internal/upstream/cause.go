package upstream

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/dial"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
)

// Ended is why a program could not be used: it ended before it answered, or
// during a call.
type Ended struct {
	Err  error  // how it ended; nil for status 0
	Said string // the line on stderr that tells why; "" if there is none
	Hint string // what to do about it; "" if only the program's authors know
}

// Error leaves out what the program said: stderr is for the person whose hub it
// is, and errors go to every client.
func (e *Ended) Error() string {
	if e.Err == nil {
		return "the program ended with status 0"
	}
	return "the program ended: " + e.Err.Error()
}

func (e *Ended) Unwrap() error { return e.Err }

// sign is how the launchers of programs say why they failed. Theirs is seldom
// the last line.
type sign struct {
	line *regexp.Regexp // the first group, or else all of it, is what is said
	hint string
}

var signs = []sign{
	{regexp.MustCompile(`^npm (?:error|ERR!) (?:404|notarget)\s+('[^']+' is not in this registry|.* is not in the npm registry|The requested resource '[^']+' could not be found|No matching version found for \S+)`), "Correct the package's name or version in args."},
	{regexp.MustCompile(`^npm (?:error|ERR!) (could not determine executable to run)`), "The package has no program of its own name: use npx -y -p PACKAGE PROGRAM."},
	{regexp.MustCompile(`^npm (?:error|ERR!) (?:network )?(?:request to \S+ failed, reason: )?(.*(?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ECONNRESET).*)`), "Check the network, or the proxy in npm's settings; inheritEnv passes HTTPS_PROXY on."},
	{regexp.MustCompile(`^npm (?:error|ERR!) (Your cache folder contains root-owned files)`), "Give npm's cache folder to the hub's user, or set npm_config_cache in env to a folder that it may write to."},
	{regexp.MustCompile(`^npm (?:error|ERR!) (.*(?:EACCES|EPERM|ENOSPC).*)`), "See npm's message; its cache, or the disk, cannot be written to."},
	{regexp.MustCompile(`(Because .* was not found in the package registry)`), "Correct the package's name in args."},
	{regexp.MustCompile(`(Because there is no version of \S+)`), "Correct the package's version in args."},
	{regexp.MustCompile("(An executable named `[^`]+` is not provided by package `[^`]+`)"), "Use uvx --from PACKAGE PROGRAM."},
	{regexp.MustCompile(`(Cannot connect to the Docker daemon.*)`), "Start Docker, and have the hub see DOCKER_HOST by inheritEnv if it is set."},
	{regexp.MustCompile(`(permission denied while trying to connect to the [Dd]ocker.*)`), "Let the hub's user use Docker, for example as a member of the group docker."},
	{regexp.MustCompile(`Error response from daemon: (.*(?:pull access denied|not found|manifest unknown).*)`), "Correct the image's name in args, or log in to its registry with docker login."},
	{regexp.MustCompile(`docker: (Error response from daemon: .*)`), "See Docker's message."},
	{regexp.MustCompile(`^(ModuleNotFoundError: No module named .*|ImportError: .*|\S*python\S*: No module named .*)`), "Install the module for the Python that command names, or use uvx, which does it by itself."},
	{regexp.MustCompile(`(can't open file '[^']+': \[Errno 2\] No such file or directory)`), "Correct the path in args; a relative one begins at cwd."},
	{regexp.MustCompile(`^Error: (Cannot find module .*)`), "Correct the path in args, or install what is missing beside the program."},
	{regexp.MustCompile(`^(.*SyntaxError: .*)`), "The program needs another version of its language, or is broken."},
	{regexp.MustCompile(`^(\S*env: .*: No such file or directory)`), "Install the program; the hub's PATH may differ from your shell's."},
	// After these come the goroutines, whose functions may be called Error.
	{regexp.MustCompile(`^(panic: .*|fatal error: .*)`), ""},
}

// chain is between two exceptions of Python, the first of which led to the
// second.
const chain = "The above exception was the direct cause of the following exception:"

// telling are lines that say why a program of any kind ended.
var telling = regexp.MustCompile(`(?i)\b(error|failed|fatal|cannot|can't|could not|unable|not found|denied|invalid|missing|required|no such|panic|exception)\b`)

// empty are lines that say nothing, although they are often the last.
var empty = regexp.MustCompile(`^\s*$|^npm (error|ERR!)\s*(A complete log|code |errno |path |syscall |Log files|$)|^\s*at |^Node\.js v|^\s*[{}\])]+[,;]?\s*$|^Traceback|^\s*File "|^\s*\^+\s*$|^node:internal|A complete log of this run|^Usage:`)

// causeIn finds the line that tells why a program ended, and what to do about it.
func causeIn(lines []string) (said, hint string) {
	for _, s := range signs {
		for _, line := range lines {
			if empty.MatchString(line) {
				continue
			}
			if m := s.line.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
				if said = m[len(m)-1]; said == "" {
					said = m[0]
				}
				return strings.TrimSuffix(strings.TrimSpace(said), "."), s.hint
			}
		}
	}
	said = lastTelling(lines)
	if root := rootOf(lines); root != "" && root != said {
		said += ", caused by " + root
	}
	return said, ""
}

// lastTelling is the last line that says why a program ended; where none does,
// the last that says anything.
func lastTelling(lines []string) string {
	last := ""
	for _, line := range slices.Backward(lines) {
		if empty.MatchString(line) {
			continue
		}
		line = strings.TrimSpace(line)
		if telling.MatchString(line) {
			return line
		}
		last = cmp.Or(last, line)
	}
	return last
}

// rootOf is the exception of Python from which the last was raised; "" if there
// is none.
func rootOf(lines []string) string {
	i := slices.IndexFunc(lines, func(line string) bool { return strings.TrimSpace(line) == chain })
	for ; i > 0; i-- {
		if line := strings.TrimSpace(lines[i-1]); line != "" {
			return line
		}
	}
	return ""
}

// endedBy says how a program ended.
func (u *Upstream) endedBy(err error) error {
	said, hint := causeIn(u.tail.last())
	return &Ended{Err: err, Said: said, Hint: hint}
}

// Advice is what to do about a server that cannot be reached; "" where nothing
// better is known than to look at it.
func Advice(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Hint != "" {
		return f.Hint
	}
	if e, ok := errors.AsType[*Ended](err); ok {
		return e.Hint
	}
	if r, ok := errors.AsType[*dial.Refused](err); ok {
		return r.Hint()
	}
	_, noHost := errors.AsType[*net.DNSError](err)
	switch text := fmt.Sprint(err); {
	case errors.Is(err, exec.ErrNotFound):
		return "Install the program, or correct command in the config; the hub's PATH may differ from your shell's."
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(text, "chdir"):
		return "Make the folder, or correct cwd in the config."
	case errors.Is(err, fs.ErrNotExist):
		return "Install the program, or correct command in the config."
	case errors.Is(err, fs.ErrPermission):
		return "Make the program executable, or correct command in the config."
	case strings.Contains(text, "connection refused"):
		return "Start the server, or correct its url in the config."
	case noHost:
		return "Correct the host of its url in the config."
	case strings.Contains(text, "certificate"):
		return "Use the name that its certificate has, or have it renewed."
	case errors.Is(err, errSlowHello):
		return "See why the server is slow to start, or what it waits for."
	}
	return ""
}

// misconfigured reports whether only a change of the config, or of what is
// installed, can help.
func misconfigured(err error) bool {
	return fault.Is(err, fault.Misconfigured) || !errors.Is(err, mcp.ErrLost) && (errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission))
}

// unreachable says to a client why the upstream cannot be reached; nil is nobody
// in particular.
func (u *Upstream) unreachable(cause error, c *mcp.Client) *fault.Error {
	if f, ok := errors.AsType[*fault.Error](cause); ok && (f.Kind == fault.Unreachable || f.Kind == fault.Limit || f.Kind == fault.Misconfigured) {
		return u.discreet(f)
	}
	kind := fault.Unreachable
	if misconfigured(cause) {
		kind = fault.Misconfigured
	}
	f := fault.New(kind, u.opts.Name, "cannot reach the upstream: %v", cause).Because(cause)
	f.Hint = Advice(cause)
	if _, ended := errors.AsType[*Ended](cause); ended && f.Hint == "" {
		f.Hint = "The hub's owner sees what the program wrote last: `stoa servers --stderr`."
	}
	return u.quoting(u.discreet(f), c)
}

// quoting is a fault with what the program wrote before it ended, for the person
// whose hub it is and for what acts for nobody else.
func (u *Upstream) quoting(f *fault.Error, c *mcp.Client) *fault.Error {
	e, ok := errors.AsType[*Ended](f.Err)
	if !ok || e.Said == "" || c == nil || !c.Actor.IsLocal() || strings.Contains(f.Msg, itWrote) {
		return f
	}
	full := *f
	full.Msg += itWrote + u.shown(e.Said)
	return &full
}

const itWrote = "; it wrote: "

// discreet is a fault that repeats nothing of what the server was sent: what it
// and libraries say is in the message.
func (u *Upstream) discreet(f *fault.Error) *fault.Error {
	if u.opts.Hide == nil {
		return f
	}
	msg := u.opts.Hide(f.Msg)
	if msg == f.Msg {
		return f
	}
	safe := *f
	safe.Msg = msg
	return &safe
}
