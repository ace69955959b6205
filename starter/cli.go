package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/drydock/internal/temporal"
)

// cli has the state that all commands share.
type cli struct {
	genericiooptions.IOStreams
	connection temporal.Connection
	kube       kubeAccess
	output     string
	// render writes the fields of a result with the template of -o.
	render    func(w io.Writer, fields any) error
	noHeaders bool
	// plugin: kubectl runs the program as a plugin.
	plugin    bool
	utc       bool
	namespace string
	// contextNamespace is the default of namespace in the selected context.
	contextNamespace string
	cluster          string
	timeout          time.Duration
	// parsed is set once the command line is valid. Errors after that are not usage errors.
	parsed bool
}

// usageError is the error of an invalid command line or input file.
type usageError struct {
	error
	// input means that an input file is invalid, so the error does not point to the command's help.
	input bool
}

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{error: fmt.Errorf(format, args...)} }

func inputError(err error) error { return usageError{error: err, input: true} }

// errPrinted makes a command fail that has already printed the reason.
var errPrinted = errors.New("the reason is already printed")

func newRoot(c *cli) *cobra.Command {
	root := noun("drydock", "Take Kubernetes clusters and nodes out of service, maintain them and return them to service")
	root.Long = root.Short + `.

Exit status: 0 success; 1 failed, refused or unhealthy; 2 invalid usage or input.`
	root.Version = readBuild().String()
	root.SetVersionTemplate("drydock {{.Version}}\n")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(flagError)
	c.addGlobalFlags(root)
	root.AddCommand(newUpgrade(c), newNode(c), newLock(c), newWindow(c), newPortal(c), newHealth(c), newHarbor(c), newOnboarding(c), newHold(c), newRelease(c), newServe(c), newCodecServer(c), newSetup(c), newConfig(c), newDoctor(c), newUpgradeCheck(c), newUpgradePromote(c), newVersion(c), newExplain(c), newEvents(c), newLogs(c), newDiff(c), newMan(c))
	addExamples(root)
	c.nameInHelp(root)
	return root
}

// flagError says how to write a duration, and how to name a cluster that a command reads with the credentials of its user.
func flagError(cmd *cobra.Command, err error) error {
	if unknown, is := errors.AsType[*pflag.NotExistError](err); is && unknown.GetSpecifiedName() == "cluster" && cmd.Flags().Lookup("context") != nil {
		return usagef("%w: %s reads the cluster with your own credentials, so name its --context", err, cmd.CommandPath())
	}
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok || invalid.GetFlag().Value.Type() != "duration" {
		return err
	}
	value := invalid.GetValue()
	if _, notNumber := strconv.Atoi(value); notNumber != nil {
		return usagef("--%s %q is not a duration such as 90s, 30m or 2h", invalid.GetFlag().Name, value)
	}
	return usagef("--%s %s has no unit: write %[2]ss for seconds, %[2]sm for minutes or %[2]sh for hours", invalid.GetFlag().Name, value)
}

// noun returns a command that only groups verbs. Unlike cobra's default, it fails on an unknown verb instead of printing help.
func noun(use, short string) *cobra.Command {
	return &cobra.Command{
		Use:                        use,
		Short:                      short,
		Args:                       cobra.ArbitraryArgs,
		DisableFlagsInUseLine:      true,
		SuggestionsMinimumDistance: 2,
		FParseErrWhitelist:         cobra.FParseErrWhitelist{UnknownFlags: true}, // those of an unknown verb
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			message := fmt.Sprintf("%s has no command %q", cmd.CommandPath(), args[0])
			if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
				message += ": did you mean " + alternatives(similar) + "?"
			}
			return usagef("%s", message)
		},
	}
}

// alternatives lists names as a sentence does: a, b or c.
func alternatives(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// verb adapts a command's function to cobra.
func (c *cli) verb(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	run := c.plainVerb(work)
	return func(cmd *cobra.Command, args []string) error {
		if err := c.checkNames(); err != nil {
			return err
		}
		if err := c.useContext(); err != nil {
			return err
		}
		return run(cmd, args)
	}
}

// plainVerb is verb for a function that uses no context.
func (c *cli) plainVerb(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if c.timeout < 0 {
			return usagef("--timeout %s is negative", c.timeout)
		}
		c.parsed = true
		ctx := cmd.Context()
		if c.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, c.timeout)
			defer cancel()
		}
		return work(ctx, args)
	}
}

// serverVerb is verb for a function that needs a connection to Temporal.
func (c *cli) serverVerb(work func(ctx context.Context, s *server, args []string) error) func(*cobra.Command, []string) error {
	return c.verb(func(ctx context.Context, args []string) error {
		return c.onServer(ctx, func(s *server) error { return work(ctx, s, args) })
	})
}

// onServer connects to Temporal and runs work.
func (c *cli) onServer(ctx context.Context, work func(*server) error) error {
	s, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return work(s)
}

// subjectVerb is serverVerb for a function on the workflow that the first argument names. It parses the name before it connects.
func (c *cli) subjectVerb(named func(string) (subject, error), work func(ctx context.Context, s *server, target subject) error) func(*cobra.Command, []string) error {
	return c.verb(func(ctx context.Context, args []string) error {
		target, err := named(args[0])
		if err != nil {
			return err
		}
		return c.onServer(ctx, func(s *server) error { return work(ctx, s, target) })
	})
}

// aliases are the other names of a verb; an empty one is left out.
func aliases(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// operands requires exactly the named arguments.
func operands(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usagef("%s is missing", names[len(args)])
		case len(names) == 0 && len(args) == 1 && takesFile(cmd):
			return usagef("unexpected argument %q: a file is given with -f", args[0])
		case len(args) > len(names):
			return usagef("unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// takesFile reports whether a command has the flag -f and it is not set.
func takesFile(cmd *cobra.Command) bool {
	file := cmd.Flags().ShorthandLookup("f")
	return file != nil && !file.Changed
}

func (c *cli) addNamespaceFlag(cmd *cobra.Command) {
	c.addNamespaceFlagFor(cmd, `namespace of the object (default "default")`)
}

func (c *cli) addNamespaceFlagFor(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVarP(&c.namespace, "namespace", "n", "", usage)
	_ = cmd.RegisterFlagCompletionFunc("namespace", c.completeNamespaces)
	// The name before --temporal-namespace existed.
	cmd.Flags().StringVar(&c.namespace, "object-namespace", "", usage)
	_ = cmd.Flags().MarkHidden("object-namespace")
}

// addGlobalFlags adds the flags that all commands have.
func (c *cli) addGlobalFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	c.connection.AddFlags(flags)
	flags.DurationVar(&c.timeout, "timeout", 0, "stop waiting after this time, e.g. 30m; the workflow continues (default: no limit)")
	flags.BoolVar(&c.utc, "utc", false, "show times in UTC instead of the local time zone")
	_ = root.RegisterFlagCompletionFunc("profile", c.completeProfiles)
}

// addClusterFlag adds --cluster: the name of the cluster in the worker's configuration.
func (c *cli) addClusterFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.cluster, "cluster", os.Getenv(clusterVariable), "name of the cluster in the worker's configuration (env "+clusterVariable+")")
	_ = cmd.RegisterFlagCompletionFunc("cluster", c.completeClusters)
}

const clusterVariable = "DRYDOCK_CLUSTER"

func (c *cli) requireCluster() error {
	if c.cluster == "" {
		return usagef("no cluster: set --cluster or %s", clusterVariable)
	}
	return nil
}

// terminal reports whether standard output is a terminal, and its size.
func (c *cli) terminal() (width, height int, ok bool) {
	file, isFile := c.Out.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(file.Fd()))
	return width, height, err == nil
}

// actor is the user who runs the command; signals and updates carry it.
func actor() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}
