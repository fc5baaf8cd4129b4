package win32

import (
	_ "embed"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

//go:embed testdata/winrt-order.txt
var documentedRuntime string

// runtimeOrder returns the documented order of the interfaces' methods, and their IDs.
func runtimeOrder(t *testing.T) (order map[string][]string, ids map[string]string) {
	t.Helper()
	order, ids = map[string][]string{}, map[string]string{}
	for l := range strings.Lines(documentedRuntime) {
		if head, methods, ok := strings.Cut(strings.TrimSpace(l), ": "); ok && !strings.HasPrefix(head, "#") {
			name, id, _ := strings.Cut(head, " ")
			order[name], ids[name] = strings.Fields(methods), id
		}
	}
	if len(order) < 9 {
		t.Fatalf("the order of %d interfaces", len(order))
	}
	return order, ids
}

// Every method of Windows Runtime that is called stands where Microsoft's metadata
// puts it, and every interface is asked for by its own ID.
func TestRuntimeOrder(t *testing.T) {
	documented, ids := runtimeOrder(t)
	for name, methods := range documented {
		if strings.Join(methods[:6], " ") != "QueryInterface AddRef Release GetIids GetRuntimeClassName GetTrustLevel" {
			t.Errorf("%s begins with %q", name, methods[:6])
		}
	}
	for i, m := range runtimeMethods {
		if m.name == "" {
			t.Errorf("method %d has no place", i)
			continue
		}
		if got := slices.Index(documented[m.of], m.name); got != int(m.slot) {
			t.Errorf("%s.%s is called at %d, and documented at %d", m.of, m.name, m.slot, got)
		}
	}
	for name, id := range map[string]string{"IActivationFactory": idActivationFactory, "IAsyncInfo": idAsyncInfo, "IGeolocator": idGeolocator, "IDeviceAccessInformationStatics": idAccessStatics} {
		if len(id) != 36 || ids[name] != id {
			t.Errorf("%s is asked for as %s, and is %s", name, id, ids[name])
		}
	}
}

// Answers of Windows are told apart as the seam has it, with something to do.
func TestLocationAnswers(t *testing.T) {
	const refused, missing, noFix, odd = "refused", "missing", "no fix", "odd"
	kind := func(err error) string {
		var m *platform.MissingError
		var r *ResultError
		switch {
		case err == nil:
			return ""
		case errors.As(err, &m) && (m.What == "" || m.Fix == "" || len(m.Fix) > 300 || !strings.Contains(m.Fix, "location.fixed")):
			return "without help: " + err.Error()
		case errors.As(err, &m) && m.Permission:
			if !strings.Contains(m.Fix, "ms-settings:privacy-location") {
				return "without a page"
			}
			return refused
		case errors.As(err, &m):
			return missing
		case errors.Is(err, platform.ErrNoFix):
			return noFix
		case errors.As(err, &r):
			return odd
		}
		return err.Error()
	}
	for hr, want := range map[uint32]string{
		0: "", 1: "", 0x80070005: refused, 0x80004004: refused, 0x80070422: missing, 0x80040154: missing, 0x80040111: missing, 0x80004001: missing, 0x8007007F: missing,
		0x800705B4: noFix, 0x80070102: noFix, 0x800704C7: noFix, 0x8000FFFF: odd,
	} {
		if got := kind(locationError("it", hr)); got != want {
			t.Errorf("0x%X is %q, not %q", hr, got, want)
		}
	}
	for status, want := range map[int32]string{0: "", 1: "", 2: noFix, 3: refused, 4: "", 5: missing} {
		if got := kind(statusError(status)); got != want {
			t.Errorf("status %d is %q, not %q", status, got, want)
		}
	}
	for status, want := range map[int32]string{0: "", 1: "", 2: refused, 3: refused} {
		if got := kind(accessError(status)); got != want {
			t.Errorf("access %d is %q, not %q", status, got, want)
		}
	}
}

func TestRuntimeNumbers(t *testing.T) {
	at := time.Date(2026, 11, 22, 9, 30, 0, 1_234_500, time.UTC)
	// Windows' own count of that moment: days since 1601 and the rest, in units of 100 ns.
	days := int64(at.Truncate(24*time.Hour).Sub(time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC))/(24*time.Hour)) + 134_774
	units := (days*86_400+9*3600+30*60)*10_000_000 + 12_345
	if got := moment(units); !got.Equal(at) {
		t.Errorf("%s, not %s", got, at)
	}
	if got := moment(0); got.UTC().Year() != 1601 {
		t.Errorf("%s", got)
	}
	for d, want := range map[time.Duration]int64{time.Second: 10_000_000, -time.Second: 0, 0: 0, 250 * time.Nanosecond: 2} {
		if got := span(d); got != want {
			t.Errorf("%s is %d, not %d", d, got, want)
		}
	}
	if known(math.NaN(), true) != nil || known(1, false) != nil || *known(1.5, true) != 1.5 {
		t.Error("a number that is none, or none of one")
	}
}
