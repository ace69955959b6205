// Package contract has what the Jobs of precaching and backup and the programs in them agree on.
package contract

import (
	"regexp"
	"strings"
)

// What the Jobs run, as the images of TALM have it: its image for precaching has no entry point, and its image for backups has one that takes
// this argument.
const (
	PrecacheProgram = "/opt/precache/precache.sh"
	BackupArgument  = "launchBackup"
)

// Directories in the containers of the Jobs.
const (
	// ConfigDirectory has a file for each key of the ConfigMap of precaching.
	ConfigDirectory = "/etc/config"
	// HostDirectory has the directories of the node.
	HostDirectory = "/host"
	// RecoveryDirectory of the node has its backups.
	RecoveryDirectory = "/var/recovery"
)

// Keys of the ConfigMap of precaching. Lists have a line for each entry.
const (
	OperatorsIndexes             = "operators.indexes"
	OperatorsPackagesAndChannels = "operators.packagesAndChannels"
	ExcludePrecachePatterns      = "excludePrecachePatterns"
	AdditionalImages             = "additionalImages"
	PlatformImage                = "platform.image"
	SpaceRequired                = "spaceRequired"
)

// Environment variables that the Jobs set.
const (
	NodeName = "NODE_NAME"
	NodeIP   = "NODE_IP"
	PodUID   = "POD_UID"
)

// imageForm is a reference to an image: [registry[:port]/]path[:tag][@digest].
var imageForm = regexp.MustCompile(`^(?:(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/)?[a-z0-9]+(?:(?:[._]|__|-+|/)[a-z0-9]+)*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[a-z0-9]+(?:[+._-][a-z0-9]+)*:[0-9a-fA-F]{32,})?$`)

// IsImage reports whether a text is the name of an image. It does not check that the image exists.
func IsImage(name string) bool { return imageForm.MatchString(name) }

// PackageAndChannel splits an entry package:channel.
func PackageAndChannel(entry string) (name, channel string, valid bool) {
	name, channel, valid = strings.Cut(entry, ":")
	return name, channel, valid && name != "" && channel != "" && !strings.ContainsAny(entry, " \t\r\n") && !strings.Contains(channel, ":")
}
