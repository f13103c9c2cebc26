package config

import "regexp"

// What is looked for in a file that cannot be read: that it is our own, and its data
// folder, which in JSON is in the fewest brackets.
var (
	ownFile  = regexp.MustCompile(`(?m)^[\s{,]*"?stoa"?\s*:`)
	dataYAML = regexp.MustCompile(`(?m)^["']?data["']?[ \t]*:[ \t]*(.+)$`)
	dataJSON = regexp.MustCompile(`^\s*:\s*("(?:[^"\\\n]|\\.)*")`)
	// tokenJSON is what a file is taken apart into: comments, strings and brackets.
	tokenJSON = regexp.MustCompile(`//[^\n]*|/\*(?s:.*?)\*/|"(?:[^"\\\n]|\\.)*"|[{}\[\]]`)
)

// salvageData takes the data folder out of a file that cannot be read, line by line: a
// hub that runs there has to be found exactly then, to be stopped or looked at.
func (d *decoder) salvageData(data []byte, c *Config) {
	if !ownFile.Match(data) {
		return
	}
	text := ""
	if isYAML(d.src.name, data) {
		if m := dataYAML.FindSubmatch(data); m != nil {
			text = string(m[1])
		}
	} else {
		text = outermostData(data)
	}
	if text == "" {
		return
	}
	line := decoder{report: &report{}, src: &source{name: d.src.name, workspace: d.src.workspace, strict: true, rank: d.src.rank, env: d.src.env}, trace: &trace{places: map[string]place{}}}
	form := "data: " + text + "\n"
	if !isYAML(d.src.name, data) {
		form = `{"data": ` + text + `}`
	}
	var found Config
	if n := parse(line.src, []byte(form), line.report); n != nil {
		decodeObject(&line, n, "", &found, configFields())
	}
	if len(line.problems) == 0 {
		c.Data = found.Data
	}
}

// outermostData is the text of the member data of JSON that is in the fewest brackets.
func outermostData(text []byte) (found string) {
	depth, least := 0, -1
	for _, at := range tokenJSON.FindAllIndex(text, -1) {
		switch token := string(text[at[0]:at[1]]); token {
		case "{", "[":
			depth++
		case "}", "]":
			depth--
		case `"data"`:
			if m := dataJSON.FindSubmatch(text[at[1]:]); m != nil && (least < 0 || depth < least) {
				least, found = depth, string(m[1])
			}
		}
	}
	return found
}
