package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/drydock/internal/temporal"
)

// cli is what all commands share.
type cli struct {
	genericiooptions.IOStreams
	connection temporal.Connection
	kube       kubeAccess
	output     string
	namespace  string
	cluster    string
	timeout    time.Duration
	// understood: the command line was; what goes wrong from then on is not about usage.
	understood bool
}

// usageError is a command line or an input that cannot be right.
type usageError struct {
	error
	// input: an input file is wrong, so that the command's help is no help.
	input bool
}

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{error: fmt.Errorf(format, args...)} }

func inputError(err error) error { return usageError{error: err, input: true} }

// errSaidAlready makes a command fail that has printed why.
var errSaidAlready = errors.New("failed as printed")

func newRoot(c *cli) *cobra.Command {
	root := noun("drydock", "Take Kubernetes clusters and nodes out of service, work on them and put them back")
	root.Long = root.Short + `.

Exit status: 0 done; 1 failed, refused or not healthy; 2 wrong usage or input.`
	root.Version = programVersion()
	root.SetVersionTemplate("drydock {{.Version}}\n")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.AddCommand(newUpgrade(c), newNode(c), newLock(c), newWindow(c), newPortal(c), newHealth(c), newHarbor(c), newOnboarding(c), newHold(c), newRelease(c), newServe(c), newSetup(c), newDoctor(c), newVersion(c))
	return root
}

// noun is a command that only holds verbs. Unlike cobra's default it does not take an unknown verb for a call for help.
func noun(use, short string) *cobra.Command {
	return &cobra.Command{
		Use:                        use,
		Short:                      short,
		Args:                       cobra.ArbitraryArgs,
		DisableFlagsInUseLine:      true,
		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			message := fmt.Sprintf("%s has no command %q", cmd.CommandPath(), args[0])
			if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
				message += ": did you mean " + strings.Join(similar, " or ") + "?"
			}
			return usagef("%s", message)
		},
	}
}

// verb adapts the work of a command to cobra.
func (c *cli) verb(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := c.checkNames(); err != nil {
			return err
		}
		if c.timeout < 0 {
			return usagef("--timeout %s is negative", c.timeout)
		}
		c.understood = true
		ctx := cmd.Context()
		if c.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, c.timeout)
			defer cancel()
		}
		return work(ctx, args)
	}
}

// serverVerb is verb for work that is all about Temporal.
func (c *cli) serverVerb(work func(ctx context.Context, s *server, args []string) error) func(*cobra.Command, []string) error {
	return c.verb(func(ctx context.Context, args []string) error {
		return c.onServer(ctx, func(s *server) error { return work(ctx, s, args) })
	})
}

// onServer works with the server of Temporal.
func (c *cli) onServer(ctx context.Context, work func(*server) error) error {
	s, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return work(s)
}

// subjectVerb is serverVerb for work on what the first argument names, which is looked at first.
func (c *cli) subjectVerb(named func(string) (subject, error), work func(ctx context.Context, s *server, target subject) error) func(*cobra.Command, []string) error {
	return c.verb(func(ctx context.Context, args []string) error {
		target, err := named(args[0])
		if err != nil {
			return err
		}
		return c.onServer(ctx, func(s *server) error { return work(ctx, s, target) })
	})
}

// operands are the arguments that a command takes, all of them required.
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

// takesFile reports whether a command takes a file by -f, and has none yet.
func takesFile(cmd *cobra.Command) bool {
	file := cmd.Flags().ShorthandLookup("f")
	return file != nil && !file.Changed
}

func (c *cli) addNamespaceFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&c.namespace, "object-namespace", "n", "", `namespace of the object (default "default")`)
}

func (c *cli) addTemporalFlags(cmd *cobra.Command) {
	c.connection.AddFlags(cmd.Flags())
	c.addTimeoutFlag(cmd)
}

// addTimeoutFlag adds --timeout, once: a command may ask Temporal and a cluster.
func (c *cli) addTimeoutFlag(cmd *cobra.Command) {
	if cmd.Flags().Lookup("timeout") != nil {
		return
	}
	cmd.Flags().DurationVar(&c.timeout, "timeout", 0, "stop waiting after this time, e.g. 30m; the work itself goes on (default: no limit)")
}

// addClusterFlag adds the flag that names a cluster as Drydock's workers know it.
func (c *cli) addClusterFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.cluster, "cluster", os.Getenv(clusterVariable), "cluster, by the name the worker knows it by (env "+clusterVariable+")")
}

const clusterVariable = "DRYDOCK_CLUSTER"

func (c *cli) requireCluster() error {
	if c.cluster == "" {
		return usagef("which cluster? set --cluster or %s", clusterVariable)
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

// actor is who sends a signal: the person at the keyboard.
func actor() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}
