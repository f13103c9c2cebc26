package attach

import (
	"fmt"
	"slices"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// A client that is started before its hub can be, because a config is wrong for
// example, would see nothing but that the program ended. So we stay, answer what
// can be answered, say in it what is wrong, and go on looking for the hub.

// aloneAgain is the shortest pause between attempts to find a hub meanwhile:
// each of them may start a process.
const aloneAgain = time.Second

// leftAlone begins to answer by ourselves.
func (p *pump) leftAlone(why error) {
	if p.alone == nil {
		p.log.Error("there is no hub to attach to", "err", why)
	}
	p.alone = why
	for _, a := range p.asked.all() {
		p.answerAlone(a)
	}
}

// troubleText is what keeps us from attaching, for instructions.
func (p *pump) troubleText() string {
	return fmt.Sprintf("Stoa offers nothing now, since no hub can be reached: %v\nTell the user. As soon as it can be, its tools are offered here.", p.alone)
}

// advice is for who has called although there is no hub. Where none is launched
// here, running one would show nothing.
func (p *pump) advice() string {
	if p.opts.Launch == nil {
		return "Correct what is wrong; the call was not made."
	}
	return "Correct what is wrong, or run `stoa serve` to see it; the call was not made."
}

// emptyLists are the answers to list methods, less what the modern era adds.
var emptyLists = map[string]string{
	"tools/list": `"tools":[]`, "prompts/list": `"prompts":[]`, "resources/list": `"resources":[]`, "resources/templates/list": `"resourceTemplates":[]`,
}

const aloneCapabilities = `{"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}`

// answerAlone answers a request without a hub. A subscription waits for one.
func (p *pump) answerAlone(a *asked) {
	if a.listen {
		return
	}
	var result []byte
	switch {
	case a.method == "initialize" && !a.modern || a.method == "server/discover":
		c := &mcp.Client{Era: mcp.Legacy, Version: legacyOf(wire.Get(a.params, "protocolVersion"))}
		if a.method == "server/discover" {
			c = &mcp.Client{Era: mcp.Modern}
		}
		resp, err := mcp.Introduce(c, []byte(aloneCapabilities), mcp.ServerInfo("stoa", "Stoa"), p.troubleText())
		if err != nil {
			p.fail(a, fault.Of(err))
			return
		}
		result = resp.Result
	case emptyLists[a.method] != "" && a.modern:
		result = []byte("{" + emptyLists[a.method] + `,"resultType":"complete","ttlMs":0,"cacheScope":"private"}`)
	case emptyLists[a.method] != "":
		result = []byte("{" + emptyLists[a.method] + "}")
	case a.method == "ping" || a.method == "logging/setLevel":
		result = []byte("{}")
	default:
		f := fault.New(fault.Unreachable, "hub", "no hub can be reached: %v", p.alone).Because(p.alone)
		f.Hint = p.advice()
		p.fail(a, f)
		return
	}
	p.asked.remove(a)
	p.toHub.keep(func(f frame) bool { return f.asked != a })
	p.client.learn(a, result)
	p.tell(wire.AppendResult(nil, a.ids[0], result))
}

// legacyOf is the version to agree on with a client that asks for one.
func legacyOf(asked []byte) string {
	if v, ok := wire.String(asked); ok && slices.Contains(mcp.Versions, v) && !mcp.IsModern(v) {
		return v
	}
	return mcp.LegacyVersion
}
