package darwin

import "github.com/handrail-dev/handrail/platform"

// Locked says why the session shows no desktop of the person's now, "" if it does.
func Locked() string {
	a, err := load()
	if err != nil {
		return ""
	}
	info := a.sessionInfo()
	if info == 0 {
		return ""
	}
	defer a.release(info)
	if is, _ := a.truth(a.dictionaryValue(info, a.word("CGSSessionScreenIsLocked"))); is {
		return "The session's screen is locked."
	}
	if on, known := a.truth(a.dictionaryValue(info, a.word("kCGSSessionOnConsoleKey"))); known && !on {
		return "Another user's session is in front."
	}
	return ""
}

// Visible is a *platform.MissingError if this process belongs to no session of a
// person's: a daemon, or a login by SSH before anybody logged in.
func Visible() error {
	a, err := load()
	if err != nil {
		return err
	}
	info := a.sessionInfo()
	if info == 0 {
		return noSession()
	}
	a.release(info)
	return nil
}

// Allowed counts the permissions that a person has given this program, of those
// that a desktop needs.
func Allowed() (n int) {
	a, err := load()
	if err != nil {
		return 0
	}
	for _, may := range []func() bool{a.trusted, a.mayRecord, a.mayListen, a.mayPost} {
		if may != nil && may() {
			n++
		}
	}
	return n
}

func noSession() *platform.MissingError {
	return &platform.MissingError{
		What: "This process has no desktop that a person can see.",
		Fix:  "Start the node in the person's login session, as an agent of launchd, not as a daemon.",
	}
}
