package wire

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
)

// toolsCall is a tools/call whose arguments hold about pad bytes of text, as
// a model writes it: short names, prose with the odd escape.
func toolsCall(pad int) []byte {
	const line = `The quick brown fox said \"hello\" to line\n`
	text := strings.Repeat(line, pad/len(line))
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s"}}}`, text)
}

// result is a response with about size bytes of content blocks.
func result(size int) []byte {
	const block = `{"type":"text","text":"row 12345, name: Ada Lovelace, mail: ada@example.org, note: \"first\"\tof many","n":[1,2.5,-3e10,true,null]}`
	var b bytes.Buffer
	b.WriteString(`{"jsonrpc":"2.0","id":42,"result":{"content":[` + block)
	for b.Len() < size {
		b.WriteString("," + block)
	}
	b.WriteString(`],"isError":false}}`)
	return b.Bytes()
}

var scanInputs = []struct {
	name  string
	input []byte
	trust Trust
}{
	{"call100B", toolsCall(0), FromClient},
	{"call2KB", toolsCall(2 << 10), FromClient},
	{"result1MB", result(1 << 20), FromUpstream},
	{"result1MB/strict", result(1 << 20), FromClient},
	{"text1MB", fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%s"}]}}`, strings.Repeat("plain ascii text ", 1<<16)), FromUpstream},
	{"cyrillic1MB", fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%s"}]}}`, strings.Repeat("текст из слов ", 1<<15)), FromUpstream},
}

func BenchmarkScan(b *testing.B) {
	for _, in := range scanInputs {
		b.Run(in.name, func(b *testing.B) {
			var m Message
			b.SetBytes(int64(len(in.input)))
			b.ReportAllocs()
			for b.Loop() {
				if err := m.Scan(in.input, in.trust); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEdit(b *testing.B) {
	var m Message
	if err := m.Scan(toolsCall(2<<10), FromClient); err != nil {
		b.Fatal(err)
	}
	change := Change{"_meta", []byte(`{"progressToken":7}`)}
	dst := make([]byte, 0, 4<<10)
	b.Run("raw2KB", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst = Edit(dst[:0], m.Params, change)
		}
	})
	b.Run("fields2KB", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst = EditFields(dst[:0], m.Fields, change)
		}
	})
}

func BenchmarkReaders(b *testing.B) {
	for _, size := range []int{2 << 10, 1 << 20} {
		message := result(size)
		lines := append(bytes.Clone(message), '\n')
		events := fmt.Appendf(nil, "event: message\ndata: %s\n\n", message)
		b.Run(fmt.Sprintf("lines%dKB", size>>10), func(b *testing.B) {
			l := NewLineReader(&repeater{s: lines, n: math.MaxInt}, 4<<20)
			b.SetBytes(int64(len(lines)))
			b.ReportAllocs()
			for b.Loop() {
				if got, err := l.Next(); err != nil || len(got) != len(message) {
					b.Fatal(len(got), err)
				}
			}
		})
		b.Run(fmt.Sprintf("events%dKB", size>>10), func(b *testing.B) {
			e := NewEventReader(&repeater{s: events, n: math.MaxInt}, 4<<20)
			b.SetBytes(int64(len(events)))
			b.ReportAllocs()
			for b.Loop() {
				if ev, err := e.Next(); err != nil || len(ev.Data) != len(message) {
					b.Fatal(len(ev.Data), err)
				}
			}
		})
	}
}

// BenchmarkAnswerAsEvents reads streams of one answer each, as most are.
func BenchmarkAnswerAsEvents(b *testing.B) {
	stream := "event: message\ndata: " + string(toolsCall(100)) + "\n\n"
	b.ReportAllocs()
	for b.Loop() {
		e := NewEventReader(strings.NewReader(stream), 4<<20)
		if _, err := e.Next(); err != nil {
			b.Fatal(err)
		}
		e.Release()
	}
}
