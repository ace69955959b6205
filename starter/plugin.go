package main

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// pluginName is how people call the program when kubectl runs it as a plugin.
const pluginName = "kubectl drydock"

// isPlugin reports whether a program is named as a plugin of kubectl.
func isPlugin(program string) bool {
	return strings.TrimSuffix(filepath.Base(program), ".exe") == "kubectl-drydock"
}

// commandInText matches the name of the program where a text has one of its commands.
var commandInText = regexp.MustCompile("(?m)(^ *|[`\"]|[|;] )drydock ")

// called names the program in a text as the user called it.
func (c *cli) called(text string) string {
	if !c.plugin {
		return text
	}
	return commandInText.ReplaceAllString(text, "${1}"+pluginName+" ")
}

// nameInHelp names the program in the help of all commands as the user called it.
func (c *cli) nameInHelp(root *cobra.Command) {
	if !c.plugin {
		return
	}
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: pluginName}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.Long, cmd.Example = c.called(cmd.Long), c.called(cmd.Example)
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
}
