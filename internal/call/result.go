package call

import (
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/envelope"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// AsResult turns a fault that a model can repair into the result of a call of
// that tool, for merged faces: in the form in which the tool answers, if that
// is ours. Other errors are returned as they are.
func AsResult(req *mcp.Request, it *catalog.Item, err error) (mcp.Response, error) {
	if err == nil || req.Method != "tools/call" {
		return mcp.Response{}, err
	}
	f := fault.Of(err)
	if !f.Kind.Info().Model {
		return mcp.Response{}, err
	}
	modern := req.Client.Era == mcp.Modern
	result := envelope.Bad(f).Result()
	if it == nil || !it.Handling.Envelope {
		result = wire.AppendString([]byte(`{"content":[{"type":"text","text":`), f.Text()+"\n"+f.Advice())
		result = append(result, `}],"isError":true}`...)
	}
	changes := []wire.Change{{Name: "_meta", Value: wire.EditFields(nil, nil, wire.Change{Name: envelope.MetaError, Value: f.Wire(modern)})}}
	if modern {
		changes = append(changes, wire.Change{Name: "resultType", Value: []byte(`"complete"`)})
	}
	return mcp.Response{Result: wire.Edit(nil, result, changes...)}, nil
}
