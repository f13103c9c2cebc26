package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const wordsPlan = `
title: Words
inputs: [{name: word, schema: {type: string}}]
steps:
  - {id: first, tool: alpha__echo, args: {text: "@word"}}
  - {id: second, tool: alpha__echo, args: {text: "@first.text", n: 2}}
  - {id: third, tool: alpha__echo, args: {text: "@second.text", n: 3}}
outputs: {said: "@third"}
`

// A story of debugging at a terminal: break, inspect, change, continue, fork,
// compare.
func TestTerminalDebugsPlan(t *testing.T) {
	file := filepath.Join(t.TempDir(), "words.yaml")
	if err := os.WriteFile(file, []byte(wordsPlan), 0o600); err != nil {
		t.Fatal(err)
	}
	s := onTerminal(t, []string{"NO_COLOR=1"}, "plan", "debug", file, "word=helo")
	s.shows(t, "paused (it has not begun), 0 of 3 steps over")
	s.shows(t, "help tells what can be said")
	say := func(line, prompt string, want ...string) string {
		t.Helper()
		s.press(t, line+"\n")
		said := s.shows(t, prompt)
		for _, w := range want {
			if !strings.Contains(said, w) {
				t.Errorf("after %s there is no %q:\n%s", line, w, said)
			}
		}
		return said
	}
	s.shows(t, "(paused) ")
	say("help", "(paused) ", "run_to STEP", "compare [RUN [RUN]]", "quit")
	say("break thrid", "(paused) ", "there is no step thrid", "Is third meant?")
	say("break third if @second.text equal \"helo\"", "(paused) ", `break before third if {"value":"@second.text","is":"equal","to":"helo"}`)
	say("step", "(after first) ", "paused (first was the step to do), 1 of 3 steps over")
	said := say("continue", "(before third) ", "2 of 3 steps over", `next: third calls alpha__echo with {"text":"helo","n":3}`)
	run := regexp.MustCompile(`run_[A-Z2-7]{20}`).FindString(said)
	say("inspect second", "(before third) ", `second calls alpha__echo with {"text":"helo","n":2}`)
	say("vars word", "(before third) ", `"helo"`)
	say("frok", "(before third) ", `"frok" means nothing here`, "Is fork meant?")

	said = say(`set word "hello"`, "(paused) ", "a fork of "+run+", in which word is set; the old run stays as it is", "0 of 3 steps over")
	fork := regexp.MustCompile(`\n(run_[A-Z2-7]{20})`).FindStringSubmatch(said)
	if fork == nil || fork[1] == run {
		t.Fatalf("no fork of %s:\n%s", run, said)
	}
	say("continue", "(done) ", "done, 3 of 3 steps over", `said = {"text":"hello","n":3}`)
	said = say("compare", "(done) ", "input word", "step third")
	if a, b := strings.Index(said, run), strings.Index(said, fork[1]); a < 0 || b < a {
		t.Errorf("%s and %s are not compared in this order:\n%s", run, fork[1], said)
	}
	say("fork third", "(paused) ", "a fork of "+fork[1], "2 of 3 steps over")
	say("continue", "(done) ", "done, 3 of 3")
	say("runs", "(done) ", run, fork[1])
	say("compare "+fork[1], "(done) ", "the runs do not differ")
	say("use "+run, "(before third) ", "← paused")
	say("skip third", "(before third) ", "third is skipped")
	say("continue", "(done) ", "done, 3 of 3 steps over", "skipped")
	s.press(t, keyCtrlD)
	s.ended(t, exitOK)
}

// A run that waits for a tool is paused by Ctrl-C, and can be come back to.
func TestTerminalInterruptsDebugger(t *testing.T) {
	file := filepath.Join(t.TempDir(), "slow.yaml")
	if err := os.WriteFile(file, []byte("steps:\n  - {id: a, tool: alpha__hang}\n  - {id: b, tool: alpha__echo, after: [a]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := onTerminal(t, []string{"NO_COLOR=1"}, "plan", "debug", file)
	s.shows(t, "(paused) ")
	s.press(t, "continue\n")
	s.shows(t, "0 of 2 steps are over")
	s.press(t, keyCtrlC)
	s.shows(t, "is paused; come back with: stoa plan debug run_")
	s.ended(t, exitInterrupted)
}
