package main

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// checkAnswer checks in full that a body answers call id with the whole echo,
// after all of its progress, in order.
func checkAnswer(r response, body []byte, id int, s scenario) error {
	if r.status != 200 {
		return fmt.Errorf("HTTP %d: %.300s", r.status, body)
	}
	messages := [][]byte{body}
	if r.sse {
		messages = sseData(body)
	}
	progress := 0
	for i, m := range messages {
		var v struct {
			ID     json.RawMessage
			Method string
			Params struct{ ProgressToken, Progress int }
			Result struct {
				IsError bool
				Content []struct{ Type, Text string }
			}
		}
		if err := json.Unmarshal(m, &v); err != nil {
			return fmt.Errorf("message %d of the answer: %w: %.300s", i, err, m)
		}
		if v.Method == "notifications/progress" && v.Params.ProgressToken == id && v.Params.Progress == progress+1 {
			progress++
			continue
		}
		text := v.Result.Content
		if string(v.ID) != fmt.Sprint(id) || v.Result.IsError || len(text) != 1 || text[0].Text != payload(s.Size) {
			return fmt.Errorf("message %d of the answer is not the echo of call %d: %.300s", i, id, m)
		}
		if i != len(messages)-1 {
			return fmt.Errorf("message %d of %d is the result: nothing may follow it", i, len(messages))
		}
		if s.Progress && progress != progressCount {
			return fmt.Errorf("the result came after %d progress notifications, want %d", progress, progressCount)
		}
		return nil
	}
	return fmt.Errorf("the answer holds no result: %.300s", body)
}

// sseData returns the data of each event of a stream. Events of several data
// lines are not joined, since no MCP server of this benchmark sends any; those
// without data, such as the one that only primes a legacy stream, are skipped.
func sseData(body []byte) [][]byte {
	var out [][]byte
	for line := range bytes.Lines(body) {
		if data, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:")); ok {
			if data = bytes.TrimSpace(data); len(data) > 0 {
				out = append(out, data)
			}
		}
	}
	return out
}
