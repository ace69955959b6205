package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/log"
	"google.golang.org/grpc"
)

// Connection has the address and credentials of Temporal. Empty settings come from the environment variables and the configuration file of the
// temporal CLI (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_PROFILE, TEMPORAL_CONFIG_FILE, TLS and API key settings), then from defaults.
type Connection struct {
	Address    string
	Namespace  string
	Profile    string
	ConfigFile string
	// EncryptionKeyFile is the path of the KeyFile; empty: payloads are not encrypted.
	EncryptionKeyFile string
	// Worker: a failure whose key is missing fails the workflow task that reads it. Elsewhere it is an error that names the key.
	Worker bool
	// AnswersOnly: the worker may only poll its task queue and answer its tasks.
	AnswersOnly bool
}

// AddFlags adds flags with the names that the temporal CLI uses, except for its --namespace: Kubernetes objects have one, too.
func (c *Connection) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Address, "address", c.Address, "Temporal server, as host:port (env TEMPORAL_ADDRESS; default "+client.DefaultHostPort+")")
	flags.StringVar(&c.Namespace, "temporal-namespace", c.Namespace, `Temporal namespace (env TEMPORAL_NAMESPACE; default "default")`)
	flags.StringVar(&c.Profile, "profile", c.Profile, "profile of the temporal CLI's configuration file (env TEMPORAL_PROFILE)")
	flags.StringVar(&c.ConfigFile, "config-file", c.ConfigFile, "configuration file of the temporal CLI (env TEMPORAL_CONFIG_FILE)")
	flags.StringVar(&c.EncryptionKeyFile, "encryption-key-file", os.Getenv(encryptionKeyFileVariable),
		"file with the keys that encrypt what Temporal stores (env "+encryptionKeyFileVariable+"; default: no encryption)")
}

const encryptionKeyFileVariable = "DRYDOCK_ENCRYPTION_KEY_FILE"

// Keys returns the keys of the key file; nil without one.
func (c Connection) Keys(logger *slog.Logger) (Keys, error) {
	if c.EncryptionKeyFile == "" {
		return nil, nil
	}
	keys, err := ReadKeyFile(c.EncryptionKeyFile, logger)
	if err != nil {
		return nil, fmt.Errorf("--encryption-key-file: %w", err)
	}
	return keys, nil
}

// Options returns client options with every setting filled in. Without a logger nothing is logged, without metrics nothing is measured.
func (c Connection) Options(logger *slog.Logger, metrics client.MetricsHandler) (client.Options, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	keys, err := c.Keys(logger)
	if err != nil {
		return client.Options{}, err
	}
	options, err := c.profileOptions(keys != nil, logger)
	if err != nil {
		return client.Options{}, fmt.Errorf("temporal configuration: %w", err)
	}
	options.HostPort = firstSet(c.Address, options.HostPort, client.DefaultHostPort)
	options.Namespace = firstSet(c.Namespace, options.Namespace, client.DefaultNamespace)
	options.Logger = log.NewStructuredLogger(logger)
	options.MetricsHandler = metrics
	options.DataConverter = EncryptedDataConverter(keys)
	options.FailureConverter = newFailureConverter(keys, options.DataConverter, c.Worker)
	// Messages are a few kilobytes. Compressing them, the SDK's default, costs the worker and the server more time than it saves.
	options.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions, grpc.WithChainUnaryInterceptor(retryBusy))
	if c.Worker {
		options.ContextPropagators = append(options.ContextPropagators, AttemptHeaders(options.DataConverter))
	}
	if c.AnswersOnly {
		options.WorkerHeartbeatInterval = -1
	}
	if keys != nil {
		options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions, grpc.WithChainUnaryInterceptor(decryptAnswers(keys)))
	}
	return options, nil
}

// profileOptions returns the settings of the environment and the profile. A remote codec there is for other programs: Drydock would ignore it, and send
// in plain text what its owner wants encrypted. Beside a key file, it may be Drydock's own codec server, which the temporal CLI uses.
func (c Connection) profileOptions(encrypted bool, logger *slog.Logger) (client.Options, error) {
	profile, err := c.profile()
	if err != nil {
		return client.Options{}, err
	}
	if profile.Codec != nil && profile.Codec.Endpoint != "" && !encrypted {
		return client.Options{}, errors.New("the profile has codec.endpoint (or TEMPORAL_CODEC_ENDPOINT is set), but Drydock uses no remote codec: " +
			"set --encryption-key-file, or remove the endpoint")
	}
	options, err := profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return client.Options{}, err
	}
	c.renew(&options, profile, logger)
	return options, nil
}

// profile reads the settings of the environment and the configuration file.
func (c Connection) profile() (envconfig.ClientConfigProfile, error) {
	return envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{ConfigFilePath: c.ConfigFile, ConfigFileProfile: c.Profile})
}

// Dial connects to Temporal. The error names the address.
func Dial(ctx context.Context, options client.Options) (client.Client, error) {
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("temporal at %s does not answer (set --address, or TEMPORAL_ADDRESS): %w", options.HostPort, dialError{err})
	}
	return c, nil
}

// dialError keeps the cause and hides the layers of gRPC around it.
type dialError struct{ error }

func (e dialError) Error() string {
	text := e.error.Error()
	if _, cause, found := strings.Cut(text, "Error while dialing: "); found {
		return strings.TrimSuffix(cause, `"`)
	}
	return text
}

func (e dialError) Unwrap() error { return e.error }

func firstSet(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}
