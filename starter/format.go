package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// Output formats, as kubectl has them.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"

	formatJSONPath       = "jsonpath"
	formatJSONPathFile   = "jsonpath-file"
	formatGoTemplate     = "go-template"
	formatGoTemplateFile = "go-template-file"
)

var (
	plainFormats    = []string{formatTable, formatWide, formatJSON, formatYAML, formatName}
	templateFormats = []string{formatJSONPath, formatJSONPathFile, formatGoTemplate, formatGoTemplateFile}
)

// addOutputFlag adds -o. The value is checked before the command does anything.
func (c *cli) addOutputFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&c.output, "output", "o", formatTable,
		"output format: "+strings.Join(plainFormats, ", ")+", "+strings.Join(templateFormats, "=..., ")+"=...")
	// An error is impossible: the flag exists.
	_ = cmd.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		completions := slices.Clone(plainFormats)
		for _, format := range templateFormats {
			completions = append(completions, format+"=")
		}
		return completions, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if err := c.readFormat(); err != nil {
			return err
		}
		for _, following := range []string{"watch", "wait", "follow"} {
			flag := cmd.Flags().Lookup(following)
			if flag != nil && flag.Value.String() == "true" && (c.output == formatName || c.render != nil) {
				return usagef("-o %s cannot show the changes of --%s: use only one of them", c.output, following)
			}
		}
		return nil
	}
}

// readFormat checks -o, and reads the template of a format that has one.
func (c *cli) readFormat() error {
	format, text, given := strings.Cut(c.output, "=")
	if slices.Contains(plainFormats, format) && !given {
		return nil
	}
	if !slices.Contains(templateFormats, format) {
		return usagef("output format %q is not one of %s", c.output, joined(append(slices.Clone(plainFormats), templateFormats...)))
	}
	if text == "" {
		return usagef("-o %s needs a template: -o %[1]s=TEMPLATE, such as %s", format, templateExamples[format])
	}
	if file, isFile := strings.CutSuffix(format, "-file"); isFile {
		content, err := os.ReadFile(text)
		if err != nil {
			return usagef("-o %s: %w", format, err)
		}
		format, text = file, string(content)
	}
	var err error
	if c.render, err = newTemplate(format, text); err != nil {
		return usagef("-o %s: %w", format, err)
	}
	return nil
}

// templateExamples shows a template of each format that has one.
var templateExamples = map[string]string{
	formatJSONPath: "-o jsonpath='{.items[*].name}'", formatJSONPathFile: "-o jsonpath-file=names.txt",
	formatGoTemplate: "-o go-template='{{range .items}}{{.name}}{{\"\\n\"}}{{end}}'", formatGoTemplateFile: "-o go-template-file=names.txt",
}

// newTemplate returns the function that renders the fields of -o json with a template.
func newTemplate(format, text string) (func(io.Writer, any) error, error) {
	if format == formatJSONPath {
		if !strings.Contains(text, "{") { // a path alone, as kubectl --sort-by takes it
			text = "{." + strings.TrimPrefix(text, ".") + "}"
		}
		printer, err := printers.NewJSONPathPrinter(text)
		if err != nil {
			return nil, err
		}
		printer.AllowMissingKeys(true)
		return printer.Execute, nil
	}
	parsed, err := template.New("output").Parse(text)
	if err != nil {
		return nil, err
	}
	return parsed.Execute, nil
}

// print writes a result in the requested format: object as JSON or YAML, names one per line, or the output of people.
func (c *cli) print(object any, people func(*page), names ...string) error {
	switch {
	case c.render != nil:
		fields, err := fieldsOf(object)
		if err != nil {
			return err
		}
		if err := c.render(c.Out, fields); err != nil {
			return fmt.Errorf("-o %s: %w", c.output, err)
		}
		return nil
	case c.output == formatJSON:
		encoder := json.NewEncoder(c.Out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(object)
	case c.output == formatYAML:
		text, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		_, err = c.Out.Write(text)
		return err
	case c.output == formatName:
		for _, name := range names {
			fmt.Fprintln(c.Out, name)
		}
		return nil
	}
	return c.printPage(people)
}

// fieldsOf returns a result as a template sees it: the fields of -o json.
func fieldsOf(object any) (any, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields any
	return fields, json.Unmarshal(text, &fields)
}

// forPeople reports whether the output is text for people.
func (c *cli) forPeople() bool {
	return c.output == formatTable || c.output == formatWide || c.output == ""
}
