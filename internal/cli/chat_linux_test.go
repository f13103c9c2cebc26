package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// press types keys.
func (s *screen) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := s.ctrl.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// shows waits until the screen has shown text since the last time, and returns
// what came before and with it.
func (s *screen) shows(t *testing.T, text string) string {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		new := s.out.String()[s.seen:]
		if i := strings.Index(new, text); i >= 0 {
			s.seen += i + len(text)
			s.mu.Unlock()
			return new[:i+len(text)]
		}
		s.mu.Unlock()
		select {
		case <-deadline:
			t.Fatalf("%q is not on the screen; since the last thing there was\n%q", text, new)
		case <-tick.C:
		}
	}
}

// ended waits for the end of the program, and checks that the terminal is as
// it was.
func (s *screen) ended(t *testing.T, code int) {
	t.Helper()
	if got := s.end(t); got != code {
		t.Errorf("exit code %d, want %d\n%q", got, code, s.text())
	}
}

const (
	keyCtrlC = "\x03"
	keyCtrlD = "\x04"
	keyUp    = "\x1b[A"
	ready    = "\x1b[?2004h" // a line is being edited; the question follows
	unasked  = "\x1b[?2004l" // none is, and what follows is on a line of its own
)

func TestTerminalChat(t *testing.T) {
	s := onTerminal(t, []string{"EDITOR=", "VISUAL="}, "chat")
	s.shows(t, "Hello! I'm an AI assistant")
	s.shows(t, "> ")
	s.press(t, "echo wrold\x7f\x7f\x7f\x7forld\r")
	s.shows(t, unasked+"world\r\n")
	s.shows(t, "> ")
	s.press(t, keyUp+"s\r") // the line before, with one more letter
	s.shows(t, unasked+"worlds\r\n")
	s.shows(t, "> ")

	// A question about a call shows all of the arguments, also what hides.
	s.press(t, `call alpha__echo {"text":"a`+"\u200b"+`b","n":1}`+"\r")
	asked := s.shows(t, "allow? > ")
	for _, want := range []string{"alpha__echo", `"text": "a\u200bb"`, `"n": 1`, "without an answer it is denied in"} {
		if !strings.Contains(asked, want) {
			t.Errorf("%q is not in the question:\n%s", want, asked)
		}
	}
	s.press(t, "perhaps\r")
	s.shows(t, "that is no answer")
	s.shows(t, "allow? > ")
	s.press(t, "n\r")
	s.shows(t, "denied: ")
	s.shows(t, "> ")

	// Edited on the line: it begins with what was asked for.
	s.press(t, `call alpha__echo {"text":"first"}`+"\r")
	s.shows(t, "allow? > ")
	s.press(t, "e\r")
	s.shows(t, `arguments > {"text":"first"}`)
	s.press(t, "\x7f\x7f\x7f\x7f\x7f\x7f\x7fsecond\"}\r")
	s.shows(t, `"text":"second"`)
	s.shows(t, "✓")
	s.shows(t, "> ")

	// Allowed for the session, it is not asked for again.
	s.press(t, "call alpha__echo {}\r")
	s.shows(t, "allow? > ")
	s.press(t, "s\r")
	s.shows(t, "✓")
	s.shows(t, "> ")
	s.press(t, "call alpha__echo {\"text\":\"free\"}\r")
	if got := s.shows(t, "✓"); strings.Contains(got, "allow?") {
		t.Errorf("it was asked for again:\n%s", got)
	}
	s.shows(t, "> ")
	s.press(t, keyCtrlD)
	s.ended(t, exitOK)
}

func TestTerminalChatSlash(t *testing.T) {
	s := onTerminal(t, nil, "chat")
	s.shows(t, "> ")
	s.press(t, "/to\talpha__e\r")
	s.shows(t, "alpha__echo")
	s.shows(t, "> ")
	s.press(t, "/helq\r")
	s.shows(t, "Did you mean /help?")
	s.shows(t, "> ")
	s.press(t, "call context_add {\"name\":\"kept\",\"data\":1}\r")
	s.shows(t, "✓")
	s.shows(t, ready)
	s.press(t, "/context\r")
	s.shows(t, "kept")
	s.shows(t, "context: [")
	s.shows(t, ready)
	s.press(t, "/new other\r")
	s.shows(t, "session other")
	s.shows(t, ready)
	s.press(t, "/history\r")
	if got := s.shows(t, ready); strings.Contains(got, "kept") {
		t.Errorf("the new conversation has the history of the old one:\n%s", got)
	}
	// Lines that are pasted at once are one message.
	s.press(t, "\x1b[200~echo one\rtwo\rthree\x1b[201~\r")
	s.shows(t, unasked+"one\r\ntwo\r\nthree\r\n")
	s.shows(t, ready)
	s.press(t, "/quit\r")
	s.ended(t, exitOK)
}

// Ctrl-C stops the answer, or a question about it; twice it leaves.
func TestTerminalChatInterrupt(t *testing.T) {
	s := onTerminal(t, nil, "chat")
	s.shows(t, "> ")
	s.press(t, "call alpha__hang {}\r")
	s.shows(t, "allow? > ")
	s.press(t, keyCtrlC)
	s.shows(t, "stopped")
	s.shows(t, ready)
	s.press(t, "call alpha__hang {}\r")
	s.shows(t, "allow? > ")
	s.press(t, "y\r")
	s.shows(t, "▸")
	s.press(t, "echo later\r") // waits for its turn, which comes after this:
	s.press(t, "/abort\r")
	s.shows(t, "stopped")
	s.shows(t, unasked+"later\r\n")
	s.shows(t, ready)
	s.press(t, "call alpha__hang {}\r")
	s.shows(t, "allow? > ")
	s.press(t, "y\r")
	s.shows(t, "▸")
	s.press(t, "echo not any more\r"+keyCtrlC)
	s.shows(t, "stopped")
	s.shows(t, ready)
	s.press(t, "half a line"+keyCtrlC)
	s.shows(t, "Ctrl-C again leaves")
	s.shows(t, ready)
	s.press(t, "echo still here\r")
	s.shows(t, unasked+"still here\r\n")
	s.shows(t, ready)
	s.press(t, keyCtrlC)
	s.shows(t, "Ctrl-C again leaves")
	s.press(t, keyCtrlC)
	s.ended(t, exitInterrupted)
}

// What is typed while an answer comes is said after it, and never answers a
// question that comes up meanwhile.
func TestTerminalChatEarly(t *testing.T) {
	s := onTerminal(t, nil, "chat", "--no-color")
	s.shows(t, "> ")
	s.press(t, "call alpha__slow {}\r")
	s.shows(t, "allow? > ")
	s.press(t, "y\r")
	s.shows(t, "▸ alpha__slow")
	s.press(t, "call alpha__echo {}\ry\r")
	s.shows(t, "✓ alpha__slow")
	s.shows(t, "allow? > ")
	s.press(t, "n\r")
	s.shows(t, "✗ alpha__echo")
	s.shows(t, "You said: | y\r\n")
	s.shows(t, ready)
	s.press(t, keyCtrlD)
	s.ended(t, exitOK)
	if strings.Contains(s.text(), "\x1b[3") {
		t.Errorf("colours, with --no-color:\n%q", s.text())
	}
}

func TestTerminalChatEditor(t *testing.T) {
	editor := filepath.Join(t.TempDir(), "edit")
	program := "#!/bin/sh\n[ -t 0 ] || exit 1\nread answer\nsed -i \"s/first/$answer/\" \"$2\"\n"
	if err := os.WriteFile(editor, []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	s := onTerminal(t, []string{"VISUAL=", "EDITOR=" + editor + " --wait"}, "chat")
	s.shows(t, "> ")
	s.press(t, `call alpha__echo {"text":"first"}`+"\r")
	s.shows(t, "allow? > ")
	s.press(t, "e\r")
	s.shows(t, "\r\n")
	s.press(t, "second\n") // to the editor, which has the terminal
	s.shows(t, "✓")
	s.shows(t, `"text":"second"`)
	s.shows(t, ready)
	s.press(t, keyCtrlD)
	s.ended(t, exitOK)
}

// One question on a terminal: the person is asked, Ctrl-C stops it, and the
// process ends with it.
func TestTerminalChatOnce(t *testing.T) {
	s := onTerminal(t, nil, "chat", "call alpha__steps {}")
	s.shows(t, "allow? > ")
	s.press(t, "y\r")
	s.shows(t, "| done\r\n")
	s.ended(t, exitOK)
	if strings.Contains(s.text(), "/help") {
		t.Errorf("it was taken for a conversation:\n%q", s.text())
	}
	s = onTerminal(t, nil, "chat", "call alpha__echo {}")
	s.shows(t, "allow? > ")
	s.press(t, "n\r")
	s.ended(t, exitDenied)
	s = onTerminal(t, nil, "chat", "--yes", "call alpha__hang {}")
	s.shows(t, "▸")
	s.press(t, keyCtrlC)
	s.shows(t, "stopped")
	s.ended(t, exitInterrupted)
}

// A hub that ends and comes back elsewhere is found again, and the line that
// is being edited stays.
func TestTerminalChatReconnects(t *testing.T) {
	work := t.TempDir()
	hub := onTerminalIn(t, work, nil, "serve", "--listen", "127.0.0.1:0")
	hub.shows(t, "Ctrl-C stops the hub.")
	s := onTerminalIn(t, work, nil, "chat", "--session", "talk")
	s.shows(t, "session talk")
	s.shows(t, ready)
	s.press(t, "echo before\r")
	s.shows(t, unasked+"before\r\n")
	s.shows(t, ready)
	s.press(t, "echo af")
	s.shows(t, "echo af")
	if err := hub.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	hub.end(t)
	s.shows(t, "reconnecting…\r\n")
	s.shows(t, "> echo af")
	s.press(t, "ter\r")
	onTerminalIn(t, work, nil, "serve", "--listen", "127.0.0.1:0")
	s.shows(t, "connected again\r\n")
	got := s.shows(t, "after\r\n") + s.shows(t, ready)
	if n := strings.Count(got, "after\r\n"); n != 1 || strings.Contains(got, "before") {
		t.Errorf("it was answered %d times:\n%q", n, got)
	}
	s.press(t, keyCtrlD)
	s.ended(t, exitOK)
}

// What a model or a tool says does nothing to the terminal, and no line of ours
// is longer than it.
func TestTerminalChatHostile(t *testing.T) {
	work := t.TempDir()
	const evil = "\x1b]0;mine\x07\x1b[2J\u202eback\rover"
	for name, text := range map[string]string{
		"evil.jsonc": `{"stoa": 1, "models": {"default": "evil", "evil": {"provider": "script", "script": "evil.txt"}}}`,
		"evil.txt":   "-- one --\n" + evil + "\n```tool\n{\"tool\": \"alpha__echo\", \"arguments\": {\"text\": \"\\u001b[2J" + strings.Repeat("x", 200) + "\"}}\n```\n",
	} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := onTerminalIn(t, work, nil, "chat", "--no-color", "--yes", "go", "--config", filepath.Join(work, "evil.jsonc"))
	s.ended(t, exitOK)
	got := s.text()
	for _, never := range []string{"\x1b]", "\x1b[2J", "\u202e", "\x07", "\rover"} {
		if strings.Contains(got, never) {
			t.Errorf("%q reached the terminal:\n%q", never, got)
		}
	}
	if !strings.Contains(got, `\u001b]0;mine\u0007\u001b[2J\u202eback\rover`) {
		t.Errorf("what the model said cannot be seen:\n%q", got)
	}
	for line := range strings.Lines(got) {
		if strings.HasPrefix(line, "▸") && (len([]rune(line)) > 61 || !strings.Contains(line, "…")) {
			t.Errorf("a line of %d characters: %q", len([]rune(line)), line)
		}
	}
}

// The terminal is left as it was found.
func TestTerminalChatRestores(t *testing.T) {
	s := onTerminal(t, nil, "chat")
	before, err := unix.IoctlGetTermios(int(s.ctrl.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	s.shows(t, "> ")
	during, err := unix.IoctlGetTermios(int(s.ctrl.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if during.Lflag&unix.ECHO != 0 {
		t.Error("the terminal echoes while a line is being edited")
	}
	s.press(t, "/quit\r")
	s.shows(t, "\x1b[?2004l")
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		after, err := unix.IoctlGetTermios(int(s.ctrl.Fd()), unix.TCGETS)
		if err != nil {
			break // it has gone with the program
		}
		if *after == *before {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("the terminal is %+v, and was %+v", *after, *before)
		case <-tick.C:
		}
	}
	s.ended(t, exitOK)
}
