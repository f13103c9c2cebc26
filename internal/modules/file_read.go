package modules

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/stoahub/stoa/internal/fault"
)

var readTool = Tool{
	Name: "file_read", Title: "Read a file", ReadOnly: true,
	Description: "Reads a file, or a part of it by bytes (offset, length) or by lines (line, lines). The answer says the size of the file, and where to go on if there is more. " +
		"What is not UTF-8 text comes as base64. The hash is the SHA-256 of the whole file; a large one has none.",
	Input: `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
		"path":{"type":"string"},
		"offset":{"type":"integer","minimum":0,"description":"The first byte, from 0."},
		"length":{"type":"integer","minimum":1,"description":"How many bytes at most."},
		"line":{"type":"integer","minimum":1,"description":"The first line, from 1."},
		"lines":{"type":"integer","minimum":1,"description":"How many lines at most."},
		"encoding":{"enum":["auto","text","base64"],"description":"Default auto: text if it is, base64 else."}}}`,
}

type readArgs struct {
	Path     string `json:"path"`
	Offset   *int64 `json:"offset"`
	Length   int64  `json:"length"`
	Line     int64  `json:"line"`
	Lines    int64  `json:"lines"`
	Encoding string `json:"encoding"`
}

// part is a piece of a file.
type part struct {
	Path     string `json:"path"`
	Size     int64  `json:"size"` // of the file
	Hash     string `json:"hash,omitempty"`
	Encoding string `json:"encoding"`
	Content  string `json:"content"`
	Offset   int64  `json:"offset"`
	Length   int    `json:"length"`
	Line     int64  `json:"line,omitempty"`  // the first line of the piece
	Lines    int64  `json:"lines,omitempty"` // how many lines the piece has
	More     bool   `json:"more"`
	// Where to go on: by the line if the piece ends with one, by the byte else.
	NextOffset int64 `json:"nextOffset,omitempty"`
	NextLine   int64 `json:"nextLine,omitempty"`
}

func (f *files) read(ctx context.Context, a readArgs, whole bool) (Answer, error) {
	byLine := a.Line > 0 || a.Lines > 0
	if byLine && (a.Offset != nil || a.Length > 0) {
		e := fault.New(fault.InvalidArguments, "file_read", "a part is named by bytes or by lines, not by both")
		e.Hint = "Give offset and length, or line and lines."
		return Answer{}, e
	}
	p, err := f.find(a.Path, true)
	if err != nil {
		return Answer{}, err
	}
	file, info, err := openRegular(p)
	if err != nil {
		return Answer{}, f.fail("read", p, err)
	}
	defer file.Close()
	out := part{Path: p.short, Size: info.Size()}
	most := f.page(shownBytes)
	if whole || a.Length > 0 || a.Lines > 0 {
		most = f.opts.MessageBytes // of this many there is no room for anything else, and the call fails
	}
	src, err := f.source(ctx, file, &out)
	var b []byte
	switch {
	case err != nil:
	case byLine:
		b, err = f.readLines(ctx, src, a, most, &out)
	default:
		b, err = f.readBytes(ctx, src, a, most, &out)
	}
	if err == nil {
		err = f.encode(b, a, &out)
	}
	if err != nil {
		return Answer{}, f.fail("read", p, err)
	}
	return Answer{Data: out, Message: out.rest()}, nil
}

// rest says which part of a file it is and how to get the rest; "" if it ends
// with the file.
func (p *part) rest() string {
	switch {
	case !p.More:
		return ""
	case p.NextLine > 0:
		return fmt.Sprintf("This is a part of the file: lines %d to %d. Go on with line %d, and say with lines how many.", p.Line, p.NextLine-1, p.NextLine)
	}
	return fmt.Sprintf("This is a part of the file: bytes %d to %d of %d. Go on with offset %d, and say with length how many.", p.Offset, p.NextOffset-1, p.Size, p.NextOffset)
}

// source is what to read from. A file that is not large is read as a whole and
// once, so that the piece and the hash belong together.
func (f *files) source(ctx context.Context, file *os.File, out *part) (io.ReadSeeker, error) {
	if out.Size > f.opts.MaxBytes {
		return file, nil
	}
	b, err := io.ReadAll(io.LimitReader(patient{ctx, file}, f.opts.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > f.opts.MaxBytes { // it grows
		_, err = file.Seek(0, io.SeekStart)
		return file, err
	}
	out.Size, out.Hash = int64(len(b)), hashOf(b)
	return bytes.NewReader(b), nil
}

// readBytes reads one byte more than it may give, to know whether there is
// more: the size of a file says that of a usual one only.
func (f *files) readBytes(ctx context.Context, src io.ReadSeeker, a readArgs, room int, out *part) ([]byte, error) {
	if a.Offset != nil {
		out.Offset = *a.Offset
	}
	most := int64(room)
	if a.Length > 0 {
		most = min(most, a.Length)
	}
	if _, err := src.Seek(out.Offset, io.SeekStart); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(patient{ctx, src}, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		b, out.More = b[:most], true
		if a.Encoding != "base64" {
			b = wholeRunes(b)
		}
	}
	if out.More {
		out.NextOffset = out.Offset + int64(len(b))
	}
	return b, nil
}

// wholeRunes leaves out a character that the end of b cuts in two, if that
// makes a text of it.
func wholeRunes(b []byte) []byte {
	for cut := 1; cut < utf8.UTFMax && cut < len(b); cut++ {
		if c := b[len(b)-cut]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-cut:]) {
				return b[:len(b)-cut]
			}
			break
		}
	}
	return b
}

// readLines reads lines from the beginning, since nobody knows where a line
// begins, and keeps those that are wanted.
func (f *files) readLines(ctx context.Context, src io.Reader, a readArgs, most int, out *part) ([]byte, error) {
	r := bufio.NewReaderSize(patient{ctx, src}, 64<<10)
	out.Line = max(a.Line, 1)
	for n := int64(1); n < out.Line; {
		s, err := r.ReadSlice('\n')
		out.Offset += int64(len(s))
		switch err {
		case nil:
			n++
		case bufio.ErrBufferFull:
		case io.EOF:
			return nil, nil
		default:
			return nil, err
		}
	}
	var b []byte
	for {
		if a.Lines > 0 && out.Lines == a.Lines {
			break
		}
		s, err := r.ReadSlice('\n')
		if room := most - len(b); len(s) > room {
			return f.cutLine(append(b, s[:room]...), out), nil
		}
		b = append(b, s...)
		switch {
		case err == nil:
			out.Lines++
		case err == io.EOF:
			if len(b) > 0 && b[len(b)-1] != '\n' {
				out.Lines++
			}
			return b, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
	if _, err := r.Peek(1); err == nil {
		out.More, out.NextOffset, out.NextLine = true, out.Offset+int64(len(b)), out.Line+out.Lines
	} else if err != io.EOF {
		return nil, err
	}
	return b, nil
}

// cutLine ends a piece that got too large: after its last whole line if it has
// one, within the line else.
func (f *files) cutLine(b []byte, out *part) []byte {
	out.More = true
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		b = b[:i+1]
		out.NextLine = out.Line + out.Lines
	} else {
		b, out.Lines = wholeRunes(b), 1
	}
	out.NextOffset = out.Offset + int64(len(b))
	return b
}

func (f *files) encode(b []byte, a readArgs, out *part) error {
	text := utf8.Valid(b) && bytes.IndexByte(b, 0) < 0
	if a.Encoding == "text" && !utf8.Valid(b) {
		e := fault.New(fault.InvalidArguments, a.Path, "it is not UTF-8 text")
		e.Hint = "Read it with encoding base64."
		return e
	}
	out.Length = len(b)
	if a.Encoding == "text" || a.Encoding != "base64" && text {
		out.Encoding, out.Content = "text", string(b)
		return nil
	}
	out.Encoding, out.Content = "base64", base64.StdEncoding.EncodeToString(b)
	return nil
}
