package trace

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/handrail-dev/handrail/capabilities/address"
)

// Config is where traces go. FromEnvironment makes it.
type Config struct {
	url     string // of the collector's traces
	headers http.Header
	timeout time.Duration
	service string
	attrs   []attr
	roots   *x509.CertPool
}

// Place is the collector's address, for people. The keys to it are not in it.
func (c *Config) Place() string { return c.url }

const (
	// tracesPath is where collectors take traces, below their address.
	tracesPath     = "/v1/traces"
	defaultTimeout = 10 * time.Second
	maxTimeout     = time.Minute
	gatewayService = "handrail-gateway"
	nodeService    = "handrail-node"
	// maxListed bounds the headers and attributes that are read.
	maxListed = 64
)

// FromEnvironment reads OpenTelemetry's variables with get. An address in flag goes before theirs.
// nil: nobody named one, or traces are switched off. A variable that cannot be used is an error
// that names it, and never tells its value: that may be a key.
// https://opentelemetry.io/docs/specs/otel/protocol/exporter/
func FromEnvironment(flag string, get func(string) string) (*Config, error) {
	c := &Config{url: flag, timeout: defaultTimeout, service: gatewayService}
	one := func(name string) (string, string) { // for traces alone, before that for everything
		if v := get("OTEL_EXPORTER_OTLP_TRACES_" + name); v != "" {
			return "OTEL_EXPORTER_OTLP_TRACES_" + name, v
		}
		return "OTEL_EXPORTER_OTLP_" + name, get("OTEL_EXPORTER_OTLP_" + name)
	}
	named, base := "--otlp", true
	if c.url == "" {
		if on := get("OTEL_TRACES_EXPORTER"); strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") || on != "" && on != "otlp" {
			return nil, nil
		}
		named, c.url = one("ENDPOINT")
		if base = !strings.Contains(named, "TRACES"); c.url == "" {
			return nil, nil
		}
		if name, v := one("PROTOCOL"); v != "" && v != "http/protobuf" {
			return nil, fmt.Errorf("%s: the gateway sends traces by http/protobuf alone", name)
		}
	}
	at, ok := address.Web(c.url)
	if !ok || base && at.RawQuery != "" {
		return nil, fmt.Errorf("%s: want the address of a collector for OTLP over HTTP, such as http://127.0.0.1:4318", named)
	}
	if base {
		at = at.JoinPath(tracesPath)
	}
	c.url = at.String()
	if name, v := one("TIMEOUT"); v != "" {
		ms, err := strconv.Atoi(v)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("%s: want milliseconds", name)
		}
		c.timeout = min(time.Duration(ms)*time.Millisecond, maxTimeout)
	}
	name, v := one("HEADERS")
	pairs, err := readPairs(v)
	c.headers = http.Header{}
	for _, p := range pairs {
		if !httpguts.ValidHeaderFieldName(p.key) || !httpguts.ValidHeaderFieldValue(p.value) {
			err = errPairs
		}
		c.headers.Add(p.key, p.value)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if pairs, err = readPairs(get("OTEL_RESOURCE_ATTRIBUTES")); err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	for _, p := range pairs {
		if p.key == "service.name" {
			c.service = p.value
			continue
		}
		c.attrs = append(c.attrs, p)
	}
	if v := get("OTEL_SERVICE_NAME"); v != "" {
		c.service = v
	}
	if name, v := one("CERTIFICATE"); v != "" {
		pem, err := os.ReadFile(v)
		if c.roots = x509.NewCertPool(); err != nil || !c.roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: want a PEM file with the certificates that the collector's may be of", name)
		}
	}
	return c, nil
}

var errPairs = fmt.Errorf("want name=value, several with commas, at most %d", maxListed)

// readPairs reads name=value,name=value, in which values are percent-encoded.
func readPairs(text string) (list []attr, _ error) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || key == "" || err != nil || len(list) == maxListed {
			return nil, errPairs
		}
		list = append(list, attr{key, strings.ToValidUTF8(value, "\uFFFD")})
	}
	return list, nil
}

// client returns the client of the requests: bounded, and it follows no redirect, since keys go
// along.
func (c *Config) client() *http.Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, ResponseHeaderTimeout: c.timeout, MaxResponseHeaderBytes: 32 << 10,
	}
	return &http.Client{
		Transport: transport, Timeout: c.timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
