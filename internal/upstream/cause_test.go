package upstream

import (
	"strings"
	"testing"
)

// What launchers print when they fail, as they print it: the line that tells why
// is found, and what can be done is said.
func TestCauseIn(t *testing.T) {
	for name, tc := range map[string]struct{ printed, said, hint string }{
		"npm, no such package": {`npm error code E404
npm error 404 Not Found - GET https://registry.example/@nobody%2fnothing - Not found
npm error 404
npm error 404  '@nobody/nothing@*' is not in this registry.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git folder.
npm error A complete log of this run can be found in: LOGFILE`,
			"'@nobody/nothing@*' is not in this registry", "name or version in args"},
		"npm, no such package, in newer words": {`npm error code E404
npm error 404 Not Found - GET https://registry.example/@nobody%2fnothing
npm error 404
npm error 404  The requested resource '@nobody/nothing@*' could not be found or you do not have permission to access it.
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.`, "The requested resource '@nobody/nothing@*' could not be found", "name or version in args"},
		"python, no such module": {"/usr/bin/python3: No module named nothing", "/usr/bin/python3: No module named nothing", "Install the module"},
		"npm, no such version": {`npm error code ETARGET
npm error notarget No matching version found for left-pad@99.0.0.
npm error notarget In most cases you or one of your dependencies are requesting
npm error A complete log of this run can be found in: LOGFILE`, "No matching version found for left-pad@99.0.0", "name or version in args"},
		"npm, no program": {`npm error could not determine executable to run
npm error A complete log of this run can be found in: LOGFILE`, "could not determine executable to run", "npx -y -p"},
		"npm, no network": {`npm error code ENOTFOUND
npm error network request to https://registry.example/x failed, reason: getaddrinfo ENOTFOUND registry.example
npm error network This is a problem related to network connectivity.`, "getaddrinfo ENOTFOUND registry.example", "Check the network"},
		"uvx, no such package": {`  × No solution found when resolving tool dependencies:
  ╰─▶ Because mcp-server-nothing was not found in the package registry and you require mcp-server-nothing, we can conclude that your requirements are unsatisfiable.`,
			"Because mcp-server-nothing was not found in the package registry", "name in args"},
		"docker, not running": {`docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?
See 'docker run --help'.`, "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", "Start Docker"},
		"docker, no such image": {`Unable to find image 'nobody/nothing:latest' locally
docker: Error response from daemon: pull access denied for nobody/nothing, repository does not exist or may require 'docker login'.
See 'docker run --help'.`, "pull access denied for nobody/nothing, repository does not exist or may require 'docker login'", "image's name"},
		"python, no module": {`Traceback (most recent call last):
  File "/srv/server.py", line 1, in <module>
    import nothing
ModuleNotFoundError: No module named 'nothing'`, "ModuleNotFoundError: No module named 'nothing'", "Install the module"},
		"node, no file": {`node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module '/srv/nothing.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v20.20.2`, "Cannot find module '/srv/nothing.js'", "Correct the path"},
		"a server's own words": {`Starting
Error: None of the specified directories are accessible
    at main (index.js:1:1)

Node.js v20.20.2`, "Error: None of the specified directories are accessible", ""},
		"no word of error": {"booting\ngoodbye\n\n", "goodbye", ""},
		"nothing":          {"", "", ""},
	} {
		said, hint := causeIn(strings.Split(tc.printed, "\n"))
		if said != tc.said || !strings.Contains(hint, tc.hint) || tc.hint == "" && hint != "" {
			t.Errorf("%s: said %q, hint %q", name, said, hint)
		}
	}
}
