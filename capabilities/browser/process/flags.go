package process

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/handrail-dev/handrail/platform"
)

// ProfileDir is the user data folder's name in Chrome's scratch folder.
const ProfileDir = "profile"

// flags returns Chrome's switches. A comment at each group says what it is for.
func flags(b platform.Browser, sandbox Sandbox, how How, scratch string) []string {
	proxy := how.Proxy
	if proxy == "" {
		proxy = "127.0.0.1:1" // each context has its own
	}
	args := []string{
		// The pipe is the only door: no TCP port another process could use.
		"--remote-debugging-pipe", "--remote-debugging-io-pipes=" + platform.PipeHandles,
		"--user-data-dir=" + filepath.Join(scratch, ProfileDir), "--no-startup-window",
		// Nothing of its own accord: no first run, updates, reports, sync, extensions.
		"--no-first-run", "--no-default-browser-check", "--disable-background-networking", "--disable-component-update",
		"--disable-default-apps", "--disable-extensions", "--disable-sync", "--disable-breakpad", "--disable-crash-reporter",
		"--disable-client-side-phishing-detection", "--disable-domain-reliability", "--no-pings", "--metrics-recording-only",
		"--disable-field-trial-config", "--no-service-autorun", "--disable-search-engine-choice-screen",
		"--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,InterestFeedContentSuggestions," +
			"AutofillServerCommunication,CertificateTransparencyComponentUpdater,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable," +
			"GlobalMediaControls,PaintHolding,DestroyProfileOnBrowserClose,AvoidUnnecessaryBeforeUnloadCheckSync," +
			// A page's tasks after a click or key need not wait for the next frame.
			"DeferRendererTasksAfterInput," +
			// After each navigation Chrome would start a renderer for a site that may come
			// next: most lanes end without one, and two fifths of the processor go there.
			"SpareRendererForSitePerProcess," +
			// Every new window would load the address bar's suggestions, two pages in a
			// renderer of their own: half of a lane's start, and 150 MB.
			"WebUIOmniboxPopup,WebUIOmniboxAimPopup",
		// No keychain, no sound, no prompts that nobody would see.
		"--password-store=basic", "--use-mock-keychain", "--mute-audio", "--disable-prompt-on-repost", "--disable-hang-monitor",
		// Every tab works at full speed, whichever is in front; input before the first
		// paint is taken.
		"--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding",
		"--allow-pre-commit-input", "--force-color-profile=srgb",
		// All traffic by the proxy of its context; what has none goes nowhere. Names
		// are resolved by the proxy only; QUIC and WebRTC would pass it by.
		"--proxy-server=http://" + proxy, "--proxy-bypass-list=<-loopback>", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
		"--disable-quic", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp", "--webrtc-ip-handling-policy=disable_non_proxied_udp",
		"--window-size=1280,800", "--enable-automation",
	}
	if how.Headless {
		args = append(args, "--headless=new", "--hide-scrollbars", "--disable-gpu",
			// Our pointer is a mouse, whatever the machine has: without one, pages show
			// what they have for fingers, such as pickers that take no text.
			"--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4")
	}
	if without, _ := sandbox.Without(b); without {
		args = append(args, "--no-sandbox")
	}
	if b.SmallShm {
		args = append(args, "--disable-dev-shm-usage")
	}
	return args
}

// environment is the whole environment Chrome gets: the node's own may hold
// secrets, and pages are hostile.
func environment(scratch string, headless bool) []string {
	env := []string{"HOME=" + scratch, "TMPDIR=" + scratch, "XDG_CONFIG_HOME=" + scratch, "XDG_CACHE_HOME=" + scratch,
		"DBUS_SESSION_BUS_ADDRESS=disabled:", "DBUS_SYSTEM_BUS_ADDRESS=disabled:"}
	keep := []string{"PATH", "TZ", "FONTCONFIG_PATH", "FONTCONFIG_FILE", "LD_LIBRARY_PATH"}
	if runtime.GOOS == "windows" {
		env = []string{"TEMP=" + scratch, "TMP=" + scratch}
		keep = []string{"PATH", "SYSTEMROOT", "WINDIR", "SYSTEMDRIVE", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMDATA",
			"LOCALAPPDATA", "APPDATA", "USERPROFILE", "USERNAME", "COMSPEC", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE"}
	}
	if !headless {
		keep = append(keep, "DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR")
	}
	return keepEnv(env, keep)
}

// keepEnv adds variables of this process's environment to a child's.
func keepEnv(env, names []string) []string {
	for _, name := range names {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	if runtime.GOOS == "linux" {
		// The locale of a container or a service is often none, or one that is not
		// installed; Chrome then names no file but in ASCII. The language stays the node's.
		env = append(env, "LC_ALL=C.UTF-8")
		if language := languageOf(os.Getenv); language != "" {
			env = append(env, "LANGUAGE="+language)
		}
	}
	return env
}

// languageOf returns the languages of an environment, the first choice first, without
// how they are written; "" for none.
func languageOf(getenv func(string) string) string {
	for _, name := range []string{"LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"} { // the first that is set counts
		v, _, _ := strings.Cut(getenv(name), ".")
		if v == "C" || v == "POSIX" {
			return ""
		}
		if v != "" {
			return v
		}
	}
	return ""
}
