package auth

import "net/http"

// share lets a page of an allowed origin read the answer, which browsers do
// not do by themselves. It reports whether the request was a browser's question
// about that, which is then answered.
func (g *Guard) share(w http.ResponseWriter, r *http.Request) (answered bool) {
	if len(g.sites.origins) == 0 {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !g.sites.listed(origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, Retry-After, WWW-Authenticate")
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	if wanted := r.Header.Get("Access-Control-Request-Headers"); wanted != "" {
		// Which headers a request may have depends on the tool it calls (Mcp-Param-*).
		h.Set("Access-Control-Allow-Headers", wanted)
	}
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
