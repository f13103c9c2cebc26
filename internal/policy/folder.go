package policy

import (
	"path"
	"strings"
)

// folder is what paths are to be below. Only their text is looked at: links are
// not followed.
type folder struct {
	dir, lower string // clean, with slashes
	inner      string // lower between slashes, of a folder that is relative
}

func newFolder(dir string) *folder {
	f := &folder{dir: path.Clean(slashed(dir))}
	f.lower = strings.ToLower(f.dir)
	if !strings.HasPrefix(f.dir, "/") {
		f.inner = "/" + f.lower + "/"
	}
	return f
}

// holds reports whether the text is the path of the folder or of something
// below it. Where it cannot be told, which is so of a path that climbs out by
// .. or begins with ~, the strict answer is no and the broad one yes.
func (f *folder) holds(v *scalar, strict bool) bool {
	text := v.text
	if v.guess != nil {
		text = v.guess.path
	}
	if f.isAway(text) {
		return !strict
	}
	if strict {
		// On Windows a backslash separates, and elsewhere it is a character
		// like others: unless the folder tells which it is, the answer must
		// hold for both.
		drive := isDrive(f.dir)
		return (drive || below(f.dir, text)) && below(f.dir, slashed(text)) && (drive || !isDrive(text))
	}
	if v.paths == nil {
		v.paths = broadPaths(text)
	}
	for _, name := range v.paths {
		switch {
		case isBelow(f.lower, name), name == "..", strings.HasPrefix(name, "../"):
			return true
		case strings.HasPrefix(name, "~") && !strings.HasPrefix(f.lower, "~"):
			return true
		case f.inner != "" && strings.HasPrefix(name, "/") && (strings.Contains(name, f.inner) || strings.HasSuffix(name, f.inner[:len(f.inner)-1])):
			return true // the folder may be anywhere
		}
	}
	return false
}

// isAway reports whether a path begins at a ~ of which it cannot be told where
// it leads: the folder does not begin there too, or the path climbs out by ..
// again, which would take the ~ out of its clean form.
func (f *folder) isAway(text string) bool {
	name := unlabelled(text)
	return strings.HasPrefix(name, "~") && !(strings.HasPrefix(f.lower, "~") && strings.HasPrefix(path.Clean(slashed(name)), "~"))
}

// broadPaths are the clean paths that a server may take the text for. Some
// systems do not tell capitals from small letters.
func broadPaths(text string) []string {
	if text == "" {
		return []string{}
	}
	name := unlabelled(text)
	out := []string{path.Clean(name)}
	if strings.Contains(name, `\`) {
		out = append(out, path.Clean(slashed(name)))
	}
	return out
}

// unlabelled is the text in small letters, without what makes a path a URI.
func unlabelled(text string) string {
	return strings.TrimPrefix(strings.ToLower(text), "file://")
}

func below(dir, name string) bool { return name != "" && isBelow(dir, path.Clean(name)) }

// isBelow reports whether the clean path is that of the folder dir or of
// something in it.
func isBelow(dir, name string) bool {
	switch dir {
	case "/":
		return strings.HasPrefix(name, "/")
	case ".":
		return !strings.HasPrefix(name, "/") && name != ".." && !strings.HasPrefix(name, "../") && !strings.HasPrefix(name, "~")
	}
	rest, ok := strings.CutPrefix(name, dir)
	return ok && (rest == "" || rest[0] == '/' && rest != "/.." && !strings.HasPrefix(rest, "/../"))
}

// isDrive reports whether a path begins with a drive of Windows.
func isDrive(name string) bool { return len(name) > 1 && name[1] == ':' }

func slashed(s string) string { return strings.ReplaceAll(s, `\`, "/") }
