package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"go.uber.org/goleak"
)

const (
	roleEnv  = "STOA_LOAD_ROLE"  // makes the test binary one of its processes
	modelEnv = "STOA_LOAD_MODEL" // where the bare loop finds the model
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "model":
		serve(http.HandlerFunc(speak))
	case "bare":
		serve(bare(os.Getenv(modelEnv)))
	}
	goleak.VerifyTestMain(m)
}

// serve says where it listens, and ends with its stdin.
func serve(h http.Handler) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println("error", http.Serve(l, h))
	os.Exit(1)
}

// The words of a question say how many pieces the answer has, and how many
// milliseconds pass between two: "speak 200 100".
func question(pieces int, pace time.Duration) string {
	return fmt.Sprintf("speak %d %d", pieces, pace.Milliseconds())
}

// piece is what the model says as its nth.
func piece(n int) string { return strconv.Itoa(n) + " the quick brown fox " }

// speak is a server of chat completions that does little but write: each piece
// is an event as OpenAI sends it.
func speak(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	text := string(body)
	var pieces, pace int
	if _, err := fmt.Sscanf(text[strings.LastIndex(text, "speak "):], "speak %d %d", &pieces, &pace); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	const head, tail = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"test-model","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":`, `],"usage":null}` + "\n\n"
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	flush := http.NewResponseController(w).Flush
	tick := time.NewTicker(time.Duration(pace) * time.Millisecond)
	defer tick.Stop()
	_, _ = io.WriteString(w, head+`{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}`+tail)
	for n := range pieces {
		if _, err := io.WriteString(w, head+`{"content":"`+piece(n)+`"},"logprobs":null,"finish_reason":null}`+tail); err != nil || flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
	_, _ = io.WriteString(w, head+`{},"logprobs":null,"finish_reason":"stop"}`+tail+"data: [DONE]\n\n")
}

// frame is as much of a frame as both know.
type frame struct {
	Type    string `json:"type"`
	Payload struct {
		Content string `json:"content"`
		State   string `json:"state,omitempty"`
		Text    string `json:"text,omitempty"`
	} `json:"payload"`
}

// bare is the least that does the same for one question: no record, no second
// listener, no tools.
func bare(model string) http.Handler {
	client := openai.NewClient(option.WithBaseURL("http://"+model), option.WithAPIKey("sk-load"), option.WithMaxRetries(0))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		ctx := r.Context()
		say := func(f frame) bool {
			b, err := json.Marshal(f)
			return err == nil && ws.Write(ctx, websocket.MessageText, b) == nil
		}
		if !say(frame{Type: "connection"}) {
			return
		}
		for answer(ctx, ws, &client, say) {
		}
	})
}

// answer answers one question, as long as there is one.
func answer(ctx context.Context, ws *websocket.Conn, client *openai.Client, say func(frame) bool) bool {
	_, b, err := ws.Read(ctx)
	var q frame
	if err != nil || json.Unmarshal(b, &q) != nil {
		return false
	}
	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Model: "test-model", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(q.Payload.Text)},
	})
	defer stream.Close()
	for stream.Next() {
		c := stream.Current()
		if len(c.Choices) == 0 || c.Choices[0].Delta.Content == "" {
			continue
		}
		f := frame{Type: "text"}
		f.Payload.Content = c.Choices[0].Delta.Content
		if !say(f) {
			return false
		}
	}
	return stream.Err() == nil && say(frame{Type: "turn.ended"})
}
