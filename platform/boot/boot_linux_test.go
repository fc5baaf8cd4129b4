package boot

import (
	"os"
	"testing"
)

func TestLinuxHasOne(t *testing.T) {
	if _, err := os.Stat("/proc/sys/kernel/random/boot_id"); err != nil {
		t.Skip("this kernel does not say")
	}
	if ID() == "" {
		t.Error("none")
	}
}
