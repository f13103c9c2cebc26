// Package llmtest plays providers to the code that asks them. A Fake is a whole
// server of one, with its framing and every fault that a test wants of it, and
// holds each request to the rules that the provider publishes (Rule). Records
// are answers byte for byte, whole and cut at every place. Rules are what every
// model promises.
//
// A record is a txtar file. "request" is the llm.Request as JSON (a greeting
// if there is none). Each further file is one answer, in order: its name is the
// status and then, in any order, headers as name=value, and "cut" for a
// connection that ends without an end of the body. "want" holds the deltas and
// "sent" what was sent; -update, which the test defines, writes both.
package llmtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/secret"
)

// updating reports whether the test binary has a flag -update that is set. The
// flag is the tests' own: two packages cannot both define it.
func updating() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

// Key is the key that models under test are given. It must not be seen.
const Key = "sk-sesame-0123456789"

// Records runs every record in testdata against the model that open makes, and
// holds what it sends to check.
func Records(t *testing.T, open func(llm.Options) (llm.Model, error), check func([]byte) error) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no records: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { record(t, file, open, check) })
	}
}

func record(t *testing.T, file string, open func(llm.Options) (llm.Model, error), check func([]byte) error) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	req := llm.Request{Messages: []llm.Message{llm.Say(llm.User, "hello")}}
	var answers, rest []txtar.File
	golden := map[string]string{}
	for _, f := range archive.Files {
		switch f.Name {
		case "want", "sent":
			golden[f.Name] = string(f.Data)
			continue
		case "request":
			req = llm.Request{}
			if err := json.Unmarshal(f.Data, &req); err != nil {
				t.Fatalf("request: %v", err)
			}
		default:
			answers = append(answers, f)
		}
		rest = append(rest, f)
	}
	got, sent, bodies := play(t, answers, req, open, nil)
	for _, b := range bodies {
		if err := check(b); err != nil && bytes.Contains(b, []byte(`"role"`)) {
			t.Errorf("the provider would refuse this: %v\n%s", err, b)
		}
	}
	if updating() {
		archive.Files = append(rest, txtar.File{Name: "want", Data: []byte(got)}, txtar.File{Name: "sent", Data: []byte(sent)})
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	} else {
		if d := cmp.Diff(golden["want"], got); d != "" {
			t.Errorf("deltas (-want +got):\n%s", d)
		}
		if d := cmp.Diff(golden["sent"], sent); d != "" {
			t.Errorf("sent (-want +got):\n%s", d)
		}
	}
	if strings.Contains(got, Key) || strings.Contains(got, Key[:9]) {
		t.Errorf("the key can be seen:\n%s", got)
	}
	for _, how := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, inThrees} {
		if again, _, _ := play(t, answers, req, open, how); again != got {
			t.Errorf("cut otherwise, the answer is another (-whole +cut):\n%s", cmp.Diff(got, again))
		}
	}
}

func inThrees(r io.Reader) io.Reader { return &threes{r} }

type threes struct{ r io.Reader }

func (t *threes) Read(p []byte) (int, error) { return t.r.Read(p[:min(3, len(p))]) }

// play serves the answers and renders what the model makes of them.
func play(t *testing.T, answers []txtar.File, req llm.Request, open func(llm.Options) (llm.Model, error), how func(io.Reader) io.Reader) (got, sent string, bodies [][]byte) {
	t.Helper()
	s := &server{answers: answers}
	srv := httptest.NewServer(s)
	defer srv.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	m, err := open(llm.Options{
		APIKey: secret.New(Key), BaseURL: srv.URL, RetryDelay: time.Millisecond, Timeout: 20 * time.Second,
		HTTP: &http.Client{Transport: cutter{transport, how}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got = Render(m.Stream(t.Context(), req))
	return got, s.sent.String(), s.bodies
}

// cutter reads bodies in other pieces than they come in.
type cutter struct {
	http.RoundTripper
	how func(io.Reader) io.Reader
}

func (c cutter) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := c.RoundTripper.RoundTrip(r)
	if err == nil && c.how != nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{c.how(res.Body), res.Body}
	}
	return res, err
}

type server struct {
	mu      sync.Mutex
	answers []txtar.File
	sent    strings.Builder
	bodies  [][]byte
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	s.bodies = append(s.bodies, body)
	fmt.Fprintf(&s.sent, "%s %s\n", r.Method, r.URL.RequestURI())
	for _, h := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Anthropic-Version"} {
		if v := r.Header.Get(h); v != "" {
			fmt.Fprintf(&s.sent, "%s: %s\n", h, strings.ReplaceAll(v, Key, "KEY"))
		}
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, body, "", "  ") != nil {
		pretty.Write(body)
	}
	fmt.Fprintf(&s.sent, "%s\n", pretty.Bytes())
	if len(s.answers) == 0 {
		http.Error(w, "the record has no more answers", http.StatusTeapot)
		return
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	answer(w, a)
}

func answer(w http.ResponseWriter, a txtar.File) {
	words := strings.Fields(a.Name)
	status, err := strconv.Atoi(words[0])
	if err != nil {
		status = http.StatusTeapot
	}
	cut := false
	for _, word := range words[1:] {
		if k, v, ok := strings.Cut(word, "="); ok {
			w.Header().Set(k, v)
		}
		cut = cut || word == "cut"
	}
	w.WriteHeader(status)
	_, _ = w.Write(bytes.ReplaceAll(bytes.TrimSuffix(a.Data, []byte("%\n")), []byte("{KEY}"), []byte(Key)))
	_ = http.NewResponseController(w).Flush()
	if cut {
		panic(http.ErrAbortHandler)
	}
}

// Render writes a stream as one line for each delta.
func Render(seq func(func(llm.Delta, error) bool)) string {
	var b strings.Builder
	for d, err := range seq {
		if err != nil {
			b.WriteString(renderError(err))
			continue
		}
		opaque := ""
		if d.Opaque != nil {
			opaque = fmt.Sprintf(" [%s %s]", d.Opaque.Provider, d.Opaque.Data)
		}
		switch d.Kind {
		case llm.Text:
			fmt.Fprintf(&b, "text %q%s\n", d.Text, opaque)
		case llm.Reason:
			fmt.Fprintf(&b, "reason %q\n", d.Text)
		case llm.ReasonEnd:
			fmt.Fprintf(&b, "reason-end%s\n", opaque)
		case llm.CallStart:
			fmt.Fprintf(&b, "start %d %s %s\n", d.Index, d.Call.ID, d.Call.Name)
		case llm.CallArgs:
			fmt.Fprintf(&b, "args %d %q\n", d.Index, d.Text)
		case llm.CallEnd:
			fmt.Fprintf(&b, "end %d %s %s %s%s", d.Index, d.Call.ID, d.Call.Name, d.Call.Args, opaque)
			if d.Call.Malformed != "" {
				fmt.Fprintf(&b, " malformed %q", d.Call.Malformed)
			}
			b.WriteByte('\n')
		case llm.Used:
			u, _ := json.Marshal(d.Usage)
			fmt.Fprintf(&b, "used %s\n", u)
		case llm.Stopped:
			fmt.Fprintf(&b, "stop %s\n", d.Stop)
		case llm.LeftOut:
			fmt.Fprintf(&b, "left out %s: %s\n", d.Tool, d.Text)
		case llm.Retrying:
			fmt.Fprintf(&b, "retry %d after %s: %s\n", d.Attempt, d.Wait, d.Text)
		case llm.Warned:
			fmt.Fprintf(&b, "warned %s\n", d.Text)
		default:
			fmt.Fprintf(&b, "unknown delta %+v\n", d)
		}
	}
	return b.String()
}

func renderError(err error) string {
	var e *llm.Error
	if !errors.As(err, &e) {
		return fmt.Sprintf("error of another type: %v\n", err)
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Sprintf("error %s (cancelled)\n", e.Cause)
	}
	return fmt.Sprintf("error %s: %v\n", e.Cause, err)
}
