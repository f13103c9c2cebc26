package agentclient

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// events reads an event stream until the answer to request id comes. Progress
// of the request is told on the way; what else a server says is not for us.
func events(r io.Reader, id string, progress func(Progress)) (*message, error) {
	lines := bufio.NewReader(r)
	var data strings.Builder
	for {
		line, err := lines.ReadString('\n')
		if err != nil && (!errors.Is(err, io.EOF) || line == "") {
			if errors.Is(err, io.EOF) {
				err = errors.New("the connection ended before the answer came")
			}
			return nil, err
		}
		line = strings.TrimRight(line, "\r\n")
		if value, ok := strings.CutPrefix(line, "data:"); ok {
			if data.Len() > 0 {
				data.WriteByte('\n')
			}
			data.WriteString(strings.TrimPrefix(value, " "))
			continue
		}
		if line != "" || data.Len() == 0 {
			continue // other fields, comments, events without data
		}
		var m message
		err = json.Unmarshal([]byte(data.String()), &m)
		data.Reset()
		switch {
		case err != nil:
			return nil, errors.New("an event is no JSON-RPC message")
		case m.Method == "" && string(m.ID) == id && (m.Result != nil || m.Error != nil):
			return &m, nil
		case m.Method == "notifications/progress" && progress != nil:
			var p Progress
			if json.Unmarshal(m.Params, &p) == nil {
				progress(p)
			}
		}
	}
}
