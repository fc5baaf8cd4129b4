package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway"
	sealed "github.com/handrail-dev/handrail/gateway/backup"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

// NewBackupCmd returns the command that writes a backup; version is the one of this program.
func NewBackupCmd(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write everything that the site keeps to a sealed file, while the gateway works",
		Long: "Keys, record, policy, secrets, tokens, paired devices and files of the gateway, of one moment. The file is sealed with a\n" +
			"passphrase, or to the public half of a key that stays elsewhere. 'handrail restore' makes a data directory of it. The node of\n" +
			"this machine is a device of its own and not in it. With - for FILE it goes to standard output.",
		Example: "  handrail backup site.backup\n  handrail backup site.backup --to age1…",
		Args:    cobra.ExactArgs(1),
	}
	passphrase := addPassphrase(cmd)
	to := cmd.Flags().StringSlice("to", nil, "public key to seal to, in place of a passphrase; repeatable")
	bare := cmd.Flags().Bool("no-artifacts", false, "leave out the files that calls made")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, err := datadir.Of(cmd)
		if err != nil {
			return err
		}
		if err := free(args[0]); err != nil {
			return err
		}
		lock, err := lockOf(cmd, *passphrase, *to)
		if err != nil {
			return err
		}
		o := sealed.Options{
			Dir: data.Gateway(), Lock: lock, Version: version, Artifacts: !*bare, Now: time.Now(), Migrations: gateway.Migrations(),
		}
		if args[0] == "-" {
			if terminal.Interactive(cmd.OutOrStdout()) {
				return terminal.UsageHint("Name a file, or send it to another program.", "a backup is not for a terminal")
			}
			_, err := sealed.Make(cmd.Context(), cmd.OutOrStdout(), o)
			return err
		}
		m, size, err := writeBackup(cmd.Context(), args[0], o)
		if err != nil {
			return err
		}
		if terminal.FlagsOf(cmd).JSON {
			return terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"file": args[0], "bytes": size, "manifest": m})
		}
		key := ""
		if len(*to) > 0 {
			key = " --key FILE"
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: site %s as of %s, %s\nRestore it with: handrail restore %s%s\n",
			terminal.Plain(args[0]), m.Site, m.MadeAt.Format(time.RFC3339), fileSize(size), terminal.Plain(args[0]), key)
		return err
	}
	cmd.AddCommand(newKeyCmd())
	return cmd
}

// free refuses a file that is there: a backup is never written over another.
func free(file string) error {
	if file == "-" {
		return nil
	}
	if _, err := os.Lstat(file); err == nil {
		return capabilities.Errorf(capabilities.CodeConflict, "%s is there already.", file).WithHint("Name another file, or remove it first.")
	}
	return nil
}

// writeBackup writes the file whole or not at all.
func writeBackup(ctx context.Context, file string, o sealed.Options) (m sealed.Manifest, size int64, err error) {
	part := file + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return m, 0, store.RoomFor(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part)
		}
	}()
	if m, err = sealed.Make(ctx, f, o); err == nil {
		err = f.Sync()
	}
	if size, _ = f.Seek(0, io.SeekEnd); err != nil {
		return m, 0, errors.Join(store.RoomFor(err), f.Close())
	}
	if err = f.Close(); err != nil {
		return m, 0, store.RoomFor(err)
	}
	if err = free(file); err != nil {
		return m, 0, err
	}
	return m, size, os.Rename(part, file)
}

func newKeyCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "key FILE",
		Short: "Make a key for backups: FILE opens them, and what is printed seals them",
		Long: "Writes the secret half to FILE and prints the public half. Keep FILE away from the gateway and from its backups: both together\n" +
			"are the site. age's own keys do as well.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := free(args[0]); err != nil {
				return err
			}
			text, public, err := sealed.NewKey()
			if err != nil {
				return err
			}
			if err := pairing.SaveFile(args[0], []byte(text)); err != nil {
				return store.RoomFor(err)
			}
			if terminal.FlagsOf(cmd).JSON {
				return terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"file": args[0], "public_key": public})
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), public)
			return err
		},
	}
}

// NewRestoreCmd returns the command that makes a data directory of a backup; logOf returns the log
// for raising it to this program's schema.
func NewRestoreCmd(logOf func(*cobra.Command) *slog.Logger) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a data directory of a backup: the site goes on there",
		Long: "The data directory must have no gateway yet. Paired devices need no new pairing; they refuse the gateway that the backup was\n" +
			"made of from the moment they have met this one, and that one ends. Later work is not in the backup: tokens and devices that were\n" +
			"revoked since are valid again, facts that were forgotten since are known again.",
		Example: "  handrail restore site.backup --data /srv/handrail\n  handrail restore site.backup --check",
		Args:    cobra.ExactArgs(1),
	}
	passphrase := addPassphrase(cmd)
	key := cmd.Flags().String("key", "", "file with the secret key, where it was sealed to one")
	check := cmd.Flags().Bool("check", false, "read it to its end, say what it is of, and write nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, err := datadir.Of(cmd)
		if err != nil {
			return err
		}
		f, err := os.Open(args[0])
		if errors.Is(err, fs.ErrNotExist) {
			return capabilities.Errorf(capabilities.CodeNotFound, "There is no file %s.", args[0]).WithHint("Name the file of a backup.")
		}
		if err != nil {
			return err
		}
		defer f.Close()
		if !*check {
			if err := vacant(data); err != nil {
				return err
			}
		}
		opens, err := keyOf(cmd, *passphrase, *key)
		if err != nil {
			return err
		}
		a, err := sealed.Open(f, opens)
		if err != nil {
			return err
		}
		if *check {
			return checkBackup(cmd, args[0], a)
		}
		return restore(cmd, data, a, logOf(cmd))
	}
	return cmd
}

// vacant refuses a data directory that has a gateway.
func vacant(data datadir.Dir) error {
	err := os.Remove(data.Gateway()) // an empty folder is nobody's
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(data.Gateway()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return capabilities.Errorf(capabilities.CodeConflict, "There is a gateway in %s already.", data).
		WithHint("Name another data directory with --data, or move that one away: nothing is written over it.")
}

func checkBackup(cmd *cobra.Command, name string, a *sealed.Archive) error {
	files, size, err := a.Check(cmd.Context())
	if err != nil {
		return err
	}
	m := a.Manifest
	if terminal.FlagsOf(cmd).JSON {
		if err := terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"file": name, "files": files, "bytes": size, "manifest": m}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(cmd.OutOrStdout(), "%s is whole: site %s as of %s, by version %s, %d files of %s\n", terminal.Plain(name), m.Site,
			m.MadeAt.Format(time.RFC3339), terminal.Plain(m.Version), files, fileSize(size))
	}
	return gateway.SchemaKnown(a)
}

// restore unpacks beside the gateway's place and takes it in one step, at the end.
func restore(cmd *cobra.Command, data datadir.Dir, a *sealed.Archive, log *slog.Logger) error {
	if err := gateway.SchemaKnown(a); err != nil {
		return err
	}
	if err := os.MkdirAll(string(data), 0o700); err != nil {
		return store.RoomFor(err)
	}
	temp := data.Restoring()
	if err := os.RemoveAll(temp); err != nil { // of one that was killed
		return err
	}
	if err := os.Mkdir(temp, 0o700); err != nil {
		return store.RoomFor(err)
	}
	raised, err := uint64(0), a.Unpack(cmd.Context(), temp)
	if err == nil {
		raised, err = gateway.Restored(cmd.Context(), temp, a.Manifest, log)
	}
	if err == nil {
		if err = vacant(data); err == nil {
			err = os.Rename(temp, data.Gateway())
		}
	}
	if err != nil {
		return errors.Join(store.RoomFor(err), os.RemoveAll(temp))
	}
	m := a.Manifest
	if terminal.FlagsOf(cmd).JSON {
		return terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"data": data, "site_id": m.Site, "generation": raised, "made_at": m.MadeAt})
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "site %s is in %s, as it was on %s (generation %d)\nStart it: %s\n", m.Site, terminal.Plain(string(data)),
		m.MadeAt.Format(time.RFC3339), raised, data.Command("gateway"))
	_, err = fmt.Fprintf(out, "Later work is not in it. Look whether a token or a device was revoked since: %s, %s\n"+
		"If its address is another now, each device is started once with: handrail node --gateway HOST:PORT\n",
		data.Command("token", "list"), data.Command("nodes"))
	return err
}

// addPassphrase adds the file that a passphrase is read from.
func addPassphrase(cmd *cobra.Command) *string {
	return cmd.Flags().String("passphrase-file", "", "file with the passphrase (default: asked for, or the first line of standard input)")
}

// passphraseOf reads the passphrase: of the file, else asked for or from standard input.
func passphraseOf(cmd *cobra.Command, file, ask string) (string, error) {
	const most = 4 << 10
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return "", err
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, most))
		return firstLine(string(text)), err
	}
	text, err := terminal.ReadHidden(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), ask, most)
	return firstLine(text), err
}

func firstLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return strings.TrimSuffix(text, "\r")
}

func lockOf(cmd *cobra.Command, file string, to []string) (sealed.Lock, error) {
	if len(to) > 0 {
		if file != "" {
			return sealed.Lock{}, terminal.UsageError("a backup is sealed to keys or with a passphrase: --to or --passphrase-file")
		}
		return sealed.ByKeys(to...)
	}
	text, err := passphraseOf(cmd, file, "Passphrase of the backup: ")
	if err != nil {
		return sealed.Lock{}, err
	}
	if file == "" && terminal.Interactive(cmd.InOrStdin()) {
		again, err := passphraseOf(cmd, "", "Again: ")
		if err != nil {
			return sealed.Lock{}, err
		}
		if again != text {
			return sealed.Lock{}, terminal.UsageHint("Type the same one twice.", "the two passphrases differ")
		}
	}
	return sealed.ByPassphrase(text)
}

func keyOf(cmd *cobra.Command, file, key string) (sealed.Key, error) {
	if key == "" {
		text, err := passphraseOf(cmd, file, "Passphrase of the backup: ")
		if err != nil {
			return sealed.Key{}, err
		}
		return sealed.OfPassphrase(text)
	}
	if file != "" {
		return sealed.Key{}, terminal.UsageError("a backup opens by a key or a passphrase: --key or --passphrase-file")
	}
	text, err := os.ReadFile(filepath.Clean(key))
	if err != nil {
		return sealed.Key{}, err
	}
	return sealed.OfKeyFile(string(text))
}

// fileSize words a number of bytes.
func fileSize(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", (n+1023)>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
