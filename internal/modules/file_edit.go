package modules

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stoahub/stoa/internal/fault"
)

var editTool = Tool{
	Name: "file_edit", Title: "Edit a file", Destructive: true,
	Description: "Replaces exact texts in a file, one edit after the other: all of them or, if one does not fit, none. Each text must be there exactly once, unless all is said. " +
		"The answer shows what changed as a diff; dryRun only shows it.",
	Input: `{"type":"object","additionalProperties":false,"required":["path","edits"],"properties":{
		"path":{"type":"string"},
		"edits":{"type":"array","minItems":1,"maxItems":1000,"items":{"type":"object","additionalProperties":false,"required":["find","replace"],"properties":{
			"find":{"type":"string","minLength":1,"description":"The text, with its spaces and line ends."},
			"replace":{"type":"string"},
			"all":{"type":"boolean","description":"Replace it everywhere, at least once."}}}},
		"dryRun":{"type":"boolean"},
		"expectHash":{"type":"string","pattern":"^[0-9a-fA-F]{64}$","description":"Edit only if the file has this SHA-256, as file_read told it."}}}`,
}

type editArgs struct {
	Path       string `json:"path"`
	Edits      []edit `json:"edits"`
	DryRun     bool   `json:"dryRun"`
	ExpectHash string `json:"expectHash"`
}

type edit struct {
	Find    string `json:"find"`
	Replace string `json:"replace"`
	All     bool   `json:"all"`
}

type edited struct {
	Path         string `json:"path"`
	Size         int    `json:"size"`
	Hash         string `json:"hash"`
	Replacements int    `json:"replacements"`
	DryRun       bool   `json:"dryRun"`
	Diff         string `json:"diff"`
}

func (f *files) edit(ctx context.Context, a editArgs) (any, error) {
	find := f.findChange
	if a.DryRun {
		find = f.find
	}
	p, err := find(a.Path, true)
	if err != nil {
		return nil, err
	}
	unlock, err := f.lock(ctx, p)
	if err != nil {
		return nil, err
	}
	defer unlock()
	old, info, err := f.whole(ctx, p)
	if err == nil && !a.DryRun {
		err = writable(p)
	}
	if err != nil {
		return nil, f.fail("edit", p, err)
	}
	if err := expect(a.Path, old, a.ExpectHash); err != nil {
		return nil, err
	}
	if !utf8.Valid(old) {
		e := fault.New(fault.InvalidArguments, a.Path, "it is not UTF-8 text")
		e.Hint = "Read it as base64 and write it as a whole."
		return nil, e
	}
	now, count, err := f.apply(ctx, a, old)
	if err != nil {
		return nil, err
	}
	out := edited{Path: p.short, Size: len(now), Hash: hashOf(now), Replacements: count, DryRun: a.DryRun, Diff: unifiedDiff(p.short, old, now, false)}
	if !a.DryRun && !bytes.Equal(old, now) {
		if err := f.replace(ctx, p, change{same: true, info: info}, bytesOf(now)); err != nil {
			return nil, f.fail("edit", p, err)
		}
	}
	whole := func(context.Context) (any, error) {
		out.Diff = unifiedDiff(p.short, old, now, true)
		return Answer{Data: out}, nil
	}
	return Answer{Data: out, Whole: whole}, nil
}

// apply makes the edits on a copy, and counts the replacements.
func (f *files) apply(ctx context.Context, a editArgs, b []byte) ([]byte, int, error) {
	total := 0
	for i, e := range a.Edits {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		find, replace := []byte(e.Find), []byte(e.Replace)
		n := bytes.Count(b, find)
		if err := e.fits(fmt.Sprintf("%s, edit %d", a.Path, i+1), b, n); err != nil {
			return nil, 0, err
		}
		if size := int64(len(b)) + int64(n)*int64(len(replace)-len(find)); size > f.opts.MaxBytes {
			return nil, 0, f.tooLarge(a.Path, size)
		}
		b = bytes.ReplaceAll(b, find, replace)
		total += n
	}
	return b, total, nil
}

// fits checks that a text was found as often as it must be.
func (e edit) fits(subject string, b []byte, n int) error {
	switch {
	case n == 0:
		f := fault.New(fault.InvalidArguments, subject, "the text %s is not there; nothing was changed", brief(e.Find))
		f.Hint = "Read the file and copy the text as it is, with its spaces and line ends."
		if strings.Contains(e.Find, "\n") && !strings.Contains(e.Find, "\r") && bytes.Contains(b, []byte(strings.ReplaceAll(e.Find, "\n", "\r\n"))) {
			f.Hint = "The lines of this file end with \\r\\n: write them so in find and replace."
		}
		return f
	case n > 1 && !e.All:
		f := fault.New(fault.InvalidArguments, subject, "the text %s is there %d times, in lines %s; nothing was changed", brief(e.Find), n, linesWith(b, e.Find))
		f.Hint = "Add text around it until it is the only one, or say all."
		return f
	}
	return nil
}

// brief is a text short enough for a message.
func brief(s string) string {
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// linesWith names the first lines in which a text begins.
func linesWith(b []byte, text string) string {
	var lines []string
	line := 1
	for len(lines) < 5 {
		i := bytes.Index(b, []byte(text))
		if i < 0 {
			return strings.Join(lines, ", ")
		}
		line += bytes.Count(b[:i], []byte("\n"))
		lines = append(lines, fmt.Sprint(line))
		line += bytes.Count(b[i:i+len(text)], []byte("\n"))
		b = b[i+len(text):]
	}
	return strings.Join(lines, ", ") + " …"
}
