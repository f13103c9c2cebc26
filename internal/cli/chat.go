package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

type chatCmd struct {
	reach
	asJSON
	Session string   `help:"Go on with the conversation of this session, or begin one of this name." placeholder:"NAME"`
	Agent   string   `help:"Talk to this agent of the config." placeholder:"NAME"`
	Yes     bool     `help:"Allow every tool that has to be allowed, without asking." xor:"approvals"`
	No      bool     `help:"Deny every tool that has to be allowed, without asking; so it is anyway where nobody can be asked." xor:"approvals"`
	NoColor bool     `help:"No colours; the variable NO_COLOR says so, too." name:"no-color"`
	Text    []string `arg:"" optional:"" help:"What to say: the answer is printed, and that is all. - is all of stdin. Without it: a conversation."`
}

func (c *chatCmd) Help() string {
	return `In a conversation on a terminal, Ctrl-C stops the answer, twice it leaves; /help shows what else can be said. ` +
		`Where stdin is no terminal, each of its lines is said when the one before it has been answered. ` +
		`With --json, what the hub sends is printed, one frame a line, and lines of stdin may be frames (docs/chat.md) or plain text. ` +
		`Answers go to stdout, and what is done for them to stderr. ` +
		`The exit code is that of the last answer: 1 if there was none, 3 if its last tool reported an error, 5 if that was denied, 130 if it was stopped.`
}

// graceTime is how long an interrupted turn may take to say that it has ended.
const graceTime = 3 * time.Second

// awayTime is how long a hub may be away while nobody is there to decide.
const awayTime = 60 * time.Second

func (c *chatCmd) Run(ctx context.Context, s std) error {
	if c.NoColor {
		os.Setenv("NO_COLOR", "1") // for the line that reports an error, too
	}
	if c.Session != "" {
		if err := checkSession(c.Session); err != nil {
			return err
		}
	}
	text, err := c.text(s.in)
	if err != nil {
		return err
	}
	hub, err := c.hub(ctx, s)
	if err != nil {
		return fmt.Errorf("chat: %w", err)
	}
	defer hub.close()
	t := newTalk(c, s, hub)
	tty := terminal(s.in)
	switch {
	case c.JSON:
		return t.frames(ctx, text)
	case text == "" && (tty == nil || !isTerminal(s.out)):
		return t.lines(ctx)
	case text == "":
		return t.converse(ctx, tty, "")
	case tty != nil && (isTerminal(s.out) || isTerminal(s.err)):
		err = t.converse(ctx, tty, text) // there may be something to ask
	default:
		err = t.once(ctx, text)
	}
	if t.session != "" && !t.named && !hub.inside() && isTerminal(s.err) {
		s.note("stoa chat --session %s goes on with this", t.session)
	}
	return err
}

// text is what the command line says; "" if it says nothing.
func (c *chatCmd) text(stdin io.Reader) (string, error) {
	text := strings.Join(c.Text, " ")
	if text == "-" {
		b, err := io.ReadAll(io.LimitReader(stdin, maxFrame))
		if err != nil {
			return "", fmt.Errorf("read stdin: %w", err)
		}
		text = string(b)
	}
	if len(c.Text) > 0 && strings.TrimSpace(text) == "" {
		return "", failed(exitUsage, "Leave it out for a conversation.", "there is nothing to say: the text is empty")
	}
	return text, nil
}

// hub finds the hub, or opens one for this command.
func (c *chatCmd) hub(ctx context.Context, s std) (*client, error) {
	open := c.open
	if c.Session != "" {
		open = c.keeping // whose conversation is to be there next time
	}
	hub, err := open(ctx, s, "")
	if err == nil && hub.inside() {
		told := "no hub is running: this conversation has one of its own and ends with it; `stoa serve` runs one that stays"
		if c.Session != "" {
			told = "no hub is running: this conversation has one of its own, over the data folder; `stoa serve` runs one that stays"
		}
		s.note("%s", told)
	}
	return hub, err
}

// inside reports whether the hub is one in this process.
func (c *client) inside() bool { return len(c.after) > 0 }

// terminal is that of stdin; nil if it is none.
func terminal(in io.Reader) *os.File {
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// again finds the hub after it was lost: it may have been started anew,
// elsewhere.
func (c *chatCmd) again(s std) func(context.Context) (*client, error) {
	return func(ctx context.Context) (*client, error) {
		hub, _, _, err := c.find(ctx)
		if err == nil && hub == nil {
			err = failed(exitUnreachable, "Start it with stoa serve.", "no hub is running")
		}
		if refusal, ok := errors.AsType[*failure](err); ok {
			refusal.code = exitUnreachable // a config that is being edited is no reason to leave
		}
		return hub, err
	}
}

// once says one thing and prints the answer.
func (t *talk) once(ctx context.Context, text string) error {
	t.alone = true
	return t.connected(ctx, func(ctx context.Context) error {
		t.say(text)
		return t.answered(ctx)
	})
}

// lines says each line of stdin when the one before it has been answered.
func (t *talk) lines(ctx context.Context) error {
	return t.connected(ctx, func(ctx context.Context) error {
		input := readLines(t.std.in)
		for {
			select {
			case line, ok := <-input:
				if !ok {
					return t.result()
				}
				left, err := t.line(ctx, line)
				if left || err != nil {
					return err
				}
			case f, ok := <-t.sock.frames:
				if !ok {
					return t.lost()
				}
				t.take(f)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

// line does what a line asks for; left means that it asks to leave.
func (t *talk) line(ctx context.Context, line string) (left bool, err error) {
	if err := t.wait(ctx); err != nil {
		return false, err
	}
	switch {
	case strings.TrimSpace(line) == "":
		return false, nil
	case strings.HasPrefix(line, "/"):
		left, err = t.slash(ctx, line)
		if left {
			err = t.result()
		}
		return left, err
	}
	t.say(line)
	err = t.wait(ctx)
	return false, err
}
