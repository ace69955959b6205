// Command krew writes the manifest with which krew installs drydock as a plugin of kubectl.
package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
)

//go:embed drydock.yaml
var manifest string

// release is what the template needs.
type release struct {
	Version  string
	Archives []archive
}

// archive has the program for one platform.
type archive struct {
	OS, Arch    string
	URL, SHA256 string
	// Program is the file name of the program in it.
	Program string
}

func main() {
	if err := newCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	var version, url, checksums string
	cmd := &cobra.Command{
		Use:          "krew",
		Short:        "Write the krew manifest of a release",
		Args:         cobra.NoArgs,
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := os.Open(checksums)
			if err != nil {
				return err
			}
			defer file.Close()
			archives, err := readChecksums(file, strings.TrimSuffix(url, "/"))
			if err != nil {
				return fmt.Errorf("%s: %w", checksums, err)
			}
			text, err := render(release{Version: version, Archives: archives})
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&version, "version", "", "version of the release, such as v0.1.0")
	flags.StringVar(&url, "url", "", "URL of the directory that has the archives of the release")
	flags.StringVar(&checksums, "checksums", "", "file with the SHA-256 checksums of the archives, as sha256sum prints them")
	for _, flag := range []string{"version", "url", "checksums"} {
		_ = cmd.MarkFlagRequired(flag)
	}
	return cmd
}

// archiveName matches the archives of the CLI. The programs of other archives are no plugins.
var archiveName = regexp.MustCompile(`^drydock_[^_]+_(linux|darwin|windows)_(amd64|arm64)\.(tar\.gz|zip)$`)

// readChecksums returns the archives of the CLI in a file of checksums.
func readChecksums(file io.Reader, url string) ([]archive, error) {
	var archives []archive
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		sum, name, _ := strings.Cut(lines.Text(), " ")
		name = strings.TrimLeft(name, " *") // * marks a binary file
		parts := archiveName.FindStringSubmatch(name)
		if parts == nil {
			continue
		}
		one := archive{OS: parts[1], Arch: parts[2], URL: url + "/" + name, SHA256: sum, Program: "drydock"}
		if one.OS == "windows" {
			one.Program += ".exe"
		}
		archives = append(archives, one)
	}
	if len(archives) == 0 && lines.Err() == nil {
		return nil, errors.New("no archive of the CLI, such as drydock_0.1.0_linux_amd64.tar.gz")
	}
	return archives, lines.Err()
}

// render fills in the template.
func render(of release) ([]byte, error) {
	filled, err := template.New("drydock.yaml").Parse(manifest)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := filled.Execute(&text, of); err != nil {
		return nil, err
	}
	_, plugin, _ := bytes.Cut(text.Bytes(), []byte("\n")) // the comment is about the template
	return plugin, nil
}
