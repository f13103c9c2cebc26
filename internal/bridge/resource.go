package bridge

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/stoahub/stoa/internal/ailumina"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/spell"
)

// agentsURI is the resource that names all agents; that of one of them follows
// after a slash.
const agentsURI = "ailumina://agents"

// agentInfo is what a client can read of an agent.
type agentInfo struct {
	Type string `json:"agent_type"`
	Name string `json:"name"` // at the server
	URL  string `json:"url"`
}

type definition struct {
	URI         string `json:"uri,omitempty"`
	URITemplate string `json:"uriTemplate,omitempty"`
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	MimeType    string `json:"mimeType"`
}

// resources are the agents that can be asked, for clients that look before they
// ask. The protocol of the agents has none of its own.
type resources struct {
	listed, templates []byte            // the answers to the lists
	contents          map[string]string // by URI
	uris              []string
}

func newResources(base *url.URL, t *tool) (*resources, error) {
	r := &resources{contents: map[string]string{}}
	defs := []definition{{URI: agentsURI, Name: "agents", Title: "Agents", Description: "The agent types that " + toolName + " can ask, and where they are.", MimeType: "application/json"}}
	var all []agentInfo
	for _, name := range t.names {
		one := agentInfo{name, t.agents[name], ailumina.Endpoint(base, t.agents[name]).String()}
		all = append(all, one)
		uri := agentsURI + "/" + name
		defs = append(defs, definition{URI: uri, Name: name, Title: "Agent " + name, Description: "Where the agent type " + name + " is.", MimeType: "application/json"})
		if err := r.add(uri, one); err != nil {
			return nil, err
		}
	}
	if err := r.add(agentsURI, map[string]any{"server": base.String(), "agents": all}); err != nil {
		return nil, err
	}
	template := definition{URITemplate: agentsURI + "/{agent_type}", Name: "agent", Title: "Agent", Description: "Where an agent type is.", MimeType: "application/json"}
	var err error
	if r.listed, err = json.Marshal(map[string]any{"resources": defs}); err == nil {
		r.templates, err = json.Marshal(map[string]any{"resourceTemplates": []definition{template}})
	}
	if err != nil {
		return nil, fmt.Errorf("encode the resources: %w", err)
	}
	return r, nil
}

func (r *resources) add(uri string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", uri, err)
	}
	r.contents[uri] = string(b)
	r.uris = append(r.uris, uri)
	return nil
}

// handle answers the methods of resources.
func (r *resources) handle(req *mcp.Request) (mcp.Response, error) {
	switch req.Method {
	case "resources/list", "resources/templates/list":
		if err := oneCursor(req); err != nil {
			return mcp.Response{}, err
		}
		if req.Method == "resources/list" {
			return answer(req, r.listed)
		}
		return answer(req, r.templates)
	}
	uri, ok := req.Text("uri")
	if !ok {
		return mcp.Response{}, fault.New(fault.InvalidParams, req.Method, "uri is missing or not a string")
	}
	text, ok := r.contents[uri]
	if !ok {
		f := fault.New(fault.ResourceNotFound, uri, "there is no such resource").With("uri", uri)
		f.Hint = "There are: " + strings.Join(r.uris, ", ") + "."
		if near := spell.Nearest(uri, r.uris); near != "" {
			f.Hint = "Did you mean " + near + "?"
		}
		return mcp.Response{}, f
	}
	raw, err := json.Marshal(map[string]any{"contents": []map[string]string{{"uri": uri, "mimeType": "application/json", "text": text}}})
	if err != nil {
		return mcp.Response{}, err
	}
	return answer(req, raw)
}

// oneCursor refuses a cursor: every list here has one page.
func oneCursor(req *mcp.Request) error {
	if c := req.Param("cursor"); c != nil && string(c) != "null" {
		return fault.New(fault.InvalidParams, req.Method, "the list does not go on, so there is no such cursor")
	}
	return nil
}
