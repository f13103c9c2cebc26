package mcp

import (
	"slices"
	"strings"
)

// Era is one of the two generations of the protocol.
type Era uint8

const (
	Legacy Era = 1 << iota // 2024-11-05 to 2025-11-25: a handshake and a session
	Modern                 // 2026-07-28: every request stands alone
)

func (e Era) String() string {
	switch e {
	case Legacy:
		return "legacy"
	case Modern:
		return "modern"
	}
	return "unknown"
}

// Eras is a set of eras.
type Eras uint8

// Has reports whether e is in the set.
func (s Eras) Has(e Era) bool { return s&Eras(e) != 0 }

// Strings lists the set for people, oldest first.
func (s Eras) Strings() []string {
	out := []string{}
	for _, e := range []Era{Legacy, Modern} {
		if s.Has(e) {
			out = append(out, e.String())
		}
	}
	return out
}

// The protocol versions we speak.
const (
	ModernVersion = "2026-07-28"
	LegacyVersion = "2025-11-25" // the newest of the legacy era
)

// Versions lists all versions we speak, newest first.
var Versions = []string{ModernVersion, LegacyVersion, "2025-06-18", "2025-03-26", "2024-11-05"}

// IsModern reports whether a version belongs to the modern era, whether or not
// we speak it.
func IsModern(version string) bool { return version >= ModernVersion }

// EraOf returns the era of a version that we speak, or 0.
func EraOf(version string) Era {
	switch {
	case version == ModernVersion:
		return Modern
	case slices.Contains(Versions, version):
		return Legacy
	}
	return 0
}

// Header names, in the canonical form of net/http.
const (
	headerVersion = "Mcp-Protocol-Version"
	headerSession = "Mcp-Session-Id"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	paramPrefix   = "Mcp-Param-"
)

// Names reserved in _meta.
const (
	metaPrefix       = "io.modelcontextprotocol/"
	metaVersion      = metaPrefix + "protocolVersion"
	metaClientInfo   = metaPrefix + "clientInfo"
	metaClientCaps   = metaPrefix + "clientCapabilities"
	metaLogLevel     = metaPrefix + "logLevel"
	metaServerInfo   = metaPrefix + "serverInfo"
	metaSubscription = metaPrefix + "subscriptionId"
	metaProgress     = "progressToken"
)

// Notifications that are not bound to a request.
const (
	NoteToolsChanged     = "notifications/tools/list_changed"
	NotePromptsChanged   = "notifications/prompts/list_changed"
	NoteResourcesChanged = "notifications/resources/list_changed"
	NoteResourceUpdated  = "notifications/resources/updated"
	NoteProgress         = "notifications/progress"
	NoteTask             = "notifications/tasks"
	noteCancelled        = "notifications/cancelled"
	noteMessage          = "notifications/message"
	noteInitialized      = "notifications/initialized"
	noteVisited          = "notifications/elicitation/complete"
	noteAcknowledged     = "notifications/subscriptions/acknowledged"
)

var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// LogRank orders log levels from the most to the least verbose; an unknown
// level is -1.
func LogRank(level string) int { return slices.Index(logLevels, level) }

// LogLevel is the inverse of LogRank.
func LogLevel(rank int) string { return logLevels[rank] }

// needsName reports whether a modern request of this method carries Mcp-Name,
// and which parameter it mirrors.
func needsName(method string) (param string, ok bool) {
	switch method {
	case "tools/call", "prompts/get":
		return "name", true
	case "resources/read":
		return "uri", true
	case "tasks/get", "tasks/update", "tasks/cancel":
		return "taskId", true
	}
	return "", false
}

// cacheable reports whether complete modern results of the method carry ttlMs
// and cacheScope.
func cacheable(method string) bool {
	return method == "server/discover" || method == "resources/read" || strings.HasSuffix(method, "/list")
}

// Standard reports whether a request of this method to a server is one of the
// protocol's core, in either era.
func Standard(method string) bool {
	switch method {
	case "initialize", "server/discover", "ping", "logging/setLevel", "completion/complete", "subscriptions/listen",
		"tools/list", "tools/call", "prompts/list", "prompts/get",
		"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe":
		return true
	}
	return false
}
