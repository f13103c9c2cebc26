package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ask shows all of what somebody has to decide about: nothing is cut, and what
// cannot be seen is written out.
func (v *view) ask(a *askedApproval) {
	v.interrupt()
	what := a.Tool
	if a.Kind == "sampling" {
		what = "a question of " + a.Upstream + " to the model"
	}
	v.status.line(v.status.paint(amber, "?") + " " + v.status.paint(bold, exactLine(what)) + " wants to be allowed" + because(a.Reason))
	for _, line := range changed(a.Change, a.Flags) {
		v.status.line("  " + line)
	}
	for line := range strings.Lines(exact(indented(a.Args))) {
		v.status.line("  " + strings.TrimSuffix(line, "\n"))
	}
	if left := time.Until(a.Expires); !a.Expires.IsZero() {
		v.status.line(v.status.paint(dim, fmt.Sprintf("  without an answer it is denied in %v", left.Round(time.Second))))
	}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + exactLine(reason)
}

// exactLine is exact on one line.
func exactLine(text string) string {
	return strings.ReplaceAll(exact(text), "\n", `\n`)
}

func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 {
		return "{}"
	}
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// choice is what a person says to an approval.
type choice struct {
	decision string // approve, deny or edit; "" if it was not understood
	remember string // once, session, tool or server
}

const choices = "[y]es, [n]o, [e]dit; [s]ession, [t]ool, ser[v]er: yes, and do not ask again for it"

// parseChoice reads an answer: a decision, and for how long it holds.
func parseChoice(line string) choice {
	scopes := map[string]string{"s": "session", "session": "session", "t": "tool", "tool": "tool", "v": "server", "server": "server", "once": "once"}
	decisions := map[string]string{"y": "approve", "yes": "approve", "n": "deny", "no": "deny", "e": "edit", "edit": "edit"}
	words := strings.Fields(strings.ToLower(line))
	c := choice{remember: "once"}
	if len(words) == 1 && scopes[words[0]] != "" && words[0] != "once" {
		return choice{"approve", scopes[words[0]]}
	}
	if len(words) == 2 {
		if c.remember = scopes[words[1]]; c.remember == "" {
			return choice{}
		}
	}
	if len(words) == 0 || len(words) > 2 {
		return choice{}
	}
	c.decision = decisions[words[0]]
	return c
}

// parseArgs reads arguments that a person has edited.
func parseArgs(text string) (json.RawMessage, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		return nil, fmt.Errorf("arguments have to be one JSON object: %w", orMissing(err))
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func orMissing(err error) error {
	if err == nil {
		return fmt.Errorf("null is none")
	}
	return err
}

// editor is the program that the person edits text with; empty if none is set.
func editor() []string {
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if words := strings.Fields(os.Getenv(name)); len(words) > 0 {
			return words
		}
	}
	return nil
}

// editFile lets the person change text in their editor, which has the terminal
// meanwhile.
func editFile(ctx context.Context, program []string, tty *os.File, text string) (string, error) {
	dir, err := os.MkdirTemp("", "stoa-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "arguments.json")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, program[0], append(program[1:len(program):len(program)], path)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("run %s: %w", program[0], err)
	}
	b, err := os.ReadFile(path)
	return string(b), err
}

// consent takes a decision.
func (d *desk) consent(ctx context.Context, a *askedApproval, line string) {
	c := parseChoice(line)
	switch {
	case !d.waits(a):
		d.view.hint("it has been decided elsewhere, or it is too late")
	case c.decision == "":
		d.view.hint("that is no answer: " + choices)
	case c.decision == "edit":
		d.edit(ctx, a)
	default:
		d.settle(a, approvePayload{Decision: c.decision, Remember: c.remember})
	}
}

// settle sends a decision, and asks no more about it.
func (d *desk) settle(a *askedApproval, p approvePayload) {
	d.decide(a, p)
	d.decided(a)
}

// edit lets the person change the arguments: in their editor, or on the line.
func (d *desk) edit(ctx context.Context, a *askedApproval) {
	program := editor()
	if program == nil {
		d.ask(&question{kind: forArgs, about: a}, "arguments > ", exactLine(oneLine(a.Args)))
		return
	}
	var text string
	_, err := d.aside(ctx, func() (_ bool, err error) {
		text, err = editFile(ctx, program, d.keys.tty, exact(indented(a.Args)))
		return false, err
	})
	if err != nil {
		d.view.tell("✗", red, err.Error())
		return
	}
	d.args(a, text)
}

// args takes arguments that were edited. Those that cannot be used change
// nothing: the question is asked again.
func (d *desk) args(a *askedApproval, text string) {
	args, err := parseArgs(text)
	if err != nil {
		d.view.tell("✗", red, err.Error())
		return
	}
	d.settle(a, approvePayload{Decision: "edit", Args: args})
}
