package invoke

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// NewArtifactsCmd makes 'handrail artifacts'.
func NewArtifactsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "artifacts",
		Short: "Files that calls made: photos, recordings, downloads",
		Long: "A file is named by the SHA-256 of its bytes. It is kept for a limited time, sealed; an agent may have those of its\n" +
			"own calls, an operator everybody's.",
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newArtifactsListCmd(), newArtifactsGetCmd(), newArtifactsRemoveCmd())
	return cmd
}

func newArtifactsListCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the files, the newest first",
		Args:    cobra.NoArgs,
	}
	call := cmd.Flags().String("call", "", "only those of this call")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		all, done, err := remote.Listed[api.Artifact](cmd, c, remote.Query(remote.Path("artifacts"), "call", *call), "artifacts")
		if done || err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if len(all) == 0 {
			fmt.Fprintln(out, "No files are kept.")
			return nil
		}
		t := terminal.NewTable(out, "ARTIFACT", "NAME", "TYPE", "BYTES", "TOOL", "PRINCIPAL", "UNTIL")
		for _, v := range all {
			t.Row(string(v.ID), v.Name, v.MIME, fmt.Sprint(v.Size), string(v.Tool), string(v.Principal), v.ExpiresAt.Local().
				Format(terminal.DayClock))
		}
		t.Flush()
		return nil
	}
	return cmd
}

func newArtifactsGetCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "get ARTIFACT",
		Short:   "Save a file, checked against its ID",
		Example: "  handrail artifacts get 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 --out photo.jpg",
		Args:    cobra.ExactArgs(1),
	}
	out := cmd.Flags().String("out", ".", "file to write, or a directory for a name of its own")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		name, err := artifactMeant(cmd, c, args[0])
		if err != nil {
			return err
		}
		id := capabilities.ArtifactID(name)
		file := *out
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			file = filepath.Join(file, filepath.Base(string(id))+".bin")
		}
		if err := SaveArtifact(cmd, c, id, file); err != nil {
			return err
		}
		raw, err := json.Marshal(map[string]string{"artifact_id": string(id), "file": file})
		if err != nil {
			return err
		}
		return remote.Confirmed(cmd, raw, "saved as %s", file)
	}
	return cmd
}

// fileID returns the ID of the file that a person means: whole, its beginning, or its name.
func artifactMeant(cmd *cobra.Command, c *remote.Gateway, text string) (string, error) {
	if len(text) == 64 { // a SHA-256: the list need not have it
		return text, nil
	}
	return c.ListedID(cmd, "file", text, "artifacts", "artifacts", "artifact_id", "name")
}

// SaveArtifact writes a file that is whole or not there.
func SaveArtifact(cmd *cobra.Command, c *remote.Gateway, id capabilities.ArtifactID, file string) (err error) {
	part, err := os.CreateTemp(filepath.Dir(file), ".handrail-*.part") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part.Name())
		}
	}()
	err = remote.Told(c.FetchArtifact(cmd.Context(), id, part))
	if closed := part.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(part.Name(), file)
}

func newArtifactsRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "remove ARTIFACT",
		Aliases: []string{"rm"},
		Short:   "Remove a file before its time",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			id, err := artifactMeant(cmd, c, args[0])
			if err != nil {
				return err
			}
			return c.Change(cmd, http.MethodDelete, remote.Path("artifacts", id), nil, "%s is removed", id)
		},
	}
}

// saveArtifacts saves the files of a result below dir, except those whose bytes came with it. It
// returns the file of each, "" for those that were not saved.
func saveArtifacts(cmd *cobra.Command, c *remote.Gateway, r capabilities.Result, output map[string]any, dir string) ([]string, error) {
	files := make([]string, len(r.Artifacts))
	for i, a := range r.Artifacts {
		if _, inline := output[a.Field]; dir == "" || a.Code != "" || a.Field != "" && inline {
			continue
		}
		// The name comes from the call ID, never from the other side's text.
		files[i] = filepath.Join(dir, filepath.Base(filepath.Clean("/"+string(r.Call)))+fmt.Sprintf("-file%d", i+1)+extension(a.MIME))
		if err := SaveArtifact(cmd, c, a.ID, files[i]); err != nil {
			return nil, err
		}
	}
	return files, nil
}
