package precache

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Release is a release of the platform in an update graph, as the ClusterVersion of a policy requests it.
type Release struct {
	// Upstream is the address of the update graph.
	Upstream string `json:"upstream"`
	Channel  string `json:"channel"`
	Version  string `json:"version"`
}

// LookedUp is a release with what its update graph says.
type LookedUp struct {
	Release
	// Image is the release image. Problem is why it is not known. Both are empty if the release has not been looked up.
	Image   string `json:"image,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// Done reports whether the release has been looked up.
func (l LookedUp) Done() bool { return l.Image != "" || l.Problem != "" }

// Address is where the update graph serves the channel.
func (r Release) Address() (*url.URL, error) {
	address, err := url.Parse(r.Upstream)
	if err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "" {
		return nil, errors.New("spec.upstream must be the address of an update graph, such as https://api.openshift.com/api/upgrades_info/v1/graph")
	}
	if address.User != nil {
		return nil, errors.New("spec.upstream must not have credentials")
	}
	query := address.Query()
	query.Set("channel", r.Channel)
	address.RawQuery, address.Fragment = query.Encode(), ""
	return address, nil
}

// ImageIn finds the release image in the JSON of an update graph: the payload of the node with that version.
func (r Release) ImageIn(graph []byte) (string, error) {
	var found struct {
		Nodes []struct {
			Version string `json:"version"`
			Payload string `json:"payload"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal(graph, &found); err != nil {
		return "", errors.New("unable to read nodes")
	}
	var payloads []string
	for _, node := range found.Nodes {
		if node.Version == r.Version && node.Payload != "" && !slices.Contains(payloads, node.Payload) {
			payloads = append(payloads, node.Payload)
		}
	}
	switch len(payloads) {
	case 0:
		return "", fmt.Errorf("unable to find version %s", r.Version)
	case 1:
		if invalid := CheckImage(field.NewPath("payload"), payloads[0]); invalid != nil {
			return "", fmt.Errorf("unable to use the payload of version %s, which is not the name of an image,", r.Version)
		}
		return payloads[0], nil
	}
	return "", fmt.Errorf("unable to choose between %d payloads of version %s", len(payloads), r.Version)
}
