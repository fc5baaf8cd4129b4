package mail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	netmail "net/mail"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// Bounds of the file.
const (
	maxFile     = 64 << 10
	maxTo       = 16
	maxPassword = 1024
)

// Config is where messages go.
type Config struct {
	Host, Port string
	// Implicit says that the connection begins with TLS (smtps); else STARTTLS is asked for.
	Implicit bool
	// Plain says that TLS may be missing: the server is this host.
	Plain    bool
	From     string
	To       []string
	User     string              // empty: nobody signs in
	Password capabilities.Secret // with User
}

// Load reads a file:
//
//	{"version": 1, "server": "smtp://mail.example.com:587", "from": "handrail@example.com",
//	 "to": ["ann@example.com"], "user": "handrail", "password_file": "mail.password"}
//
// The scheme is smtps (TLS from the beginning, port 465) or smtp (STARTTLS, port 587), which may be
// without TLS to this host. A relative password_file is beside the file. nil, nil: there is no
// file.
func Load(path string) (*Config, error) {
	data, err := readFile(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, bad("%v", err)
	}
	c, err := parse(data, filepath.Dir(path))
	if err != nil {
		return nil, bad("%s: %s", path, capabilities.AsError(err).PublicMessage())
	}
	return c, nil
}

// readFile returns a file's content, of which there is no more than most.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	return data, err
}

func parse(data []byte, folder string) (*Config, error) {
	clean, err := canonical.Parse(data, canonical.Limits{MaxBytes: maxFile})
	if err != nil {
		return nil, err
	}
	var file struct {
		Version      int      `json:"version"`
		Server       string   `json:"server"`
		From         string   `json:"from"`
		To           []string `json:"to"`
		User         string   `json:"user"`
		PasswordFile string   `json:"password_file"`
	}
	dec := json.NewDecoder(bytes.NewReader(clean))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		return nil, bad("it is not of the form that is documented")
	}
	if file.Version != 1 || len(file.To) == 0 || len(file.To) > maxTo {
		return nil, bad("version must be 1, and to have 1 to %d addresses", maxTo)
	}
	c := &Config{User: file.User}
	if err := c.server(file.Server); err != nil {
		return nil, err
	}
	if c.From, err = address("from", file.From); err != nil {
		return nil, err
	}
	for i, to := range file.To {
		one, err := address(fmt.Sprintf("to[%d]", i), to)
		if err != nil {
			return nil, err
		}
		c.To = append(c.To, one)
	}
	if (file.User == "") != (file.PasswordFile == "") {
		return nil, bad("user and password_file belong together")
	}
	if file.User == "" {
		return c, nil
	}
	if !filepath.IsAbs(file.PasswordFile) {
		file.PasswordFile = filepath.Join(folder, file.PasswordFile)
	}
	password, err := readFile(file.PasswordFile, maxPassword)
	if err != nil {
		return nil, bad("password_file: %v", err)
	}
	password = bytes.TrimSuffix(bytes.TrimSuffix(password, []byte("\n")), []byte("\r"))
	if len(password) == 0 || bytes.ContainsAny(password, "\x00\r\n") || strings.ContainsAny(file.User, "\x00\r\n") {
		return nil, bad("password_file must have the password, on one line")
	}
	c.Password = capabilities.NewSecret(password)
	return c, nil
}

func (c *Config) server(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return bad("server must be smtp://HOST:PORT or smtps://HOST:PORT, without a user's name")
	}
	c.Host, c.Port = u.Hostname(), u.Port()
	switch u.Scheme {
	case "smtps":
		c.Implicit = true
		if c.Port == "" {
			c.Port = "465"
		}
	case "smtp":
		if c.Port == "" {
			c.Port = "587"
		}
		ip := net.ParseIP(c.Host)
		c.Plain = c.Host == "localhost" || ip != nil && ip.IsLoopback()
	default:
		return bad("server must begin with smtp:// or smtps://")
	}
	return nil
}

// address returns the bare address of "ann@example.com"; a name beside it is none of it.
func address(field, text string) (string, error) {
	a, err := netmail.ParseAddress(text)
	hidden := func(r rune) bool { return r <= ' ' || r > '~' }
	if err != nil || a.Name != "" || len(a.Address) > 254 || strings.ContainsFunc(a.Address, hidden) {
		return "", bad("%s must be an address such as ann@example.com", field)
	}
	return a.Address, nil
}

func bad(format string, args ...any) error {
	return capabilities.Errorf(capabilities.CodeInvalidRequest, "mail: "+format, args...)
}
