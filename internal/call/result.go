package call

import (
	"encoding/json"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
)

// AsResult turns a fault that a model can repair into the result of a tool
// call, for merged faces. Other errors are returned as they are.
func AsResult(req *mcp.Request, err error) (mcp.Response, error) {
	if err == nil || req.Method != "tools/call" {
		return mcp.Response{}, err
	}
	f := fault.Of(err)
	if !f.Kind.Info().Model {
		return mcp.Response{}, err
	}
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	var object json.RawMessage = f.Wire(req.Client.Era == mcp.Modern)
	result := map[string]any{
		"content": []text{{"text", f.Text() + "\n" + f.Advice()}},
		"isError": true,
		"_meta":   map[string]any{"stoa/error": object},
	}
	if req.Client.Era == mcp.Modern {
		result["resultType"] = "complete"
	}
	b, merr := json.Marshal(result)
	if merr != nil {
		return mcp.Response{}, err
	}
	return mcp.Response{Result: b}, nil
}
