package folder

import (
	"os"
	"path/filepath"
)

// maxLinks bounds the links that lead nowhere yet and are followed one after the other.
const maxLinks = 40

// Real returns where an absolute path leads, behind every link. Of one that is not there yet
// the parents that are count.
func Real(path string) string {
	links := maxLinks
	return follow(filepath.Clean(path), &links)
}

func follow(path string, links *int) string {
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	up := filepath.Dir(path)
	if up == path {
		return path
	}
	dir := follow(up, links)
	at := filepath.Join(dir, filepath.Base(path))
	to, err := os.Readlink(at)
	if err != nil || *links == 0 {
		return at
	}
	*links-- // a link to what is not there yet
	if !filepath.IsAbs(to) {
		to = filepath.Join(dir, to)
	}
	return follow(filepath.Clean(to), links)
}

// Holds reports whether path is the folder or lies in it, whatever links lead to either.
func Holds(folder, path string) bool {
	folder, path = Real(folder), Real(path)
	if rel, err := filepath.Rel(folder, path); err == nil && filepath.IsLocal(rel) {
		return true
	}
	base, err := os.Stat(folder)
	if err != nil {
		return false
	}
	for at := path; ; at = filepath.Dir(at) { // by other letters of the same name, or mounted twice
		if info, err := os.Stat(at); err == nil && os.SameFile(base, info) {
			return true
		}
		if at == filepath.Dir(at) {
			return false
		}
	}
}

// Meet reports whether one of two folders is the other or lies in it.
func Meet(a, b string) bool { return Holds(a, b) || Holds(b, a) }
