package config

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/stoahub/stoa/internal/spell"
)

// Problem is one thing wrong with the configuration.
type Problem struct {
	File    string // or what else said it: "--listen", "env PORT"
	Line    int    // from 1; 0 where File has no lines
	Column  int    // in characters, from 1
	Pointer string // the JSON pointer of the value in the file
	Text    string // what is wrong
	Hint    string // what to do

	rank int // the order in which files were read
}

// String renders the problem in one line, beginning as compilers do so that
// editors can jump there.
func (p Problem) String() string { return render(p.File, p.Line, p.Column, p.Pointer, p.Text, p.Hint) }

// Problems are all the problems of a configuration, in the order of the files
// and their lines. It is the error of Load and Validate.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].String()
	}
	return strings.Join(lines, "\n")
}

// Note is something that a person may want to know of how the files were read;
// nothing is wrong.
type Note struct {
	File    string
	Line    int
	Column  int
	Pointer string
	Text    string
	Hint    string
	Grave   bool // something that was asked for does not hold, such as a policy
}

// Level is that of a note in a log.
func (n Note) Level() slog.Level {
	if n.Grave {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

func (n Note) String() string { return render(n.File, n.Line, n.Column, n.Pointer, n.Text, n.Hint) }

func render(file string, line, column int, pointer, text, hint string) string {
	var b strings.Builder
	if file != "" {
		b.WriteString(file)
		if line > 0 {
			fmt.Fprintf(&b, ":%d:%d", line, column)
		}
		b.WriteString(": ")
	}
	if pointer != "" {
		b.WriteString(pointer + ": ")
	}
	b.WriteString(text)
	if hint != "" {
		b.WriteString("; " + hint)
	}
	return b.String()
}

// didYouMean is the hint for an unknown word.
func didYouMean(key string, words []string) string {
	if w := spell.Nearest(key, words); w != "" {
		return fmt.Sprintf("did you mean %q?", w)
	}
	return "known here: " + strings.Join(words, ", ")
}
