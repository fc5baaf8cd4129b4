package trace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFromEnvironment(t *testing.T) {
	for name, one := range map[string]struct {
		flag string
		env  map[string]string
		url  string // empty: nobody is told
	}{
		"nothing":     {},
		"flag":        {flag: "http://127.0.0.1:4318", url: "http://127.0.0.1:4318/v1/traces"},
		"flag, path":  {flag: "https://c.example/otlp/", url: "https://c.example/otlp/v1/traces"},
		"everything":  {env: map[string]string{"ENDPOINT": "http://c:4318/"}, url: "http://c:4318/v1/traces"},
		"traces":      {env: map[string]string{"ENDPOINT": "http://a", "TRACES_ENDPOINT": "https://b/x?k=1"}, url: "https://b/x?k=1"},
		"flag first":  {flag: "http://f", env: map[string]string{"TRACES_ENDPOINT": "https://b/x"}, url: "http://f/v1/traces"},
		"flag, grpc":  {flag: "http://f", env: map[string]string{"PROTOCOL": "grpc"}, url: "http://f/v1/traces"},
		"switched on": {env: map[string]string{"ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "otlp"}, url: "http://c/v1/traces"},
		"none":        {env: map[string]string{"ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}},
		"disabled":    {env: map[string]string{"ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := FromEnvironment(one.flag, from(one.env))
			switch {
			case err != nil:
				t.Error(err)
			case one.url == "" && c != nil:
				t.Errorf("it tells %s", c.url)
			case one.url != "" && (c == nil || c.Place() != one.url || c.timeout != defaultTimeout || c.service != gatewayService):
				t.Errorf("%+v", c)
			}
		})
	}
}

// from reads a table in which OTEL_EXPORTER_OTLP_ may be left out.
func from(env map[string]string) func(string) string {
	return func(name string) string {
		if v, ok := env[strings.TrimPrefix(name, "OTEL_EXPORTER_OTLP_")]; ok {
			return v
		}
		return env[name]
	}
}

// A setting that cannot be used is named, and never shown: it may be a key.
func TestSettingsThatCannotBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(file, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"ENDPOINT": "hush", "TRACES_ENDPOINT": "ftp://hush", "PROTOCOL": "hush", "TIMEOUT": "hush", "HEADERS": "hush", "TRACES_HEADERS": "a b=hush",
		"OTEL_RESOURCE_ATTRIBUTES": "=hush", "CERTIFICATE": file,
	} {
		env := map[string]string{"ENDPOINT": "http://c", name: value}
		_, err := FromEnvironment("", from(env))
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, flag := range []string{"127.0.0.1:4318", "http://user:hush@c", "http://c?hush=1", "/v1/traces"} {
		if _, err := FromEnvironment(flag, from(nil)); err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "--otlp") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func TestWhoTells(t *testing.T) {
	c, err := FromEnvironment("http://c", from(map[string]string{
		"OTEL_SERVICE_NAME": "hands", "OTEL_RESOURCE_ATTRIBUTES": "service.name=other, deployment.environment.name=the%20lab", "TIMEOUT": "250",
	}))
	if err != nil || c.service != "hands" || len(c.attrs) != 1 || c.attrs[0] != (attr{"deployment.environment.name", "the lab"}) ||
		c.timeout != 250*time.Millisecond {
		t.Errorf("%+v, %v", c, err)
	}
}
